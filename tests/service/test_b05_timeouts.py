"""Time limits and keep-alives: rows B5 of the field reports, rule I44.

Four separate limits, each a timer. Rows 40 and 41 are about a heartbeat in streams, which this version refuses as not
available (`sse.heartbeat`); what remains of rows 39, 42 and 43 is tested without it. All limits are 1 s here.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.service.ingress.checks import frame_of, only_cut
from tests.service.ingress.client import request
from tests.service.ingress.frontend import CHUNKED_JSON, LAST, SSE, chunk, event, hang, whole
from tests.service.ingress.process import eventually
from tests.service.ingress.rig import Rig, Start, full_queue

pytestmark = [pytest.mark.outside, pytest.mark.asyncio(loop_scope="session")]

LIMITS = {
    "connect": "700ms",
    "first_byte": "1s",
    "idle": "1s",
    "client_header": "1s",
    "client_body": "1s",
    "keep_alive": "1s",
    "upstream_keep_alive": "700ms",
}
EARLY, LATE = 0.9, 4.0  # a limit of 1 s ends a wait between these


async def short(start: Start, *, gate: bool = False) -> Rig:
    return await start(pools=2, timeouts=LIMITS, retries={"first_event_gate": gate})


async def test_row_037_the_first_byte_limit_is_not_the_whole_answers(start: Start) -> None:
    rig = await short(start)
    steps = [step for n in range(6) for step in (0.4, event(b"%d" % n))]
    rig.each([0.4, SSE, *steps, LAST])
    answer = await rig.ask(stream=True)
    assert answer.whole
    assert answer.body.count(b"data: ") == 6


@pytest.mark.parametrize("gate", [False, True], ids=["open", "gate"])
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
async def test_row_038_row_039_silence_before_the_first_byte(start: Start, stream: bool, gate: bool) -> None:
    rig = await short(start, gate=gate)
    rig.each([hang])
    client = await rig.client()
    began = await client.send(request(stream=stream))
    answer = await client.answer()
    assert EARLY < answer.head_at - began < LATE
    assert (answer.status, answer.error["code"], answer.error["type"]) == (504, "first_byte_timeout", "timeout_error")
    assert answer.one("x-should-retry") == "false"
    assert rig.asked == 1, "a silent frontend may be at work: it is not asked again elsewhere"
    await rig.requests[0].connection.ended()


async def test_row_039_with_the_gate_a_head_or_a_comment_is_no_first_byte(start: Start) -> None:
    rig = await short(start, gate=True)
    rig.each([SSE, 0.5, chunk(b": still here\n\n"), 0.3, chunk(b": still here\n\n"), hang])
    client = await rig.client()
    began = await client.send(request(stream=True))
    answer = await client.answer()
    assert EARLY < answer.head_at - began < LATE
    assert (answer.status, answer.error["code"]) == (504, "first_byte_timeout")


async def test_row_042_nothing_of_ours_is_in_a_silent_stream(start: Start) -> None:
    rig = await short(start)
    rig.each([SSE + event(b"1"), 0.8, event(b"2") + LAST])
    client = await rig.client()
    await client.send(request(stream=True))
    answer = await client.answer()
    assert answer.body == b"data: 1\n\ndata: 2\n\n"


@pytest.mark.parametrize("gate", [False, True], ids=["open", "gate"])
async def test_row_043_silence_inside_a_stream_ends_with_the_truth(start: Start, gate: bool) -> None:
    rig = await short(start, gate=gate)
    before = await rig.metrics()
    rig.each([SSE + event(b"1"), 0.3, event(b"2"), hang])
    answer = await rig.ask(stream=True)
    error = frame_of(answer, b"data: 1\n\ndata: 2\n\n")
    assert (error["code"], error["type"]) == ("idle_timeout", "timeout_error")
    connection = rig.requests[0].connection
    assert EARLY < await connection.ended() - connection.sent[-1][0] < LATE
    await rig.grew(before, "stream_end_total", reason="idle_timeout")


async def test_row_045_silence_inside_a_unary_body(start: Start) -> None:
    rig = await short(start)
    rig.each([CHUNKED_JSON + chunk(b'{"a":'), 0.7, chunk(b"1,"), hang])
    request_id = rig.fresh_id()
    answer = await rig.ask(headers=[f"x-request-id: {request_id}"])
    only_cut(answer, b'{"a":1,')
    line = await rig.line(request_id)
    assert (line["outcome"], line["code"]) == ("upstream_error", "idle_timeout")


async def test_row_044_a_hung_frontend_hurts_only_its_own_requests(start: Start) -> None:
    rig = await start(pools=3)
    rig.frontends[1].play([hang])
    clients = []
    for _ in range(30):
        client = await rig.client()
        await client.send(request())
        clients.append(client)

    def answered() -> bool:
        return sum(b'"served_by"' in client.raw for client in clients) == 20

    await eventually(answered, "20 of 30 are answered while one of three hangs", 5)
    assert rig.counts() == [10, 10, 10]


async def test_row_044_a_connect_that_hangs_goes_on_elsewhere(start: Start) -> None:
    rig = await short(start)
    before = await rig.metrics()
    async with full_queue(rig.frontends[0]):
        for _ in range(2):
            began = rig.loop.time()
            answer = await rig.ask()
            assert (answer.status, rig.loop.time() - began < LATE) == (200, True)
    await rig.grew(before, "attempts_total", reason="connect_timeout")
    assert rig.counts() == [0, 2]


async def test_row_044_connects_that_hang_everywhere_are_a_504(start: Start) -> None:
    rig = await short(start)
    async with full_queue(rig.frontends[0]), full_queue(rig.frontends[1]):
        answer = await rig.ask()
    assert (answer.status, answer.error["code"]) == (504, "connect_timeout")
    assert answer.one("retry-after") is not None


async def test_row_046_limits_of_one_answer_do_not_reach_the_next(start: Start) -> None:
    rig = await short(start)
    client = await rig.client()
    for _ in range(4):
        rig.each([0.5, whole()])
        assert (await rig.ask(on=client)).status == 200


@pytest.mark.parametrize("gate", [False, True], ids=["open", "gate"])
async def test_rule_i44_the_total_limit_ends_what_flows(start: Start, gate: bool) -> None:
    rig = await start(pools=2, timeouts={"total": "1s"}, retries={"first_event_gate": gate})
    rig.each([SSE, *[step for n in range(100) for step in (event(b"%d" % n), 0.1)], LAST])
    client = await rig.client()
    began = await client.send(request(stream=True))
    answer = await client.answer()
    assert EARLY < answer.end_at - began < LATE
    sent = answer.body[: answer.body.rindex(b"data: {")]
    assert frame_of(answer, sent)["code"] == "total_timeout"
    rig.each([hang])
    answer = await rig.ask()
    assert (answer.status, answer.error["code"]) == (504, "total_timeout")


async def test_rule_i35_the_clients_own_patience_shortens_the_wait(start: Start) -> None:
    rig = await start(pools=2)
    for header in ("x-stainless-read-timeout: 1", "x-stainless-timeout: 1.0"):
        rig.each([hang])
        client = await rig.client()
        began = await client.send(request(headers=[header]))
        answer = await client.answer()
        assert (answer.status, answer.error["code"]) == (504, "first_byte_timeout")
        assert EARLY < answer.head_at - began < LATE
    for nonsense in ("NOT_GIVEN", "0", "-1", "1e-3", ""):
        rig.each([0.05, whole()])
        assert (await rig.ask(headers=[f"x-stainless-timeout: {nonsense}"])).status == 200
    rig.each([SSE, *[step for n in range(8) for step in (event(b"%d" % n), 0.2)], LAST])
    assert (await rig.ask(stream=True, headers=["x-stainless-read-timeout: 1"])).whole, "a body that flows is not cut"


async def test_rule_i44_a_head_that_drips_in(start: Start) -> None:
    rig = await short(start)
    client = await rig.client()
    began = rig.loop.time()
    raw = request(headers=["x-pad: " + "y" * 400])
    for byte in raw[:200]:
        if client.end:
            break
        await client.send(bytes([byte]))
        await asyncio.sleep(0.1)
    answer = await client.answer()
    assert EARLY < answer.head_at - began < LATE
    assert (answer.status, answer.error["code"]) == (408, "request_timeout")
    await client.ended()
    assert rig.asked == 0


async def test_rule_i44_a_connection_that_says_nothing(start: Start) -> None:
    rig = await short(start)
    client = await rig.client()
    began = rig.loop.time()
    assert EARLY < await client.ended() - began < LATE
    assert (client.end, bytes(client.raw)) == ("fin", b"")


async def test_rule_i44_a_body_that_stalls(start: Start) -> None:
    rig = await short(start)
    chunked = request(b"", headers=["Transfer-Encoding: chunked"], length=False) + b"20\r\nab"
    for raw in (request()[:-10], chunked):
        client = await rig.client()
        began = await client.send(raw)
        answer = await client.answer()
        assert EARLY < answer.head_at - began < LATE
        assert (answer.status, answer.error["code"]) == (408, "request_timeout")
        await client.ended()
    assert rig.asked == 0


async def test_rule_i44_a_body_that_moves_is_waited_for(start: Start) -> None:
    rig = await short(start)
    raw = request()
    client = await rig.client()
    await client.send(raw[:-8])
    for byte in raw[-8:]:
        await asyncio.sleep(0.3)
        await client.send(bytes([byte]))
    assert (await client.answer()).status == 200


async def test_rule_i44_an_idle_client_connection_is_closed_quietly(start: Start) -> None:
    rig = await short(start)
    client = await rig.client()
    await rig.ask(on=client)
    began = rig.loop.time()
    assert EARLY < await client.ended() - began < LATE
    assert (client.end, bytes(client.raw[client.at :])) == ("fin", b"")


async def test_rule_i54_an_idle_connection_to_a_frontend_is_closed_first_by_us(start: Start) -> None:
    rig = await short(start)
    await rig.ask()
    began = rig.loop.time()
    assert 0.5 < await rig.requests[0].connection.ended() - began < LATE
