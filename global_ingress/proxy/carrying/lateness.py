"""How long first events take, and when one is late. Pure."""

from __future__ import annotations

from collections import deque

REMEMBERED = 100  # recent first events of a place
ENOUGH = 20  # of them before one can be called late
RECOUNT = 10  # new ones after which the limit is worked out anew


class Lateness:
    """How long the first events of one place took lately, and from when on one is late."""

    __slots__ = ("_limit", "_new", "_recent")

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=REMEMBERED)
        self._new = 0
        self._limit: float | None = None

    def add(self, seconds: float) -> None:
        self._recent.append(seconds)
        self._new += 1

    def limit(self, quantile: float) -> float | None:
        """Seconds after which a first event is later than this part of the recent ones; None while few are known."""
        if len(self._recent) < ENOUGH:
            return None
        if self._limit is None or self._new >= RECOUNT:
            self._new = 0
            ordered = sorted(self._recent)
            self._limit = ordered[min(int(quantile * len(ordered)), len(ordered) - 1)]
        return self._limit
