"""The client went away: rows B4 of the field reports, rules I43 and I44.

Whatever the moment, the frontend learns it at once, and (checked after every test) nothing stays counted as in flight.
"""

from __future__ import annotations

import asyncio
import statistics

import pytest

from tests.service.ingress.client import Client, request
from tests.service.ingress.frontend import LAST, SSE, Connection, Script, chunk, event, fin, hang, whole
from tests.service.ingress.process import eventually
from tests.service.ingress.rig import Rig, Start, full_queue

pytestmark = [pytest.mark.outside, pytest.mark.asyncio(loop_scope="session")]

LEAVES = {"closes": Client.fin, "resets": Client.rst, "half-closes": Client.half}
MOMENTS: dict[str, tuple[bool, Script]] = {
    "unary, no byte yet": (False, [hang]),
    "stream, no byte yet": (True, [hang]),
    "stream, after the head": (True, [SSE, hang]),
    "stream, silent between events": (True, [SSE + event(b"1"), hang]),
    "stream, inside an event": (True, [SSE + chunk(b"data: {"), hang]),
    "unary, inside the body": (False, [whole(b"x" * 100)[:-50], hang]),
}
STALLING = {"client_write": "1s"}


async def leave_once(rig: Rig, how: str, stream: bool, script: Script) -> tuple[float, str]:
    """Seconds until the frontend's connection was closed, and the request's id."""
    rig.play(script)
    request_id, asked = rig.fresh_id(), rig.asked
    client = await rig.client()
    await client.send(request(stream=stream, headers=[f"x-request-id: {request_id}"]))
    connection = (await rig.reached(asked + 1)).connection
    await asyncio.sleep(0.02)
    began = rig.loop.time()
    LEAVES[how](client)
    return await connection.ended() - began, request_id


@pytest.mark.parametrize("gate", [False, True], ids=["open", "gate"])
@pytest.mark.parametrize("how", LEAVES)
async def test_row_031_row_032_row_033_the_frontend_learns_it_at_once(start: Start, how: str, gate: bool) -> None:
    rig = await start(pools=2, retries={"first_event_gate": gate})
    before = await rig.metrics()
    took, ids = [], []
    for stream, script in MOMENTS.values():
        for _ in range(3):
            seconds, request_id = await leave_once(rig, how, stream, script)
            took.append(seconds)
            ids.append(request_id)
    assert statistics.median(took) < 0.03, dict(zip(MOMENTS, took[::3], strict=True))
    assert max(took) < 1
    for request_id in ids:
        line = await rig.line(request_id)
        assert (line["status"], line["outcome"], line["code"]) == (499, "client_closed", "client_closed")
    await rig.grew(before, "client_disconnects_total", len(ids))
    await rig.grew(before, "requests_total", len(ids), code="499", outcome="client_closed")


async def test_row_033_while_a_connection_is_being_opened(start: Start) -> None:
    """Nothing answers the connect: the queue of the frontend's listener is full."""
    rig = await start(pools=2)
    async with full_queue(rig.frontends[0]), full_queue(rig.frontends[1]):
        client = await rig.client()
        await client.send(request())

        async def connecting() -> bool:
            return (await rig.metrics()).value("upstream_connections", state="connecting") == 1

        await eventually(connecting, "a connection is being opened")
        client.rst()

        async def given_up() -> bool:
            return (await rig.metrics()).value("upstream_connections", state="connecting") == 0

        await eventually(given_up, "it is given up", 2)


async def test_row_034_the_access_log_has_the_bytes_so_far(start: Start) -> None:
    rig = await start(pools=2)
    rig.play([SSE + event(b'{"n":1}') * 3, hang])
    request_id = rig.fresh_id()
    client = await rig.streaming(headers=[f"x-request-id: {request_id}"])
    body = 3 * len(event(b'{"n":1}'))
    await client.until(lambda: client.raw.endswith(event(b'{"n":1}')) and client.raw.count(b"data:") == 3, "3 events")
    client.fin()
    line = await rig.line(request_id)
    assert (line["status"], line["bytes_out"], line["stream"]) == (499, body, True)
    assert line["bytes_in"] == len(rig.requests[0].body)
    assert line["first_byte_ms"] is not None


