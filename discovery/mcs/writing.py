"""Every write to the registry: checked against the session, kept, and shown before it is answered.

Owns the order of a write (C53): the item under its own condition, then the cluster's record with the digest of all of
them, one for whatever was written meanwhile. A record that has moved is looked at again, so that a session that was
overtaken between two steps is still told so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from discovery.kit.clock import Clock
from discovery.mcs import checks, sessions
from discovery.mcs.board import Board
from discovery.mcs.following import Following
from discovery.mcs.knowledge import Known
from discovery.mcs.model import Announcement, EndpointSet, Export, ServiceKey, Session, Stamp
from discovery.mcs.registry import Reason, Refused
from discovery.mcs.store import (
    ClusterRecord,
    Fenced,
    Item,
    ItemKey,
    Mark,
    Moved,
    Outcome,
    Removed,
    Store,
    StoreAway,
    Value,
    mark_of,
)

_SWAPS: Final = 10
_AWAY_AGAIN_S: Final = 1.0

Step = Callable[[ClusterRecord | None], ClusterRecord]
Whole = tuple[ClusterRecord, Known | None]
"""A record to be, and all of the cluster's items if they were read for it."""


class Writing:
    """`show` makes what is known visible and gives the revision in which it is; `ttl_ms` is what registrations get."""

    def __init__(
        self, store: Store, following: Following, board: Board, clock: Clock, ttl_ms: int, show: Callable[[], str]
    ) -> None:
        self._store = store
        self._following = following
        self._board = board
        self._clock = clock
        self._ttl_ms = ttl_ms
        self._show = show
        self._pending: dict[str, dict[ItemKey, Item]] = {}
        self._unsure: set[str] = set()
        """Clusters of which the store may hold a write that it never answered."""

    def __repr__(self) -> str:
        return f"<Writing {sum(map(len, self._pending.values()))} pending>"

    def _now_ms(self) -> int:
        return int(self._clock.now().timestamp() * 1000)

    def _away(self, error: StoreAway) -> Refused:
        self._following.store_errors += 1
        return Refused(Reason.STORE_AWAY, f"the store is away: {error}", retry_after_s=_AWAY_AGAIN_S)

    # The record

    async def _stored(self, cluster: str) -> ClusterRecord | None:
        try:
            return await self._store.cluster(cluster)
        except StoreAway as error:
            raise self._away(error) from error

    async def _swap(self, cluster: str, step: Step) -> ClusterRecord:
        async def change(record: ClusterRecord | None) -> Whole:
            return step(record), None

        async with self._following.lock(cluster):
            return await self._swap_locked(cluster, change)

    async def _swap_locked(
        self, cluster: str, change: Callable[[ClusterRecord | None], Awaitable[Whole]]
    ) -> ClusterRecord:
        """Write what `change` makes of the record; when it moves meanwhile, of the one that is there then."""
        try:
            record = await self._store.cluster(cluster)
            for _ in range(_SWAPS):
                wanted, fresh = await change(record)
                if wanted is not record:
                    try:
                        await self._store.save(wanted, record.version if record else 0)
                    except Moved as moved:
                        record = moved.current
                        continue
                self._took(record, wanted, fresh)
                return wanted
        except StoreAway as error:
            raise self._away(error) from error
        raise Refused(Reason.BUSY, f"the record of cluster {cluster} changes all the time", retry_after_s=_AWAY_AGAIN_S)

    def _took(self, before: ClusterRecord | None, record: ClusterRecord, fresh: Known | None) -> None:
        knowledge = self._board.knowledge
        known = knowledge.clusters.get(record.id)
        if fresh is not None:
            fresh.record = fresh.told = record
            if known is None:
                knowledge.take_record(record, whole=True)
            knowledge.take_whole(record.id, fresh)
        elif known is None and before is not None and record.removed is None:
            knowledge.take_unfinished(record)
            knowledge.take_record(record, whole=record.floor != before.floor)
        else:
            # A floor that was raised without reading leaves nothing visible; else the items are those of before.
            emptied = before is None or record.removed is not None or record.floor != before.floor
            was_whole = known is not None and before is not None and known.told.content == before.content
            knowledge.take_record(record, whole=emptied or was_whole)

    # Sessions

    async def register(self, announced: Announcement) -> tuple[Session, int]:
        """The session, and when it was granted."""
        checks.announcement(announced)
        before: int | None = None

        def step(record: ClusterRecord | None) -> ClusterRecord:
            nonlocal before
            if before is None:
                before = record.incarnation if record else 0
            elif record is not None and record.incarnation > before and sessions.is_same_leadership(record, announced):
                # Another try of the same register has been faster: one session for both.
                return record
            if record is not None:
                self._board.see(record)
                self._show()
            live = self._board.is_live(announced.cluster)
            return sessions.registered(record, announced, live=live, now_ms=self._now_ms(), ttl_ms=self._ttl_ms)

        record = await self._swap(announced.cluster, step)
        self._show()
        return Session(record.id, record.incarnation, record.term), record.ttl_ms

    async def renew(self, stamp: Stamp) -> int:
        """The ttl that begins now."""

        if self._following.is_astray(stamp.session.cluster):
            # Something that was told is not in what is recorded, and nobody may tell it again: all of it is wanted.
            raise Refused(Reason.NOT_FOUND, f"the items of {stamp.session.cluster} do not add up: register again")

        def step(record: ClusterRecord | None) -> ClusterRecord:
            return sessions.renewed(sessions.checked(record, stamp), stamp, self._now_ms(), self._ttl_ms)

        record = await self._swap(stamp.session.cluster, step)
        self._show()
        return record.ttl_ms

    async def leave(self, stamp: Stamp) -> str:
        def check(record: ClusterRecord) -> bool:
            repeated = record.removed is Removed.LEFT and record.incarnation == stamp.session.incarnation
            return repeated or sessions.checked(record, stamp) is record

        return await self.remove(stamp.session.cluster, Removed.LEFT, check)

    async def remove(self, cluster: str, why: Removed, check: Callable[[ClusterRecord], bool]) -> str:
        """End a cluster, if `check` agrees to the record that is to end; nothing happens when it says False."""

        def step(record: ClusterRecord | None) -> ClusterRecord:
            if record is None:
                raise Refused(Reason.NOT_FOUND, f"there is no cluster {cluster}")
            if not check(record) or record.removed is not None:
                return record
            return sessions.removed(record, why, self._now_ms())

        record = await self._swap(cluster, step)
        revision = self._show()
        if record.removed is not None:
            await self._purge(cluster, Mark(record.incarnation + 1, 0))
        return revision

    async def sync_begin(self, stamp: Stamp) -> str:
        await self._swap(stamp.session.cluster, lambda record: sessions.begun(sessions.checked(record, stamp), stamp))
        return self._show()

    async def sync_complete(self, stamp: Stamp, count: int, digest: str) -> str:
        cluster = stamp.session.cluster

        async def change(record: ClusterRecord | None) -> Whole:
            present = sessions.checked(record, stamp)
            if sessions.is_completed(present, stamp):
                return present, None
            fresh = await self._following.read_again(present)
            floor = Mark(present.incarnation, present.begun)
            there, found = fresh.count(floor), fresh.digest(floor)
            if (there, found) != (count, digest):
                raise Refused(
                    Reason.DIGEST_MISMATCH,
                    f"{there} items of digest {found} have been told, {count} of {digest} were said: begin again",
                )
            return sessions.completed(present, stamp, found), fresh

        async with self._following.lock(cluster):
            record = await self._swap_locked(cluster, change)
            revision = self._show()
        await self._purge(cluster, record.floor)
        return revision

    async def _purge(self, cluster: str, below: Mark) -> None:
        """Collect what nobody sees any more: if it fails now, the next sync does it."""
        try:
            await self._store.purge(cluster, below)
        except StoreAway:
            return
        if cluster in self._board.knowledge.clusters:
            self._board.knowledge.purge(cluster)

    # Items

    async def put_export(self, stamp: Stamp, export: Export) -> str:
        checks.export(export)
        checks.own(stamp, export.cluster)
        return await self._write(stamp, ItemKey(export.service), export)

    async def delete_export(self, stamp: Stamp, service: ServiceKey) -> str:
        """And what it had: its slices would come back with the next export of this name."""
        checks.service(service)
        cluster = stamp.session.cluster
        sessions.checked(await self._stored(cluster), stamp)
        try:
            items = (await self._store.partition(cluster)).items
        except StoreAway as error:
            raise self._away(error) from error
        for one in items:
            if one.key.service == service and one.key.slice and one.value is not None:
                await self._keep(Item(cluster, one.key, mark_of(stamp), None))
        return await self._write(stamp, ItemKey(service), None)

    async def put_endpoints(self, stamp: Stamp, endpoints: EndpointSet) -> str:
        checks.endpoint_set(endpoints)
        checks.own(stamp, endpoints.cluster)
        return await self._write(stamp, ItemKey(endpoints.service, endpoints.slice), endpoints)

    async def delete_endpoints(self, stamp: Stamp, service: ServiceKey, slice_: str) -> str:
        checks.service(service)
        checks.slice_name(slice_)
        return await self._write(stamp, ItemKey(service, slice_), None)

    async def _write(self, stamp: Stamp, key: ItemKey, value: Value | None) -> str:
        cluster = stamp.session.cluster
        sessions.checked(await self._stored(cluster), stamp)
        item = Item(cluster, key, mark_of(stamp), value)
        if not await self._keep(item):
            return self._show()
        async with self._following.lock(cluster):
            if self._pending[cluster].get(key) is item:
                await self._commit(stamp)
            return self._show()

    async def _keep(self, item: Item) -> bool:
        """Into the store, and to be recorded by the next commit; False when something newer stands there."""
        try:
            done = await self._store.write(item)
        except StoreAway as error:
            self._unsure.add(item.cluster)
            raise self._away(error) from error
        except Fenced as error:
            raise Refused(Reason.STALE_SESSION, str(error)) from error
        except ValueError as error:
            raise Refused(Reason.TOO_LARGE, str(error)) from error
        if done is Outcome.SUPERSEDED:
            return False
        self._pending.setdefault(item.cluster, {})[item.key] = item
        return True

    async def _commit(self, stamp: Stamp) -> None:
        """Record that items have changed: one write for all that were written meanwhile. Hold the lock."""
        cluster = stamp.session.cluster
        knowledge = self._board.knowledge
        batch = dict(self._pending[cluster])

        async def change(record: ClusterRecord | None) -> Whole:
            present = sessions.checked(record, stamp)
            known = knowledge.clusters.get(cluster)
            if known is None or unsure or known.behind or known.told.content != present.content:
                fresh = await self._following.read_again(present)
                return sessions.changed(present, fresh.digest(present.floor)), fresh
            for item in batch.values():
                # One of a session that was overtaken before its commit is not shown.
                if item.mark.incarnation == present.incarnation:
                    knowledge.take_item(item)
            return sessions.changed(present, known.digest(present.floor)), None

        unsure = cluster in self._unsure
        self._unsure.discard(cluster)
        try:
            await self._swap_locked(cluster, change)
        except Refused:
            if unsure:
                self._unsure.add(cluster)
            raise
        for key, item in batch.items():
            if self._pending[cluster].get(key) is item:
                del self._pending[cluster][key]
