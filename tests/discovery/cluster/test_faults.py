"""What the fake does when it is told to go wrong."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from discovery.testing.cluster import (
    Answer,
    Cut,
    Drop,
    FakeCluster,
    Silence,
    Slow,
    Stall,
    forbidden,
    gone,
    html,
    server_error,
    timed_out,
    too_many_requests,
    unauthorized,
)
from tests.discovery.cluster.api import REAL, Api, needs_fake, slice_of

pytestmark = pytest.mark.skipif(bool(REAL), reason="NOT CHECKED on the real API server: nothing can be injected there")

RESOURCE = "endpointslices.discovery.k8s.io"


@pytest.fixture
def fake(api: Api) -> FakeCluster:
    return needs_fake(api, "faults")


async def read(api: Api, into: bytearray, *, timeout: float = 10, **query: str) -> None:
    async with api.http.stream("GET", api.path(), params=query, timeout=timeout) as answer:
        async for piece in answer.aiter_bytes():
            into += piece


@pytest.mark.parametrize(
    ("answer", "code", "reason"),
    [
        (gone(), 410, "Expired"),
        (too_many_requests(7), 429, "TooManyRequests"),
        (server_error(), 500, "InternalError"),
        (timed_out(), 504, "Timeout"),
        (forbidden(), 403, "Forbidden"),
        (unauthorized(), 401, "Unauthorized"),
    ],
)
async def test_answers_of_the_server_itself(
    api: Api, fake: FakeCluster, answer: Answer, code: int, reason: str
) -> None:
    fake.faults.add(answer, verbs="list")
    struck = await api.list()
    assert (struck.status_code, struck.json()["reason"], struck.json()["code"]) == (code, reason, code)
    assert struck.headers.get("retry-after") == ("7" if code == 429 else None)
    assert (await api.list()).status_code == 200


@pytest.mark.parametrize("status", [200, 503])
async def test_html_instead_of_json(api: Api, fake: FakeCluster, status: int) -> None:
    fake.faults.add(html(status))
    answer = await api.list()
    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert answer.text.startswith("<html>")


async def test_whom_a_fault_strikes(api: Api, fake: FakeCluster) -> None:
    fake.faults.add(server_error(), verbs="watch create", resource=RESOURCE, times=2, skip=1)
    await api.create(slice_of("a"))
    assert (await api.list()).status_code == 200
    assert (await api.http.post(api.path(), json=slice_of("b"))).status_code == 500
    other = {"metadata": {"name": "x"}, "spec": {}}
    assert (await api.http.post(api.path(("coordination.k8s.io/v1", "leases")), json=other)).status_code == 201
    async with api.watch() as watch:
        assert watch.status == 500
    await api.create(slice_of("b"))


async def test_a_fault_for_one_token_until_it_is_taken_away(api: Api, fake: FakeCluster) -> None:
    strike = fake.faults.add(server_error(), token="mine", times=None)
    mine = {"authorization": "Bearer mine"}
    for _ in range(3):
        assert (await api.http.get(api.path(), headers=mine)).status_code == 500
    assert (await api.list()).status_code == 200
    fake.faults.remove(strike)
    assert (await api.http.get(api.path(), headers=mine)).status_code == 200
    assert strike.struck == 3


async def test_silence_is_a_connection_that_is_taken_and_never_answered(api: Api, fake: FakeCluster) -> None:
    fake.faults.add(Silence())
    with pytest.raises(httpx.ReadTimeout):
        await api.http.get(api.path(), timeout=0.3)
    assert (await api.list()).status_code == 200


async def test_silence_that_ends_in_a_cut_is_a_server_whose_store_is_dead(api: Api, fake: FakeCluster) -> None:
    fake.faults.add(Silence(seconds=0.1))
    with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
        await api.list()
    assert fake.requests[-1].code == 0


async def test_a_silent_connection_does_not_keep_the_cluster_from_ending(api: Api, fake: FakeCluster) -> None:
    fake.faults.add(Silence())
    waiting = asyncio.create_task(api.list())
    await fake.until(lambda: len(fake.asked("list")) == 1)
    async with asyncio.timeout(5):
        await fake.stop()
    with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
        await waiting


async def test_drop_cuts_without_an_answer(api: Api, fake: FakeCluster) -> None:
    fake.faults.add(Drop())
    with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
        await api.list()
    assert (await api.list()).status_code == 200


async def test_cut_breaks_a_list_off_in_the_middle(api: Api, fake: FakeCluster) -> None:
    for name in "abc":
        await api.create(slice_of(name))
    fake.faults.add(Cut(after=700), verbs="list")
    seen = bytearray()
    with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
        await read(api, seen)
    assert len(seen) <= 700
    assert (await api.list()).status_code == 200


async def test_cut_breaks_a_watch_off_in_the_middle_of_a_line(api: Api, fake: FakeCluster) -> None:
    await api.create(slice_of("a"))
    fake.faults.add(Cut(after=100), verbs="watch")
    seen = bytearray()
    with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
        await read(api, seen, watch="1")
    assert seen.startswith(b'{"type":"ADDED"')
    assert len(seen) == 100
    await fake.watched(0)


async def test_stall_is_half_open_in_the_middle_of_a_list(api: Api, fake: FakeCluster) -> None:
    await api.create(slice_of("a"))
    fake.faults.add(Stall(after=10), verbs="list")
    seen = bytearray()
    with pytest.raises(httpx.ReadTimeout):
        await read(api, seen, timeout=0.3)
    assert len(seen) == 10


async def test_slow_answers_come_late_and_in_pieces_but_whole(api: Api, fake: FakeCluster) -> None:
    await api.create(slice_of("a"))
    whole = await api.list()
    fake.faults.add(Slow(delay=0.2, piece=100, every=0.01), verbs="list")
    loop = asyncio.get_running_loop()
    began = loop.time()
    slow = await api.list()
    assert slow.content == whole.content
    assert loop.time() - began > 0.2


async def test_bytes_put_into_every_open_watch(api: Api, fake: FakeCluster) -> None:
    async with api.watch() as watch:
        await fake.watched()
        fake.send(b'{"type":"STRANGE","object":{}}\n')
        assert await watch.next() == {"type": "STRANGE", "object": {}}


async def test_watches_that_are_ended_and_cut_from_the_inside(api: Api, fake: FakeCluster) -> None:
    async with api.watch() as watch:
        await fake.watched()
        fake.end_watches()
        assert await watch.rest() == []
    async with api.watch() as watch:
        await fake.watched()
        fake.cut_watches()
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
            await watch.rest()
    async with api.watch() as watch:
        await api.create(slice_of("a"))
        assert (await watch.next())["type"] == "ADDED"
