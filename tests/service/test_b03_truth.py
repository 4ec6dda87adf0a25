"""Telling the truth about how an answer ended: rows B3 of the field reports, rules I30, I34, I41 and I42.

Rule R1: before the first byte every failure is a plain error; after it one error frame if the stream stands between two
events, never a [DONE], never a proper end.
"""

from __future__ import annotations

import json

import openai
import pytest

from tests.service.ingress.checks import frame_of, only_cut
from tests.service.ingress.client import MODEL, request
from tests.service.ingress.frontend import (
    CHUNKED_JSON,
    DONE,
    LAST,
    SSE,
    Script,
    chunk,
    event,
    fin,
    hang,
    rst,
    whole,
)
from tests.service.ingress.rig import Rig, Start

pytestmark = [pytest.mark.outside, pytest.mark.asyncio(loop_scope="session")]

TOKEN = b'{"choices":[{"index":0,"delta":{"content":"a"}}]}'
EVENT = b"data: " + TOKEN + b"\n\n"
BUSY = event(b'{"error":{"message":"no worker","type":"service_unavailable","code":503}}') + DONE + LAST
GATE = {"first_event_gate": True}


@pytest.mark.parametrize("gate", [False, True])
@pytest.mark.parametrize(("broken", "code"), [(rst, "upstream_reset"), (fin, "upstream_truncated")])
async def test_row_016_row_026_mid_stream_one_frame_and_no_done(
    start: Start, gate: bool, broken: object, code: str
) -> None:
    rig = await start(pools=2, retries={"first_event_gate": gate})
    before = await rig.metrics()
    script: Script = [SSE + event(TOKEN), 0.05, broken]  # type: ignore[list-item]
    rig.each(script)
    request_id = rig.fresh_id()
    error = frame_of(await rig.ask(stream=True, headers=[f"x-request-id: {request_id}"]), EVENT)
    assert (error["code"], error["type"]) == (code, "upstream_error")
    line = await rig.line(request_id)
    assert (line["status"], line["outcome"], line["code"]) == (200, "stream_error", code)
    await rig.grew(before, "stream_end_total", reason=code)


@pytest.mark.parametrize("stream", [False, True])
async def test_row_017_reset_before_the_head_is_a_plain_error(start: Start, stream: bool) -> None:
    rig = await start(pools=2)
    rig.each([rst])
    answer = await rig.ask(stream=stream)
    assert (answer.status, answer.error["code"]) == (502, "upstream_reset")
    assert answer.one("x-should-retry") == "false"


async def test_row_017_reset_after_the_head_with_the_gate_is_a_plain_error(start: Start) -> None:
    rig = await start(pools=2, retries=GATE)
    rig.each([SSE, 0.05, rst])
    answer = await rig.ask(stream=True)
    assert answer.status == 502
    assert answer.error["code"] == "upstream_reset"


async def test_row_017_reset_after_the_head_without_the_gate_is_told_inside(start: Start) -> None:
    rig = await start(pools=2)
    rig.each([SSE, 0.05, rst])
    answer = await rig.ask(stream=True)
    if answer.status == 200:
        assert frame_of(answer, b"")["code"] == "upstream_reset"
    else:
        assert answer.error["code"] == "upstream_reset"


@pytest.mark.parametrize("broken", [rst, fin], ids=["reset", "closed"])
@pytest.mark.parametrize("framing", ["length", "chunks"])
async def test_row_018_row_029_a_short_unary_body_is_never_whole(start: Start, framing: str, broken: object) -> None:
    rig = await start(pools=2)
    part = b'{"id":"1","choices":[]'
    head = whole(b"x" * 100)[:-100] + part if framing == "length" else CHUNKED_JSON + chunk(part)
    script: Script = [head, 0.05, broken]  # type: ignore[list-item]
    rig.play(script)
    only_cut(await rig.ask(), part)
    assert rig.asked == 1


@pytest.mark.parametrize("gate", [False, True])
async def test_row_019_the_frontends_status_is_the_answers(start: Start, gate: bool) -> None:
    rig = await start(pools=2, retries={"first_event_gate": gate})
    body = b'{"error":{"message":"slow down"}}'
    rig.play([whole(body, "429 Too Many Requests", "retry-after: 7")])
    answer = await rig.ask(stream=True)
    assert (answer.status, answer.reason, answer.body) == (429, "Too Many Requests", body)
    assert (answer.one("content-type"), answer.one("retry-after")) == ("application/json", "7")


