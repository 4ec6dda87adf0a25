"""Traces: rule I72, and row B109 of the field reports. A collector of our own takes what is exported."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from tests.service.ingress.client import request
from tests.service.ingress.collector import Collector, Seen
from tests.service.ingress.frontend import DONE, LAST, SSE, event, hang, rst, whole
from tests.service.ingress.process import eventually
from tests.service.ingress.rig import Rig, Start
from tests.service.ingress.wire import free_port

pytestmark = [pytest.mark.outside, pytest.mark.asyncio(loop_scope="session")]

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
GIVEN = [f"traceparent: 00-{TRACE}-{PARENT}-01", "tracestate: a=1,b=2"]

Traced = Callable[..., Awaitable[Rig]]


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as one:
        yield one


@pytest.fixture
def traced(start: Start, collector: Collector, monkeypatch: pytest.MonkeyPatch) -> Traced:
    """An ingress of its own that traces to the collector."""

    async def begin(variables: dict[str, str] | None = None, **settings: Any) -> Rig:
        given = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "20", **(variables or {})}
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        return await start(**({"pools": 2, "alone": True, "trace": True} | settings))

    return begin


async def told(collector: Collector, request_id: str) -> tuple[Seen, list[Seen]]:
    await eventually(lambda: collector.of(request_id), f"spans of {request_id}")
    found = collector.of(request_id)
    assert found is not None
    return found


def sent(rig: Rig, at: int = -1) -> dict[str, str]:
    return {name: value for name, value in rig.requests[at].headers if name.startswith("trace")}


async def test_the_callers_trace_goes_on_to_the_frontend(traced: Traced, collector: Collector) -> None:
    rig = await traced()
    rig.play([whole(b'{"usage":{"prompt_tokens":3,"completion_tokens":5}}')])
    name = rig.fresh_id()
    await rig.ask(headers=[*GIVEN, f"x-request-id: {name}"])
    server, (client,) = await told(collector, name)
    assert (server.trace_id, server.parent_id, server.state, server.kind) == (TRACE, PARENT, "a=1,b=2", 2)
    assert (client.trace_id, client.kind, client.failed, server.failed) == (TRACE, 3, False, False)
    assert sent(rig) == {"traceparent": f"00-{TRACE}-{client.span_id}-01", "tracestate": "a=1,b=2"}
    assert server.name == "POST /v1/chat/completions"
    assert server.attributes["http.response.status_code"] == client.attributes["http.response.status_code"] == 200
    assert server.attributes["gen_ai.usage.input_tokens"] == 3
    assert server.attributes["gen_ai.usage.output_tokens"] == 5
    assert client.name == "chat acme/tiny"
    assert client.attributes["global_ingress.pool"] == server.attributes["global_ingress.pool"]
    assert client.events == ["first_byte"]
    assert server.start <= client.start <= client.end <= server.end + 10**6
    assert collector.resource["service.name"] == "global-ingress"
    assert (await rig.metrics()).value("trace_spans_total", result="exported") >= 2


@pytest.mark.parametrize("workers", [1, 2])
async def test_without_a_caller_a_trace_begins_here(traced: Traced, collector: Collector, workers: int) -> None:
    rig = await traced(workers=workers)
    names = [rig.fresh_id() for _ in range(12)]
    for name in names:
        await rig.ask(headers=[f"x-request-id: {name}", "traceparent: 00-nonsense", "tracestate: x=1"])
    found = [await told(collector, name) for name in names]
    assert len({server.trace_id for server, _ in found}) == len(names)
    assert all(server.parent_id == server.state == "" for server, _ in found)
    for n, (_, (client,)) in enumerate(found):
        assert sent(rig, n) == {"traceparent": f"00-{client.trace_id}-{client.span_id}-03"}


async def test_every_try_is_a_span(traced: Traced, collector: Collector) -> None:
    rig = await traced(pools=3)
    rig.play([whole(b"{}", "503 Busy")], [rst], [whole()])
    rig.reload(retries={"attempts": 3, "budget": 5})
    await rig.metrics()
    await eventually(lambda: rig.ingress.log("settings reloaded"), "reloaded")
    name = rig.fresh_id()
    assert (await rig.ask(headers=[f"x-request-id: {name}"])).status == 200
    server, tries = await told(collector, name)
    assert [one.attributes.get("error.type") for one in tries] == ["status", "reset", None]
    assert [one.failed for one in tries] == [True, True, False]
    assert [one.attributes.get("http.request.resend_count") for one in tries] == [None, 1, 2]
    assert server.attributes["global_ingress.attempts"] == 3
    assert [sent(rig, n)["traceparent"].split("-")[2] for n in range(3)] == [one.span_id for one in tries]


async def test_a_frontend_that_cannot_be_reached_is_told(traced: Traced, collector: Collector) -> None:
    rig = await traced(pools=1)
    rig.frontends[0].refuse()
    name = rig.fresh_id()
    assert (await rig.ask(headers=[f"x-request-id: {name}"])).status == 502
    server, (client,) = await told(collector, name)
    assert server.failed
    assert server.attributes["error.type"] == "upstream_unreachable"
    assert client.failed
    assert client.attributes["error.type"]


async def test_a_span_ends_with_its_stream_and_a_cut_one_is_an_error(traced: Traced, collector: Collector) -> None:
    rig = await traced()
    rig.play([SSE + event(b"{}"), 0.3, DONE + LAST], [SSE + event(b"{}"), 0.02, rst])
    good, bad = rig.fresh_id(), rig.fresh_id()
    await rig.ask(stream=True, headers=[f"x-request-id: {good}"])
    await rig.ask(stream=True, headers=[f"x-request-id: {bad}"])
    server, (client,) = await told(collector, good)
    assert not server.failed
    assert server.end - server.start > 2 * 10**8
    assert client.end - client.start > 2 * 10**8
    assert server.attributes["global_ingress.stream"] is True
    server, (client,) = await told(collector, bad)
    assert (server.failed, client.failed) == (True, True)
    assert server.attributes["global_ingress.outcome"] == "stream_error"


async def test_a_client_that_leaves_is_told(traced: Traced, collector: Collector) -> None:
    rig = await traced()
    rig.play([SSE + event(b"{}"), hang])
    name = rig.fresh_id()
    client = await rig.streaming(headers=[f"x-request-id: {name}"])
    client.leave()
    server, (one,) = await told(collector, name)
    assert server.attributes["global_ingress.outcome"] == "client_closed"
    assert not server.failed
    assert one.attributes["error.type"] == "client_closed"


async def test_what_is_refused_is_told_and_health_is_not(traced: Traced, collector: Collector) -> None:
    rig = await traced()
    unknown, odd = rig.fresh_id(), rig.fresh_id()
    await rig.get("/healthz")
    await rig.ask(model="nope", headers=[f"x-request-id: {unknown}"])
    await rig.ask(path="/v1/odd?key=SECRET", headers=[f"x-request-id: {odd}"])
    server, tries = await told(collector, unknown)
    assert (server.attributes["error.type"], tries) == ("model_not_found", [])
    server, _ = await told(collector, odd)
    assert (server.name, server.attributes["url.path"]) == ("POST", "/v1/odd")
    assert not any("health" in one.name for one in collector.spans)
    assert "SECRET" not in repr(collector.spans)


async def test_who_is_not_sampled_is_passed_on_as_such(traced: Traced, collector: Collector) -> None:
    rig = await traced()
    name, last = rig.fresh_id(), rig.fresh_id()
    given = [f"traceparent: 00-{TRACE}-{PARENT}-00", "tracestate: a=1"]
    await rig.ask(headers=[*given, f"x-request-id: {name}"])
    parent = sent(rig)["traceparent"]
    assert parent.startswith(f"00-{TRACE}-")
    assert parent.endswith("-00")
    assert sent(rig)["tracestate"] == "a=1"
    await rig.ask(headers=[f"x-request-id: {last}"])
    await told(collector, last)
    assert collector.of(name) is None


async def test_a_sampler_that_takes_nothing(traced: Traced, collector: Collector) -> None:
    rig = await traced({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"})
    await rig.ask(headers=GIVEN)
    assert sent(rig)["traceparent"].endswith("-00")
    assert (await rig.metrics()).value("trace_spans_total") == 0
    assert collector.requests == 0


async def test_trace_can_be_switched_while_it_runs(traced: Traced, collector: Collector) -> None:
    rig = await traced()
    client = await rig.client()
    first, second = rig.fresh_id(), rig.fresh_id()
    await rig.ask(on=client, headers=[*GIVEN, f"x-request-id: {first}"])
    await told(collector, first)
    rig.reload(trace=False)
    await eventually(lambda: rig.ingress.log("settings reloaded"), "reloaded")
    await rig.metrics()
    await rig.ask(on=client, headers=[*GIVEN, f"x-request-id: {second}"])
    assert sent(rig)["traceparent"] == f"00-{TRACE}-{PARENT}-01"
    assert collector.of(second) is None


async def test_a_dead_collector_costs_spans_and_no_request(traced: Traced, collector: Collector) -> None:
    rig = await traced(
        {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{free_port()}", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
    )
    client = await rig.client()
    for _ in range(5):
        assert (await rig.ask(on=client)).status == 200

    async def counted() -> bool:
        return (await rig.metrics()).value("trace_spans_total", result="failed") == 10

    await eventually(counted, "lost spans are counted")
    assert len(rig.ingress.log("spans are not taken")) == 1


async def test_a_slow_collector_costs_spans_and_no_request(traced: Traced, collector: Collector) -> None:
    rig = await traced({"OTEL_BSP_MAX_QUEUE_SIZE": "20", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "10"})
    collector.hold.clear()
    client = await rig.client()
    await rig.ask(on=client)
    await eventually(lambda: collector.requests, "the collector is asked")
    for _ in range(40):
        assert (await rig.ask(on=client)).status == 200

    async def dropped() -> bool:
        return (await rig.metrics()).value("trace_spans_total", result="dropped") >= 60

    await eventually(dropped, "dropped spans are counted")
    collector.hold.set()

    async def counted() -> bool:
        return (await rig.metrics()).value("trace_spans_total") == 82

    await eventually(counted, "every span is counted")
    last = rig.fresh_id()
    await rig.ask(headers=[f"x-request-id: {last}"])
    await told(collector, last)


async def test_a_slow_collector_does_not_hold_up_the_end(traced: Traced, collector: Collector) -> None:
    rig = await traced()
    collector.hold.clear()
    await rig.ask()
    await eventually(lambda: collector.requests, "the collector is asked")
    rig.ingress.may_end = True
    rig.ingress.signal(signal.SIGTERM)
    began = asyncio.get_running_loop().time()
    assert await rig.ingress.exit_code() == 0
    assert asyncio.get_running_loop().time() - began < 10


async def test_what_is_left_at_the_end_is_sent(traced: Traced, collector: Collector) -> None:
    rig = await traced({"OTEL_BSP_SCHEDULE_DELAY": "60000"})
    name = rig.fresh_id()
    await rig.ask(headers=[f"x-request-id: {name}"])
    assert collector.of(name) is None
    rig.ingress.may_end = True
    rig.ingress.signal(signal.SIGTERM)
    assert await rig.ingress.exit_code() == 0
    assert collector.of(name) is not None


async def test_no_secret_is_in_a_span(traced: Traced, collector: Collector) -> None:
    rig = await traced()
    secret, name = "sk-SECRET-0451", rig.fresh_id()
    given = [f"Authorization: Bearer {secret}", f"Cookie: {secret}", f"User-Agent: {secret}", f"x-request-id: {name}"]
    await rig.ask(raw=request(headers=given, path=f"/v1/chat/completions?k={secret}"))
    await rig.ask(body={"model": secret, "user": secret}, headers=given[:3])
    await told(collector, name)
    await eventually(lambda: len(collector.spans) >= 3, "all spans")
    assert secret not in repr(collector.spans)
