"""Traces as a worker makes them: which requests are sampled, what frontends are told, and the spans of those that are
over (I72).

A request is a server span, each of its tries a client span below it, which is the frontend's parent. Nothing is built
before the request is over, and nothing at all for one that is not sampled, but for the line that tells the frontend so.
Spans hold what the access log holds: never a body, a header's value, a query or a key.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from global_ingress.proxy.carrying.accesslog import Entry
from global_ingress.proxy.carrying.choosing import Frontend
from global_ingress.proxy.shared.decided import Try
from global_ingress.proxy.shared.routes import Sampling
from global_ingress.proxy.shared.spans import Span, Value, pack
from global_ingress.proxy.shared.tracecontext import RANDOM, SAMPLED, Context, context_lines, read_traceparent

AT_ONCE = 256  # spans that are sent together, and not later than the next tick
_IDS = 256  # ids made at once
_EVERY = 1 << 64

# GenAI operations by path.
OPERATIONS = {
    "/v1/chat/completions": "chat",
    "/v1/responses": "chat",
    "/v1/messages": "chat",
    "/v1/completions": "text_completion",
    "/v1/embeddings": "embeddings",
}
_MODELS = "/v1/models"
_PATH = 256  # characters of a path that are told


class Tracing:
    """`send` takes a message of spans; false says that it has no room."""

    def __init__(self, sampling: Sampling, send: Callable[[bytes], bool], clock: Callable[[], float]) -> None:
        self.clock = clock
        self._send = send
        self._by_parent = sampling.parent
        self._bound = round(sampling.ratio * _EVERY)
        self._ids: list[bytes] = []
        self._gathered: list[Span] = []
        self._at_once = AT_ONCE
        self.dropped = 0  # not told yet

    def begin(self, traceparent: bytes, tracestate: bytes) -> Trace | Unsampled:
        """A request has come, with these headers or without."""
        fresh = self._ids.pop() if self._ids else self._make_ids()
        caller = read_traceparent(traceparent) if traceparent else None
        if caller is None:
            if not self._sampled(fresh[:32]):
                return Unsampled(b"\r\ntraceparent: 00-%b-%b-02" % (fresh[:32], fresh[32:]))
            return Trace(self, Context(fresh[:32].decode(), fresh[32:].decode(), SAMPLED | RANDOM), "", b"")
        if self._by_parent:
            flags = caller.flags
        else:
            flags = caller.flags & RANDOM | (SAMPLED if self._sampled(caller.trace_id) else 0)
        context = Context(caller.trace_id, fresh[32:].decode(), flags)
        if not flags & SAMPLED:
            return Unsampled(context_lines(context, tracestate))
        return Trace(self, context, caller.span_id, tracestate)

    def span_id(self) -> str:
        return (self._ids.pop() if self._ids else self._make_ids())[32:].decode()

    def add(self, spans: Sequence[Span]) -> None:
        self._gathered += spans
        if len(self._gathered) >= self._at_once:
            self.pass_on()

    def local(self, entry: Entry, traceparent: bytes, tracestate: bytes) -> None:
        """A request that was answered here, without any exchange. Health is asked too often to be told."""
        if entry.path.startswith("/v1"):
            trace = self.begin(traceparent, tracestate)
            if isinstance(trace, Trace):
                trace.finish(entry, (), None)

    def pass_on(self) -> None:
        """What has gathered goes out, or is dropped and counted."""
        spans = self._gathered
        if not spans and not self.dropped:
            return
        self._gathered = []
        if self._send(pack(spans, self.dropped)):
            self.dropped = 0
        else:
            self.dropped += len(spans)

    def close(self) -> None:
        """No request begins here any more; those under way still tell theirs."""
        self.pass_on()
        self._at_once = 1

    def _sampled(self, trace_id: str | bytes) -> bool:
        """By the lower half of the trace id, so that all hops with the same ratio decide alike."""
        bound = self._bound
        return bound > 0 and (bound >= _EVERY or int(trace_id[16:], 16) < bound)

    def _make_ids(self) -> bytes:
        digits = os.urandom(24 * _IDS).hex().encode()
        self._ids = [digits[at : at + 48] for at in range(0, len(digits), 48)]
        return self._ids.pop()


class Unsampled:
    """A request that is not sampled: frontends are told so, and nothing else is done."""

    __slots__ = ("_lines",)

    def __init__(self, lines: bytes) -> None:
        self._lines = lines

    def sent(self, frontend: Frontend) -> bytes:
        return self._lines

    def tried(self, frontend: Frontend, one: Try) -> None:
        """Nothing is kept."""


class Trace:
    """One request's part of a trace."""

    __slots__ = ("_context", "_parent_id", "_running", "_state", "_told", "_tracing")

    def __init__(self, tracing: Tracing, context: Context, parent_id: str, state: bytes) -> None:
        self._tracing = tracing
        self._context = context
        self._parent_id = parent_id
        self._state = state
        self._running: dict[Frontend, tuple[str, float]] = {}
        self._told: list[tuple[str, Frontend, Try]] = []

    def sent(self, frontend: Frontend) -> bytes:
        """A try goes to this frontend: the lines that tell it whose child its span is."""
        context, span_id = self._context, self._tracing.span_id()
        self._running[frontend] = span_id, self._tracing.clock()
        return context_lines(Context(context.trace_id, span_id, context.flags), self._state)

    def tried(self, frontend: Frontend, one: Try) -> None:
        """A try is over, and has not given the answer."""
        span_id, _ = self._running.pop(frontend, ("", 0.0))
        self._told.append((span_id or self._tracing.span_id(), frontend, one))

    def finish(self, entry: Entry, last: Sequence[Try], frontend: Frontend | None) -> None:
        """The request is over. `last` is the try at `frontend` that was under way until then, if there is one."""
        ended = self._tracing.clock()
        if frontend is not None:
            for one in last:
                self.tried(frontend, one)
        for other, (_, began) in list(self._running.items()):  # a second try that ended with the request
            at = max(0.0, entry.total_ms - (ended - began) * 1e3)
            self.tried(other, Try("", "", other.url, at, entry.total_ms, entry.outcome))
        start = int((entry.at - entry.total_ms / 1e3) * 1e9)
        tries = [self._client_span(entry, start, n, *told) for n, told in enumerate(self._told)]
        self._told = []
        self._tracing.add([self._server_span(entry, start), *tries])

    def _server_span(self, entry: Entry, start: int) -> Span:
        context = self._context
        route = _route(entry.path)
        attributes = _server_attributes(entry, route)
        failed = entry.outcome in ("upstream_error", "stream_error") or entry.status >= 500
        if failed or entry.code is not None:
            attributes["error.type"] = entry.code or str(entry.status)
        state = self._state.decode("ascii", "replace")
        name = f"{entry.method} {route}" if route else entry.method
        end = start + int(entry.total_ms * 1e6)
        parent, flags = self._parent_id, context.flags
        return Span(
            context.trace_id, context.span_id, parent, bool(parent), state, flags, "server", name, start, end,
            attributes, failed,
        )  # fmt: skip

    def _client_span(self, entry: Entry, start: int, number: int, span_id: str, frontend: Frontend, one: Try) -> Span:
        context, operation = self._context, OPERATIONS.get(entry.path, "")
        answered = one.ended == "answered"
        attributes: dict[str, Value] = {
            "http.request.method": entry.method,
            "server.address": frontend.host,
            "server.port": frontend.port,
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": "dynamo",
            "global_ingress.pool": one.pool,
            "global_ingress.region": one.region,
        }
        if entry.model is not None:
            attributes["gen_ai.request.model"] = entry.model
        if number:
            attributes["http.request.resend_count"] = number
        if one.status is not None:
            attributes["http.response.status_code"] = one.status
        failed = not answered or (one.status is not None and one.status >= 400)
        if failed:
            attributes["error.type"] = str(one.status) if answered else one.ended
        events: tuple[tuple[str, int], ...] = ()
        if answered and entry.first_byte_ms is not None:
            events = (("first_byte", start + int(entry.first_byte_ms * 1e6)),)
        return Span(
            context.trace_id, span_id, context.span_id, False, self._state.decode("ascii", "replace"), context.flags,
            "client", f"{operation} {entry.model}" if entry.model else operation,
            start + int(one.began_ms * 1e6), start + int(one.ended_ms * 1e6), attributes, failed, events,
        )  # fmt: skip