@pytest.mark.parametrize("workers", [1, 2])
async def test_row_035_a_slot_is_freed_every_time(start: Start, workers: int) -> None:
    rig = await start(pools=1, workers=workers, limits={"in_flight_per_pool": 1})
    for how in (Client.fin, Client.rst, Client.half) * 2:
        rig.play([SSE + event(b"1"), hang])
        client = await rig.streaming()
        refused = await rig.ask()
        assert (refused.status, refused.error["code"]) == (503, "overloaded")
        how(client)
        await rig.requests[-1].connection.ended()
        rig.play([whole()])

        async def admitted() -> bool:
            return (await rig.ask()).status == 200

        await eventually(admitted, "the next request is admitted", 3)
        await rig.at_rest()


async def test_row_035_slots_are_freed_on_every_other_exit_too(start: Start) -> None:
    rig = await start(pools=1, limits={"in_flight_per_pool": 1})
    for script in ([whole()], [SSE + event(b"1") + LAST], [b"nonsense\r\n\r\n"], [whole(b"", "307 Elsewhere")], [fin]):
        rig.play(script)
        for _ in range(3):
            assert (await rig.ask()).status in (200, 502)


@pytest.mark.parametrize("gate", [False, True], ids=["open", "gate"])
async def test_row_036_a_client_that_reads_nothing_is_given_up(start: Start, gate: bool) -> None:
    rig = await start(pools=1, retries={"first_event_gate": gate}, timeouts=STALLING)
    before = await rig.metrics()
    rig.play([SSE, *[event(b"z" * 60_000)] * 400, LAST])
    request_id = rig.fresh_id()
    client = await rig.client(receive_buffer=16_384)
    client.pause()
    began = await client.send(request(stream=True, headers=[f"x-request-id: {request_id}"]))
    connection = (await rig.reached()).connection
    assert 0.8 < await connection.ended() - began < 5
    line = await rig.line(request_id)
    assert (line["status"], line["code"]) == (499, "client_stalled")
    await rig.grew(before, "stream_end_total", reason="client_stalled")


async def test_row_036_a_client_that_reads_slowly_is_not(start: Start) -> None:
    rig = await start(pools=1, timeouts=STALLING)
    data = event(b"z" * 60_000)
    rig.play([SSE, *[data] * 200, LAST])
    client = await rig.client(receive_buffer=16_384)
    await client.send(request(stream=True))
    connection = (await rig.reached()).connection
    for _ in range(25):
        client.pause()
        await asyncio.sleep(0.1)
        size = len(client.raw)
        client.resume()
        await client.until(lambda size=size: len(client.raw) > size, "more bytes")  # type: ignore[misc]
    assert connection.open, f"given up after it had read {len(client.raw)} bytes, the last of them just now"
    assert (await client.answer()).whole


async def test_rule_i43_inside_the_request_nobody_is_asked(start: Start) -> None:
    rig = await start(pools=2)
    raw = request({"model": "acme/tiny", "pad": "x" * 300_000})
    for cut in (10, 120, 1000, 200_000):
        for how in LEAVES.values():
            client = await rig.client()
            await client.send(raw[:cut])
            await asyncio.sleep(0.01)
            how(client)

    async def all_gone() -> bool:
        return (await rig.metrics()).value("client_connections") == 0

    await eventually(all_gone, "no client is connected", 4)
    assert rig.asked == 0


async def test_rule_i43_while_its_body_is_on_its_way_to_the_frontend(start: Start) -> None:
    rig = await start(pools=1)

    async def unread(connection: Connection) -> None:
        connection.pause()

    rig.frontends[0].on_connect = unread
    client = await rig.client()
    await client.send(request({"model": "acme/tiny", "pad": "x" * 8_000_000}))

    async def active() -> bool:
        return (await rig.metrics()).value("upstream_connections", state="active") == 1

    await eventually(active, "the request is on its way")
    client.fin()

    async def closed() -> bool:
        return (await rig.metrics()).value("upstream_connections", state="active") == 0

    await eventually(closed, "it is given up", 3)
    rig.frontends[0].on_connect = None
    for one in rig.frontends[0].connections:
        one.rst()