async def test_row_020_a_body_without_a_last_newline_passes(start: Start) -> None:
    rig = await start(pools=2)
    rig.play([SSE + chunk(EVENT + b"data: [DONE]") + LAST], [CHUNKED_JSON, chunk(b'{"a":'), 0.02, chunk(b"1}") + LAST])
    stream, unary = await rig.ask(stream=True), await rig.ask()
    assert (stream.whole, stream.body) == (True, EVENT + b"data: [DONE]")
    assert (unary.whole, unary.body) == (True, b'{"a":1}')


@pytest.mark.parametrize("stream", [False, True])
async def test_row_021_nobody_reachable_is_no_200(start: Start, stream: bool) -> None:
    rig = await start(pools=2)
    for one in rig.frontends:
        one.refuse()
    answer = await rig.ask(stream=stream)
    assert (answer.status, answer.error["code"]) == (502, "upstream_unreachable")
    assert answer.one("retry-after") in {"1", "2", "3", "4", "5"}
    assert answer.all("x-should-retry") == []


async def test_row_022_after_output_nothing_is_tried_again_and_nothing_is_kept(start: Start) -> None:
    rig = await start(pools=2)
    scripts: list[Script] = [[SSE + event(TOKEN), 0.05, rst], [SSE + event(TOKEN), 0.05, b"nonsense\r\n", hang]]
    for script in scripts:
        rig.each(script)
        asked = rig.asked
        assert not (await rig.ask(stream=True)).whole
        assert rig.asked == asked + 1
        await rig.requests[-1].connection.ended()


async def test_row_023_an_error_event_without_data_is_a_failure_and_passes_untouched(start: Start) -> None:
    rig = await start(pools=2)
    before = await rig.metrics()
    sent = b"event: error\n: boom\n\n"
    rig.play([SSE + event(TOKEN) + chunk(sent) + LAST])
    answer = await rig.ask(stream=True)
    assert (answer.whole, answer.body) == (True, EVENT + sent)
    await rig.grew(before, "stream_end_total", reason="upstream_error_event")
    await rig.grew(before, "requests_total", outcome="stream_error")


@pytest.mark.parametrize(
    "error",
    [
        b'data: {"error":{"message":"late","code":500}}\n\n',
        b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"late"}}\n\n',
        b'event: response.failed\ndata: {"type":"response.failed","response":{"error":{"message":"late"}}}\n\n',
    ],
    ids=["openai", "anthropic", "responses"],
)
async def test_row_024_row_025_an_error_event_is_no_success_though_done_follows(start: Start, error: bytes) -> None:
    rig = await start(pools=2)
    before = await rig.metrics()
    rig.play([SSE + event(TOKEN) + chunk(error) + DONE + LAST])
    request_id = rig.fresh_id()
    answer = await rig.ask(stream=True, headers=[f"x-request-id: {request_id}"])
    assert (answer.whole, answer.body) == (True, EVENT + error + b"data: [DONE]\n\n")
    assert (await rig.line(request_id))["outcome"] == "stream_error"
    await rig.grew(before, "stream_end_total", reason="upstream_error_event")
    await rig.grew(before, "stream_end_total", by=0, reason="done")


async def test_row_024_after_an_upstreams_error_event_a_cut_adds_no_second_frame(start: Start) -> None:
    rig = await start(pools=2)
    rig.play([SSE + event(TOKEN) + event(b'{"error":{"message":"late"}}'), 0.05, rst])
    only_cut(await rig.ask(stream=True), EVENT + b'data: {"error":{"message":"late"}}\n\n')


async def test_row_027_the_openai_sdk_raises_our_words(start: Start) -> None:
    rig = await start(pools=2)
    rig.each([SSE + event(TOKEN), 0.05, rst])
    url = f"http://127.0.0.1:{rig.ingress.port}/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as sdk:
        stream = await sdk.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "hello"}], stream=True
        )
        seen = 0
        with pytest.raises(openai.APIError, match="reset"):  # noqa: PT012 - the first one comes, the second raises
            async for _ in stream:
                seen += 1
        assert seen == 1
        await stream.close()


