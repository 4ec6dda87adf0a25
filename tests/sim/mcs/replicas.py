"""The registry's replicas, their stores, and the lines over which controllers reach them, all of which may fail.

Owns what is seen of leases and sessions from outside, without asking the code under test: when each store last took a
renewal, which session was granted last. A write that a store or a replica takes from a session that was overtaken
before the write began is a fault.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeVar

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
    Term,
)
from discovery.mcs.registry import Refused, Unreachable
from discovery.mcs.service import RegistryService, Rules
from discovery.mcs.store import ClusterRecord, Clusters, Item, Mark, Outcome, Partition, Store, StoreAway
from discovery.mcs.store_memory import MemoryStore
from discovery.testing.regions import Regions

if TYPE_CHECKING:
    from tests.sim.mcs.world import World

T = TypeVar("T")
RULES = Rules(ttl_ms=30_000, grace_ms=5_000, poll_ms=2_000, bookmark_ms=20_000)


class StoreLine:
    """A store as one life of one replica reaches it."""

    def __init__(self, world: World, inner: Store, replica: Replica) -> None:
        self._world = world
        self._inner = inner
        self._replica = replica
        self._life = replica.life
        self.durable = inner.durable

    async def _reach(self, call: Callable[[], Awaitable[T]], *, writes: bool = False) -> T:
        world = self._world
        if self._inner.durable:
            await asyncio.sleep(world.chance.uniform(0.001, 0.01))
        if self._replica.life != self._life or self._replica.store_away:
            raise StoreAway("simulated")
        answer = await call()
        if writes and self._inner.durable and world.trouble and world.chance.random() < world.lossy / 2:
            raise StoreAway("the answer was lost")
        return answer

    async def clusters(self) -> Clusters:
        return await self._reach(self._inner.clusters)

    async def cluster(self, cluster: str) -> ClusterRecord | None:
        return await self._reach(lambda: self._inner.cluster(cluster))

    async def partition(self, cluster: str) -> Partition:
        return await self._reach(lambda: self._inner.partition(cluster))

    async def write(self, item: Item) -> Outcome:
        return await self._reach(lambda: self._inner.write(item), writes=True)

    async def save(self, record: ClusterRecord, expected: int) -> None:
        await self._reach(lambda: self._inner.save(record, expected), writes=True)

    async def purge(self, cluster: str, below: Mark) -> None:
        await self._reach(lambda: self._inner.purge(cluster, below))

    async def close(self) -> None:
        """Nothing is held open."""


class Replica:
    """One host of the registry. `store` None: each life begins with an empty memory."""

    def __init__(self, world: World, index: int, store: Store | None, ahead: float) -> None:
        self.world = world
        self.index = index
        self.ahead = ahead
        self.life = 0
        self.store_away = False
        self.cut_from: set[str] = set()
        self.service: RegistryService | None = None
        self.inner: Store = store or MemoryStore()
        self._forgets = store is None
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Replica {self.index} life={self.life}>"

    def start(self) -> None:
        self.life += 1
        if self._forgets:
            self.inner = MemoryStore()
        epoch = f"r{self.index}.{self.life}"
        store = StoreLine(self.world, self.inner, self)
        clock = self.world.clock(self.ahead)
        self.service = RegistryService(store, clock, epoch=epoch, rules=RULES, chance=self.world.chance.random)
        self.world.epochs[epoch] = (self.world.now, self)
        self._task = asyncio.create_task(self.service.run())

    def stop(self) -> None:
        """At once, whatever it was doing."""
        self.life += 1
        service, self.service = self.service, None
        if service is not None:
            service.close()
        if self._task is not None:
            self._task.cancel()
            self._task = None


class Line:
    """The registry as one process of a cluster's controller reaches it: as the client does, one replica after another,
    a write with its stamp again, a registration only where it surely did not arrive."""

    def __init__(self, world: World, process: Any) -> None:
        self._world = world
        self._process = process
        self._at = process.home

    def _next(self) -> None:
        self._at = (self._at + 1) % len(self._world.replicas)

    async def _call(self, name: str, *args: Any, again: bool = True) -> Any:
        error = Unreachable("no registry")
        for _ in self._world.replicas:
            replica = self._world.replicas[self._at]
            arrived = False
            try:
                await self._travel(replica)
                arrived = True
                return await self._answered(replica, name, *args)
            except Unreachable as found:
                error = found
                self._next()
                if arrived and not again:
                    break
        raise error

    async def _travel(self, replica: Replica) -> None:
        world = self._world
        await self._process.working()
        await asyncio.sleep(world.chance.uniform(0.001, 0.03))
        if replica.service is None or self._process.member.id in replica.cut_from:
            raise Unreachable("cut")
        if world.trouble and world.chance.random() < world.lossy / 2:
            raise Unreachable("the request was lost")

    async def _answered(self, replica: Replica, name: str, *args: Any) -> Any:
        world, service, life = self._world, replica.service, replica.life
        assert service is not None
        if world.trouble and name.startswith(("put", "delete", "sync")) and world.chance.random() < world.lossy:
            world.later(world.chance.uniform(0.5, 60), lambda: self._twin(replica, life, name, args))
        before = world.sessions.begun(replica, args)
        answer = await getattr(service, name)(*args)
        world.sessions.ended(replica, life, name, args, answer, before)
        if replica.life != life or self._process.member.id in replica.cut_from:
            raise Unreachable("cut")
        if world.trouble and world.chance.random() < world.lossy:
            raise Unreachable("the answer was lost")
        await self._process.working()
        return answer

    async def _twin(self, replica: Replica, life: int, name: str, args: tuple[Any, ...]) -> None:
        """The same request arrives a second time, long after."""
        if replica.life != life or replica.service is None:
            return
        before = self._world.sessions.begun(replica, args)
        try:
            answer = await getattr(replica.service, name)(*args)
        except Refused:
            return
        self._world.sessions.ended(replica, life, name, args, answer, before)

    async def register(self, cluster: Announcement) -> Registration:
        return await self._call("register", cluster, again=False)  # type: ignore[no-any-return]

    async def renew(self, stamp: Stamp) -> Registration:
        return await self._call("renew", stamp)  # type: ignore[no-any-return]

    async def leave(self, stamp: Stamp) -> str:
        return await self._call("leave", stamp)  # type: ignore[no-any-return]

    async def put_export(self, stamp: Stamp, export: Export) -> str:
        return await self._call("put_export", stamp, export)  # type: ignore[no-any-return]

    async def delete_export(self, stamp: Stamp, service: ServiceKey) -> str:
        return await self._call("delete_export", stamp, service)  # type: ignore[no-any-return]

    async def put_endpoints(self, stamp: Stamp, endpoints: EndpointSet) -> str:
        return await self._call("put_endpoints", stamp, endpoints)  # type: ignore[no-any-return]

    async def delete_endpoints(self, stamp: Stamp, service: ServiceKey, slice_: str) -> str:
        return await self._call("delete_endpoints", stamp, service, slice_)  # type: ignore[no-any-return]

    async def sync_begin(self, stamp: Stamp) -> str:
        return await self._call("sync_begin", stamp)  # type: ignore[no-any-return]

    async def sync_complete(self, stamp: Stamp, count: int, digest: str) -> str:
        return await self._call("sync_complete", stamp, count, digest)  # type: ignore[no-any-return]

    async def clusters(self) -> tuple[Cluster, ...]:
        return await self._call("clusters")  # type: ignore[no-any-return]

    async def imports(self, namespace: str = "") -> tuple[Import, ...]:
        return await self._call("imports", namespace)  # type: ignore[no-any-return]

    async def export_status(self, cluster: str, service: ServiceKey) -> ExportStatus:
        return await self._call("export_status", cluster, service)  # type: ignore[no-any-return]

    async def watch(self, revision: str = "") -> AsyncGenerator[Event, None]:
        replica = self._world.replicas[self._at]
        life = replica.life
        try:
            await self._travel(replica)
            assert replica.service is not None
            async with aclosing(replica.service.watch(revision)) as events:
                async for event in events:
                    await self._process.working()
                    if replica.life != life or self._process.member.id in replica.cut_from:
                        raise Unreachable("cut")
                    yield event
        except Unreachable:
            self._next()
            raise


class Sessions:
    """Which leadership each store was told of last, and when each lease was last renewed there."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._granted: dict[tuple[Store, str], Term] = {}
        self._renewed: dict[tuple[int, str], float] = {}
        self._gaps: dict[tuple[int, str], float] = {}

    @property
    def _ttl(self) -> float:
        """Of two regions the later write wins a record whole, so one by way of the other region undoes a renewal."""
        return RULES.ttl_ms / 1000 * (1 if self._world.regions is None else 2 / 3)

    def begun(self, replica: Replica, args: tuple[Any, ...]) -> Term | None:
        if not args or not isinstance(args[0], Stamp):
            return None
        return self._granted.get((replica.inner, args[0].session.cluster))

    def ended(self, replica: Replica, life: int, name: str, args: Any, answer: Any, before: Term | None) -> None:
        if replica.life != life:
            return
        if name == "register":
            session = answer.session
            self._granted[replica.inner, session.cluster] = session.term
            self.heard(replica, session.cluster)
        elif args and isinstance(args[0], Stamp):
            session = args[0].session
            if before is not None and session.term < before:
                self._world.fault(
                    "a stale leader writes nothing",
                    f"{name} of {session.cluster} in {session.term} was taken, {before} had registered before",
                )
            if name == "renew":
                self.heard(replica, session.cluster)

    def heard(self, replica: Replica, cluster: str) -> None:
        """A renewal has been told to this replica; a store that it shares has it, too."""
        for one in self._world.replicas:
            if one is replica or one.inner is replica.inner:
                self._note((one.index, cluster))
        if self._world.regions is not None:
            # The other region hears of it when the link carries it.
            self._world.later_heard.append((self._world.now, replica.index, cluster))

    def _note(self, key: tuple[int, str]) -> None:
        now = self._world.now
        before = self._renewed.get(key)
        if before is not None and now - before >= self._ttl:
            self._gaps[key] = now
        self._renewed[key] = now

    def carried(self) -> None:
        """The link between the regions has carried something: all of before is there."""
        pending, self._world.later_heard = self._world.later_heard, []
        for at, index, cluster in pending:
            if self._world.now - at < 3.0:
                self._world.later_heard.append((at, index, cluster))
                continue
            for one in self._world.replicas:
                if one.index != index:
                    self._note((one.index, cluster))

    def was_silent(self, replica: Replica, cluster: str, within: float) -> bool:
        """Whether this replica had reason, in the last `within` seconds, to think that a lease had ended."""
        key, now = (replica.index, cluster), self._world.now
        renewed = self._renewed.get(key)
        if renewed is None or now - renewed >= self._ttl:
            return True
        return now - self._gaps.get(key, -1e9) <= within


def regions_of(world: World) -> Regions:
    return Regions(lambda: world.now, world.chance.random, delay_s=1.0)
