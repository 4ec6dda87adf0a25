"""Seeing and not leaking: rows B12 of the field reports, rules I63, I70 and I71.

Row 109 (tracing) is `test_b20_traces`, row 111 (our own authentication) `test_b15_letting_in`; here is what holds
without them (traceparent and credentials untouched).
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from global_ingress.proxy.shared.counts import OUTCOMES, STREAM_ENDS
from tests.service.ingress.client import request
from tests.service.ingress.frontend import DONE, LAST, SSE, chunk, event, hang, rst, whole
from tests.service.ingress.process import eventually
from tests.service.ingress.rig import Start

pytestmark = [pytest.mark.outside, pytest.mark.asyncio(loop_scope="session")]

SECRET = "sk-SECRET-0451"
FIELDS = {
    "request_id",
    "model",
    "pool",
    "region",
    "frontend",
    "status",
    "outcome",
    "attempts",
    "bytes_in",
    "bytes_out",
    "first_byte_ms",
    "total_ms",
    "stream",
    "tokens_in",
    "tokens_out",
}


@pytest.mark.parametrize("workers", [1, 2])
async def test_row_106_row_107_names_from_outside_make_no_series(start: Start, workers: int) -> None:
    rig = await start(pools=2, workers=workers)
    client = await rig.client()

    async def wrong(n: int) -> None:
        await rig.ask(on=client, model=f"typo-{n}", headers=[f"x-request-id: r{n}", f"x-user: u{n}"])
        await rig.ask(on=client, path=f"/p/{n}")
        await rig.ask(on=client, method=("PUT", "DELETE", "PATCH", "OPTIONS")[n % 4])

    for n in range(5):
        await wrong(n)
    before = len((await rig.metrics()).text.splitlines())
    for n in range(150):
        await wrong(n)
    after = await rig.metrics()
    assert len(after.text.splitlines()) <= before + 5
    assert "typo" not in after.text
    assert after.value("requests_total", model="other", outcome="refused") >= 150


async def test_row_106_every_word_of_a_label_is_known(start: Start) -> None:
    rig = await start(pools=2)
    rig.play([whole(b"{}", "418 Teapot")], [whole(b"{}", "799 Odd")], [whole(b"{}", "600 Odder")])
    for _ in range(3):
        await rig.ask()
    metrics = await rig.metrics()
    assert set(metrics.by("requests_total", "outcome")) <= set(OUTCOMES)
    assert set(metrics.by("stream_end_total", "reason")) <= set(STREAM_ENDS)
    assert all(code == "other" or 100 <= int(code) < 600 for code in metrics.by("requests_total", "code"))


async def test_rule_i71_a_real_parser_reads_it(start: Start) -> None:
    rig = await start(pools=2)
    await rig.ask()
    families = list(text_string_to_metric_families((await rig.metrics()).text))
    assert {"global_ingress_requests", "global_ingress_in_flight_requests"} <= {family.name for family in families}
    assert all(family.documentation for family in families)


async def test_row_108_without_tracing_the_callers_context_passes_untouched(start: Start) -> None:
    rig = await start(pools=2)
    given = ["traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate: a=1,b=2"]
    await rig.ask(headers=given)
    assert [f"{k}: {v}" for k, v in rig.requests[0].headers if k.startswith("trace")] == given


async def test_row_110_no_body_header_query_or_key_is_ever_logged(start: Start) -> None:
    rig = await start(pools=2, log={"level": "debug"})
    given: dict[str, Any] = {
        "headers": [f"Authorization: Bearer {SECRET}", f"Cookie: {SECRET}", f"x-api-key: {SECRET}"]
    }
    path = f"/v1/chat/completions?key={SECRET}"
    body = {"model": "acme/tiny", "messages": [{"role": "user", "content": SECRET}], "user": SECRET}
    rig.play(
        [whole(SECRET.encode())],
        [SSE + event(SECRET.encode()), 0.02, rst],
        [SSE + event(b'{"error":{"message":"%b","code":503}}' % SECRET.encode()) + DONE + LAST],
        [whole(b"{}", "503 " + SECRET)],
        [f"HTTP/1.1 200 OK\r\nx: {SECRET}\x00\r\n\r\n".encode()],
        [whole(b"", "302 Found", f"location: /{SECRET}")],
        [whole()],
    )
    for _ in range(8):
        await rig.ask(body=body, path=path, **given)
    await rig.ask(body={"model": SECRET}, path=path, **given)
    await rig.ask(body=f'{{"model": "{SECRET}'.encode(), path=path, **given)
    await rig.ask(path=f"/v1/files?key={SECRET}", **given)
    await rig.ask(headers=[*given["headers"], f"x-request-id: {SECRET} x"], path=path)
    client = await rig.client()
    await client.send(f"POST {path} HTTP/1.1\r\nhost: a\r\nAuthorization : {SECRET}\r\n\r\n".encode())
    await client.answer()
    last = rig.fresh_id()
    await rig.ask(headers=[f"x-request-id: {last}"])
    await rig.line(last)
    everything = rig.ingress.text() + rig.ingress.written("out") + (await rig.metrics()).text
    everything += json.dumps(await rig.ingress.status())
    assert SECRET not in everything


async def test_row_111_without_our_own_keys_credentials_pass(start: Start) -> None:
    rig = await start(pools=2)
    given = ["Authorization: Bearer a", "x-api-key: b", "Cookie: c=d"]
    await rig.ask(headers=given)
    assert [f"{k}: {v}" for k, v in rig.requests[0].headers if f"{k}: {v}" in given] == given


async def test_row_112_no_line_of_the_log_can_be_made_from_outside(start: Start) -> None:
    rig = await start(pools=2)
    nasty = 'a","outcome":"ok"}\\n{"x":"'
    await rig.ask(headers=[f"x-request-id: {nasty}"])
    await rig.ask(model=nasty + "\n\r\u2028")
    await rig.ask(path="/v1/%0a%0dERROR")
    last = rig.fresh_id()
    await rig.ask(headers=[f"x-request-id: {last}"])
    await rig.line(last)
    for name in ("out", "err"):
        for line in rig.ingress.written(name).splitlines():
            assert isinstance(json.loads(line), dict)
    assert all(set(line) >= FIELDS for line in rig.ingress.access())


async def test_rule_i70_one_line_per_request_with_all_its_fields(start: Start) -> None:
    rig = await start(pools=2)
    usage = event(b'{"usage":{"prompt_tokens":5,"completion_tokens":2}}')
    rig.play([0.05, SSE + event(b"1"), usage, DONE + LAST], [whole(b'{"usage":{"input_tokens":4,"output_tokens":1}}')])
    for stream in (True, False):
        request_id = rig.fresh_id()
        raw = request(stream=stream, headers=[f"x-request-id: {request_id}"])
        answer = await rig.ask(raw)
        line = await rig.line(request_id)
        assert set(line) >= FIELDS
        assert (line["model"], line["status"], line["outcome"], line["attempts"]) == ("acme/tiny", 200, "ok", 1)
        assert (line["pool"], line["region"]) == (answer.one("x-dynamo-pool"), answer.one("x-dynamo-target-region"))
        assert line["frontend"] == rig.requests[-1].connection.frontend.url
        assert line["bytes_in"] == len(raw) - raw.index(b"\r\n\r\n") - 4
        assert line["stream"] is stream
        assert (line["tokens_in"], line["tokens_out"]) == ((5, 2) if stream else (4, 1))
        assert 0 < line["first_byte_ms"] <= line["total_ms"] < 15_000
        if stream:
            assert line["first_byte_ms"] >= 40
            assert line["bytes_out"] == len(b"".join([event(b"1"), usage, DONE, LAST]))


async def test_rule_i70_refusals_have_their_line_too(start: Start) -> None:
    rig = await start(pools=2)
    for given, code in (
        ({"model": "nope"}, "model_not_found"),
        ({"path": "/x"}, "unknown_url"),
        ({"body": b"{"}, "invalid_json"),
    ):
        request_id = rig.fresh_id()
        answer = await rig.ask(headers=[f"x-request-id: {request_id}"], **given)
        line = await rig.line(request_id)
        assert (line["status"], line["outcome"], line["code"]) == (answer.status, "refused", code)


@pytest.mark.parametrize("workers", [1, 2])
async def test_rule_i71_the_sums_are_exact(start: Start, workers: int) -> None:
    rig = await start(pools=2, workers=workers)
    before = await rig.metrics()
    rig.each([SSE + event(b"1"), event(b"2"), DONE + LAST])
    await asyncio.gather(*(rig.ask(stream=True) for _ in range(20)))
    rig.each([whole()])
    await asyncio.gather(*(rig.ask() for _ in range(20)))
    await rig.grew(before, "requests_total", 20, stream="true", outcome="ok", code="200")
    await rig.grew(before, "requests_total", 20, stream="false", outcome="ok", code="200")
    await rig.grew(before, "stream_end_total", 20, reason="done")
    after = await rig.metrics()
    for name in ("request_duration_seconds_count", "time_to_first_byte_seconds_count"):
        assert after.value(name) - before.value(name) == 40
    for pool in (rig.pool(0), rig.pool(1)):
        assert after.value("requests_total", pool=pool) - before.value("requests_total", pool=pool) == 20
    assert after.value("workers_listening") == workers


async def test_rule_i71_gauges_show_what_is_now(start: Start) -> None:
    rig = await start(pools=2)
    rig.each([SSE + event(b"1"), hang])
    clients = [await rig.streaming() for _ in range(4)]
    metrics = await rig.metrics()
    assert metrics.by("in_flight_requests", "pool") == {rig.pool(0): 2, rig.pool(1): 2}
    assert metrics.value("upstream_connections", state="active") == 4
    assert metrics.value("client_connections") == 4
    pools = (await rig.ingress.admin("/pools")).json()["pools"]
    assert [pool["in_flight"] for pool in pools] == [2, 2]
    for client in clients:
        client.rst()

    async def none() -> bool:
        return not (await rig.metrics()).by("in_flight_requests", "pool")

    await eventually(none, "nothing is in flight", 3)


async def test_rule_i71_an_endless_series_of_chunks_is_one_series(start: Start) -> None:
    rig = await start(pools=2)
    rig.each([SSE, *[step for n in range(20) for step in (chunk(b"data: %d\n\n" % n), 0.01)], LAST])
    before = await rig.metrics()
    await rig.ask(stream=True)
    await rig.grew(before, "requests_total", stream="true")
    after = await rig.metrics()
    gaps = after.value("inter_chunk_seconds_count") - before.value("inter_chunk_seconds_count")
    assert 10 <= gaps <= 21, "the last chunk may be one more"
