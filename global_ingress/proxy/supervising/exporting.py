"""Spans on their way out: from all workers through one bounded queue to a thread that sends them by OTLP (I72).

Owns the thread and the counts. A collector that is slow, refuses or is gone costs spans, which are counted, and never
a request: workers hand over bytes, and nothing here is waited for but at the very end, for a moment. The library is
loaded in the thread, and only with `trace: on`.
"""

from __future__ import annotations

import importlib.util
import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from discovery.kit.log import logger
from global_ingress.proxy.settings.faults import Fault, SettingsFault
from global_ingress.proxy.shared.spans import RESULTS, Span, decode_spans, unpack
from global_ingress.proxy.supervising.otel import Otel, read_otel

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

FLUSH = 3.0  # seconds that what is left at the end may take
MISSING = "on needs the extra `otel`, which is not installed: pip install 'global-ingress[otel]'"
NEEDS = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")

_log = logger("global_ingress.exporting")


def can_export() -> bool:
    """Whether the extra `otel` is installed."""
    try:
        return all(importlib.util.find_spec(name) is not None for name in NEEDS)
    except ModuleNotFoundError:
        return False


def export_rules(environment: Mapping[str, str]) -> Otel:
    """How to export. Raises SettingsFault with all that is in the way."""
    faults: list[Fault] = []
    try:
        rules = read_otel(environment)
    except SettingsFault as error:
        rules = Otel()
        faults += error.faults
    if not can_export():
        faults.append(Fault("trace", 0, 0, "", MISSING))
    if faults:
        raise SettingsFault(faults)
    return rules


class Exporting:
    """Give `put` the messages of workers. `counted` says what became of their spans."""

    def __init__(self, otel: Otel, version: str, clock: Callable[[], float]) -> None:
        self._otel = otel
        self._version = version
        self._clock = clock
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0
        self._failing = False
        self._exporter: SpanExporter | None = None
        self.counted = dict.fromkeys(RESULTS, 0)
        self._thread = threading.Thread(target=self._run, name="spans", daemon=True)
        self._thread.start()

    def put(self, payload: bytes) -> None:
        """Called on the loop: look whether there is room, and no more."""
        count, dropped, _ = unpack(payload)
        with self._lock:
            room = self._thread.is_alive() and self._waiting + count <= self._otel.queue
            self.counted["dropped"] += dropped if room else dropped + count
            self._waiting += count if room else 0
        if room and count:
            self._queue.put(payload)

    def close(self, limit: float = FLUSH) -> None:
        """Send what is left, for at most `limit` seconds; what is left then is counted as dropped."""
        self._queue.put(None)
        self._thread.join(limit)
        if self._thread.is_alive() and self._exporter is not None:
            self._exporter.shutdown()  # ends its waiting between two tries
        with self._lock:
            self.counted["dropped"] += self._waiting
            self._waiting = 0

    # ---- the thread

    def _run(self) -> None:
        try:
            self._exporter = _exporter()
            self._send_all(self._exporter)
        except Exception as error:  # noqa: BLE001 - the thread's outermost frame: without it spans are dropped, and counted
            _log.exception("spans can no longer be sent", error)

    def _send_all(self, exporter: SpanExporter) -> None:
        make = _Maker(self._version)
        gathered: list[Span] = []
        due = 0.0
        open_ = True
        while open_:
            try:
                payload = self._queue.get(timeout=max(0.0, due - self._clock()) if gathered else None)
                open_ = payload is not None
                if payload is not None:
                    due = due if gathered else self._clock() + self._otel.delay
                    gathered += decode_spans(unpack(payload).spans)
            except queue.Empty:
                due = 0.0
            while gathered and (len(gathered) >= self._otel.batch or self._clock() >= due or not open_):
                batch, gathered = gathered[: self._otel.batch], gathered[self._otel.batch :]
                self._send(exporter, make, batch)
        exporter.shutdown()

    def _send(self, exporter: SpanExporter, make: _Maker, batch: Sequence[Span]) -> None:
        sent = exporter.export([make.span(one) for one in batch]).name == "SUCCESS"
        with self._lock:
            if self._waiting:  # else it was given up meanwhile
                self._waiting -= len(batch)
                self.counted["exported" if sent else "failed"] += len(batch)
        if sent and self._failing:
            _log.info("spans are taken again")
        elif not sent and not self._failing:
            _log.warning("spans are not taken", spans=len(batch))
        self._failing = not sent


def _exporter() -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    # It says each of its tries; what is lost is said here, once, and counted.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    return OTLPSpanExporter()


class _Maker:
    """Our values as the library's."""

    def __init__(self, version: str) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import Event, ReadableSpan
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

        resource = Resource.create()
        ours = {"service.version": version}
        if str(resource.attributes["service.name"]).startswith("unknown_service"):
            ours["service.name"] = "global-ingress"
        self._resource = resource.merge(Resource(ours))
        self._scope = InstrumentationScope("global_ingress", version)
        self._kinds = {"server": SpanKind.SERVER, "client": SpanKind.CLIENT}
        self._error, self._unset = Status(StatusCode.ERROR), Status(StatusCode.UNSET)
        self._span, self._event = ReadableSpan, Event
        self._context, self._flags, self._state = SpanContext, TraceFlags, TraceState

    def span(self, one: Span) -> ReadableSpan:
        trace_id = int(one.trace_id, 16)
        flags, state = self._flags(one.flags), self._state.from_header([one.state]) if one.state else None
        parent = None
        if one.parent_id:
            parent = self._context(trace_id, int(one.parent_id, 16), one.remote, flags, state)
        return self._span(
            one.name,
            context=self._context(trace_id, int(one.span_id, 16), False, flags, state),
            parent=parent,
            resource=self._resource,
            attributes=one.attributes,
            events=[self._event(name, timestamp=at) for name, at in one.events],
            kind=self._kinds[one.kind],
            status=self._error if one.failed else self._unset,
            start_time=one.start,
            end_time=one.end,
            instrumentation_scope=self._scope,
        )
