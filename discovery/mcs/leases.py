"""Which clusters live, as one replica of the registry sees it.

Pure: moments are arguments. A lease ends when this replica has seen no renewal for its ttl and the grace, on its own
clock that never goes back; the wall clock counts only for a lease that is seen for the first time and seems to have
ended long ago, so a clock that is wrong by a minute, or set, ends no lease too early (C30, C31). When the fault is
likely ours, nobody lapses for one more ttl: after the store was away (C33), when all have lapsed when we begin, and
when more than half of more than two fall silent together (C34).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from discovery.mcs.store import ClusterRecord

GRACE_MS: Final = 5_000
SKEW_MS: Final = 60_000
"""So far may the clocks of two registries be apart without a lease ending too early."""


@dataclass(slots=True)
class _Watched:
    sign: tuple[int, int, int]
    """What a renewal changes."""
    ttl_ms: int
    seen_ms: int
    ends_ms: int
    lapsed_ms: int | None = None
    spared: bool = False
    """It has been given one more ttl in this silence already."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`lapsed`: since when (the end of its lease on the wall clock, the same for every replica). `next_ms`: when to
    look again, on the clock that never goes back. `spared`: who was just given more time, the fault being likely
    ours."""

    lapsed: Mapping[str, int]
    next_ms: int | None
    spared: frozenset[str] = frozenset()


class Leases:
    """What one replica has seen of the leases; `judge` is to be called with all records, and again at `next_ms`."""

    def __init__(self, grace_ms: int = GRACE_MS) -> None:
        self._grace_ms = grace_ms
        self._watched: dict[str, _Watched] = {}
        self._begun = False

    def __repr__(self) -> str:
        lapsed = sum(one.lapsed_ms is not None for one in self._watched.values())
        return f"<Leases {len(self._watched)} watched, {lapsed} lapsed>"

    def excuse(self, mono_ms: int) -> None:
        """Nobody could renew until now, so whoever lived may take a whole lease more."""
        for one in self._watched.values():
            if one.lapsed_ms is None:
                one.ends_ms = max(one.ends_ms, mono_ms + one.ttl_ms + self._grace_ms)

    def judge(self, records: Iterable[ClusterRecord], now_ms: int, mono_ms: int) -> Verdict:
        standing = {record.id: record for record in records if record.removed is None}
        for gone in self._watched.keys() - standing.keys():
            del self._watched[gone]
        for record in standing.values():
            self._see(record, now_ms, mono_ms)
        spared = self._spare(mono_ms)
        self._begun = self._begun or bool(standing)
        lapsed: dict[str, int] = {}
        for name, one in self._watched.items():
            if mono_ms > one.ends_ms:
                one.lapsed_ms = one.lapsed_ms if one.lapsed_ms is not None else mono_ms
                record = standing[name]
                lapsed[name] = record.renewed_ms + record.ttl_ms
        ends = [one.ends_ms + 1 for one in self._watched.values() if one.lapsed_ms is None]
        return Verdict(lapsed, min(ends, default=None), spared)

    def _see(self, record: ClusterRecord, now_ms: int, mono_ms: int) -> None:
        sign = (record.incarnation, record.seq, record.renewed_ms)
        known = self._watched.get(record.id)
        if known is not None and known.sign == sign:
            return
        # First sight: somebody else may have seen it long ago. Otherwise it was renewed since we last looked.
        # The two clocks may be apart, and a lease must not end too early.
        age = max(now_ms - record.renewed_ms - SKEW_MS, 0) if known is None else 0
        whole = record.ttl_ms + self._grace_ms
        self._watched[record.id] = _Watched(sign, record.ttl_ms, mono_ms - age, mono_ms - age + whole)

    def _spare(self, mono_ms: int) -> frozenset[str]:
        due = [one for one in self._watched.values() if one.lapsed_ms is None and mono_ms > one.ends_ms]
        if not due:
            return frozenset()
        if not self._begun:
            suspects = {name for name, one in self._watched.items() if mono_ms > one.ends_ms}
            ours = len(suspects) == len(self._watched)
        else:
            # Renewals come each third of a ttl: who has missed half of one is silent already.
            counted = [
                one for one in self._watched.values() if one.lapsed_ms is None or mono_ms - one.lapsed_ms < one.ttl_ms
            ]
            suspects = {
                name
                for name, one in self._watched.items()
                if one.lapsed_ms is None and 2 * (mono_ms - one.seen_ms) > one.ttl_ms
            }
            silent = sum(2 * (mono_ms - one.seen_ms) > one.ttl_ms for one in counted)
            ours = len(counted) > 2 and 2 * silent > len(counted)
        if not ours:
            return frozenset()
        spared = {name for name in suspects if not self._watched[name].spared}
        for name in spared:
            one = self._watched[name]
            one.spared = True
            one.ends_ms = max(one.ends_ms, mono_ms + one.ttl_ms)
        return frozenset(spared)
