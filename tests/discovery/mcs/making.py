"""Exports, slices and clusters to test with, and a cluster's side of the conversation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from discovery.kit.testing import VirtualClock, settle
from discovery.mcs.digest import digest
from discovery.mcs.model import (
    Announcement,
    Endpoint,
    EndpointSet,
    Event,
    Export,
    Registration,
    ServiceKey,
    ServicePort,
    ServiceType,
    SlicePort,
    SnapshotBegin,
    SnapshotEnd,
    Stamp,
    Term,
)
from discovery.mcs.registry import Registry
from discovery.mcs.service import RegistryService, Rules
from discovery.mcs.store import Store
from discovery.mcs.store_memory import MemoryStore

HELLO = ServiceKey("demo", "hello")
OTHER = ServiceKey("demo", "other")
TCP, UDP = ServicePort("tcp", "TCP", 42), ServicePort("udp", "UDP", 42)


def export(cluster: str = "c1", service: ServiceKey = HELLO, age: int = 1, **more: object) -> Export:
    """`age`: seconds since the beginning of time; smaller is older."""
    values: dict[str, object] = {"type": ServiceType.CLUSTER_SET_IP, "ports": (TCP, UDP), **more}
    return Export(cluster, service, f"uid-{cluster}", age * 1000, **values)  # type: ignore[arg-type]


def endpoints(cluster: str = "c1", service: ServiceKey = HELLO, slice_: str = "s1", *addresses: str) -> EndpointSet:
    ports = (SlicePort("tcp", "TCP", 8042), SlicePort("udp", "UDP", 8042))
    return EndpointSet(
        cluster, service, slice_, "IPv4", ports, tuple(Endpoint((one,)) for one in addresses or ("10.0.0.1",))
    )


def service(
    clock: VirtualClock, store: Store | None = None, epoch: str = "e1", rules: Rules | None = None
) -> RegistryService:
    return RegistryService(store or MemoryStore(), clock, epoch=epoch, rules=rules or Rules(), chance=lambda: 0.5)


class Member:
    """What the controller of one cluster says."""

    def __init__(self, registry: Registry, cluster: str, *, uid: str = "", term: int = 1) -> None:
        self.registry = registry
        self.announcement = Announcement(cluster, uid or f"uid-{cluster}", "region", Term(term, 0))
        self.registration: Registration | None = None
        self.seq = 0

    def stamp(self) -> Stamp:
        assert self.registration is not None
        self.seq += 1
        return Stamp(self.registration.session, self.seq)

    async def register(self) -> Registration:
        self.registration, self.seq = await self.registry.register(self.announcement), 0
        return self.registration

    async def renew(self) -> Registration:
        return await self.registry.renew(self.stamp())

    async def put(self, *values: Export | EndpointSet) -> str:
        revision = ""
        for value in values:
            if isinstance(value, Export):
                revision = await self.registry.put_export(self.stamp(), value)
            else:
                revision = await self.registry.put_endpoints(self.stamp(), value)
        return revision

    async def sync(self, *values: Export | EndpointSet) -> str:
        await self.registry.sync_begin(self.stamp())
        await self.put(*values)
        return await self.registry.sync_complete(self.stamp(), len(values), digest(values))

    async def join(self, *values: Export | EndpointSet) -> str:
        await self.register()
        return await self.sync(*values)


class Reader:
    """Hears a watch without waiting for it."""

    def __init__(self, registry: Registry, revision: str = "") -> None:
        self._events: AsyncIterator[Event] = registry.watch(revision)
        self.all: list[Event] = []

    async def read(self) -> None:
        async for event in self._events:
            self.all.append(event)

    def taken(self) -> list[Event]:
        """What was heard since the last time."""
        heard = list(self.all)
        self.all.clear()
        return heard


async def snapshot(registry: Registry, revision: str = "") -> list[Event]:
    """All events up to the end of the first snapshot."""
    events: list[Event] = []
    watch = registry.watch(revision)
    async for event in watch:
        events.append(event)
        if isinstance(event, SnapshotEnd):
            break
    await watch.aclose()  # type: ignore[attr-defined]
    return events


def begun(events: Iterable[Event]) -> SnapshotBegin:
    return next(event for event in events if isinstance(event, SnapshotBegin))


def of(kind: type[Event], events: Iterable[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, kind)]


async def pass_time(clock: VirtualClock, seconds: float, *members: Member) -> None:
    """Let time pass while these clusters renew each 10 s."""
    while seconds > 0:
        step = min(seconds, 10.0)
        await clock.advance(step)
        seconds -= step
        for member in members:
            await member.renew()
        await settle()
