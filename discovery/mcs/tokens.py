"""Who may write which cluster in the registry, and who may read: what a token's grant means here.

Pure. The tokens file and its look-up are `discovery.tokens`'s, the same as the directory's.
"""

from __future__ import annotations

from discovery.mcs.registry import Reason, Refused
from discovery.tokens import Tokens, bearer


def require(tokens: Tokens, header: str | None, cluster: str | None) -> None:
    """Raises Refused unless the Authorization header allows to write this cluster, or (None) to read."""
    token = bearer(header)
    grant = tokens.find(token) if token is not None else None
    if grant is None:
        raise Refused(Reason.UNAUTHENTICATED, "needs a bearer token that the registry knows")
    if cluster is not None and not grant.allows(cluster):
        raise Refused(Reason.FORBIDDEN, f"this token does not write for {cluster}", field="cluster")
