"""Prometheus text from plain counts: every family of the ingress, its name, labels and meaning. Pure.

The client library is touched when somebody scrapes, never on the way of a request. Keeps the rule that label values
come from known sets, else they are `other` (`labels`), so that nobody outside can make series.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from global_ingress.proxy.shared import sums
from global_ingress.proxy.shared.counts import (
    DURATION_BOUNDS,
    FIRST_BYTE_BOUNDS,
    INTER_CHUNK_BOUNDS,
    OUTCOMES,
    STREAM_ENDS,
    Counts,
    Histogram,
    Series,
)
from global_ingress.proxy.shared.spans import RESULTS
from global_ingress.proxy.supervising.labels import OTHER, Labels

RELOADS = ("ok", "refused", "unchanged")
_P = "global_ingress_"


@dataclass(frozen=True, slots=True)
class Loop:
    """How an event loop does: `lag` seconds late at its last tick, which was at Unix time `tick`."""

    name: str
    lag: float
    tick: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that is shown, at one moment. `discovery_age` is None while there is no table."""

    totals: Counts
    version: str
    build: str = "pure"
    loops: Sequence[Loop] = ()
    in_flight: Mapping[str, int] = field(default_factory=dict)
    routable: Mapping[str, bool] = field(default_factory=dict)
    frontends: Mapping[str, int] = field(default_factory=dict)
    reloads: Mapping[str, int] = field(default_factory=dict)
    discovery_age: float | None = None
    discovery_complete: bool = True
    workers_listening: int = 0
    workers_replaced: int = 0
    held_models: int = 0
    starved_schedules: int = 0
    draining: bool = False
    spans: Mapping[str, int] = field(default_factory=dict)


def exposition(snapshot: Snapshot, labels: Labels) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(snapshot, labels))
    return generate_latest(registry)


def families(snapshot: Snapshot, labels: Labels) -> Iterator[Metric]:
    """Every family, whether it has samples or not."""
    return _Families(snapshot, labels).collect()


class _Families(Collector):
    def __init__(self, snapshot: Snapshot, labels: Labels) -> None:
        self._snapshot = snapshot
        self._labels = labels

    def collect(self) -> Iterator[Metric]:
        yield from _requests(self._snapshot.totals, self._labels)
        yield from _counters(self._snapshot)
        yield from _gauges(self._snapshot)


def _labelled(series: Iterable[Series], labels: Labels) -> dict[tuple[str, str, str], Series]:
    """By (model, region, pool); what folds into `other` is added up."""
    out: dict[tuple[str, str, str], Series] = {}
    for one in series:
        pool = labels.pool(one.pool)
        key = labels.model(one.model), pool.region, pool.name
        if key not in out:
            out[key] = sums.empty_series(key[0], key[2])
        sums.merge_series(out[key], one)
    return out


def _requests(totals: Counts, labels: Labels) -> Iterator[Metric]:
    names = ["model", "region", "pool"]
    found = _labelled(totals.series, labels)
    requests = CounterMetricFamily(_P + "requests", "Requests answered", labels=[*names, "code", "outcome", "stream"])
    for key, series in found.items():
        counted: dict[tuple[str, str, str], int] = {}
        for (status, outcome, stream), count in series.requests.items():
            code = str(status) if 100 <= status < 600 else OTHER
            at = code, outcome if outcome in OUTCOMES else OTHER, "true" if stream else "false"
            counted[at] = counted.get(at, 0) + count
        for at, count in counted.items():
            requests.add_metric([*key, *at], count)
    yield requests
    for name, meaning, bounds, read in _HISTOGRAMS:
        family = HistogramMetricFamily(_P + name, meaning, labels=names)
        for key, series in found.items():
            histogram = read(series)
            family.add_metric(list(key), _cumulative(histogram, bounds), histogram.total)
        yield family


_HISTOGRAMS: tuple[tuple[str, str, tuple[float, ...], Callable[[Series], Histogram]], ...] = (
    (
        "request_duration_seconds",
        "From a request's first byte to its answer's last",
        DURATION_BOUNDS,
        lambda s: s.duration,
    ),
    (
        "time_to_first_byte_seconds",
        "From a request's end to its answer's first byte",
        FIRST_BYTE_BOUNDS,
        lambda s: s.first_byte,
    ),
    (
        "inter_chunk_seconds",
        "Between two reads of a streamed answer; a read is no token",
        INTER_CHUNK_BOUNDS,
        lambda s: s.inter_chunk,
    ),
)