async def test_row_028_nothing_but_choices_and_error_is_in_the_stream(start: Start) -> None:
    rig = await start(pools=2)
    rig.each([SSE + event(TOKEN) * 3, 0.05, rst])
    answer = await rig.ask(stream=True)
    events = [json.loads(part.removeprefix(b"data: ")) for part in answer.body.split(b"\n\n") if part]
    assert [set(one) for one in events] == [{"choices"}] * 3 + [{"error"}]


async def test_row_028_no_frame_inside_an_event(start: Start) -> None:
    rig = await start(pools=2)
    for sent in (EVENT[:20], EVENT[:-1], EVENT[:-2]):
        rig.each([SSE + event(TOKEN) + chunk(sent), 0.05, rst])
        only_cut(await rig.ask(stream=True), EVENT + sent)


async def test_row_028_no_frame_after_done(start: Start) -> None:
    rig = await start(pools=2)
    rig.each([SSE + event(TOKEN) + DONE, 0.05, rst])
    only_cut(await rig.ask(stream=True), EVENT + b"data: [DONE]\n\n")


async def test_row_029_a_chunk_that_ends_early_is_cut(start: Start) -> None:
    rig = await start(pools=2)
    rig.play([SSE + event(TOKEN) + b"40\r\ndata: {", 0.05, fin])
    only_cut(await rig.ask(stream=True), EVENT + b"data: {")


async def test_row_030_a_body_that_ends_by_closing(start: Start) -> None:
    """Its end by FIN is all the end it has; by a reset it is cut."""
    rig = await start(pools=2)
    for kind in ("application/json", "text/event-stream"):
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n\r\n".encode()
        rig.play([head + EVENT, 0.05, fin])
        answer = await rig.ask()
        assert (answer.whole, answer.body, answer.framing) == (True, EVENT, "chunked")
        rig.play([head + EVENT, 0.05, rst])
        answer = await rig.ask()
        assert not answer.whole
        assert answer.body.startswith(EVENT)


async def test_rule_i41_anthropics_shape_on_its_own_route(start: Start) -> None:
    rig = await start(pools=2)
    rig.each([rst])
    answer = await rig.ask(path="/v1/messages")
    assert answer.status == 502
    error = answer.json()
    assert (set(error), error["type"], set(error["error"])) == ({"type", "error"}, "error", {"type", "message"})
    rig.each([SSE + event(TOKEN), 0.05, rst])
    answer = await rig.ask(path="/v1/messages", stream=True)
    assert not answer.whole
    head, _, data = answer.body.removeprefix(EVENT).partition(b"\ndata: ")
    assert head == b"event: error"
    assert json.loads(data)["error"].keys() == {"type", "message"}


# The gate: how a stream begins is known before its head goes out (rows 48 and 49, rule I34).


async def test_rule_i34_an_error_first_is_tried_elsewhere(start: Start) -> None:
    rig = await start(pools=2, retries=GATE)
    rig.play([SSE + BUSY], [SSE + event(TOKEN) + DONE + LAST])
    answer = await rig.ask(stream=True)
    assert (answer.status, answer.whole, answer.body) == (200, True, EVENT + b"data: [DONE]\n\n")
    assert sorted(rig.counts()) == [1, 1]
    assert answer.one("x-dynamo-attempts") == "2"


async def test_rule_i34_an_error_everywhere_is_the_upstreams_own_words(start: Start) -> None:
    rig = await start(pools=2, retries=GATE)
    rig.each([SSE + BUSY])
    answer = await rig.ask(stream=True)
    assert answer.status == 503
    assert answer.error["message"] == "no worker"
    assert rig.asked == 2


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (b'{"error":{"message":"x","code":400}}', 400),
        (b'{"error":{"message":"x","code":"429"}}', 429),
        (b'{"error":{"message":"x","type":"invalid_request_error"}}', 400),
        (b'{"error":{"message":"x","type":"timeout_error"}}', 504),
        (b'{"error":{"message":"x","type":"service_unavailable"}}', 503),
        (b'{"error":{"message":"x","code":200}}', 502),
        (b'{"error":"just words"}', 502),
    ],
)
async def test_rule_i34_the_status_of_a_caught_error(start: Start, error: bytes, status: int) -> None:
    rig = await start(pools=2, retries=GATE)
    rig.each([SSE + event(error) + DONE + LAST])
    answer = await rig.ask(stream=True)
    assert answer.status == status
    assert answer.error["message"] in ("x", "just words")
    assert rig.asked == (2 if status in (502, 503, 504) else 1), "only a status that is listed is tried elsewhere"


