"""Two regions of one global table, as DynamoDB keeps them (C57), in one process.

Pure: the moment and chance are arguments. Each region is a store whose conditions and reads see its own copy alone. A
write is on its way to the other region for as long as the delay and chance say, so writes overtake each other; of two
that meet at one item the later written wins, whatever the conditions said elsewhere. While the link is cut nothing
arrives; what was written meanwhile comes when it is whole again, or never where a region was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from discovery.mcs.store import (
    ClusterRecord,
    Clusters,
    Item,
    ItemKey,
    Mark,
    Outcome,
    Partition,
    StoreAway,
    outcome,
    swapped,
)

Stamp = tuple[float, int]
"""When something was written; of one moment, in which order."""
_Held = ClusterRecord | Item | None


@dataclass(frozen=True, slots=True)
class _Underway:
    due: float
    to: Region
    place: Hashable
    stamp: Stamp
    held: _Held


class Region:
    """One region's copy: a store. `away`: it answers nobody."""

    durable = True

    def __init__(self, name: str, written: Callable[[Region, Hashable, _Held], Stamp]) -> None:
        self.name = name
        self.away = False
        self._written = written
        self._copy: dict[Hashable, tuple[Stamp, _Held]] = {}

    def __repr__(self) -> str:
        return f"<Region {self.name} {len(self._copy)} places>"

    def _reach(self) -> None:
        if self.away:
            raise StoreAway(f"region {self.name} is away")

    def _held(self, place: Hashable) -> _Held:
        return self._copy[place][1] if place in self._copy else None

    def _put(self, place: Hashable, held: _Held) -> None:
        self._copy[place] = (self._written(self, place, held), held)

    def arrive(self, place: Hashable, stamp: Stamp, held: _Held) -> None:
        """From the other region: the later written wins."""
        if place not in self._copy or self._copy[place][0] < stamp:
            self._copy[place] = (stamp, held)

    def _items(self, cluster: str) -> list[Item]:
        return [held for _, held in self._copy.values() if isinstance(held, Item) and held.cluster == cluster]

    async def clusters(self) -> Clusters:
        self._reach()
        return Clusters(tuple(held for _, held in self._copy.values() if isinstance(held, ClusterRecord)))

    async def cluster(self, cluster: str) -> ClusterRecord | None:
        self._reach()
        held = self._held(cluster)
        return held if isinstance(held, ClusterRecord) else None

    async def partition(self, cluster: str) -> Partition:
        self._reach()
        return Partition(tuple(self._items(cluster)))

    async def write(self, item: Item) -> Outcome:
        self._reach()
        there = self._held((item.cluster, item.key))
        done = outcome(there if isinstance(there, Item) else None, item)
        if done is Outcome.WRITTEN:
            self._put((item.cluster, item.key), item)
        return done

    async def save(self, record: ClusterRecord, expected: int) -> None:
        if swapped(await self.cluster(record.id), record, expected):
            self._put(record.id, record)

    async def purge(self, cluster: str, below: Mark) -> None:
        self._reach()
        for item in self._items(cluster):
            if item.mark < below:
                self._put((cluster, item.key), None)

    async def close(self) -> None:
        """Nothing is held open."""

    def lose(self, cluster: str, key: ItemKey) -> None:
        """This copy alone has never heard of an item."""
        self._copy.pop((cluster, key), None)


class Regions:
    """The two, and what is on its way between them: `deliver` when time has passed."""

    def __init__(self, now: Callable[[], float], chance: Callable[[], float], *, delay_s: float = 1.0) -> None:
        self._now = now
        self._chance = chance
        self._delay_s = delay_s
        self._count = 0
        self._underway: list[_Underway] = []
        self.cut = False
        self.first = Region("first", self._written)
        self.second = Region("second", self._written)

    def __repr__(self) -> str:
        return f"<Regions {len(self._underway)} underway{' cut' if self.cut else ''}>"

    def __len__(self) -> int:
        return len(self._underway)

    def _written(self, region: Region, place: Hashable, held: _Held) -> Stamp:
        self._count += 1
        stamp = (self._now(), self._count)
        to = self.second if region is self.first else self.first
        due = self._now() + 2 * self._delay_s * self._chance()
        self._underway.append(_Underway(due, to, place, stamp, held))
        return stamp

    def deliver(self) -> int:
        """What is due arrives, in the order in which it is due; how many did."""
        if self.cut:
            return 0
        now = self._now()
        due = sorted((one for one in self._underway if one.due <= now), key=lambda one: one.due)
        self._underway = [one for one in self._underway if one.due > now]
        for one in due:
            one.to.arrive(one.place, one.stamp, one.held)
        return len(due)

    def forget(self) -> None:
        """A region was lost with all that it had not passed on yet."""
        self._underway.clear()