def _cumulative(histogram: Histogram, bounds: Sequence[float]) -> list[tuple[str, float]]:
    out, count = [], 0
    for bound, here in zip((*map(_number, bounds), "+Inf"), histogram.buckets, strict=True):
        count += here
        out.append((bound, float(count)))
    return out


def _number(bound: float) -> str:
    return repr(float(bound))


def _known(counted: Mapping[str, int], words: Sequence[str]) -> dict[str, int]:
    """Every word, at least 0; the rest as `other`, if there is any."""
    out = dict.fromkeys(words, 0)
    for word, count in counted.items():
        at = word if word in out else OTHER
        out[at] = out.get(at, 0) + count
    return out


def _counters(snapshot: Snapshot) -> Iterator[Metric]:
    totals = snapshot.totals
    yield _counter("attempts", "Tries at frontends, by why each was made or failed", totals.attempts, "reason")
    yield _counter("ejections", "Frontends ejected for failing in a row", sum(totals.ejections.values()))
    yield _counter("ejections_capped", "Ejections not made because too many were out", totals.ejection_capped)
    yield _counter("panics", "Choices among frontends that should all be out", totals.panics)
    yield _counter("refusals", "Requests refused, by code", totals.refusals, "code")
    yield _counter("client_disconnects", "Clients that left before their answer's end", totals.client_disconnects)
    ends = _known(totals.stream_ends, STREAM_ENDS)
    yield _counter("stream_end", "How streamed answers ended", ends, "reason")
    reloads = _known(snapshot.reloads, RELOADS)
    yield _counter("config_reloads", "Readings of the settings file after the start", reloads, "result")
    yield _counter("access_log_dropped", "Lines of the access log lost because the disk was slow", totals.log_dropped)
    spans = _known(snapshot.spans, RESULTS)
    yield _counter("trace_spans", "Spans of traces, by what became of them", spans, "result")
    yield _counter("workers_replaced", "Worker processes that died and were replaced", snapshot.workers_replaced)


def _gauges(snapshot: Snapshot) -> Iterator[Metric]:
    totals = snapshot.totals
    yield _gauge("in_flight_requests", "Requests that hold a pool now", snapshot.in_flight, "pool")
    routable = {name: int(value) for name, value in snapshot.routable.items()}
    yield _gauge("pool_routable", "Whether the pool gets requests of any model", routable, "pool")
    yield _gauge("frontends", "Frontends by what they are", snapshot.frontends, "state")
    if snapshot.discovery_age is not None:
        yield _gauge("discovery_age_seconds", "Since the pool table was last known to be right", snapshot.discovery_age)
    yield _gauge("discovery_complete", "Whether the pool table is whole", int(snapshot.discovery_complete))
    yield _gauge("upstream_connections", "Connections to frontends", totals.upstream_connections, "state")
    yield _gauge("client_connections", "Connections of clients", totals.client_connections)
    yield _gauge("buffered_bytes", "Bytes of request bodies in memory", totals.buffered)
    yield _gauge("workers_listening", "Worker processes that accept connections", snapshot.workers_listening)
    yield _gauge("models_held", "Models whose last good pools are held", snapshot.held_models)
    yield _gauge(
        "schedules_without_counter",
        "Schedules that share a counter for want of descriptors",
        snapshot.starved_schedules,
    )
    yield _gauge("draining", "Whether the ingress is draining", int(snapshot.draining))
    lags = {loop.name: loop.lag for loop in snapshot.loops}
    yield _gauge("loop_lag_seconds", "How late the event loop was at its last tick", lags, "loop")
    ticks = {loop.name: loop.tick for loop in snapshot.loops}
    yield _gauge("loop_last_tick_timestamp_seconds", "When the event loop last ticked", ticks, "loop")
    info = GaugeMetricFamily(
        _P + "build_info", "The version of this program, pure or compiled", labels=["version", "build"]
    )
    info.add_metric([snapshot.version, snapshot.build], 1)
    yield info


def _counter(name: str, meaning: str, value: float | Mapping[str, float], label: str = "") -> Metric:
    family = CounterMetricFamily(_P + name, meaning, labels=[label] if label else [])
    for labels, number in _samples(value):
        family.add_metric(labels, number)
    return family


def _gauge(name: str, meaning: str, value: float | Mapping[str, float], label: str = "") -> Metric:
    family = GaugeMetricFamily(_P + name, meaning, labels=[label] if label else [])
    for labels, number in _samples(value):
        family.add_metric(labels, number)
    return family


def _samples(value: float | Mapping[str, float]) -> Iterator[tuple[list[str], float]]:
    if isinstance(value, Mapping):
        yield from (([label], number) for label, number in value.items())
    else:
        yield [], value
