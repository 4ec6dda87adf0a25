"""A registry in memory for tests of the controller: the same promises, as few lines as they need.

Not the program's own: the controller must not be right only beside the registry that was made with it. `member` gives
the registry as one cluster sees it, with a line that can be cut.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from discovery.mcs.digest import digest
from discovery.mcs.model import (
    Announcement,
    Bookmark,
    Cluster,
    ClusterChanged,
    ClusterGone,
    Conflict,
    EndpointsChanged,
    EndpointSet,
    EndpointsGone,
    Event,
    Export,
    ExportStatus,
    Gone,
    Import,
    ImportChanged,
    ImportGone,
    Registration,
    ServiceKey,
    ServicePort,
    Session,
    SlicePort,
    SnapshotBegin,
    SnapshotEnd,
    Stamp,
    StatusChanged,
    Sync,
)
from discovery.mcs.registry import Reason, Refused, Unreachable


@dataclass
class _Member:
    cluster: Cluster
    session: Session
    exports: dict[ServiceKey, Export] = field(default_factory=dict)
    sets: dict[tuple[ServiceKey, str], EndpointSet] = field(default_factory=dict)
    fresh: set[object] | None = None


class PlainRegistry:
    """`complete_at_once`: snapshots of a new epoch say that they are complete, as those of a durable store do."""

    def __init__(self, *, complete_at_once: bool = False, ttl_ms: int = 600) -> None:
        self._epochs = itertools.count(1)
        self._incarnations = itertools.count(1)
        self._ttl = ttl_ms
        self.renew_ms = 0
        self.renewals = 0
        self._complete_at_once = complete_at_once
        self.writes: list[str] = []
        self.down = False
        self._members: dict[str, _Member] = {}
        self._watchers: list[asyncio.Queue[Event | None]] = []
        self._view: dict[object, Event] = {}
        self._restarted()

    def _restarted(self) -> None:
        self.epoch = f"e{next(self._epochs)}"
        self._counter = 0
        self.complete = self._complete_at_once

    # What tests do to it

    def restart(self, *, forget: bool = True) -> None:
        """A new process: with `forget`, one whose memory was all it had."""
        if forget:
            self._members.clear()
            self._view.clear()
        self._restarted()
        self.drop_watchers()

    def drop_watchers(self) -> None:
        for queue in self._watchers:
            queue.put_nowait(None)

    def expire(self, id_: str) -> None:
        member = self._members[id_]
        member.cluster = replace(member.cluster, live=False)
        self._changed(Gone.LEASE_EXPIRED)

    def become_complete(self) -> None:
        self.complete = True

    def member(self, id_: str) -> Line:
        return Line(self, id_)

    # Writes

    def register(self, who: Announcement) -> Registration:
        before = self._members.get(who.cluster)
        if before is not None and who.term < before.session.term:
            raise Refused(Reason.STALE_SESSION, "a newer leadership writes")
        session = Session(who.cluster, next(self._incarnations), who.term)
        cluster = Cluster(who.cluster, who.uid, who.region, who.labels)
        if before is None:
            self._members[who.cluster] = _Member(cluster, session)
        else:
            before.cluster, before.session = cluster, session
        self._changed()
        return Registration(session, self.epoch, 0, self._ttl, self.renew_ms)

    def renew(self, stamp: Stamp) -> Registration:
        member = self._member(stamp)
        if not member.cluster.live:
            member.cluster = replace(member.cluster, live=True)
            self._changed()
        self.renewals += 1
        return Registration(stamp.session, self.epoch, 0, self._ttl, self.renew_ms)

    def leave(self, stamp: Stamp) -> str:
        self._member(stamp)
        del self._members[stamp.session.cluster]
        return self._changed(Gone.CLUSTER_LEFT)

    def put(self, stamp: Stamp, key: object, value: Export | EndpointSet) -> str:
        member = self._member(stamp)
        if isinstance(value, Export):
            member.exports[value.service] = value
        else:
            member.sets[value.service, value.slice] = value
        if member.fresh is not None:
            member.fresh.add(key)
        self.writes.append(f"put {stamp.session.cluster} {key}")
        return self._changed()

    def drop(self, stamp: Stamp, service: ServiceKey, slice_: str | None) -> str:
        member = self._member(stamp)
        if slice_ is None:
            member.exports.pop(service, None)
        for where in [where for where in member.sets if where[0] == service and slice_ in (None, where[1])]:
            del member.sets[where]
        self.writes.append(f"drop {stamp.session.cluster} {service} {slice_ or ''}")
        return self._changed(Gone.UNEXPORTED if slice_ is None else Gone.SLICE_REMOVED)

    def sync(self, stamp: Stamp, count: int | None, said: str) -> str:
        member = self._member(stamp)
        if count is None:
            member.fresh = set()
            member.cluster = replace(member.cluster, sync=Sync.SYNCING)
            return self._changed()
        fresh = member.fresh or set()
        member.exports = {key: one for key, one in member.exports.items() if key in fresh}
        member.sets = {key: one for key, one in member.sets.items() if key in fresh}
        exports, sets = list(member.exports.values()), list(member.sets.values())
        if len(exports) + len(sets) != count or digest([*exports, *sets]) != said:
            raise Refused(Reason.DIGEST_MISMATCH, "something is missing")
        member.fresh = None
        member.cluster = replace(member.cluster, sync=Sync.COMPLETE)
        return self._changed(Gone.UNEXPORTED)

    def status(self, cluster: str, service: ServiceKey) -> ExportStatus:
        found = self._view.get(("status", cluster, service))
        if not isinstance(found, StatusChanged):
            raise Refused(Reason.NOT_FOUND, f"{cluster} does not export {service}")
        return found.value

    def _member(self, stamp: Stamp) -> _Member:
        member = self._members.get(stamp.session.cluster)
        if member is None:
            raise Refused(Reason.NOT_FOUND, "register first")
        if member.session != stamp.session:
            raise Refused(Reason.STALE_SESSION, "another session writes")
        return member

    # The view

    def imports(self) -> list[Import]:
        return [one.value for one in self._view.values() if isinstance(one, ImportChanged)]

    def _changed(self, reason: Gone = Gone.UNEXPORTED) -> str:
        now = dict(self._look())
        for key in [key for key in self._view if key not in now]:
            self._tell(_gone(self._view.pop(key), reason))
        for key, event in now.items():
            if self._view.get(key) != event:
                self._view[key] = event
                self._tell(event)
        return f"{self.epoch}.{self._counter}"

    def _tell(self, event: Event) -> None:
        self._counter += 1
        for queue in self._watchers:
            queue.put_nowait(replace(event, revision=f"{self.epoch}.{self._counter}"))  # type: ignore[arg-type]

    def _look(self) -> Iterator[tuple[object, Event]]:
        for id_, member in sorted(self._members.items()):
            yield ("cluster", id_), ClusterChanged(member.cluster)
        services = {key for member in self._members.values() for key in member.exports}
        for service in sorted(services):
            exports = [one.exports[service] for one in self._members.values() if service in one.exports]
            live = [id_ for id_, one in self._members.items() if service in one.exports and one.cluster.live]
            merged, conflicts = merge(exports)
            yield ("import", service), ImportChanged(replace(merged, clusters=tuple(sorted(live))))
            for one in exports:
                said = ExportStatus(one.cluster, service, conflicts, "They differ." if conflicts else "")
                yield ("status", one.cluster, service), StatusChanged(said)
            for id_ in live:
                for (of, slice_), found in self._members[id_].sets.items():
                    if of == service:
                        own = self._members[id_].exports[service]
                        yield ("slice", id_, service, slice_), EndpointsChanged(_renamed(found, own, merged))

    async def watch(self, revision: str) -> AsyncIterator[Event]:
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        snapshot = [SnapshotBegin(self.epoch, self.complete, resync=bool(revision)), *self._view.values()]
        snapshot.append(SnapshotEnd(f"{self.epoch}.{self._counter}"))
        self._watchers.append(queue)
        try:
            for event in snapshot:
                yield event
            yield Bookmark(f"{self.epoch}.{self._counter}")
            while (told := await queue.get()) is not None:
                yield told
        finally:
            self._watchers.remove(queue)
        raise Unreachable("the registry is gone")


def _gone(event: Event, reason: Gone) -> Event:
    match event:
        case ClusterChanged(cluster):
            return ClusterGone(cluster.id)
        case ImportChanged(value):
            return ImportGone(value.service, reason)
        case EndpointsChanged(value):
            return EndpointsGone(value.cluster, value.service, value.slice, reason)
    return Bookmark("")


def merge(exports: Sequence[Export]) -> tuple[Import, tuple[Conflict, ...]]:
    """The oldest wins; ports are united."""
    order = sorted(exports, key=lambda one: (one.exported_ms, one.cluster))
    first, ports = order[0], list[ServicePort]()
    for port in (port for one in order for port in one.ports):
        if not any(port.name == known.name or port[1:3] == known[1:3] for known in ports):
            ports.append(port)
    checks: list[tuple[Conflict, Callable[[Export], object]]] = [
        (Conflict.PORT, lambda one: frozenset(one.ports)),
        (Conflict.TYPE, lambda one: one.type),
        (Conflict.SESSION_AFFINITY, lambda one: one.session_affinity),
        (Conflict.ANNOTATIONS, lambda one: one.annotations),
        (Conflict.LABELS, lambda one: one.labels),
    ]
    conflicts = tuple(kind for kind, of in checks if any(of(one) != of(first) for one in order))
    merged = Import(
        service=first.service,
        type=first.type,
        ports=tuple(ports),
        session_affinity=first.session_affinity,
        affinity_seconds=first.affinity_seconds,
        ip_families=tuple(dict.fromkeys(family for one in order for family in one.ip_families)),
        internal_traffic_policy=first.internal_traffic_policy,
        traffic_distribution=first.traffic_distribution,
        labels=first.labels,
        annotations=first.annotations,
    )
    return merged, conflicts


def _renamed(found: EndpointSet, own: Export, merged: Import) -> EndpointSet:
    names = {port[1:3]: port.name for port in merged.ports}
    mine = {port.name: names[port[1:3]] for port in own.ports if port[1:3] in names}
    ports = [SlicePort(mine[port.name], *port[1:]) for port in found.ports if port.name in mine]
    return replace(found, ports=tuple(ports))


class Line:
    """The registry as one cluster reaches it: `cut`, and nobody answers any more."""

    def __init__(self, registry: PlainRegistry, id_: str) -> None:
        self.registry = registry
        self.id = id_
        self._cut = False
        self._broken = asyncio.Event()

    @property
    def cut(self) -> bool:
        return self._cut

    @cut.setter
    def cut(self, now: bool) -> None:
        self._cut = now
        if now:
            self._broken.set()
        else:
            self._broken.clear()

    def _there(self) -> PlainRegistry:
        if self._cut or self.registry.down:
            raise Unreachable("nobody answers")
        return self.registry

    async def register(self, cluster: Announcement) -> Registration:
        return self._there().register(cluster)

    async def renew(self, stamp: Stamp) -> Registration:
        return self._there().renew(stamp)

    async def leave(self, stamp: Stamp) -> str:
        return self._there().leave(stamp)

    async def put_export(self, stamp: Stamp, export: Export) -> str:
        return self._there().put(stamp, export.service, export)

    async def delete_export(self, stamp: Stamp, service: ServiceKey) -> str:
        return self._there().drop(stamp, service, None)

    async def put_endpoints(self, stamp: Stamp, endpoints: EndpointSet) -> str:
        return self._there().put(stamp, (endpoints.service, endpoints.slice), endpoints)

    async def delete_endpoints(self, stamp: Stamp, service: ServiceKey, slice_: str) -> str:
        return self._there().drop(stamp, service, slice_)

    async def sync_begin(self, stamp: Stamp) -> str:
        return self._there().sync(stamp, None, "")

    async def sync_complete(self, stamp: Stamp, count: int, digest: str) -> str:
        return self._there().sync(stamp, count, digest)

    async def clusters(self) -> tuple[Cluster, ...]:
        raise Unreachable("not needed by a controller")

    async def imports(self, namespace: str = "") -> tuple[Import, ...]:
        return tuple(self._there().imports())

    async def export_status(self, cluster: str, service: ServiceKey) -> ExportStatus:
        return self._there().status(cluster, service)

    async def watch(self, revision: str = "") -> AsyncIterator[Event]:
        events = self._there().watch(revision)
        broken = asyncio.ensure_future(self._broken.wait())
        coming: asyncio.Future[Event] | None = None
        try:
            while True:
                coming = asyncio.ensure_future(anext(events))
                await asyncio.wait({coming, broken}, return_when=asyncio.FIRST_COMPLETED)
                if broken.done():
                    raise Unreachable("the line is cut")
                yield coming.result()
        finally:
            broken.cancel()
            if coming is not None and not coming.done():
                coming.cancel()
                await asyncio.wait([coming])
            await events.aclose()  # type: ignore[attr-defined]