async def test_rule_i34_comments_do_not_open_the_gate(start: Start) -> None:
    rig = await start(pools=2, retries=GATE)
    rig.play([SSE, chunk(b": wait\n\n"), 0.05, chunk(b":\n\n") + BUSY], [SSE + event(TOKEN) + LAST])
    assert (await rig.ask(stream=True)).body == EVENT


async def test_rule_i34_64_kib_open_the_gate(start: Start) -> None:
    rig = await start(pools=2, retries=GATE)
    long = b": " + b"c" * 70_000 + b"\n\n"
    rig.play([SSE + chunk(long), 0.05, BUSY])
    answer = await rig.ask(stream=True)
    assert (answer.status, answer.whole, rig.asked) == (200, True, 1)
    assert answer.body.startswith(long)


async def test_rule_i34_an_empty_stream_passes(start: Start) -> None:
    rig = await start(pools=2, retries=GATE)
    rig.play([SSE + LAST])
    answer = await rig.ask(stream=True)
    assert (answer.status, answer.whole, answer.body) == (200, True, b"")


async def test_rule_i34_the_first_event_is_not_delayed(start: Start) -> None:
    rig = await start(pools=2, retries=GATE)
    rig.play([SSE + event(TOKEN), hang])
    client = await rig.client()
    began = await client.send(request(stream=True))
    assert await client.seen(EVENT) - began < 0.5


# Cut after every byte of a recorded answer (rule I41 as a property).

RECORDED = {
    "unary": whole(b'{"choices":[{"message":{"content":"hi"}}]}'),
    "unary chunked": CHUNKED_JSON + chunk(b'{"choices":') + chunk(b"[]}") + LAST,
    "sse": SSE + event(TOKEN) + chunk(b": note\n\n") + event(b'{"n":2}') + DONE + LAST,
}


@pytest.mark.parametrize("gate", [False, True], ids=["open", "gate"])
@pytest.mark.parametrize("broken", [rst, fin], ids=["reset", "closed"])
@pytest.mark.parametrize("kind", RECORDED)
async def test_cut_after_every_byte_the_client_can_always_tell(
    start: Start, kind: str, broken: object, gate: bool
) -> None:
    rig = await start(pools=2, retries={"first_event_gate": gate})
    recorded = RECORDED[kind]
    head = recorded.index(b"\r\n\r\n") + 4
    for cut in range(0, len(recorded), 1 if not gate or kind == "sse" else 7):
        script: Script = [recorded[:cut], *([0.004] if cut >= head else []), broken]  # type: ignore[list-item]
        rig.each(script)
        await _cut_is_told(rig, cut, recorded, head, stream=kind == "sse")


async def _cut_is_told(rig: Rig, cut: int, recorded: bytes, head: int, *, stream: bool) -> None:
    answer = await rig.ask(stream=stream)
    said = f"cut after {cut} bytes of {recorded[:cut]!r}: {answer}"
    assert not (answer.whole and answer.status == 200), said
    if answer.status != 200:
        assert answer.status == 502, said
        assert answer.error["code"] in {"upstream_reset", "upstream_truncated", "upstream_bad_response"}, said
        return
    assert cut >= head, said
    payload = recorded[head:cut]
    if b"chunked" in recorded[:head]:
        payload = payload_of(payload)
    body = answer.body
    done = b"[DONE]" in payload
    assert (b"[DONE]" in body) <= done, said
    if body.startswith(payload) and body != payload:
        assert frame_of(answer, payload), said
        assert stream, said
        assert not done, said
        assert payload.endswith(b"\n\n") or not payload, said
    else:
        # A reset may overtake the last bytes: what came is then a beginning of what was sent.
        assert payload.startswith(body), said


def payload_of(framed: bytes) -> bytes:
    """What the beginning of a chunked body holds."""
    out = b""
    while framed:
        size, found, rest = framed.partition(b"\r\n")
        if not found:
            break
        count = int(size, 16)
        out += rest[:count]
        framed = rest[count + 2 :] if len(rest) >= count + 2 else b""
    return out
