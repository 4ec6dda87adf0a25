"""How far a reader of leases may trust its own clock: what it has not heard of may have been renewed.

Pure. Owns the moment at which leases are judged, and whether the list is complete. The rule: trouble of our own never
ends a lease. While nothing is heard (the table cannot be read, the process stood still) leases are judged as of the
last moment that was well heard; after that, until one lease has passed, they still are, since nobody could renew. The
list is complete only while it is heard, and one lease has passed since the start or the last trouble.

Times are seconds of a monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Hearing:
    """`fresh` is how long one hearing holds. `stands_at` is where time has stopped, until `settles_at`."""

    lease: float
    fresh: float
    settles_at: float
    heard_at: float | None = None
    stands_at: float | None = None

    @property
    def fresh_until(self) -> float | None:
        return None if self.heard_at is None else self.heard_at + self.fresh

    def judged_at(self, now: float) -> float:
        """The moment as of which leases are judged; never later than now."""
        until = self.fresh_until
        moment = now if until is None else min(now, until)
        return self.stands_at if self.stands_at is not None and moment < self.settles_at else moment

    def complete(self, now: float) -> bool:
        until = self.fresh_until
        return until is not None and self.settles_at <= now <= until

    def next_turn(self, now: float) -> float | None:
        """When judging changes by itself, if it does."""
        turns = [self.settles_at, *(() if self.fresh_until is None else (self.fresh_until,))]
        return min((turn for turn in turns if turn > now), default=None)


def begin(now: float, *, lease: float, fresh: float) -> Hearing:
    """Nothing was heard yet."""
    return Hearing(lease, fresh, settles_at=now + lease)


def heard(before: Hearing, now: float) -> Hearing:
    """Everything was heard, as of `now`."""
    until = before.fresh_until
    if until is None:
        started = before.settles_at - before.lease
        settles_at = before.settles_at if now - started <= before.fresh else now + before.lease
        return replace(before, heard_at=now, settles_at=settles_at)
    if now > until:
        return replace(before, heard_at=now, settles_at=now + before.lease, stands_at=before.judged_at(now))
    return replace(before, heard_at=now, stands_at=before.stands_at if now < before.settles_at else None)
