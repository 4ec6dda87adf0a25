"""A store that lives as long as its process: for one registry without a database, for tests and simulations.

Owns the records in two dictionaries; each call is done before the event loop turns. Registries of one process may share
it, each with a poll of its own.
"""

from __future__ import annotations

from discovery.mcs.store import (
    ClusterRecord,
    Clusters,
    Item,
    ItemKey,
    Mark,
    Outcome,
    Partition,
    outcome,
    swapped,
)


class MemoryStore:
    """`durable`: whether what it holds is all there ever was (a simulation's shared store); a process's own is not."""

    def __init__(self, *, durable: bool = False) -> None:
        self.durable = durable
        self._records: dict[str, ClusterRecord] = {}
        self._items: dict[str, dict[ItemKey, Item]] = {}

    def __repr__(self) -> str:
        return f"<MemoryStore {len(self._records)} clusters, {sum(map(len, self._items.values()))} items>"

    async def clusters(self) -> Clusters:
        return Clusters(tuple(self._records.values()))

    async def cluster(self, cluster: str) -> ClusterRecord | None:
        return self._records.get(cluster)

    async def partition(self, cluster: str) -> Partition:
        return Partition(tuple(self._items.get(cluster, {}).values()))

    async def write(self, item: Item) -> Outcome:
        items = self._items.setdefault(item.cluster, {})
        done = outcome(items.get(item.key), item)
        if done is Outcome.WRITTEN:
            items[item.key] = item
        return done

    async def save(self, record: ClusterRecord, expected: int) -> None:
        if swapped(self._records.get(record.id), record, expected):
            self._records[record.id] = record

    async def purge(self, cluster: str, below: Mark) -> None:
        items = self._items.get(cluster, {})
        for key in [key for key, item in items.items() if item.mark < below]:
            del items[key]

    async def close(self) -> None:
        """Nothing is held open."""
