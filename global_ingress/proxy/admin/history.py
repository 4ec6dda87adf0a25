"""How the last minutes went: rates, error shares and first-byte percentiles, from the counters that only grow. Pure.

A point is the difference of two totals. Bounded: so many points, and pools only as long as one of them has traffic.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from global_ingress.proxy.shared.counts import FIRST_BYTE_BOUNDS, Counts

EVERY = 5.0  # seconds between two points
POINTS = 60
RECENT = 6  # points that "now" looks back on
_FAILED = frozenset({"upstream_error", "stream_error", "drained"})


@dataclass(slots=True)
class Sum:
    """Counters of one pool, or of all."""

    requests: int = 0
    failed: int = 0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(FIRST_BYTE_BOUNDS) + 1))

    def add(self, more: Sum, sign: int = 1) -> None:
        self.requests += sign * more.requests
        self.failed += sign * more.failed
        for n, count in enumerate(more.buckets):
            self.buckets[n] += sign * count


def sums_of(totals: Counts) -> dict[str, Sum]:
    """By pool id; "" is what got to no pool."""
    out: dict[str, Sum] = {}
    for series in totals.series:
        requests = sum(series.requests.values())
        failed = sum(count for (_, outcome, _), count in series.requests.items() if outcome in _FAILED)
        out.setdefault(series.pool, Sum()).add(Sum(requests, failed, series.first_byte.buckets))
    return out


@dataclass(frozen=True, slots=True)
class Point:
    """What happened in `seconds`."""

    seconds: float
    pools: dict[str, Sum]


class History:
    """`look` is called often; it takes a point every EVERY seconds."""

    def __init__(self) -> None:
        self._points: deque[Point] = deque(maxlen=POINTS)
        self._before: dict[str, Sum] = {}
        self._at: float | None = None

    def due(self, now: float) -> bool:
        return self._at is None or now - self._at >= EVERY

    def look(self, totals: Counts, now: float) -> None:
        sums = sums_of(totals)
        if self._at is not None:
            self._points.append(Point(now - self._at, self._grown(sums)))
        self._before, self._at = sums, now

    def _grown(self, sums: dict[str, Sum]) -> dict[str, Sum]:
        out = {}
        for pool, total in sums.items():
            before = self._before.get(pool)
            grown = Sum()
            grown.add(total)
            if before is not None:
                grown.add(before, -1)
            if grown.requests or any(grown.buckets):
                out[pool] = grown
        return out

    def of(self, pool: str) -> dict[str, Any]:
        """The document of one pool."""
        return self._document([(point.seconds, point.pools.get(pool)) for point in self._points])

    def overall(self) -> dict[str, Any]:
        """The document of the whole ingress."""
        return self._document([(point.seconds, _added(point.pools.values())) for point in self._points])

    def _document(self, points: Sequence[tuple[float, Sum | None]]) -> dict[str, Any]:
        recent = points[-RECENT:]
        seconds = sum(each for each, _ in recent)
        now = _added([one for _, one in recent if one is not None])
        return {
            "seconds": round(seconds, 1),
            "rate": round(now.requests / seconds, 2) if seconds else 0.0,
            "error_share": round(now.failed / now.requests, 4) if now.requests else None,
            "first_byte_p50_ms": percentile(now.buckets, 0.5),
            "first_byte_p99_ms": percentile(now.buckets, 0.99),
            "points": {
                "every_s": EVERY,
                "rate": [round(one.requests / each, 2) if one is not None else 0.0 for each, one in points],
                "error_share": [one.failed / one.requests if one and one.requests else None for _, one in points],
                "p50_ms": [percentile(one.buckets, 0.5) if one is not None else None for _, one in points],
                "p99_ms": [percentile(one.buckets, 0.99) if one is not None else None for _, one in points],
            },
        }


def _added(sums: Any) -> Sum:
    out = Sum()
    for one in sums:
        out.add(one)
    return out


def percentile(buckets: Sequence[int], share: float) -> float | None:
    """In milliseconds, inside its bucket by proportion; of the last bucket only its beginning is known."""
    count = sum(buckets)
    if count == 0:
        return None
    running = [0]
    for each in buckets:
        running.append(running[-1] + each)
    wanted = share * count
    at = max(0, min(bisect_left(running, wanted) - 1, len(buckets) - 1))
    if at >= len(FIRST_BYTE_BOUNDS):
        return round(FIRST_BYTE_BOUNDS[-1] * 1e3, 1)
    low = FIRST_BYTE_BOUNDS[at - 1] if at else 0.0
    inside = (wanted - running[at]) / buckets[at] if buckets[at] else 0.0
    return round((low + (FIRST_BYTE_BOUNDS[at] - low) * inside) * 1e3, 1)
