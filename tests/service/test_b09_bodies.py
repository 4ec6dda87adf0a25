"""Big bodies and memory: rows B9 of the field reports, rules I3, I10 and I40."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.service.ingress.checks import memory
from tests.service.ingress.client import request
from tests.service.ingress.frontend import LAST, SSE, Connection, chunk, whole
from tests.service.ingress.process import eventually
from tests.service.ingress.rig import Rig, Start

pytestmark = [pytest.mark.outside, pytest.mark.asyncio(loop_scope="session")]

MIB = 1 << 20
OK = [whole(b'{"ok":1}')]
LIMIT = {"body": "1MiB"}


@asynccontextmanager
async def watched(rig: Rig) -> AsyncIterator[list[int]]:
    """The growth of the processes' memory while the block runs: its only element is the most so far."""
    before, peak = memory(rig.ingress.process.pid), [0]

    async def watch() -> None:
        while True:
            peak[0] = max(peak[0], memory(rig.ingress.process.pid) - before)
            await asyncio.sleep(0.02)

    task = asyncio.create_task(watch())
    try:
        yield peak
    finally:
        peak[0] = max(peak[0], memory(rig.ingress.process.pid) - before)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunks"])
async def test_row_077_a_20_mb_request_passes_in_little_more_than_its_size(start: Start, chunked: bool) -> None:
    rig = await start(pools=2)
    await rig.ask()
    body = b'{"model":"acme/tiny","image":"data:image/png;base64,' + b"iVBORw0KGgo/+A==" * 1_310_720 + b'"}'
    assert len(body) > 20 * MIB
    if chunked:
        head = request(b"", headers=["Transfer-Encoding: chunked"], length=False)
        pieces = [chunk(body[n : n + 100_000]) for n in range(0, len(body), 100_000)]
        raw = head + b"".join(pieces) + LAST
    else:
        raw = request(body)
    async with watched(rig) as peak:
        answer = await rig.ask(raw)
    assert answer.status == 200
    assert rig.requests[-1].body == body
    assert peak[0] < 3 * len(body), f"{peak[0] >> 20} MiB for one body of 20 MiB"


async def test_row_078_row_079_row_080_a_body_over_the_limit_by_its_length(start: Start) -> None:
    rig = await start(pools=2, limits=LIMIT)
    before = await rig.metrics()
    fill = b'{"model":"acme/tiny","p":"'
    exact = fill + b"x" * (MIB - len(fill) - 2) + b'"}'
    assert (await rig.ask(request(exact))).status == 200
    client = await rig.client()
    request_id = rig.fresh_id()
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: a\r\nx-request-id: {request_id}\r\nContent-Length: {MIB + 1}\r\n\r\n"
    )
    await client.send(head.encode())
    answer = await client.answer(5)
    assert (answer.status, answer.error["code"]) == (413, "request_too_large")
    assert answer.error["type"] == "invalid_request_error"
    assert str(MIB) in answer.error["message"]
    assert answer.one("x-should-retry") == "false"
    line = await rig.line(request_id)
    assert (line["status"], line["outcome"], line["code"]) == (413, "refused", "request_too_large")
    await rig.grew(before, "refusals_total", code="request_too_large")
    await rig.grew(before, "requests_total", code="413", outcome="refused")
    assert rig.asked == 1


async def test_row_078_a_chunked_body_over_the_limit(start: Start) -> None:
    rig = await start(pools=2, limits=LIMIT)
    client = await rig.client()
    await client.send(request(b"", headers=["Transfer-Encoding: chunked"], length=False))
    await client.send(chunk(b'{"model":"acme/tiny","p":"' + b"x" * 600_000))
    await client.send(chunk(b"x" * 600_000))
    answer = await client.answer()
    assert (answer.status, answer.error["code"]) == (413, "request_too_large")
    assert rig.asked == 0


async def test_row_078_a_client_that_sends_all_of_it_still_reads_the_answer(start: Start) -> None:
    rig = await start(pools=2, limits=LIMIT)
    client = await rig.client()
    raw = request(b'{"model":"acme/tiny","p":"' + b"x" * (3 * MIB) + b'"}')

    async def send_all() -> None:
        for n in range(0, len(raw), 65_536):
            await client.send(raw[n : n + 65_536])

    sending = asyncio.create_task(send_all())
    answer = await client.answer()
    assert answer.status == 413
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)


async def test_rule_i62_bodies_together_are_bounded(start: Start) -> None:
    rig = await start(pools=2, limits={"body": "1MiB", "buffered": "2MiB"})
    raw = request(b'{"model":"acme/tiny","p":"' + b"x" * 900_000 + b'"}')
    waiting = []
    for n in range(2):
        client = await rig.client()
        await client.send(raw[:-10])
        waiting.append(client)

        async def held(count: int = n + 1) -> bool:
            return (await rig.metrics()).value("buffered_bytes") >= count * 850_000

        await eventually(held, "the body is held")
    refused = await rig.client()
    await refused.send(raw[:-10])
    answer = await refused.answer()
    assert (answer.status, answer.error["code"]) == (503, "overloaded")
    for client in waiting:
        await client.send(raw[-10:])
        assert (await client.answer()).status == 200


