"""The service's promises while nothing fails: what is told, to whom, and when nothing is."""

from __future__ import annotations

import asyncio

import pytest

from discovery.kit.testing import VirtualClock
from discovery.mcs.model import EndpointsChanged, SnapshotBegin, SnapshotEnd
from discovery.mcs.registry import Reason, Refused
from discovery.mcs.store_memory import MemoryStore
from tests.discovery.mcs.failing import refused, running
from tests.discovery.mcs.making import HELLO, Member, endpoints, export, of, service, snapshot


async def test_many_leases_that_end_at_once_are_given_one_more_ttl() -> None:
    clock = VirtualClock()
    async with running(service(clock)) as registry:
        for name in ("c1", "c2", "c3"):
            await Member(registry, name).join(export(name), endpoints(name))
        await clock.advance(60)
        assert [cluster.live for cluster in await registry.clusters()] == [True] * 3
        await clock.advance(10)
        assert [cluster.live for cluster in await registry.clusters()] == [False] * 3


async def test_a_slow_reader_starts_over_and_delays_nobody() -> None:
    clock = VirtualClock()
    registry = service(clock)
    registry.watchers._keys = 3
    await registry.open()
    member = Member(registry, "c1")
    await member.join(export())
    slow = registry.watch()
    while not isinstance(await anext(slow), SnapshotEnd):
        pass
    await member.put(*(endpoints("c1", HELLO, f"s{number}") for number in range(9)))
    first = await anext(slow)
    assert first == SnapshotBegin("e1", complete=False, resync=True)
    await asyncio.wait_for(slow.aclose(), 1)


async def test_a_reader_that_was_away_for_a_moment_is_told_what_it_missed() -> None:
    clock = VirtualClock()
    registry = service(clock, MemoryStore(durable=True))
    await registry.open()
    member = Member(registry, "c1")
    revision = await member.join(export(), endpoints())
    await member.put(endpoints("c1", HELLO, "s1", "10.0.0.2"))
    newest = await member.put(endpoints("c1", HELLO, "s1", "10.0.0.3"))
    watch = registry.watch(revision)
    told = await anext(watch)
    assert told == EndpointsChanged(endpoints("c1", HELLO, "s1", "10.0.0.3"), newest)
    await watch.aclose()
    await registry.wait_visible(newest)
    with pytest.raises(Refused, match="cannot be seen"):
        await registry.wait_visible("e0.1")


async def test_a_reader_waits_for_a_revision_that_is_about_to_come() -> None:
    clock = VirtualClock()
    registry = service(clock, MemoryStore(durable=True))
    await registry.open()
    member = Member(registry, "c1")
    await member.join(export(), endpoints())
    soon = f"e1.{registry.board.counter + 1}"
    waiting = asyncio.create_task(registry.wait_visible(soon))
    await clock.advance(1.9)
    assert not waiting.done()
    assert await member.put(endpoints("c1", HELLO, "s1", "10.0.0.2")) == soon
    await clock.advance(0.1)
    await asyncio.wait_for(waiting, 1)
    late = asyncio.create_task(registry.wait_visible("e1.1000"))
    await clock.advance(1.9)
    assert not late.done()
    await clock.advance(0.2)
    with pytest.raises(Refused) as caught:
        await asyncio.wait_for(late, 1)
    assert caught.value.reason is Reason.TIMEOUT


async def test_an_old_write_that_arrives_late_changes_nothing() -> None:
    clock = VirtualClock()
    registry = service(clock)
    await registry.open()
    member = Member(registry, "c1")
    await member.join(export(), endpoints())
    late = member.stamp()
    await registry.delete_endpoints(member.stamp(), HELLO, "s1")
    before = await snapshot(registry)
    await registry.put_endpoints(late, endpoints())
    assert await snapshot(registry) == before


async def test_equal_content_makes_no_new_revision() -> None:
    clock = VirtualClock()
    registry = service(clock)
    await registry.open()
    member = Member(registry, "c1")
    revision = await member.join(export(), endpoints())
    assert await member.put(export(), endpoints()) == revision


async def test_a_sync_that_lacks_something_is_refused_and_takes_nothing_away() -> None:
    clock = VirtualClock()
    registry = service(clock)
    await registry.open()
    member = Member(registry, "c1")
    await member.join(export(), endpoints())
    await registry.sync_begin(member.stamp())
    await member.put(export())
    await refused(Reason.DIGEST_MISMATCH, registry.sync_complete(member.stamp(), 2, "0" * 32))
    assert len(of(EndpointsChanged, await snapshot(registry))) == 1


async def test_an_old_leader_is_refused_by_a_replica_that_has_not_heard_of_the_new_one() -> None:
    clock, store = VirtualClock(), MemoryStore(durable=True)
    near, far = service(clock, store), service(clock, store, epoch="e2")
    await near.open()
    old = Member(near, "c1")
    await old.join(export(), endpoints())
    await far.open()
    await Member(near, "c1", term=2).register()
    old.registry = far
    kept = await store.partition("c1")
    await refused(Reason.STALE_SESSION, old.put(export(age=9)))
    await refused(Reason.STALE_SESSION, far.delete_endpoints(old.stamp(), HELLO, "s1"))
    assert await store.partition("c1") == kept


async def test_two_replicas_that_write_for_one_cluster_add_up() -> None:
    clock, store = VirtualClock(), MemoryStore(durable=True)
    near, far = service(clock, store), service(clock, store, epoch="e2")
    await near.open()
    await far.open()
    member = Member(near, "c1")
    await member.join(export())
    for number in range(6):
        member.registry = (near, far)[number % 2]
        await member.put(endpoints("c1", HELLO, f"s{number}"))
    for replica in (near, far):
        await replica.step()
        assert len(of(EndpointsChanged, await snapshot(replica))) == 6
        assert replica.following.next_ms() is None
