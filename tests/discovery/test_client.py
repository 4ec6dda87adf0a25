"""Following a directory that misbehaves, in virtual time: a scripted transport stands where the network is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest

from discovery.client import Following, FollowingFailed, follow
from discovery.identity import PoolKey
from discovery.kit.testing import VirtualClock, settle
from discovery.pool import Change, Frontend, Pool, PoolTable, make_table
from discovery.wire import encode_bookmark, encode_change, encode_pool_line, encode_ready, encode_reset

FIRST, SECOND = "http://first:8080", "http://second:8080"


def pool(name: str) -> Pool:
    return Pool(PoolKey("c", "ns", name), "eu", (Frontend("http://10.0.0.1:80"),))


def table(epoch: str, revision: int, *names: str, complete: bool = True) -> PoolTable:
    return make_table(epoch, revision, complete, [pool(name) for name in names])


def told(whole: PoolTable) -> bytes:
    lines = [encode_pool_line(one) for one in whole.pools]
    return b"".join([encode_reset(whole), *lines, encode_ready(whole.revision)])


def change(revision: int, *upserted: str, removed: tuple[str, ...] = (), complete: bool = True) -> bytes:
    gone = tuple(pool(name).id for name in removed)
    return encode_change(Change(tuple(pool(name) for name in upserted), gone, None, complete, revision))


class Connection(httpx.AsyncByteStream):
    """One answered request: what the script sends into it comes out as the body."""

    def __init__(self, request: httpx.Request) -> None:
        self.request = request
        self.closed = False
        self._chunks: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()

    async def send(self, *chunks: bytes) -> None:
        for chunk in chunks:
            self._chunks.put_nowait(chunk)
        await settle()

    async def end(self, error: Exception | None = None) -> None:
        self._chunks.put_nowait(error)
        await settle()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (chunk := await self._chunks.get()) is not None:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk

    async def aclose(self) -> None:
        self.closed = True


Script = Callable[[httpx.Request], Awaitable[int]]


class Network(httpx.AsyncBaseTransport):
    """Answers as `script` says for the host: a status, or an exception raised."""

    def __init__(self) -> None:
        self.connections: list[Connection] = []
        self.hosts: list[str] = []
        self.down: dict[str, Exception | int] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.hosts.append(request.url.host)
        fault = self.down.get(request.url.host)
        if isinstance(fault, Exception):
            raise fault
        connection = Connection(request)
        self.connections.append(connection)
        return httpx.Response(fault or 200, stream=connection)

    @property
    def last(self) -> Connection:
        return self.connections[-1]


@asynccontextmanager
async def followed(
    network: Network, clock: VirtualClock, *urls: str, hold_incomplete: float = 600.0, **more: list[str]
) -> AsyncIterator[Following]:
    async with follow(
        urls or (FIRST,),
        clock=clock,
        transport=network,
        chance=lambda: 0.5,
        hold_incomplete=hold_incomplete,
        **more,  # type: ignore[arg-type]
    ) as following:
        await settle()
        yield following


def names(following: Following) -> list[str]:
    return [one.key.name for one in following.table.pools] if following.table else []


async def test_tables_come_as_they_are_told() -> None:
    network, clock = Network(), VirtualClock()
    async with followed(network, clock, namespaces=["a", "b"]) as following:
        assert following.age() == 0
        assert network.last.request.url == f"{FIRST}/pools?watch=true&namespace=a&namespace=b"
        first = table("e", 1, "x", "y")
        whole = told(first)
        await network.last.send(*(whole[i : i + 7] for i in range(0, len(whole), 7)))
        assert await anext(following) == first
        assert following.url == FIRST
        await clock.advance(4)
        assert following.age() == 4
        await network.last.send(change(2, "z"), change(3, removed=("x",)))
        assert [one.key.name for one in (await anext(following)).pools] == ["y", "z"]
        waiting = asyncio.ensure_future(anext(following))
        await network.last.send(encode_bookmark(3, True))
        assert not waiting.done()
        await network.last.send(change(4, "x"))
        assert (await waiting).revision == 4
    assert network.last.closed


async def test_leaving_ends_the_iteration() -> None:
    network, clock = Network(), VirtualClock()
    async with followed(network, clock) as following:
        waiting = asyncio.create_task(collect(following))
        await network.last.send(told(table("e", 1, "x")))
    assert len(await waiting) == 1


async def collect(following: Following) -> list[PoolTable]:
    return [one async for one in following]


@pytest.mark.parametrize(
    "cut",
    [None, httpx.ReadError("reset"), httpx.RemoteProtocolError("peer closed connection")],
    ids=["end", "reset", "truncated"],
)
async def test_a_cut_keeps_the_table_and_goes_on_from_there(cut: Exception | None) -> None:
    network, clock = Network(), VirtualClock()
    async with followed(network, clock) as following:
        await network.last.send(told(table("e", 1, "x", "y")))
        # Cut in the middle of another table: that one was never told.
        await network.last.send(told(table("f", 1, "z"))[:-20])
        await network.last.end(cut)
        assert (names(following), following.url, following.errors) == (["x", "y"], None, 1)
        assert following.last_error is not None
        assert following.last_error.startswith(FIRST)
        await clock.advance(1)
        assert network.last.request.url.params["since"] == "e.1"
        await network.last.send(change(2, removed=("x",)))
        assert (names(following), following.url) == (["y"], FIRST)


@pytest.mark.parametrize(
    "garbage",
    [
        b"<html>\n",
        b"{}\n",
        b'{"type":"pool"}\n',
        b'{"type":"ready","revision":1}\n',
        b"\xff\xfe\n",
        b"\n",
        encode_bookmark(0, True),
        change(1, "z"),
        b"[" * 100_000 + b"\n",
    ],
)
async def test_garbage_costs_the_connection_and_never_the_table(garbage: bytes) -> None:
    network, clock = Network(), VirtualClock()
    async with followed(network, clock) as following:
        await network.last.send(told(table("e", 1, "x")))
        await network.last.send(garbage)
        assert (names(following), following.errors) == (["x"], 1)
        assert "broke the protocol" in str(following.last_error)
        assert network.last.closed
        await clock.advance(1)
        # What was told is not to be trusted: start over.
        assert "since" not in network.last.request.url.params
        await network.last.send(told(table("e", 2, "y")))
        assert names(following) == ["y"]


async def test_silence_is_a_failure() -> None:
    network, clock = Network(), VirtualClock()
    async with followed(network, clock, FIRST, SECOND) as following:
        await network.last.send(told(table("e", 1, "x")))
        for _ in range(5):
            await clock.advance(29)
            await network.last.send(encode_bookmark(1, True))
        assert network.hosts == ["first"]
        await clock.advance(29)
        assert following.errors == 0
        await clock.advance(2)
        assert "said nothing for 30 s" in str(following.last_error)
        assert network.hosts == ["first", "second"]
        assert names(following) == ["x"]


async def test_a_directory_that_accepts_and_says_nothing_is_left() -> None:
    network, clock = Network(), VirtualClock()
    async with followed(network, clock, FIRST, SECOND) as following:
        await clock.advance(31)
        assert network.hosts == ["first", "second"]
        await network.last.send(told(table("e", 1, "x")))
        assert following.url == SECOND


async def test_failover_goes_in_order_and_slows_down() -> None:
    network, clock = Network(), VirtualClock()
    network.down = {"first": httpx.ConnectError("refused"), "second": 503}
    async with followed(network, clock, FIRST, SECOND) as following:
        await clock.advance(60)
        tries = len(network.hosts)
        assert network.hosts[:4] == ["first", "second", "first", "second"]
        assert 40 <= tries <= 48, "0.15 s at first, 1.5 s in the end"
        await clock.advance(60)
        assert len(network.hosts) - tries <= 41
        assert following.errors >= len(network.hosts) - 1
        assert following.table is None
        network.down = {"first": httpx.ConnectError("refused")}
        await clock.advance(25)
        await network.last.send(told(table("e", 1, "x")))
        assert (names(following), following.url) == (["x"], SECOND)


async def test_another_epoch_that_is_not_complete_adds_and_does_not_remove() -> None:
    network, clock = Network(), VirtualClock()
    async with followed(network, clock) as following:
        await network.last.send(told(table("e", 9, "x", "y")))
        await network.last.end()
        await clock.advance(1)
        await network.last.send(told(table("f", 0, complete=False)), change(1, "z", complete=False))
        assert names(following) == ["x", "y", "z"]
        assert following.held == 2
        assert following.table is not None
        assert not following.table.complete
        await network.last.send(change(2, complete=True))
        assert (names(following), following.held) == (["z"], 0)


async def test_the_hold_ends_loudly(caplog: pytest.LogCaptureFixture) -> None:
    network, clock = Network(), VirtualClock()
    async with followed(network, clock, hold_incomplete=60.0) as following:
        await network.last.send(told(table("e", 9, "x")))
        await network.last.send(told(table("f", 1, "y", complete=False)))
        for _ in range(5):
            await clock.advance(10)
            await network.last.send(encode_bookmark(1, False))
        assert names(following) == ["x", "y"]
        await clock.advance(10)
        await network.last.send(encode_bookmark(1, False))
        assert names(following) == ["y"]
    assert "incomplete for too long" in caplog.text


async def test_an_error_of_ours_ends_the_iteration_with_it(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            raise RuntimeError("a bug")

    async with follow([FIRST], clock=VirtualClock(), transport=Broken()) as following:
        with pytest.raises(FollowingFailed):
            await anext(following)
    assert "a bug" in caplog.text


async def test_cancelling_the_consumer_is_heard() -> None:
    network, clock = Network(), VirtualClock()
    async with followed(network, clock) as following:
        waiting = asyncio.create_task(collect(following))
        await settle()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await network.last.send(told(table("e", 1, "x")))
        assert names(following) == ["x"]
    assert network.last.closed


@pytest.mark.parametrize("urls", [[], [""], ["first:80"], ["ftp://x"], ["http://"], ["http://a?b"], ["http://[::1"]])
def test_bad_urls_are_refused_at_once(urls: list[str]) -> None:
    with pytest.raises(ValueError):
        follow(urls)
