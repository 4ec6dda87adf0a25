"""Frames and characters cut anywhere: rows B2 of the field reports, rules I40 and I42.

The stream's bytes are never touched; what is read of them (usage, errors, [DONE]) is read right for every cut.
"""

from __future__ import annotations

import pytest

from tests.service.ingress.checks import memory
from tests.service.ingress.client import request
from tests.service.ingress.frontend import DONE, LAST, SSE, Step, chunk, event
from tests.service.ingress.rig import Rig, Start

pytestmark = [pytest.mark.outside, pytest.mark.asyncio(loop_scope="session")]

USAGE = b'data: {"usage":{"prompt_tokens":11,"completion_tokens":7}}'


async def streamed(rig: Rig, *steps: Step) -> tuple[bytes, dict[str, object]]:
    """The body as the client got it, and the line of the access log."""
    rig.play([SSE, *steps, LAST])
    request_id = rig.fresh_id()
    answer = await rig.ask(stream=True, headers=[f"x-request-id: {request_id}"])
    assert answer.whole
    return answer.body, await rig.line(request_id)


async def test_row_008_a_character_cut_between_chunks(start: Start) -> None:
    rig = await start(pools=2)
    text = 'data: {"c":"好é🙂"}\n\n'.encode()
    steps: list[Step] = []
    for k in range(len(text)):
        steps += [chunk(text[k : k + 1]), 0.002]
    body, line = await streamed(rig, *steps, DONE)
    assert body == text + b"data: [DONE]\n\n"
    assert line["outcome"] == "ok"


@pytest.mark.parametrize("gate", [False, True])
async def test_row_009_usage_is_read_whatever_the_cut(start: Start, gate: bool) -> None:
    rig = await start(pools=2, retries={"first_event_gate": gate})
    whole_event = USAGE + b"\r\n\r\n"
    client, ids = await rig.client(), {}
    for k in range(1, len(whole_event)):
        rig.play([SSE, chunk(whole_event[:k]), 0.002, chunk(whole_event[k:]), DONE + LAST])
        ids[k] = rig.fresh_id()
        answer = await rig.ask(stream=True, headers=[f"x-request-id: {ids[k]}"], on=client)
        assert (answer.whole, answer.body) == (True, whole_event + b"data: [DONE]\n\n")
    for k, request_id in ids.items():
        line = await rig.line(request_id)
        assert (line["tokens_in"], line["tokens_out"]) == (11, 7), f"cut after {k} bytes"


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
async def test_row_010_row_012_row_015_all_line_ends_are_legal(start: Start, end: bytes) -> None:
    rig = await start(pools=2)
    before = await rig.metrics()
    sent = [
        b": a comment" + end * 2,
        b'data:{"no":"space"}' + end * 2,
        b"id: 7" + end + b"event: delta" + end + b'data: {"a":5}' + end * 2,
        USAGE + end * 2,
        b"data:[DONE]" + end * 2,
    ]
    steps: list[Step] = []
    for one in sent:
        steps += [chunk(one), 0.005]
    body, line = await streamed(rig, *steps)
    assert body == b"".join(sent)
    assert (line["outcome"], line["tokens_out"]) == ("ok", 7)
    await rig.grew(before, "stream_end_total", reason="done")


async def test_row_011_cr_and_lf_in_two_chunks_are_one_line_end(start: Start) -> None:
    rig = await start(pools=2)
    pieces = [b'data: {"error":\r', b'\ndata: {"message":"one event of two lines"}}\r\n\r', b"\n"]
    before = await rig.metrics()
    body, line = await streamed(rig, *[step for piece in pieces for step in (chunk(piece), 0.01)], DONE)
    assert body == b"".join(pieces) + b"data: [DONE]\n\n"
    assert line["outcome"] == "stream_error", "the two lines of data are one JSON text"
    await rig.grew(before, "stream_end_total", reason="upstream_error_event")


async def test_row_013_the_last_event_counts_without_its_blank_line(start: Start) -> None:
    rig = await start(pools=2)
    body, line = await streamed(rig, event(b'{"a":1}'), chunk(USAGE))
    assert body == b'data: {"a":1}\n\n' + USAGE
    assert (line["tokens_in"], line["tokens_out"]) == (11, 7)


async def test_row_014_an_event_without_end_costs_no_memory(start: Start) -> None:
    rig = await start(pools=2)
    await rig.ask()
    pid = rig.ingress.process.pid
    piece, count, peak = chunk(b"x" * (1 << 20)), 24, 0
    before = memory(pid)

    async def watch(_: object) -> None:
        nonlocal peak
        peak = max(peak, memory(pid))

    steps: list[Step] = [piece, watch]
    rig.play([SSE, *steps * count, LAST])
    answer = await rig.ask(stream=True)
    assert answer.whole
    assert len(answer.body) == count << 20
    assert peak - before < 12 << 20, f"{(peak - before) >> 20} MiB more for a line of 24 MiB"


async def test_row_014_after_it_stopped_reading_it_still_relays_and_ends(start: Start) -> None:
    rig = await start(pools=2)
    before = await rig.metrics()
    body, line = await streamed(rig, chunk(b"data: " + b"y" * 200_000), event(b'{"error":{"message":"unread"}}'))
    assert body.endswith(b'data: {"error":{"message":"unread"}}\n\n')
    assert len(body) > 200_000
    assert line["outcome"] == "ok", "past its bound the reader says nothing"
    await rig.grew(before, "stream_end_total", reason="no_done")


async def test_row_104_usage_on_any_event_the_last_one_counts(start: Start) -> None:
    rig = await start(pools=2)
    mixed = event(b'{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":3,"completion_tokens":1}}')
    none = event(b'{"choices":[{"delta":{}}],"usage":null}')
    last = event(b'{"usage":{"prompt_tokens":3,"completion_tokens":9,"details":{"cached":1}}}')
    for events, tokens in (((mixed, none), 1), ((mixed, none, last), 9), ((none,), None)):
        _, line = await streamed(rig, *events, DONE)
        assert line["tokens_out"] == tokens


async def test_row_103_no_usage_is_asked_for_in_the_clients_name(start: Start) -> None:
    rig = await start(pools=2)
    sent = request(stream=True)
    await rig.ask(sent)
    assert rig.requests[0].body == sent[sent.index(b"\r\n\r\n") + 4 :]
