"""Bytes must arrive when they arrive: rows B1 of the field reports, rules I13 and I40.

Every test is named after its row. The times allowed are wide: a buffer that waits for more shows as seconds.
"""

from __future__ import annotations

import asyncio
import statistics

import pytest

from tests.service.ingress.client import request
from tests.service.ingress.frontend import DONE, LAST, SSE, event, whole
from tests.service.ingress.rig import Rig, Start

pytestmark = [pytest.mark.outside, pytest.mark.asyncio(loop_scope="session")]

AT_ONCE = 0.5  # seconds, for the worst of many on a busy machine; medians are judged strictly


async def delays(rig: Rig, count: int, apart: float) -> list[float]:
    """How long each of `count` events took from the frontend's write to the client's read; the head comes first."""
    go = [asyncio.Event() for _ in range(count)]
    steps: list[bytes | asyncio.Event] = [SSE]
    for n in range(count):
        steps += [go[n], event(b'{"n":%d,"end":true}' % n)]
    rig.play([*steps, DONE + LAST])
    client = await rig.client()
    await client.send(request(stream=True))
    connection = (await rig.reached()).connection
    late = [await client.seen(b"\r\n\r\n") - connection.sent[0][0]]
    for n in range(count):
        await asyncio.sleep(apart)
        go[n].set()
        came = await client.seen(b'{"n":%d,"end":true}\n\n' % n)
        late.append(came - connection.sent[1 + n][0])
    answer = await client.answer()
    assert answer.whole
    assert answer.body.count(b"data: ") == count + 1
    return late


@pytest.mark.parametrize("workers", [1, 2])
async def test_row_001_each_event_is_sent_on_at_once(start: Start, workers: int) -> None:
    late = await delays(await start(pools=2, workers=workers), 8, 0.05)
    assert max(late) < AT_ONCE
    assert statistics.median(late) < 0.05


async def test_row_001_the_head_does_not_wait_for_a_body(start: Start) -> None:
    rig = await start(pools=2)
    hold = asyncio.Event()
    rig.play([SSE, hold, DONE + LAST])
    client = await rig.client()
    await client.send(request(stream=True))
    await client.seen(b"\r\n\r\n", 5)
    hold.set()
    assert (await client.answer()).whole


@pytest.mark.parametrize("gate", [False, True])
async def test_row_002_headers_that_stop_buffering_are_added(start: Start, gate: bool) -> None:
    rig = await start(pools=2, retries={"first_event_gate": gate})
    own = SSE[:-2] + b"Cache-Control: no-store\r\nX-Accel-Buffering: yes\r\n\r\n"
    rig.play([SSE + DONE + LAST], [own + DONE + LAST], [whole()])
    bare, kept, unary = [await rig.ask(stream=True) for _ in range(3)]
    assert (bare.all("cache-control"), bare.all("x-accel-buffering")) == (["no-cache"], ["no"])
    assert (kept.all("cache-control"), kept.all("x-accel-buffering")) == (["no-store"], ["yes"])
    assert (unary.all("cache-control"), unary.all("x-accel-buffering")) == ([], [])


async def test_row_003_events_are_not_gathered(start: Start) -> None:
    rig = await start(pools=2)
    steps: list[bytes | float] = [SSE]
    for n in range(100):
        steps += [event(b"%d" % n), 0.01]
    rig.play([*steps, LAST])
    client = await rig.client()
    await client.send(request(stream=True))
    answer = await client.answer()
    assert answer.body == b"".join(b"data: %d\n\n" % n for n in range(100))
    assert len(client.arrivals) > 80


async def test_row_003_small_writes_never_wait_for_an_acknowledgement(start: Start) -> None:
    """Nagle's algorithm and delayed acknowledgements together cost 40 ms per small write, each way."""
    rig = await start(pools=2)
    rig.play([SSE, 0.001, event(b"1"), 0.001, event(b"2"), 0.001, LAST])
    client = await rig.client()
    took = []
    for _ in range(20):
        began = rig.loop.time()
        assert (await rig.ask(on=client, stream=True)).whole
        took.append(rig.loop.time() - began)
    assert statistics.median(took) < 0.035


async def test_row_004_row_005_a_stream_is_never_compressed(start: Start) -> None:
    rig = await start(pools=2)
    rig.play([SSE, *[event(b'{"same":"words"}')] * 300, LAST])
    answer = await rig.ask(stream=True, headers=["Accept-Encoding: gzip, br, zstd"])
    assert answer.all("content-encoding") == []
    assert answer.body == b'data: {"same":"words"}\n\n' * 300
    assert rig.requests[0].all("accept-encoding") == ["gzip, br, zstd"]


async def test_row_006_row_007_one_event_before_a_long_silence_is_out(start: Start) -> None:
    rig = await start(pools=2)
    silence = asyncio.Event()
    rig.play([SSE + event(b"only"), silence, LAST])
    client = await rig.client()
    began = await client.send(request(stream=True))
    assert await client.seen(b"data: only\n\n") - began < AT_ONCE
    arrived = len(client.arrivals)
    await asyncio.sleep(0.5)
    assert len(client.arrivals) == arrived, "something was sent into the silence"
    silence.set()
    assert (await client.answer()).whole