async def test_row_081_row_082_a_reader_that_stalls_costs_little(start: Start) -> None:
    rig = await start(pools=2)
    await rig.ask()
    piece, count, given = chunk(b"data: " + b"z" * 65_528 + b"\n\n"), 640, 0

    async def push(connection: Connection) -> None:
        nonlocal given
        for _ in range(count):
            await connection.send(piece)
            given += 1

    rig.play([SSE, push, LAST])
    client = await rig.client(receive_buffer=32_768)
    async with watched(rig) as peak:
        await client.send(request(stream=True))
        await client.seen(b"data: ")
        client.pause()
        stuck = -1
        while stuck != given:
            stuck = given
            await asyncio.sleep(0.5)
    assert stuck * len(piece) < 24 * MIB, f"{stuck * len(piece) >> 20} MiB were taken for a client that does not read"
    assert peak[0] < 3 * MIB, f"{peak[0] >> 10} KiB more for a client that does not read"
    client.resume()
    answer = await client.answer(30)
    assert (answer.whole, len(answer.body)) == (True, count * 65_536)


async def test_row_081_a_frontend_that_reads_slowly_gets_the_whole_body(start: Start) -> None:
    rig = await start(pools=1)

    async def slowly(connection: Connection) -> None:
        async def let_in() -> None:
            for _ in range(20):
                connection.pause()
                await asyncio.sleep(0.02)
                connection.resume()
                await asyncio.sleep(0.005)

        connection.helper = asyncio.create_task(let_in())  # type: ignore[attr-defined]

    await rig.unkept()
    rig.frontends[0].on_connect = slowly
    body = b'{"model":"acme/tiny","p":"' + b"q" * (4 * MIB) + b'"}'
    assert (await rig.ask(request(body))).status == 200
    assert rig.requests[-1].body == body


@pytest.mark.parametrize(
    "body",
    [
        b' \r\n{ "stream" :false,\t"model":"acme/tiny" , "n":1.0, "e":1e400, "z":-0, "big":12345678901234567890123 }\n',
        b'{"messages":[{"content":"\\u00e9\xc3\xa9\\ud83d\\ude42\\/"}],"model":"acme/tiny"}',
        b'{"model":"acme/tiny","a":{"model":"other","model":"again"},"b":[{"model":1}]}',
        b'{"model":"acme/tiny","text":"\\"model\\":\\"evil\\"","x":null}',
        b'{"\\u006dodel":"acme/tiny"}',
        b'{"model":"acme\\/tiny","stream":"yes"}',
        b'{"model":"acme/tiny","x":"\xff\xfe"}',
    ],
)
async def test_rule_i10_the_body_goes_on_byte_for_byte(start: Start, body: bytes) -> None:
    rig = await start(pools=2)
    rig.play(OK)
    answer = await rig.ask(request(body))
    if b"\xff" in body:
        assert answer.status in (200, 400)
    else:
        assert answer.status == 200
    assert [one.body for one in rig.requests] == [body] * (answer.status == 200)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"x"',
        b"null",
        b"12",
        b'{"model":"acme/tiny"}x',
        b'{"model":"acme/tiny",}',
        b"{'model':'a'}",
        b"\xff\xfe{}",
        b'\xef\xbb\xbf{"model":"acme/tiny"}',
        b'{"model":"acme/tiny","a":NaN}',
        b'{"model":"acme/tiny","a":nul}',
        b'{"model":"acme/tiny","a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"model":"acme/tiny","x":1,"model":"small"}',
        b'{"model":"acme/tiny","\\u006dodel":"small"}',
    ],
    ids=range(16),
)
async def test_rule_i10_what_is_no_json_object_is_refused(start: Start, body: bytes) -> None:
    rig = await start(pools=2)
    answer = await rig.ask(request(body))
    assert (answer.status, answer.error["code"]) == (400, "invalid_json")
    assert answer.error["type"] == "invalid_request_error"
    assert rig.asked == 0


@pytest.mark.parametrize(
    "body",
    [b"{}", b'{"model":""}', b'{"model":null}', b'{"model":3}', b'{"model":["acme/tiny"]}', b'{"Model":"acme/tiny"}'],
)
async def test_rule_i10_a_missing_model_is_named(start: Start, body: bytes) -> None:
    rig = await start(pools=2)
    answer = await rig.ask(request(body))
    assert (answer.status, answer.error["code"], answer.error["param"]) == (400, "missing_model", "model")
    assert rig.asked == 0
