"""Reading the store: how one replica of the registry comes to know what others have written.

Owns the poll (C54, C55): all cluster records at once, and the partition of each cluster whose items have changed. What
has been read of a partition counts when it adds up to the digest that its record names; until then what was known
before stays. While the store is away nothing changes at all, and whoever lived is excused for it afterwards (C33).
"""

from __future__ import annotations

import asyncio
from typing import Final

from discovery.kit.clock import Clock
from discovery.kit.log import logger
from discovery.mcs.board import Board
from discovery.mcs.knowledge import Known, with_partition
from discovery.mcs.store import ClusterRecord, Store, StoreAway

_log = logger(__name__)

_AGAIN_MS: Final = (200, 500, 1_000, 2_000)
_PATIENCE_MS: Final = 30_000
_EVERYTHING_MS: Final = 60_000


class _Late:
    """A partition that did not add up."""

    def __init__(self, mono_ms: int) -> None:
        self.since_ms = mono_ms
        self.tries = 0
        self.next_ms = mono_ms
        self.counted = False


class Following:
    """What is read goes onto `board`. `away_since`: since when (monotonic ms) the store has not answered."""

    def __init__(self, store: Store, board: Board, clock: Clock) -> None:
        self._store = store
        self._board = board
        self._clock = clock
        self._locks: dict[str, asyncio.Lock] = {}
        self._late: dict[str, _Late] = {}
        self._read_all_ms: int | None = None
        self.loaded = False
        self.away_since: int | None = None
        self._unreadable: dict[str, int] = {}
        self._unreadable_records = 0
        self.mismatches = 0
        """Clusters whose items did not add up for so long that they were shown as they are."""
        self.store_errors = 0

    def __repr__(self) -> str:
        state = "away" if self.away_since is not None else "loaded" if self.loaded else "not loaded"
        return f"<Following {state}, {len(self._late)} late>"

    @property
    def unreadable(self) -> int:
        """Records and items that were not understood when they were last read."""
        return self._unreadable_records + sum(self._unreadable.values())

    def is_astray(self, cluster: str) -> bool:
        """Its items have not added up to its digest for longer than any of them can be on the way."""
        late = self._late.get(cluster)
        return late is not None and late.counted

    def mono_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)

    def lock(self, cluster: str) -> asyncio.Lock:
        """Held by whoever writes a cluster's record, or replaces what is known of it."""
        return self._locks.setdefault(cluster, asyncio.Lock())

    async def poll(self) -> bool:
        """Read what is new; False when the store is away."""
        try:
            await self._poll()
        except StoreAway as error:
            self.store_errors += 1
            if self.away_since is None:
                self.away_since = self.mono_ms()
                _log.warning("store away, nothing changes until it answers", reason=str(error))
            return False
        if self.away_since is not None:
            self._board.leases.excuse(self.mono_ms())
            _log.info("store answers again", away_ms=self.mono_ms() - self.away_since)
            self.away_since = None
        self.loaded = True
        return True

    async def _poll(self) -> None:
        mono = self.mono_ms()
        everything = self._read_all_ms is None or mono - self._read_all_ms >= _EVERYTHING_MS
        found = await self._store.clusters()
        self._unreadable_records = len(found.unreadable)
        for record in found.records:
            known = self._board.knowledge.clusters.get(record.id)
            late = self._late.get(record.id)
            is_due = late is not None and mono >= late.next_ms
            if everything or is_due or known is None or known.record != record:
                await self._follow(record, everything or is_due, mono)
        if everything:
            self._read_all_ms = mono

    async def _follow(self, seen: ClusterRecord, everything: bool, mono: int) -> None:
        async with self.lock(seen.id):
            known = self._board.knowledge.clusters.get(seen.id)
            if known is None or known.record != seen:
                # It may have been written by ourselves since it was read.
                record = await self._store.cluster(seen.id)
                if record is None:
                    return
            else:
                record = seen
            is_new = (
                known is None or known.told.content != record.content or known.told.incarnation > record.incarnation
            )
            if record.removed is not None or not (is_new or everything):
                if record.removed is not None:
                    self._late.pop(seen.id, None)
                    self._unreadable.pop(seen.id, None)
                self._board.knowledge.take_record(record, whole=record.removed is not None or not is_new)
                return
            late = self._late.get(seen.id)
            if late is not None and mono < late.next_ms and not everything:
                self._board.knowledge.take_record(record, whole=False)
                return
            await self._read(record, mono)

    async def _read(self, record: ClusterRecord, mono: int) -> None:
        partition = await self._store.partition(record.id)
        known = self._board.knowledge.clusters.get(record.id)
        fresh = with_partition(known if known is not None else Known(record), partition)
        fresh.record = fresh.told = record
        if partition.unreadable or fresh.digest(record.floor) == record.digest:
            self._late.pop(record.id, None)
            if known is None:
                self._board.knowledge.take_record(record, whole=True)
            self._board.knowledge.take_whole(record.id, fresh)
        else:
            self._wait_for(record, fresh, mono)
        self._unreadable[record.id] = len(partition.unreadable)

    def _wait_for(self, record: ClusterRecord, fresh: Known, mono: int) -> None:
        """It does not add up: ask again, and after a while show what came, but take away nothing."""
        late = self._late.setdefault(record.id, _Late(mono))
        late.next_ms = mono + _AGAIN_MS[min(late.tries, len(_AGAIN_MS) - 1)]
        late.tries += 1
        if record.id not in self._board.knowledge.clusters:
            # Nothing older is known that could stay: it is shown as one that has not told everything.
            self._board.knowledge.take_unfinished(record)
        self._board.knowledge.take_record(record, whole=False)
        if mono - late.since_ms >= _PATIENCE_MS:
            if not late.counted:
                late.counted = True
                self.mismatches += 1
                _log.warning("items of a cluster do not add up to its digest", cluster=record.id, rev=record.rev)
            for item in fresh.items.values():
                self._board.knowledge.take_item(item)

    async def read_again(self, record: ClusterRecord) -> Known:
        """All of a cluster as the store has it, for whoever is about to write its record. Hold its lock."""
        partition = await self._store.partition(record.id)
        known = self._board.knowledge.clusters.get(record.id, Known(record))
        fresh = with_partition(known, partition)
        fresh.record = fresh.told = record
        return fresh

    @property
    def lag_s(self) -> float:
        """Since when the items of some cluster are behind its record, because they have not all arrived; 0.0 if none
        are."""
        return max(((self.mono_ms() - late.since_ms) / 1000 for late in self._late.values()), default=0.0)

    def next_ms(self) -> int | None:
        """When a late partition is to be read again."""
        return min((late.next_ms for late in self._late.values()), default=None)
