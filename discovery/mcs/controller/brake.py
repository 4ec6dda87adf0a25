"""A brake before many deletions at once (rule D41).

Pure. More than max(10, a part of all) in one look is held, until after `wait_s` a new snapshot says the same. What
tells one deletion from another is none of its business: it gets sets.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Set
from enum import StrEnum

FREE = 10
"""So many at once are never too many."""


class Verdict(StrEnum):
    GO = "go"
    HOLD = "hold"
    ASK = "ask"
    """Hold, and get a new snapshot, of another endpoint if there is one."""


class Brake:
    """One for each kind of thing. `ratio` 1 turns it off."""

    def __init__(self, ratio: float, wait_s: float) -> None:
        self._ratio = ratio
        self._wait = wait_s
        self._held_at: float | None = None
        self._asked = -1
        self._agreed: frozenset[Hashable] = frozenset()
        self.count = 0

    @property
    def holds(self) -> bool:
        return self._held_at is not None

    def judge(self, doomed: Set[Hashable], total: int, snapshots: int, now: float) -> Verdict:
        """`doomed` of `total` are to go; `snapshots` is how many whole ones have been read so far."""
        self._agreed &= doomed
        if len(doomed) <= max(FREE, self._ratio * total) or doomed == self._agreed:
            self._held_at = None
            return Verdict.GO
        if self._held_at is None:
            self._held_at, self._asked = now, -1
            self.count += 1
        if self._asked >= 0 and snapshots > self._asked:
            self._agreed = frozenset(doomed)
            self._held_at = None
            return Verdict.GO
        if now - self._held_at >= self._wait and self._asked < 0:
            self._asked = snapshots
            return Verdict.ASK
        return Verdict.HOLD

    def due_in(self, now: float) -> float | None:
        """Seconds until it wants to judge again; None when nothing is held."""
        return None if self._held_at is None else max(0.0, self._held_at + self._wait - now)


def doomed_of(planned: Mapping[Hashable, Set[Hashable]]) -> frozenset[Hashable]:
    return frozenset(one for some in planned.values() for one in some)
