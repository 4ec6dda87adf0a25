"""The registry itself: one replica of the service that REST, gRPC and the fake in memory all speak to.

Owns what is shown (the board) and when that is looked at again: after every write, when others have written, when a
lease ends. It keeps nothing that the store does not have but the moments at which it saw leases renewed, so replicas
come and go. Whatever it decides is decided by the pure modules below it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final

from discovery.kit.backoff import Chance
from discovery.kit.clock import Clock
from discovery.kit.log import logger
from discovery.mcs.board import Board
from discovery.mcs.following import Following
from discovery.mcs.leases import GRACE_MS, Leases
from discovery.mcs.model import (
    Announcement,
    Bookmark,
    Cluster,
    EndpointSet,
    Event,
    Export,
    ExportStatus,
    Import,
    Registration,
    ServiceKey,
    Session,
    Stamp,
)
from discovery.mcs.registry import Reason, Refused, Unreachable
from discovery.mcs.store import ClusterRecord, Removed, Store, StoreAway
from discovery.mcs.watchers import MIB, Watcher, Watchers
from discovery.mcs.writing import Writing

_log = logger(__name__)

_FUTURE_MS: Final = 5 * 60_000
_LOOK_MS: Final = 20
"""How often a reader who waits for a revision looks for it."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Milliseconds. `renew_ms`: how often a cluster renews its lease (0: a third of the ttl). `poll_ms`: how often the
    store is read. `max_stale_ms`: how long lists answer without it. `visible_ms`: how long a read waits for a revision.
    `queue_keys`, `queue_bytes`: what may wait for one watcher."""

    ttl_ms: int = 30_000
    renew_ms: int = 0
    grace_ms: int = GRACE_MS
    retention_ms: int = 24 * 3_600_000
    poll_ms: int = 1_000
    bookmark_ms: int = 10_000
    max_stale_ms: int = 600_000
    visible_ms: int = 2_000
    queue_keys: int = 10_000
    queue_bytes: int = 64 * MIB

    @property
    def warmup_ms(self) -> int:
        """After this time whoever is there has had time to come back (C8.1)."""
        return 2 * self.ttl_ms + 60_000


DEFAULTS: Final = Rules()


class RegistryService:
    """A `discovery.mcs.registry.Registry`. Nothing is answered before the store was read once: `open`, or `run`."""

    def __init__(self, store: Store, clock: Clock, *, epoch: str, rules: Rules = DEFAULTS, chance: Chance) -> None:
        self.rules = rules
        self.board = Board(epoch, Leases(rules.grace_ms), retention_ms=rules.retention_ms)
        self.watchers = Watchers(keys=rules.queue_keys, size=rules.queue_bytes)
        self.mass_expiries = 0
        """How often so many leases ended at once that the fault seemed ours (C34)."""
        self.exports_from_the_future = 0
        self.following = Following(store, self.board, clock)
        self._store = store
        self._clock = clock
        self._chance = chance
        self._writing = Writing(store, self.following, self.board, clock, rules.ttl_ms, self._show)
        self._began_ms = self.following.mono_ms()
        self._next_expiry_ms: int | None = None
        self._complete_at: int | None = None
        """The count of changes when what is shown became complete."""
        self._closed = False

    def __repr__(self) -> str:
        return f"<RegistryService {self.board.revision} {self.following!r} watchers={len(self.watchers)}>"

    # The state of this replica

    @property
    def ready(self) -> bool:
        return self.following.loaded and not self._closed

    @property
    def stale_for_s(self) -> float:
        """Since when the store has not answered; 0.0 while it does."""
        away = self.following.away_since
        return 0.0 if away is None else (self.following.mono_ms() - away) / 1000

    @property
    def complete(self) -> bool:
        """Every known cluster has told all of its own, and there has been time for those we may have forgotten."""
        if not self.ready or self.following.unreadable or not self.board.told:
            return False
        return self._store.durable or self.following.mono_ms() - self._began_ms >= self.rules.warmup_ms

    @property
    def revision(self) -> str:
        return self.board.revision

    def now_ms(self) -> int:
        return int(self._clock.now().timestamp() * 1000)

    async def open(self) -> None:
        """Read the store for the first time. Raises StoreAway."""
        if not await self.step():
            raise StoreAway("the store did not answer")

    async def step(self) -> bool:
        """Read what is new and show it; False when the store is away, and then nothing expires."""
        answered = await self.following.poll()
        if answered:
            self._show()
            await self._retire()
        return answered

    async def run(self) -> None:
        """Follow the store, end leases in time, keep watches awake; until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(), name="registry follows its store")
            group.create_task(self._beat(), name="registry bookmarks")

    async def _follow(self) -> None:
        while True:
            answered = await self.step()
            mono = self.following.mono_ms()
            wait = int(self.rules.poll_ms * (0.8 + 0.4 * self._chance()))
            for due in (self._next_expiry_ms, self.following.next_ms()):
                if answered and due is not None:
                    wait = min(wait, max(due - mono, 1))
            await self._clock.sleep(wait / 1000)

    async def _beat(self) -> None:
        while True:
            await self._clock.sleep(self.rules.bookmark_ms / 1000)
            self.beat()

    def beat(self) -> None:
        """Tell every watch that we are still here."""
        self.watchers.mark(Bookmark(self.board.revision, self.following.away_since is not None))

    def close(self) -> None:
        """End all watches; nothing is answered any more."""
        self._closed = True
        self.watchers.close()

    def _show(self) -> str:
        """Make what is shown what is known; the revision in which it can be seen."""
        if self.following.away_since is None:
            events, verdict = self.board.refresh(self.now_ms(), self.following.mono_ms())
            self._next_expiry_ms = verdict.next_ms
            if verdict.spared:
                self.mass_expiries += 1
                _log.warning("many leases end at once, the fault may be ours", spared=sorted(verdict.spared))
            self.watchers.tell(events)
        if not self.complete:
            self._complete_at = None
        elif self._complete_at is None:
            self._complete_at = self.board.counter
            self.watchers.completed()
        return self.board.revision

    async def _retire(self) -> None:
        """Record what everybody shows already: a cluster silent for longer than the retention is no more."""
        for cluster in sorted(self.board.retained_out):
            seen = self.board.knowledge.clusters[cluster].record

            def is_silent(record: ClusterRecord, seen: ClusterRecord = seen) -> bool:
                return (record.incarnation, record.renewed_ms) == (seen.incarnation, seen.renewed_ms)

            try:
                await self._writing.remove(cluster, Removed.RETENTION, is_silent)
            except Refused as error:
                _log.warning("silent cluster not retired", cluster=cluster, reason=str(error))

    def _require_ready(self) -> None:
        if not self.ready:
            raise Refused(Reason.STORE_AWAY, "the store has not been read yet", retry_after_s=1.0)

    def _require_fresh(self) -> None:
        self._require_ready()
        if self.stale_for_s * 1000 > self.rules.max_stale_ms:
            raise Refused(Reason.STORE_AWAY, f"the store has been away for {self.stale_for_s:.0f} s", retry_after_s=5.0)

    # Writing: `discovery.mcs.writing` has the rules

    async def register(self, cluster: Announcement) -> Registration:
        self._require_ready()
        session, ttl_ms = await self._writing.register(cluster)
        return self._registration(session, ttl_ms)

    async def renew(self, stamp: Stamp) -> Registration:
        self._require_ready()
        ttl_ms = await self._writing.renew(stamp)
        return self._registration(stamp.session, ttl_ms)

    def _registration(self, session: Session, ttl_ms: int) -> Registration:
        return Registration(session, self.board.epoch, self.now_ms(), ttl_ms, self.rules.renew_ms or ttl_ms // 3)

    async def leave(self, stamp: Stamp) -> str:
        self._require_ready()
        return await self._writing.leave(stamp)

    async def delete_cluster(self, cluster: str, *, force: bool = False) -> str:
        """An operator's removal; refused while the lease stands unless forced. Its controller, if there is one, is told
        to register again and comes back (C8.15)."""
        self._require_ready()

        def check(record: ClusterRecord) -> bool:
            if self.board.is_live(cluster) and not force:
                raise Refused(Reason.CLUSTER_ID_IN_USE, f"cluster {cluster} is live: removing it needs force")
            return True

        return await self._writing.remove(cluster, Removed.DELETED, check)

    async def put_export(self, stamp: Stamp, export: Export) -> str:
        self._require_ready()
        ahead_ms = export.exported_ms - self.now_ms()
        if ahead_ms > _FUTURE_MS:
            # It is used: precedence is by what the API servers say, and those must agree (C3).
            self.exports_from_the_future += 1
            _log.warning(
                "export was made in the future, is a clock wrong?",
                cluster=export.cluster,
                service=str(export.service),
                ahead_s=ahead_ms // 1000,
            )
        return await self._writing.put_export(stamp, export)

    async def delete_export(self, stamp: Stamp, service: ServiceKey) -> str:
        self._require_ready()
        return await self._writing.delete_export(stamp, service)

    async def put_endpoints(self, stamp: Stamp, endpoints: EndpointSet) -> str:
        self._require_ready()
        return await self._writing.put_endpoints(stamp, endpoints)

    async def delete_endpoints(self, stamp: Stamp, service: ServiceKey, slice_: str) -> str:
        self._require_ready()
        return await self._writing.delete_endpoints(stamp, service, slice_)

    async def sync_begin(self, stamp: Stamp) -> str:
        self._require_ready()
        return await self._writing.sync_begin(stamp)

    async def sync_complete(self, stamp: Stamp, count: int, digest: str) -> str:
        self._require_ready()
        return await self._writing.sync_complete(stamp, count, digest)

    # Reading

    async def clusters(self) -> tuple[Cluster, ...]:
        self._require_fresh()
        return tuple(self.board.clusters[cluster] for cluster in sorted(self.board.clusters))

    async def imports(self, namespace: str = "") -> tuple[Import, ...]:
        self._require_fresh()
        found = (self.board.views[service].value for service in sorted(self.board.views))
        return tuple(
            value for value in found if value is not None and (not namespace or value.service.namespace == namespace)
        )

    async def export_status(self, cluster: str, service: ServiceKey) -> ExportStatus:
        self._require_fresh()
        view = self.board.views.get(service)
        status = view.statuses.get(cluster) if view is not None else None
        if status is None:
            raise Refused(Reason.NOT_FOUND, f"cluster {cluster} does not export {service}")
        return status

    def exports(self, cluster: str) -> tuple[Export, ...]:
        """What a cluster has told of its own. Refused NOT_FOUND for one that is not known."""
        self._require_fresh()
        known = self.board.knowledge.clusters.get(cluster)
        if known is None:
            raise Refused(Reason.NOT_FOUND, f"there is no cluster {cluster}")
        found = (known.visible(key) for key in sorted(known.items))
        return tuple(value for value in found if isinstance(value, Export))

    async def wait_visible(self, revision: str) -> None:
        """Return when `revision` can be seen here (C45); wait for it as long as the rules say. Refused TIMEOUT then,
        and at once for one that another replica gave, or an earlier life of this one: it never comes."""
        wanted = self.board.counter_of(revision)
        until = self.following.mono_ms() + self.rules.visible_ms
        while wanted is not None and wanted > self.board.counter and self.following.mono_ms() < until:
            await self._clock.sleep(_LOOK_MS / 1000)
        if wanted is None or wanted > self.board.counter:
            raise Refused(
                Reason.TIMEOUT, f"revision {revision} cannot be seen on this replica, which is at {self.board.revision}"
            )

    async def watch(self, revision: str = "") -> AsyncGenerator[Event, None]:
        self._require_ready()
        with self.watchers.joined() as watcher:
            missed = self._missed(revision)
            if missed is None:
                missed = self._snapshot(watcher, resync=bool(revision))
            else:
                watcher.complete = self.complete
            for event in missed:
                yield event
            while True:
                await watcher.news()
                if watcher.closed:
                    raise Unreachable("the registry is closing")
                if watcher.resync:
                    for event in self._snapshot(watcher, resync=True):
                        yield event
                for event in watcher.take():
                    yield event

    def _missed(self, revision: str) -> list[Event] | None:
        counter = self.board.counter_of(revision)
        if counter is None or (self._complete_at is not None and counter < self._complete_at):
            # Before that it may have been sent a snapshot that was not complete.
            return None
        return self.board.since(revision)

    def _snapshot(self, watcher: Watcher, *, resync: bool) -> list[Event]:
        watcher.resync = False
        watcher.complete = self.complete
        return list(self.board.snapshot(complete=watcher.complete, resync=resync))
