"""What one client's connection shows and gets, on real sockets: cuts without a frame, order, and who must wait."""

from __future__ import annotations

import asyncio

import pytest

from tests.service.ingress.client import request
from tests.service.ingress.frontend import CHUNKED_JSON, chunk, rst, whole
from tests.service.ingress.rig import Start

pytestmark = [pytest.mark.outside, pytest.mark.asyncio(loop_scope="session")]


async def test_a_cut_answer_to_http_1_0_is_a_reset_and_no_end(start: Start) -> None:
    rig = await start(pools=1)
    rig.play([CHUNKED_JSON + chunk(b'{"half":'), 0.05, rst])
    client = await rig.client()
    await client.send(request(version="1.0"))
    answer = await client.answer()
    assert (answer.framing, answer.whole, client.end) == ("close", False, "rst")


@pytest.mark.parametrize("piece", [1, 7, 50, 101])
async def test_pipelined_requests_keep_their_order_however_they_are_cut(start: Start, piece: int) -> None:
    rig = await start(pools=1)
    count = 12
    rig.play(*[[whole(b'{"n":%d}' % n)] for n in range(count)])
    client = await rig.client()
    raw = b"".join(request(headers=[f"x-request-id: order-{piece}-{n}"]) for n in range(count))
    for at in range(0, len(raw), piece):
        await client.send(raw[at : at + piece])
        await asyncio.sleep(0)
    answers = [await client.answer() for _ in range(count)]
    assert [one.body for one in answers] == [b'{"n":%d}' % n for n in range(count)]
    assert [one.one("x-request-id") for one in answers] == [f"order-{piece}-{n}" for n in range(count)]


async def test_requests_of_a_client_that_takes_no_answers_wait(start: Start) -> None:
    rig = await start(pools=1)
    body = b'{"x":"' + b"a" * 60_000 + b'"}'
    rig.frontends[0].play(*[[whole(body)] for _ in range(300)])
    client = await rig.client(receive_buffer=4096)
    client.transport.pause_reading()
    await client.send(request() * 300)
    asked = [-1, rig.asked]
    while asked[-1] != asked[-2]:  # until nothing more is asked for half a second
        await asyncio.sleep(0.5)
        asked.append(rig.asked)
    assert asked[-1] < 250, "answers nobody takes were asked for"
    client.transport.resume_reading()
    for _ in range(300):
        assert (await client.answer()).body == body
