"""An OTLP collector in a thread: it keeps the spans it gets, and may be slow or refuse."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass
class Seen:
    """One span; ids in hex."""

    name: str
    kind: int  # 2 server, 3 client
    trace_id: str
    span_id: str
    parent_id: str
    state: str
    attributes: dict[str, Any]
    failed: bool
    start: int
    end: int
    events: list[str] = field(default_factory=list)


class Collector:
    """`status` is what it answers; while `hold` is cleared it does not answer at all."""

    def __init__(self) -> None:
        self.spans: list[Seen] = []
        self.resource: dict[str, Any] = {}
        self.requests = 0
        self.status = 200
        self.hold = threading.Event()
        self.hold.set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.requests += 1
                outer.hold.wait(60)
                if outer.status == 200:
                    outer.take(body)
                self.send_response(outer.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except ConnectionError:  # the exporter did not wait
                    self.close_connection = True

            def log_message(self, *args: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def take(self, body: bytes) -> None:
        message = ExportTraceServiceRequest.FromString(body)
        for resource in message.resource_spans:
            self.resource = _attributes(resource.resource.attributes)
            for scope in resource.scope_spans:
                self.spans += map(_seen, scope.spans)

    def of(self, request_id: str) -> tuple[Seen, list[Seen]] | None:
        """The server span of this request and the client spans below it, in order."""
        for one in self.spans:
            if one.attributes.get("global_ingress.request_id") == request_id:
                below = [other for other in self.spans if other.parent_id == one.span_id]
                return one, sorted(below, key=lambda other: other.start)
        return None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hold.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _attributes(given: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in given}


def _seen(span: Any) -> Seen:
    return Seen(
        span.name,
        span.kind,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.trace_state,
        _attributes(span.attributes),
        span.status.code == 2,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        [event.name for event in span.events],
    )
