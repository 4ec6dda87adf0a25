"""From status documents to rows of a table: one for each ingress, one for each of its pools. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any


class NoStatus(ValueError):
    """The document is not what an ingress's /status.json says."""


@dataclass(frozen=True, slots=True)
class Row:
    """`pool` is empty in the row of the whole ingress. `failed` is a share, None without requests."""

    ingress: str
    pool: str
    region: str
    state: str
    good: bool
    rate: float
    in_flight: int
    failed: float | None
    p50_ms: float | None
    p99_ms: float | None
    ejected: int

    def document(self) -> dict[str, Any]:
        return asdict(self)


def rows(url: str, document: Any) -> Iterator[Row]:
    """Raises NoStatus."""
    try:
        pools = document["pools"]
        ejected = [sum(one["state"] == "ejected" for one in pool["frontends"]) for pool in pools]
        ready = bool(document["ready"])
        state = "ready" if ready else f"not ready: {document['reason']}"
        yield _row(url, "", document["region"] or "", state, ready, document, sum(ejected))
        for pool, out in zip(pools, ejected, strict=True):
            name = f"{pool['cluster']}/{pool['namespace']}/{pool['name']}"
            yield _row(url, name, pool["region"], pool["why"], bool(pool["routable"]), pool, out)
    except (KeyError, TypeError) as error:
        lacking = f": it lacks {error.args[0]}" if isinstance(error, KeyError) else ""
        raise NoStatus(f"its /status.json is none of an ingress{lacking}") from error


def _row(url: str, pool: str, region: str, state: str, good: bool, of: Mapping[str, Any], ejected: int) -> Row:
    recent = of["recent"]
    return Row(
        url, pool, region, state, good, recent["rate"], of["in_flight"], recent["error_share"],
        recent["first_byte_p50_ms"], recent["first_byte_p99_ms"], ejected,
    )  # fmt: skip


def away(url: str, reason: str) -> Row:
    """An ingress that does not answer has a row too."""
    return Row(url, "", "", f"no answer: {reason}", False, 0.0, 0, None, None, None, 0)
