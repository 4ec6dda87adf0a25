"""What a worker makes of traces, and the bounds of what waits: spans are dropped and counted, never kept for ever."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_ingress.proxy.carrying.accesslog import refused_entry
from global_ingress.proxy.carrying.tracing import Trace, Tracing, Unsampled
from global_ingress.proxy.shared.routes import Sampling
from global_ingress.proxy.shared.spans import Span, decode_spans, pack, unpack
from global_ingress.proxy.supervising.exporting import Exporting
from global_ingress.proxy.supervising.otel import Otel

PARENT = b"00-%b-b7ad6b7169203331-%b"
ENTRY = refused_entry(100.0, "r", "POST", "/v1/embeddings", 404, "refused", "model_not_found", "127.0.0.1")


class Channel:
    def __init__(self) -> None:
        self.open = True
        self.got: list[Span] = []
        self.dropped = 0

    def send(self, payload: bytes) -> bool:
        if self.open:
            batch = unpack(payload)
            found = decode_spans(batch.spans)
            assert len(found) == batch.size
            self.got += found
            self.dropped += batch.dropped
        return self.open


def tracing(ratio: float = 1.0, *, parent: bool = True) -> tuple[Tracing, Channel]:
    channel = Channel()
    return Tracing(Sampling(ratio, parent), channel.send, lambda: 0.0), channel


def sampled(trace: Trace | Unsampled) -> bool:
    return isinstance(trace, Trace)


@given(st.integers(1, 2**128 - 1), st.floats(0, 1))
def test_the_ratio_is_of_the_trace_ids_lower_half(trace_id: int, ratio: float) -> None:
    one, _ = tracing(ratio, parent=False)
    begun = sampled(one.begin(PARENT % (b"%032x" % trace_id, b"00"), b""))
    assert begun == ((trace_id & (2**64 - 1)) < round(ratio * 2**64))


@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_where_a_caller_has_decided_it_counts(ratio: float) -> None:
    one, _ = tracing(ratio)
    assert sampled(one.begin(PARENT % (b"1" * 32, b"01"), b""))
    assert not sampled(one.begin(PARENT % (b"1" * 32, b"00"), b""))
    assert sampled(one.begin(b"", b"")) is (ratio == 1.0)


def test_the_share_of_fresh_traces() -> None:
    one, _ = tracing(0.25)
    assert 700 < sum(sampled(one.begin(b"", b"")) for _ in range(4000)) < 1300


def test_what_is_not_taken_is_dropped_and_counted_later() -> None:
    one, channel = tracing()
    channel.open = False
    for _ in range(700):
        one.local(ENTRY, b"", b"")
    assert one.dropped == 512
    channel.open = True
    one.pass_on()
    assert (len(channel.got), channel.dropped, one.dropped) == (188, 512, 0)
    one.pass_on()
    assert channel.dropped == 512


def test_after_the_end_spans_go_out_at_once() -> None:
    one, channel = tracing()
    one.local(ENTRY, b"", b"")
    assert channel.got == []
    one.close()
    one.local(ENTRY, b"", b"")
    assert len(channel.got) == 2
    assert channel.got[0].attributes["error.type"] == "model_not_found"


def test_the_exporters_queue_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    one, channel = tracing()
    for _ in range(10):
        one.local(ENTRY, b"", b"")
    one.pass_on()
    message = pack(channel.got, 3)
    exporting = Exporting(Otel(queue=25, delay=60.0), "0", lambda: 0.0)
    for _ in range(4):
        exporting.put(message)
    assert exporting.counted["dropped"] == 3 * 4 + 20
    exporting.close(10.0)
    assert sum(exporting.counted.values()) == 3 * 4 + 40
    assert exporting.counted["exported"] == 0
