"""Tokens of the directory and of the registry: who may write which cluster.

Pure. Owns the tokens file (digests, never tokens) and the look-up, which takes as long for a wrong token as for a right
one. Refuses a file with anything in it that it does not understand, with all faults at once: half a list of rights is
none.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass

from discovery.documents import BrokenFile, objects_in
from discovery.errors import DiscoveryError

EVERY_CLUSTER = "*"
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_BEARER = re.compile(r"bearer +([A-Za-z0-9._~+/=-]+) *", re.IGNORECASE)


class BadTokens(DiscoveryError):
    """A tokens file that cannot be used; the message is one line."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What the bearer of one token may do."""

    digest: bytes
    clusters: frozenset[str]

    def allows(self, cluster: str) -> bool:
        return EVERY_CLUSTER in self.clusters or cluster in self.clusters

    def __repr__(self) -> str:
        return f"<Grant {self.label} {' '.join(sorted(self.clusters))}>"

    @property
    def label(self) -> str:
        """Enough of the digest to find it in the file."""
        return f"sha256:{self.digest.hex()[:12]}"


@dataclass(frozen=True, slots=True)
class Tokens:
    grants: tuple[Grant, ...]

    def find(self, token: str) -> Grant | None:
        """The token's grant. Every grant is compared, in full, whichever fits."""
        digest = hashlib.sha256(token.encode()).digest()
        found = None
        for grant in self.grants:
            if hmac.compare_digest(grant.digest, digest):
                found = grant
        return found


def bearer(header: str | None) -> str | None:
    """The token of an Authorization header, None when there is none in it."""
    found = _BEARER.fullmatch(header or "")
    return found[1] if found else None


def parse_tokens(data: bytes) -> Tokens:
    """A mapping of `sha256:HEX` to the clusters its token may write (`*`: every one). Raises BadTokens."""
    try:
        documents = objects_in(data, is_json=False)
    except BrokenFile as error:
        raise BadTokens(str(error)) from None
    if len(documents) != 1 or not isinstance(documents[0].value, dict):
        raise BadTokens("is not one mapping of sha256:DIGEST to a list of clusters")
    faults: list[str] = []
    grants = [grant for key, value in documents[0].value.items() if (grant := _grant(key, value, faults))]
    if faults:
        raise BadTokens("; ".join(faults))
    return Tokens(tuple(grants))


def _grant(key: object, value: object, faults: list[str]) -> Grant | None:
    digest = _DIGEST.fullmatch(str(key))
    if digest is None:
        # Not shown: people put the token itself here.
        faults.append("a key is not sha256: and the 64 lower-case hex digits of a token's digest")
        return None
    label = f"sha256:{digest[1][:12]}…"
    if not isinstance(value, list) or not value or not _all_texts(value):
        faults.append(f"{label}: is not a list of clusters, as [eu-central] or ['*']")
        return None
    return Grant(bytes.fromhex(digest[1]), frozenset(value))


def _all_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) and value for value in values)
