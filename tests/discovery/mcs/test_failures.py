"""What must happen when something fails: each failure case of the registry, over the service, on virtual time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from discovery.kit.testing import VirtualClock, settle
from discovery.mcs.model import (
    Bookmark,
    ClusterChanged,
    ClusterGone,
    EndpointsChanged,
    EndpointsGone,
    Gone,
    ImportChanged,
    ImportGone,
    SnapshotBegin,
    Sync,
)
from discovery.mcs.registry import Reason
from discovery.mcs.service import RegistryService, Rules
from discovery.mcs.store import ItemKey
from discovery.mcs.store_memory import MemoryStore
from tests.discovery.mcs.failing import FickleStore, SkewedClock, endings, heard, refused, running
from tests.discovery.mcs.making import (
    HELLO,
    Member,
    begun,
    endpoints,
    export,
    of,
    pass_time,
    service,
    snapshot,
)


async def test_case_1_a_memory_registry_that_restarts_empty_proves_nothing() -> None:
    clock = VirtualClock()
    async with running(service(clock)) as first:
        await Member(first, "c1").join(export(), endpoints())
    async with running(service(clock, epoch="e2")) as again:
        member = Member(again, "c1")
        member.registration = await Member(first, "c1").register()
        await refused(Reason.NOT_FOUND, member.renew())
        assert not begun(await snapshot(again)).complete
        async with heard(again) as reader:
            await member.join(export(), endpoints())
            await settle()
            assert endings(reader.all) == []
            # One that has told everything does not speak for those that have not come back yet.
            assert not begun(await snapshot(again)).complete
            reader.taken()
            await pass_time(clock, 121, member)
            told = reader.taken()
        assert begun(told) == SnapshotBegin("e2", complete=True, resync=True)
        assert endings(told) == []


async def test_case_2_a_restart_over_a_durable_store_shows_all_before_it_is_ready() -> None:
    clock, store = VirtualClock(), MemoryStore(durable=True)
    async with running(service(clock, store)) as first:
        await Member(first, "c1").join(export(), endpoints())
    again = service(clock, store, epoch="e2")
    assert not again.ready
    await refused(Reason.STORE_AWAY, again.imports())
    async with running(again):
        events = await snapshot(again)
        assert begun(events) == SnapshotBegin("e2", complete=True)
        assert len(of(ImportChanged, events)) == len(of(EndpointsChanged, events)) == 1


async def test_case_3_a_client_that_changes_replicas_compares_a_snapshot() -> None:
    clock, store = VirtualClock(), MemoryStore(durable=True)
    async with running(service(clock, store)) as one, running(service(clock, store, epoch="e2")) as other:
        revision = await Member(one, "c1").join(export(), endpoints())
        await clock.advance(2)
        events = await snapshot(other, revision)
        assert begun(events) == SnapshotBegin("e2", complete=True, resync=True)
        content = [replace(event) for event in events[1:-1]]
        assert content == (await snapshot(one))[1:-1]


async def test_case_4_a_new_leader_that_tells_the_same_changes_nothing() -> None:
    clock = VirtualClock()
    async with running(service(clock)) as registry:
        await Member(registry, "c1").join(export(), endpoints())
        async with heard(registry) as reader:
            reader.taken()
            await Member(registry, "c1", term=2).join(export(), endpoints())
            await settle()
            told = reader.taken()
        assert [event.cluster.sync for event in told if isinstance(event, ClusterChanged)] == [Sync.COMPLETE]
        assert [event for event in told if not isinstance(event, ClusterChanged | Bookmark)] == []


async def test_case_4_what_a_new_leader_does_not_tell_again_is_gone_when_it_has_finished() -> None:
    clock = VirtualClock()
    async with running(service(clock)) as registry:
        await Member(registry, "c1").join(export(), endpoints(), endpoints("c1", HELLO, "s2"))
        async with heard(registry) as reader:
            reader.taken()
            leader = Member(registry, "c1", term=2)
            await leader.register()
            await registry.sync_begin(leader.stamp())
            await leader.put(export(), endpoints())
            await settle()
            assert endings(reader.all) == []
            await leader.sync(export(), endpoints())
            await settle()
            (gone,) = endings(reader.all)
        assert isinstance(gone, EndpointsGone)
        assert (gone.slice, gone.reason) == ("s2", Gone.SLICE_REMOVED)


async def test_case_5_an_old_leader_that_wakes_writes_nothing() -> None:
    clock = VirtualClock()
    async with running(service(clock)) as registry:
        old = Member(registry, "c1")
        await old.join(export(), endpoints())
        await Member(registry, "c1", term=2).register()
        before = await snapshot(registry)
        for call in (
            old.renew(),
            old.put(export(age=7)),
            old.sync(),
            registry.leave(old.stamp()),
            registry.delete_export(old.stamp(), HELLO),
            registry.delete_endpoints(old.stamp(), HELLO, "s1"),
            registry.sync_complete(old.stamp(), 0, ""),
            old.register(),
        ):
            await refused(Reason.STALE_SESSION, call)
        assert await snapshot(registry) == before


async def test_case_5_a_lower_term_is_believed_once_the_lease_has_lapsed() -> None:
    clock = VirtualClock()
    async with running(service(clock)) as registry:
        await Member(registry, "c1", term=9).join(export())
        await refused(Reason.STALE_SESSION, Member(registry, "c1", term=0).register())
        await clock.advance(40)
        await Member(registry, "c1", term=0).join(export())
        assert [cluster.live for cluster in await registry.clusters()] == [True]


async def test_case_6_a_silent_cluster_keeps_its_place_and_its_endpoints_are_marked() -> None:
    clock = VirtualClock()
    async with running(service(clock)) as registry:
        silent, other = Member(registry, "c1"), Member(registry, "c2")
        await silent.join(export("c1", age=1), endpoints("c1"))
        await other.join(export("c2", age=2), endpoints("c2"))
        async with heard(registry) as reader:
            reader.taken()
            await pass_time(clock, 34, other)
            assert of(EndpointsChanged, reader.all) == []
            await pass_time(clock, 4, other)
            told = reader.taken()
            (marked,) = of(EndpointsChanged, told)
            assert isinstance(marked, EndpointsChanged)
            assert marked.value.cluster == "c1"
            assert marked.value.stale_since_ms is not None
            assert endings(told) == []
            (value,) = await registry.imports()
            assert value.clusters == ("c2",)
            await silent.renew()
            await settle()
            (back,) = of(EndpointsChanged, reader.taken())
            assert isinstance(back, EndpointsChanged)
            assert back.value.stale_since_ms is None


async def test_case_6_after_the_retention_a_silent_cluster_is_no_more() -> None:
    clock = VirtualClock()
    async with running(service(clock, MemoryStore(durable=True), rules=Rules(retention_ms=120_000))) as registry:
        await Member(registry, "c1").join(export("c1"), endpoints("c1"))
        other = Member(registry, "c2")
        await other.join()
        async with heard(registry) as reader:
            reader.taken()
            await pass_time(clock, 115, other)
            assert endings(reader.all) == []
            await pass_time(clock, 10, other)
            gone = endings(reader.all)
        assert [type(event) for event in gone] == [EndpointsGone, ImportGone, ClusterGone]
        assert {event.reason for event in gone if isinstance(event, EndpointsGone | ImportGone)} == {Gone.RETENTION}


async def test_case_7_while_the_store_is_away_nothing_ends() -> None:
    clock, store = VirtualClock(), FickleStore()
    async with running(service(clock, store)) as registry:
        member = Member(registry, "c1")
        await member.join(export(), endpoints())
        async with heard(registry) as reader:
            reader.taken()
            store.away = True
            await clock.advance(300)
            told = reader.taken()
            assert {type(event) for event in told} == {Bookmark}
            assert of(Bookmark, told)[-1] == Bookmark(registry.board.revision, stale=True)
            await refused(Reason.STORE_AWAY, member.renew())
            assert len(await registry.imports()) == 1
            assert registry.stale_for_s > 290
            await clock.advance(400)
            await refused(Reason.STORE_AWAY, registry.imports())
            store.away = False
            # Nobody could renew: everybody has a whole lease more.
            await clock.advance(30)
            assert of(EndpointsChanged, reader.all) == []
            await clock.advance(10)
            assert len(of(EndpointsChanged, reader.all)) == 1


async def test_case_8_a_controller_that_fails_over_registers_and_tells_everything_elsewhere() -> None:
    clock, store = VirtualClock(), MemoryStore(durable=True)
    async with running(service(clock, store)) as one, running(service(clock, store, epoch="e2")) as other:
        member = Member(one, "c1")
        await member.join(export(), endpoints())
        await clock.advance(2)
        async with heard(other) as reader:
            reader.taken()
            member.registry = other
            await member.join(export(), endpoints())
            await settle()
            assert endings(reader.all) == []
            assert of(EndpointsChanged, reader.all) == []


async def test_case_9_items_that_arrive_late_take_nothing_away_until_all_are_there() -> None:
    clock, store = VirtualClock(), MemoryStore(durable=True)
    late = MemoryStore(durable=True)
    async with running(service(clock, store)) as near, running(service(clock, late, epoch="e2")) as far:
        member = Member(near, "c1")
        await member.join(export(), endpoints())
        await copied(store, late)
        await clock.advance(2)
        async with heard(far) as reader:
            assert len(of(EndpointsChanged, reader.taken())) == 1
            await member.join(export(), endpoints())
            # The record of the finished sync arrives before its items.
            await copied(store, late, items=False)
            await clock.advance(20)
            assert endings(reader.all) == []
            assert far.following.mismatches == 0
            await clock.advance(20)
            assert endings(reader.all) == []
            assert far.following.mismatches == 1
            await copied(store, late)
            await clock.advance(3)
            assert endings(reader.all) == []
            assert [cluster.sync for cluster in await far.clusters()] == [Sync.COMPLETE]


async def copied(source: MemoryStore, to: MemoryStore, *, items: bool = True) -> None:
    for record in (await source.clusters()).records:
        there = await to.cluster(record.id)
        if there != record:
            to._records[record.id] = record
        for item in (await source.partition(record.id)).items if items else ():
            await to.write(item)


async def test_case_10_a_cluster_id_belongs_to_one_cluster_while_it_lives() -> None:
    clock = VirtualClock()
    async with running(service(clock)) as registry:
        await Member(registry, "c1").join(export(), endpoints())
        before = await snapshot(registry)
        await refused(Reason.CLUSTER_ID_IN_USE, Member(registry, "c1", uid="another", term=5).register())
        assert await snapshot(registry) == before
        await clock.advance(40)
        await Member(registry, "c1", uid="another").register()
        assert await registry.imports() == ()


@pytest.mark.parametrize("ahead", [60, -60])
async def test_case_11_a_registry_whose_date_is_wrong_ends_no_lease_that_is_renewed(ahead: float) -> None:
    clock, store = VirtualClock(), MemoryStore(durable=True)
    async with running(service(clock, store)) as right:
        member = Member(right, "c1")
        await member.join(export(), endpoints())
        await Member(right, "c2").join()
        wrong = RegistryService(store, SkewedClock(clock, ahead), epoch="e2", chance=lambda: 0.5)
        async with running(wrong):
            await pass_time(clock, 20, member)
            async with heard(wrong) as reader:
                reader.taken()
                await pass_time(clock, 200, member)
                assert of(EndpointsChanged, reader.all) == []
            assert {cluster.id: cluster.live for cluster in await wrong.clusters()} == {"c1": True, "c2": False}


async def test_case_12_a_huge_service_is_told_in_messages_of_one_slice_each() -> None:
    clock = VirtualClock()
    async with running(service(clock)) as registry:
        slices = [
            endpoints("c1", HELLO, f"s{number}", *(f"10.{number}.0.{host}" for host in range(100)))
            for number in range(100)
        ]
        await Member(registry, "c1").join(export(), *slices)
        events = await snapshot(registry)
        sets = [event.value for event in events if isinstance(event, EndpointsChanged)]
        assert sum(len(one.endpoints) for one in sets) == 10_000
        assert max(len(one.endpoints) for one in sets) == 100


async def test_case_13_an_item_that_nobody_understands_keeps_its_last_good_value() -> None:
    clock, store = VirtualClock(), FickleStore()
    async with running(service(clock, store)) as writer, running(service(clock, store, epoch="e2")) as registry:
        member = Member(writer, "c1")
        await member.join(export(), endpoints())
        await pass_time(clock, 2)
        async with heard(registry) as reader:
            reader.taken()
            store.strange = frozenset({ItemKey(HELLO, "s1"), ItemKey(HELLO)})
            await member.put(endpoints("c1", HELLO, "s2"))
            await pass_time(clock, 70, member)
            assert endings(reader.all) == []
            assert len(of(EndpointsChanged, reader.all)) == 1
            assert registry.following.unreadable == 2
            assert not begun(await snapshot(registry)).complete


async def test_case_14_a_reader_that_left_is_forgotten() -> None:
    clock = VirtualClock()
    async with running(service(clock)) as registry:
        async with heard(registry) as reader:
            await clock.advance(31)
            assert len(of(Bookmark, reader.all)) == 3
            assert len(registry.watchers) == 1
        await settle()
        assert len(registry.watchers) == 0


async def test_case_15_a_cluster_that_was_removed_by_mistake_comes_back() -> None:
    clock = VirtualClock()
    async with running(service(clock)) as registry:
        member = Member(registry, "c1")
        await member.join(export(), endpoints())
        await refused(Reason.CLUSTER_ID_IN_USE, registry.delete_cluster("c1"))
        async with heard(registry) as reader:
            reader.taken()
            await registry.delete_cluster("c1", force=True)
            await settle()
            assert [type(event) for event in reader.taken()] == [EndpointsGone, ImportGone, ClusterGone]
            assert ClusterGone("c1") in await snapshot(registry)
            await refused(Reason.NOT_FOUND, member.renew())
            await member.join(export(), endpoints())
            await settle()
            assert len(of(EndpointsChanged, reader.taken())) == 1
