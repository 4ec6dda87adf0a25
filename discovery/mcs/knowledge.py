"""What one replica of the registry has read of the store, and which services that concerns.

Pure. Owns the items in memory by cluster and service, and which services have changed since somebody asked. A cluster
has two records here: `record`, the newest that was read (its lease and session), and `told`, the one whose items are
here whole. They differ while items of a newer one have not arrived: until then the older floor and sync state count,
so that nothing disappears because something else is late (C54).
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import replace

from discovery.mcs.digest import combined, item_hash
from discovery.mcs.model import EndpointSet, Export, ServiceKey, Sync
from discovery.mcs.store import ClusterRecord, Item, ItemKey, Mark, Partition, Value


class Known:
    """One cluster."""

    def __init__(self, record: ClusterRecord) -> None:
        self.record = record
        self.told = record
        self.items: dict[ItemKey, Item] = {}
        self.services: dict[ServiceKey, set[ItemKey]] = {}
        self._hashes: dict[ItemKey, tuple[Value, int]] = {}

    def __repr__(self) -> str:
        return f"<Known {self.record.id} rev={self.record.rev} items={len(self.items)}>"

    @property
    def behind(self) -> bool:
        """Items of the newest record have not been read whole."""
        return self.told.content != self.record.content

    def visible(self, key: ItemKey) -> Value | None:
        item = self.items.get(key)
        return item.value if item is not None and item.mark >= self.told.floor else None

    def put(self, item: Item) -> bool:
        """Take an item unless a newer one is here; whether anything that may be seen has changed."""
        there = self.items.get(item.key)
        if there is not None and there.mark >= item.mark:
            return False
        before = self.visible(item.key)
        self.items[item.key] = item
        self.services.setdefault(item.key.service, set()).add(item.key)
        return self.visible(item.key) != before

    def drop(self, key: ItemKey) -> None:
        self.items.pop(key, None)
        self._hashes.pop(key, None)
        if keys := self.services.get(key.service):
            keys.discard(key)
            if not keys:
                del self.services[key.service]

    def digest(self, floor: Mark) -> str:
        """Of the items with a value at or above `floor`."""
        return combined(
            self._hash(item.key, item.value)
            for item in self.items.values()
            if item.value is not None and item.mark >= floor
        )

    def _hash(self, key: ItemKey, value: Value) -> int:
        kept = self._hashes.get(key)
        if kept is None or kept[0] is not value:
            kept = self._hashes[key] = (value, item_hash(value))
        return kept[1]

    def count(self, floor: Mark) -> int:
        return sum(item.value is not None and item.mark >= floor for item in self.items.values())


def with_partition(known: Known, partition: Partition) -> Known:
    """A copy that holds exactly what was read; of what could not be understood, the last good value (C8.13)."""
    fresh = Known(known.record)
    for item in partition.items:
        fresh.put(item)
    for key in partition.unreadable & known.items.keys():
        fresh.put(known.items[key])
    fresh._hashes = known._hashes
    return fresh


class Knowledge:
    """All clusters, and the services that are to be looked at again."""

    def __init__(self) -> None:
        self.clusters: dict[str, Known] = {}
        self._of_service: dict[ServiceKey, set[str]] = {}
        self._changed: set[ServiceKey] = set()

    def __repr__(self) -> str:
        return f"<Knowledge {len(self.clusters)} clusters, {len(self._changed)} services to look at>"

    def take_record(self, record: ClusterRecord, *, whole: bool) -> Known:
        """The newest record of a cluster. `whole`: the items here are those that belong to it."""
        known = self.clusters.get(record.id)
        if known is None:
            known = self.clusters[record.id] = Known(record)
            return known
        known.record = record
        if whole:
            before, known.told = known.told, record
            if before.floor != record.floor or (before.removed is None) != (record.removed is None):
                self.touch(record.id)
        return known

    def take_unfinished(self, record: ClusterRecord) -> None:
        """A cluster whose items have not arrived yet, and of which nothing was known."""
        self.clusters[record.id] = Known(replace(record, rev=record.rev - 1, sync=Sync.SYNCING))

    def take_item(self, item: Item) -> None:
        known = self.clusters[item.cluster]
        if known.put(item):
            self._changed.add(item.key.service)
        self._of_service.setdefault(item.key.service, set()).add(item.cluster)

    def take_whole(self, cluster: str, fresh: Known) -> None:
        """`fresh` is all of the cluster, as of its record."""
        old = self.clusters[cluster]
        for service in old.services.keys() | fresh.services.keys():
            keys = old.services.get(service, set()) | fresh.services.get(service, set())
            if any(old.visible(key) != fresh.visible(key) for key in keys):
                self._changed.add(service)
        if (old.told.removed is None) != (fresh.told.removed is None):
            self._changed |= fresh.services.keys()
        for service in old.services.keys() - fresh.services.keys():
            self._forget(cluster, service)
        for service in fresh.services:
            self._of_service.setdefault(service, set()).add(cluster)
        self.clusters[cluster] = fresh

    def purge(self, cluster: str) -> None:
        """Forget what is below the floor."""
        known = self.clusters[cluster]
        for key in [key for key, item in known.items.items() if item.mark < known.told.floor]:
            known.drop(key)
            if key.service not in known.services:
                self._forget(cluster, key.service)

    def _forget(self, cluster: str, service: ServiceKey) -> None:
        clusters = self._of_service.get(service, set())
        clusters.discard(cluster)
        if not clusters:
            self._of_service.pop(service, None)

    def touch(self, cluster: str) -> None:
        """Everything of this cluster is to be looked at again."""
        self._changed |= self.clusters[cluster].services.keys()

    def changed(self) -> list[ServiceKey]:
        """The services to look at again, once."""
        changed, self._changed = sorted(self._changed), set()
        return changed

    def exports(self, service: ServiceKey, without: Set[str]) -> list[Export]:
        found = (known.visible(ItemKey(service)) for known in self._exporters(service, without))
        return [value for value in found if isinstance(value, Export)]

    def endpoints(self, service: ServiceKey, without: Set[str]) -> Iterator[EndpointSet]:
        for known in self._exporters(service, without):
            for key in sorted(known.services.get(service, ())):
                value = known.visible(key)
                if isinstance(value, EndpointSet):
                    yield value

    def _exporters(self, service: ServiceKey, without: Set[str]) -> Iterator[Known]:
        for cluster in sorted(self._of_service.get(service, ())):
            if cluster not in without:
                yield self.clusters[cluster]
