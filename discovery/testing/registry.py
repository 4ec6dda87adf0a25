"""A registry of multi-cluster services in memory, with faults on demand: for tests of whatever speaks to one.

It is the real service over the memory store, reached without a network. Owns the faults: a cut, an answer that is lost
after the write took effect, delay, a restart that forgets everything, a store that is away. Time is the clock it is
given.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TypeVar

from discovery.kit.clock import Clock
from discovery.mcs.model import (
    Announcement,
    Cluster,
    EndpointSet,
    Event,
    Export,
    ExportStatus,
    Import,
    Registration,
    ServiceKey,
    Stamp,
)
from discovery.mcs.registry import Unreachable
from discovery.mcs.service import DEFAULTS, RegistryService, Rules
from discovery.mcs.store import ClusterRecord, Clusters, Item, Mark, Outcome, Partition, StoreAway
from discovery.mcs.store_memory import MemoryStore

T = TypeVar("T")


class FaultyStore(MemoryStore):
    """A memory store that can be `away`."""

    def __init__(self, *, durable: bool = False) -> None:
        super().__init__(durable=durable)
        self.away = False

    def _check(self) -> None:
        if self.away:
            raise StoreAway("the fake store is away")

    async def clusters(self) -> Clusters:
        self._check()
        return await super().clusters()

    async def cluster(self, cluster: str) -> ClusterRecord | None:
        self._check()
        return await super().cluster(cluster)

    async def partition(self, cluster: str) -> Partition:
        self._check()
        return await super().partition(cluster)

    async def write(self, item: Item) -> Outcome:
        self._check()
        return await super().write(item)

    async def save(self, record: ClusterRecord, expected: int) -> None:
        self._check()
        await super().save(record, expected)

    async def purge(self, cluster: str, below: Mark) -> None:
        self._check()
        await super().purge(cluster, below)


class FakeRegistry:
    """A `discovery.mcs.registry.Registry`. Set the faults whenever you like:

    `cut`: nobody is reached, and watches end. `lose_answers`: that many next calls take effect and raise Unreachable.
    `delay_s`: every call waits so long first. `store.away`: the registry answers as it does without its store.
    """

    def __init__(self, clock: Clock, *, durable: bool = False, rules: Rules = DEFAULTS) -> None:
        self._clock = clock
        self._rules = rules
        self._durable = durable
        self._epochs = (f"fake-{number}" for number in itertools.count(1))
        self._cut = False
        self.lose_answers = 0
        self.delay_s = 0.0
        self._begin()

    def __repr__(self) -> str:
        return f"<FakeRegistry {self.service.board.revision}{' cut' if self._cut else ''}>"

    def _begin(self) -> None:
        self.store = FaultyStore(durable=self._durable)
        self.service = self._served()

    def _served(self) -> RegistryService:
        return RegistryService(self.store, self._clock, epoch=next(self._epochs), rules=self._rules, chance=lambda: 0.5)

    @property
    def cut(self) -> bool:
        return self._cut

    @cut.setter
    def cut(self, value: bool) -> None:
        self._cut = value
        if value:
            self.service.watchers.close()

    def restart(self, *, empty: bool = True) -> None:
        """End all watches and begin a new epoch, with nothing in the store or with what was in it."""
        self.service.close()
        if empty:
            self._begin()
        else:
            self.service = self._served()

    async def tick(self) -> None:
        """What a running registry does each second and each bookmark: call it after time has passed."""
        await self.service.step()
        self.service.beat()

    async def _reached(self, call: Callable[[RegistryService], Awaitable[T]]) -> T:
        await self._arrive()
        answer = await call(self.service)
        if self.lose_answers:
            self.lose_answers -= 1
            raise Unreachable("the answer was lost")
        return answer

    async def _arrive(self) -> None:
        if self.delay_s:
            await self._clock.sleep(self.delay_s)
        if self._cut:
            raise Unreachable("cut")
        if not self.service.ready:
            await self.service.step()

    async def register(self, cluster: Announcement) -> Registration:
        return await self._reached(lambda service: service.register(cluster))

    async def renew(self, stamp: Stamp) -> Registration:
        return await self._reached(lambda service: service.renew(stamp))

    async def leave(self, stamp: Stamp) -> str:
        return await self._reached(lambda service: service.leave(stamp))

    async def put_export(self, stamp: Stamp, export: Export) -> str:
        return await self._reached(lambda service: service.put_export(stamp, export))

    async def delete_export(self, stamp: Stamp, service: ServiceKey) -> str:
        return await self._reached(lambda real: real.delete_export(stamp, service))

    async def put_endpoints(self, stamp: Stamp, endpoints: EndpointSet) -> str:
        return await self._reached(lambda service: service.put_endpoints(stamp, endpoints))

    async def delete_endpoints(self, stamp: Stamp, service: ServiceKey, slice_: str) -> str:
        return await self._reached(lambda real: real.delete_endpoints(stamp, service, slice_))

    async def sync_begin(self, stamp: Stamp) -> str:
        return await self._reached(lambda service: service.sync_begin(stamp))

    async def sync_complete(self, stamp: Stamp, count: int, digest: str) -> str:
        return await self._reached(lambda service: service.sync_complete(stamp, count, digest))

    async def clusters(self) -> tuple[Cluster, ...]:
        return await self._reached(lambda service: service.clusters())

    async def imports(self, namespace: str = "") -> tuple[Import, ...]:
        return await self._reached(lambda service: service.imports(namespace))

    async def export_status(self, cluster: str, service: ServiceKey) -> ExportStatus:
        return await self._reached(lambda real: real.export_status(cluster, service))

    async def watch(self, revision: str = "") -> AsyncGenerator[Event, None]:
        await self._arrive()
        async with aclosing(self.service.watch(revision)) as events:
            async for event in events:
                if self._cut:
                    raise Unreachable("cut")
                yield event