def _route(path: str) -> str:
    """The route as it is declared, "" when there is none: it has few values, whatever is asked for."""
    if path in OPERATIONS or path == _MODELS:
        return path
    return _MODELS + "/{id}" if path.startswith(_MODELS + "/") else ""


def _server_attributes(entry: Entry, route: str) -> dict[str, Value]:
    attributes: dict[str, Value] = {
        "http.request.method": entry.method,
        "url.path": entry.path[:_PATH],
        "http.response.status_code": entry.status,
        "client.address": entry.client,
        "http.request.body.size": entry.bytes_in,
        "http.response.body.size": entry.bytes_out,
        "global_ingress.request_id": entry.request_id,
        "global_ingress.outcome": entry.outcome,
        "global_ingress.attempts": entry.attempts,
    }
    given: tuple[tuple[str, Value | None], ...] = (
        ("http.route", route or None),
        ("gen_ai.operation.name", OPERATIONS.get(entry.path)),
        ("gen_ai.request.model", entry.model),
        ("gen_ai.usage.input_tokens", entry.tokens_in),
        ("gen_ai.usage.output_tokens", entry.tokens_out),
        ("global_ingress.pool", entry.pool),
        ("global_ingress.region", entry.region),
        ("global_ingress.stream", entry.stream or None),
    )
    attributes.update({name: value for name, value in given if value is not None})
    return attributes
