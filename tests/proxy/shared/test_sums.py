"""Totals add up and never fall, whoever dies (I53)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from global_ingress.proxy.shared import sums
from global_ingress.proxy.shared.counts import Counts, decode_counts, encode_counts

NAMES = st.sampled_from(["a", "b", "c"])


@st.composite
def reports(draw: st.DrawFn) -> Counts:
    counts = sums.nothing()
    for model, pool in draw(st.lists(st.tuples(NAMES, NAMES), unique=True, max_size=4)):
        series = sums.empty_series(model, pool)
        series.requests = draw(
            st.dictionaries(
                st.tuples(st.sampled_from([200, 503]), st.sampled_from(["ok", "refused"]), st.booleans()),
                st.integers(0, 9),
            )
        )
        series.duration.buckets[draw(st.integers(0, 15))] = draw(st.integers(0, 9))
        series.duration.total = draw(st.integers(0, 9))
        counts.series.append(series)
    counts.attempts = draw(st.dictionaries(NAMES, st.integers(0, 9)))
    counts.client_disconnects = draw(st.integers(0, 9))
    counts.client_connections = draw(st.integers(0, 9))
    counts.upstream_connections = draw(st.dictionaries(NAMES, st.integers(0, 9)))
    counts.loop_lag = draw(st.floats(0, 9))
    counts.last_tick = draw(st.floats(1, 9))
    return counts


def requests(counts: Counts) -> int:
    return sum(sum(series.requests.values()) for series in counts.series)


@given(st.lists(reports(), max_size=4))
def test_the_sum_is_that_of_its_parts(parts: list[Counts]) -> None:
    total = sums.total(parts)
    assert requests(total) == sum(map(requests, parts))
    assert total.client_disconnects == sum(part.client_disconnects for part in parts)
    assert sum(total.attempts.values()) == sum(sum(part.attempts.values()) for part in parts)
    assert sum(sum(s.duration.buckets) for s in total.series) == sum(
        sum(s.duration.buckets) for part in parts for s in part.series
    )
    assert len({(s.model, s.pool) for s in total.series}) == len(total.series)
    assert decode_counts(encode_counts(total)) == total


@given(st.lists(reports(), min_size=1, max_size=4))
def test_summing_changes_no_report(parts: list[Counts]) -> None:
    before = [encode_counts(part) for part in parts]
    sums.total(parts)
    sums.total(parts)
    assert [encode_counts(part) for part in parts] == before


@given(reports(), reports())
def test_the_dead_keep_their_counters_and_lose_their_gauges(dead: Counts, alive: Counts) -> None:
    before = sums.total([dead, alive])
    after = sums.total([sums.of_the_dead(dead), alive])
    assert requests(after) == requests(before)
    assert (after.attempts, after.client_disconnects) == (before.attempts, before.client_disconnects)
    assert after.client_connections == alive.client_connections
    assert after.upstream_connections == sums.total([alive]).upstream_connections
