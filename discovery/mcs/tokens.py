"""Who may write which cluster in the registry.

Pure. Owns the tokens file (digests, never tokens) and the look-up, which compares every digest whichever fits. Refuses
a file with anything in it that it does not understand: half a list of rights is none.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass

import yaml

from discovery.mcs.registry import Reason, Refused

EVERY_CLUSTER = "*"
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_BEARER = re.compile(r"bearer +([A-Za-z0-9._~+/=-]+) *", re.IGNORECASE)


class BadTokens(Exception):
    """A tokens file that cannot be used; the message is one line."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Digest → the clusters that its token may write; every token may read."""

    grants: tuple[tuple[bytes, frozenset[str]], ...]

    def require(self, header: str | None, cluster: str | None) -> None:
        """Raises Refused unless the Authorization header allows to write this cluster, or (None) to read."""
        found = _BEARER.fullmatch(header or "")
        digest = hashlib.sha256(found[1].encode() if found else b"").digest()
        clusters = None
        for known, granted in self.grants:
            if hmac.compare_digest(known, digest):
                clusters = granted
        if found is None or clusters is None:
            raise Refused(Reason.UNAUTHENTICATED, "needs a bearer token that the registry knows")
        if cluster is not None and not clusters & {cluster, EVERY_CLUSTER}:
            raise Refused(Reason.FORBIDDEN, f"this token does not write for {cluster}", field="cluster")


def parse_tokens(data: bytes) -> Tokens:
    """YAML: `sha256:HEX` → the clusters that its token may write (`*`: every one). Raises BadTokens."""
    try:
        found = yaml.safe_load(data)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        # Not quoted: people put the token itself here.
        raise BadTokens("is not YAML") from None
    if not isinstance(found, dict) or not found:
        raise BadTokens("is not one mapping of sha256:DIGEST to a list of clusters")
    return Tokens(tuple(_grant(key, value) for key, value in found.items()))


def _grant(key: object, value: object) -> tuple[bytes, frozenset[str]]:
    digest = _DIGEST.fullmatch(str(key))
    if digest is None:
        raise BadTokens("a key is not sha256: and the 64 lower-case hex digits of a token's digest")
    if not isinstance(value, list) or not value or not all(isinstance(one, str) and one for one in value):
        raise BadTokens(f"sha256:{digest[1][:12]}…: is not a list of clusters, as [ohio] or ['*']")
    return bytes.fromhex(digest[1]), frozenset(value)
