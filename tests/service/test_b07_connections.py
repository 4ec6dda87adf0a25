"""Connections to frontends: rows B7 of the field reports, rules I30 and I54.

Kept while idle, never one that is not clean; every way a request can end gives its connection back or closes it.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.service.ingress.client import request
from tests.service.ingress.frontend import CHUNKED_JSON, LAST, SSE, Connection, chunk, event, hang, whole
from tests.service.ingress.rig import Start

pytestmark = [pytest.mark.outside, pytest.mark.asyncio(loop_scope="session")]

OK = [whole(b'{"ok":1}')]


@pytest.mark.parametrize("broken", ["closed", "reset"])
async def test_row_054_a_kept_connection_that_dies_as_it_is_used(start: Start, broken: str) -> None:
    """The certain form: the frontend reads the second request of each connection and closes."""
    rig = await start(pools=2)
    before = await rig.metrics()

    async def serve_one(connection: Connection) -> None:
        if len(connection.requests) == 1:
            await connection.send(whole(b'{"ok":1}'))
        elif broken == "closed":
            connection.fin()
        else:
            connection.rst()

    await rig.unkept()
    rig.each([serve_one])
    ids = set()
    for n in range(30):
        answer = await rig.ask()
        assert (answer.status, answer.one("x-dynamo-attempts")) == (200, "1"), f"request {n}"
        ids.add(answer.one("x-request-id"))
    after = await rig.metrics()
    stale = after.value("attempts_total", reason="stale_connection") - before.value(
        "attempts_total", reason="stale_connection"
    )
    assert stale > 0
    assert len(ids) == 30


async def test_row_054_a_kept_connection_that_is_closed_meanwhile(start: Start) -> None:
    """The racing form: the frontend closes a moment before, while or after the next request is sent."""
    rig = await start(pools=1)
    for n in range(60):

        async def answer_then_close(connection: Connection, pause: float = n % 12 / 4000) -> None:
            await connection.send(whole(b'{"ok":1}'))
            connection.loop.call_later(pause, connection.fin)

        rig.each([answer_then_close])
        client = await rig.client()
        assert (await rig.ask(on=client)).status == 200
        assert (await rig.ask(on=client)).status == 200
        client.fin()


async def test_rule_i30_a_fresh_connection_that_dies_is_a_try(start: Start) -> None:
    rig = await start(pools=1)

    async def close(connection: Connection) -> None:
        connection.fin()

    rig.each([close])
    answer = await rig.ask()
    assert (answer.status, answer.error["code"]) == (502, "upstream_reset")
    assert rig.asked <= 3


@pytest.mark.parametrize("gate", [False, True], ids=["open", "gate"])
async def test_row_055_row_056_abandoned_requests_leave_no_connection(start: Start, gate: bool) -> None:
    rig = await start(pools=2, retries={"first_event_gate": gate})
    rig.each([SSE + event(b"1"), hang])
    for n in range(80):
        client = await rig.client()
        await client.send(request(stream=n % 2 == 0))
        if n % 4 == 0:
            await client.until(lambda client=client: bool(client.raw), "something")  # type: ignore[misc]
        elif n % 4 == 1:
            await asyncio.sleep(0.002)
        client.rst()
    await rig.at_rest()
    assert sum(len(one.kept) for one in rig.frontends) == 0
    rig.each(OK)
    assert (await rig.ask()).status == 200


async def test_row_057_error_answers_give_their_connection_back(start: Start) -> None:
    rig = await start(pools=1)
    await rig.unkept()
    rig.frontends[0].forget()
    rig.each([whole(b'{"message":"later"}' * 100, "429 Too Many Requests")])
    for n in range(30):
        assert (await rig.ask(stream=n % 2 == 0)).status == 429
    assert len(rig.frontends[0].carriers) == 1


@pytest.mark.parametrize(
    "answer",
    [
        whole(b'{"n":1}') + b"5\r\nab",
        whole(b'{"n":1}') + b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil",
        CHUNKED_JSON + chunk(b'{"n":1}') + LAST + b"left over",
        CHUNKED_JSON + chunk(b'{"n":1}') + LAST + LAST,
    ],
)
async def test_row_058_left_over_bytes_are_nobodys_answer(start: Start, answer: bytes) -> None:
    rig = await start(pools=1)
    rig.play([answer], OK)
    assert (await rig.ask()).body == b'{"n":1}'
    await rig.requests[0].connection.ended()
    assert (await rig.ask()).body == b'{"ok":1}'
    assert [len(one.requests) for one in rig.frontends[0].carriers[-1:]] == [1]


async def test_row_058_bytes_on_an_idle_connection_end_it(start: Start) -> None:
    rig = await start(pools=1)
    rig.play(OK)
    await rig.ask()
    connection = rig.requests[0].connection
    await connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil")
    await connection.ended()
    assert (await rig.ask()).body == b'{"ok":1}'


async def test_rule_i54_connections_are_kept_and_used_again(start: Start) -> None:
    rig = await start(pools=1)
    await rig.unkept()
    rig.frontends[0].forget()
    for script in (
        OK,
        [SSE + event(b"1") + LAST],
        [CHUNKED_JSON + LAST],
        [whole(b"", "204 No Content")[:-21] + b"\r\n"],
    ):
        rig.each(script)
        for n in range(5):
            assert (await rig.ask(stream=n % 2 == 0)).whole
    assert len(rig.frontends[0].carriers) == 1
    assert len(rig.frontends[0].carriers[0].requests) == 20


async def test_rule_i54_a_connection_in_use_is_nobody_elses(start: Start) -> None:
    rig = await start(pools=1)
    rig.each([hang])
    clients = [await rig.client() for _ in range(5)]
    for client in clients:
        await client.send(request())
    await rig.reached(5)
    assert len({id(one.connection) for one in rig.requests}) == 5


async def test_rule_i54_connection_close_is_heeded_and_not_passed_on(start: Start) -> None:
    rig = await start(pools=1)
    rig.each([whole(b"{}", "200 OK", "Connection: close")])
    client = await rig.client()
    for _ in range(3):
        answer = await rig.ask(on=client)
        assert answer.all("connection") == []
    assert len({id(one.connection) for one in rig.requests}) == 3
    assert client.open


async def test_rule_i54_a_frontend_that_leaves_loses_its_kept_connections(start: Start) -> None:
    rig = await start(pools=2, fresh=True)
    for _ in range(4):
        await rig.ask()
    leaving = rig.frontends[1]
    rig.play([SSE + event(b"1"), 1.0, LAST], OK)
    stream = None
    while not leaving.busy():
        rig.play([SSE + event(b"1"), 1.0, event(b"2") + LAST])
        stream = await rig.streaming()
    rig.reload(pools=[[rig.frontends[0]]])
    idle = [one for one in leaving.kept if not one.busy]
    for one in idle:
        await one.ended(5)
    assert stream is not None
    answer = await stream.answer()
    assert (answer.whole, answer.body) == (True, b"data: 1\n\ndata: 2\n\n"), "what runs goes on"
    for one in leaving.carriers:
        await one.ended(5)
