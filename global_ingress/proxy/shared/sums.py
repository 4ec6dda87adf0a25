"""Adding up what workers report. Pure.

Keeps the rule that totals never fall: the last report of a worker that died is added to a sum of its own; gauges of the
dead are gone with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy

from global_ingress.proxy.shared.counts import (
    DURATION_BOUNDS,
    FIRST_BYTE_BOUNDS,
    INTER_CHUNK_BOUNDS,
    Counts,
    Histogram,
    Series,
)

_SUMS = ("client_disconnects", "ejection_capped", "panics", "log_dropped")
_GAUGES = ("client_connections", "buffered")
_NAMED_SUMS = ("attempts", "ejections", "stream_ends", "refusals")


def nothing() -> Counts:
    return Counts(
        series=[],
        attempts={},
        ejections={},
        stream_ends={},
        client_disconnects=0,
        client_connections=0,
        ejection_capped=0,
        panics=0,
        refusals={},
        upstream_connections={},
        buffered=0,
        log_dropped=0,
        loop_lag=0.0,
        last_tick=0.0,
    )


def empty_series(model: str, pool: str) -> Series:
    return Series(
        model,
        pool,
        {},
        Histogram([0] * (len(DURATION_BOUNDS) + 1)),
        Histogram([0] * (len(FIRST_BYTE_BOUNDS) + 1)),
        Histogram([0] * (len(INTER_CHUNK_BOUNDS) + 1)),
    )


def total(reports: Iterable[Counts]) -> Counts:
    """The sum; the loop's lag is the worst, its last tick the oldest."""
    out = nothing()
    series: dict[tuple[str, str], Series] = {}
    ticks = []
    for report in reports:
        _add_series(series, report.series)
        for name in (*_SUMS, *_GAUGES):
            setattr(out, name, getattr(out, name) + getattr(report, name))
        for name in (*_NAMED_SUMS, "upstream_connections"):
            add_named(getattr(out, name), getattr(report, name))
        out.loop_lag = max(out.loop_lag, report.loop_lag)
        ticks.append(report.last_tick)
    out.series = list(series.values())
    out.last_tick = min(ticks, default=0.0)
    return out


def of_the_dead(report: Counts) -> Counts:
    """What stays of a worker that died: its counters, not its gauges."""
    out = deepcopy(report)
    out.client_connections = out.buffered = 0
    out.upstream_connections = {}
    out.loop_lag = out.last_tick = 0.0
    return out


def add_named(into: dict[str, int], more: dict[str, int]) -> None:
    for name, count in more.items():
        into[name] = into.get(name, 0) + count


def merge_series(into: Series, more: Series) -> None:
    for key, count in more.requests.items():
        into.requests[key] = into.requests.get(key, 0) + count
    for name in ("duration", "first_byte", "inter_chunk"):
        _merge_histogram(getattr(into, name), getattr(more, name))


def _add_series(into: dict[tuple[str, str], Series], more: Iterable[Series]) -> None:
    for one in more:
        key = one.model, one.pool
        if key not in into:
            into[key] = empty_series(*key)
        merge_series(into[key], one)


def _merge_histogram(into: Histogram, more: Histogram) -> None:
    """A report whose buckets are cut otherwise than ours would be counted wrongly: it is refused."""
    if len(into.buckets) != len(more.buckets):
        raise ValueError(f"a histogram of {len(more.buckets)} buckets where {len(into.buckets)} are expected")
    for n, count in enumerate(more.buckets):
        into.buckets[n] += count
    into.total += more.total
