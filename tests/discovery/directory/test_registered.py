"""The registrations as a source, on a clock that the test owns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from discovery.directory.items import Listed, MalformedItem
from discovery.directory.registered import Policy, RegisteredSource
from discovery.directory.registration_store import MemoryStore, StoreUnavailable
from discovery.directory.registrations import Held, Registration, Superseded
from discovery.identity import PoolKey
from discovery.kit.tasks import background
from discovery.kit.testing import VirtualClock, settle
from discovery.pool import Relay


def registration(name: str, *, incarnation: int = 0) -> Registration:
    return Registration(PoolKey("c", "n", name), "r", Relay("i", "http://h"), incarnation=incarnation)


class Shaky(MemoryStore):
    """A store that fails while it is told to, and hands out lists that are as old as the test wants."""

    down = False
    malformed: tuple[MalformedItem, ...] = ()
    before_list: Callable[[], Awaitable[None]] | None = None

    async def put(self, registration: Registration, duration_ms: int) -> Held:
        self._fail()
        return await super().put(registration, duration_ms)

    async def list(self) -> Listed:
        self._fail()
        found = await super().list()
        if self.before_list is not None:
            await self.before_list()
        return Listed(found.held, self.malformed)

    def _fail(self) -> None:
        if self.down:
            raise StoreUnavailable("unreachable", "it is away")


class Watched:
    """A source that runs, and what it has told."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = Shaky(self.clock)
        self.changes: list[float] = []
        self.failures: list[tuple[str, str]] = []
        self.source = RegisteredSource(
            self.store,
            Policy(5, 15),
            self.clock,
            lambda: self.changes.append(self.clock.monotonic()),
            lambda operation, kind: self.failures.append((operation, kind)),
            chance=lambda: 0.5,
        )

    def complete(self) -> bool:
        return self.source.complete

    @property
    def names(self) -> list[str]:
        return sorted(key.name for key in self.source.live())

    async def beat(self, seconds: float, *names: str) -> None:
        """Let time pass while these are renewed every second."""
        for _ in range(int(seconds)):
            for name in names:
                await self.source.register(registration(name))
            await self.clock.advance(1)


@asynccontextmanager
async def watched() -> AsyncIterator[Watched]:
    one = Watched()

    def fail(error: Exception) -> None:
        raise error

    async with background(one.source.run(), name="registrations", on_failure=fail):
        await settle()
        yield one


async def test_a_lease_ends_without_any_event_at_its_moment() -> None:
    async with watched() as one:
        await one.source.register(registration("p"))
        assert (one.names, one.changes) == (["p"], [0.0])
        await one.clock.advance(14.9)
        assert one.names == ["p"]
        await one.clock.advance(0.2)
        assert one.names == []
        # One change for being complete (at 15.0) or none there, and one for the end of the lease.
        assert 15.0 <= one.changes[-1] <= 15.01


async def test_complete_one_lease_after_the_start() -> None:
    async with watched() as one:
        assert one.source.listed
        await one.beat(14, "p")
        assert not one.complete()
        await one.beat(2, "p")
        assert one.complete()
        assert one.names == ["p"]
        assert one.changes[-1] == pytest.approx(15, abs=0.01)


async def test_renewals_are_no_change() -> None:
    async with watched() as one:
        await one.beat(30, "p", "q")
        assert len(one.changes) == 3


async def test_an_outage_ends_no_lease_and_is_incomplete() -> None:
    async with watched() as one:
        await one.beat(20, "p", "q")
        one.store.down = True
        with pytest.raises(StoreUnavailable):
            await one.source.register(registration("p"))
        await one.clock.advance(4)
        assert one.complete()
        await one.clock.advance(100)
        assert (one.names, one.complete()) == (["p", "q"], False)
        assert one.source.malformed == ()
        assert "it is away" in str(one.source.fault)
        assert ("put", "unreachable") in one.failures
        assert one.failures.count(("list", "unreachable")) > 10
        one.store.down = False
        await one.clock.advance(6)
        # p comes back, q does not: it goes when one lease has passed, and the list is complete again only then.
        changes = len(one.changes)
        await one.beat(8, "p")
        assert (one.names, one.complete(), len(one.changes)) == (["p", "q"], False, changes)
        await one.beat(10, "p")
        assert (one.names, one.complete()) == (["p"], True)
        assert str(one.source.fault) == "None"
        assert one.source.age <= 1


async def test_a_process_that_stood_still_forgets_nobody() -> None:
    async with watched() as one:
        await one.beat(20, "p")
        # All at once: nobody ran in this minute.
        one.clock._elapsed += 60
        await one.clock.advance(2)
        assert (one.names, one.complete()) == (["p"], False)
        await one.beat(20, "p")
        assert (one.names, one.complete()) == (["p"], True)


async def test_what_was_written_here_is_not_lost_to_an_older_list() -> None:
    async with watched() as one:
        await one.source.register(registration("gone"))
        gate = asyncio.Event()

        async def wait() -> None:
            await gate.wait()

        one.store.before_list = wait
        await one.clock.advance(1)
        await one.source.register(registration("new"))
        await one.source.unregister(registration("gone").key, None)
        gate.set()
        await settle()
        assert one.names == ["new"]
        await one.clock.advance(2)
        assert one.names == ["new"]


async def test_items_that_nobody_can_read_make_the_list_incomplete() -> None:
    async with watched() as one:
        await one.beat(20, "p")
        one.store.malformed = (MalformedItem("x", "is none"),)
        await one.beat(2, "p")
        assert (one.names, one.complete()) == (["p"], False)
        one.store.malformed = ()
        await one.beat(2, "p")
        assert one.complete()


async def test_an_older_incarnation_is_refused_and_cannot_unregister() -> None:
    async with watched() as one:
        await one.source.register(registration("p", incarnation=2))
        with pytest.raises(Superseded):
            await one.source.register(registration("p", incarnation=1))
        with pytest.raises(Superseded):
            await one.source.unregister(registration("p").key, 1)
        assert await one.source.unregister(registration("p").key, 2)
        assert not await one.source.unregister(registration("p").key, 2)
        await one.source.register(registration("p", incarnation=1))


async def test_memory_lets_go_of_what_has_expired() -> None:
    async with watched() as one:
        for number in range(50):
            await one.source.register(registration(f"p{number}"))
        await one.clock.advance(40)
        assert (await one.store.list()).held == {}
        assert one.source.clock_ahead == 0


def test_the_pace_follows_the_policy() -> None:
    assert (Policy(5, 15).fresh, Policy(5, 15).pace) == (5.0, 1.0)
    assert (Policy(1, 2).fresh, Policy(1, 2).pace) == (0.5, 0.25)
