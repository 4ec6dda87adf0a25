"""The fake registry: the real one's answers, and each fault on demand."""

from __future__ import annotations

import pytest

from discovery.kit.tasks import background
from discovery.kit.testing import VirtualClock, settle
from discovery.mcs.model import Bookmark
from discovery.mcs.registry import Reason, Refused, Registry, Unreachable
from discovery.testing.registry import FakeRegistry
from tests.discovery.mcs.making import Member, Reader, begun, endpoints, export, of, snapshot


async def joined(fake: FakeRegistry) -> Member:
    registry: Registry = fake
    member = Member(registry, "c1")
    await member.join(export(), endpoints())
    return member


async def test_it_answers_as_the_registry_does() -> None:
    fake = FakeRegistry(VirtualClock(), durable=True)
    member = await joined(fake)
    assert begun(await snapshot(fake)).complete
    assert [one.clusters for one in await fake.imports()] == [("c1",)]
    assert (await fake.export_status("c1", export().service)).conflicts == ()
    await fake.delete_endpoints(member.stamp(), export().service, "s1")
    await fake.delete_export(member.stamp(), export().service)
    assert await fake.imports() == ()
    await fake.leave(member.stamp())
    assert await fake.clusters() == ()


async def test_a_cut_reaches_nobody_and_ends_watches() -> None:
    fake = FakeRegistry(VirtualClock())
    member = await joined(fake)
    ended: list[Exception] = []
    reader = Reader(fake)
    async with background(reader.read(), name="reader", on_failure=ended.append):
        await settle()
        fake.cut = True
        await settle()
    assert [type(error) for error in ended] == [Unreachable]
    with pytest.raises(Unreachable):
        await member.renew()
    fake.cut = False
    await member.renew()


async def test_a_lost_answer_took_effect() -> None:
    fake = FakeRegistry(VirtualClock())
    member = await joined(fake)
    fake.lose_answers = 1
    with pytest.raises(Unreachable):
        await member.put(export(age=9))
    assert not fake.lose_answers
    assert len(await fake.imports()) == 1
    await member.put(export(age=9))


async def test_delay_is_a_matter_of_the_clock() -> None:
    clock = VirtualClock()
    fake = FakeRegistry(clock)
    fake.delay_s = 5.0
    reader = Reader(fake)

    def never(error: Exception) -> None:
        raise error

    async with background(reader.read(), name="reader", on_failure=never):
        await clock.advance(4)
        assert reader.all == []
        await clock.advance(2)
        assert len(reader.all) == 2


async def test_a_restart_forgets_everything_or_nothing() -> None:
    fake = FakeRegistry(VirtualClock())
    member = await joined(fake)
    epoch = begun(await snapshot(fake)).epoch
    fake.restart(empty=False)
    await member.renew()
    assert begun(await snapshot(fake)).epoch != epoch
    fake.restart()
    with pytest.raises(Refused) as caught:
        await member.renew()
    assert caught.value.reason is Reason.NOT_FOUND


async def test_without_its_store_it_refuses_writes_and_says_so() -> None:
    fake = FakeRegistry(VirtualClock())
    member = await joined(fake)
    fake.store.away = True
    await fake.tick()
    with pytest.raises(Refused) as caught:
        await member.renew()
    assert caught.value.reason is Reason.STORE_AWAY
    assert len(await fake.imports()) == 1
    watch = fake.watch()
    for _ in range(6):
        await anext(watch)
    await fake.tick()
    event = await anext(watch)
    assert of(Bookmark, [event]) == [Bookmark(fake.service.board.revision, stale=True)]
    await watch.aclose()
