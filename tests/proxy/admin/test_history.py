"""Rates, shares and percentiles from counters that only grow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_ingress.proxy.admin.history import EVERY, POINTS, History, percentile
from global_ingress.proxy.shared import sums
from global_ingress.proxy.shared.counts import FIRST_BYTE_BOUNDS, Counts

SIZE = len(FIRST_BYTE_BOUNDS) + 1


def totals(ok: int, failed: int, pool: str = "p") -> Counts:
    out = sums.nothing()
    series = sums.empty_series("m", pool)
    series.requests = {(200, "ok", False): ok, (502, "upstream_error", False): failed}
    series.first_byte.buckets[2] = ok
    out.series = [series]
    return out


def test_a_point_is_what_grew() -> None:
    history = History()
    history.look(totals(100, 0), 0.0)
    history.look(totals(140, 10), 5.0)
    found = history.of("p")
    assert (found["rate"], found["error_share"]) == (10.0, 0.2)
    assert 10.0 <= found["first_byte_p50_ms"] <= found["first_byte_p99_ms"] <= 25.0
    assert history.overall()["rate"] == 10.0
    assert history.of("other")["points"]["rate"] == [0.0]
    assert history.of("other")["error_share"] is None


def test_nothing_is_known_before_the_second_look() -> None:
    history = History()
    assert history.due(0.0)
    history.look(totals(5, 0), 0.0)
    assert not history.due(EVERY - 0.1)
    assert history.due(EVERY)
    assert history.overall()["points"]["rate"] == []
    assert history.overall()["rate"] == 0.0


def test_it_is_bounded() -> None:
    history = History()
    for n in range(POINTS + 20):
        history.look(totals(n, 0), n * EVERY)
    assert len(history.overall()["points"]["p99_ms"]) == POINTS


@given(st.lists(st.integers(0, 50), min_size=SIZE, max_size=SIZE), st.floats(0.01, 0.99))
def test_a_percentile_lies_in_its_bucket(buckets: list[int], share: float) -> None:
    found = percentile(buckets, share)
    if not any(buckets):
        assert found is None
        return
    values = [n for n, count in enumerate(buckets) for _ in range(count)]
    at = values[min(int(share * len(values)), len(values) - 1)]
    lower = max(0, at - 1)
    assert found is not None
    assert found >= (FIRST_BYTE_BOUNDS[values[0] - 1] * 1e3 - 0.1 if values[0] else 0.0)
    high = FIRST_BYTE_BOUNDS[min(at, len(FIRST_BYTE_BOUNDS) - 1)] * 1e3
    assert found <= high + 0.1
    assert lower <= at


@pytest.mark.parametrize(("share", "found"), [(0.5, 2.5), (1.0, 5.0)])
def test_inside_a_bucket_by_proportion(share: float, found: float) -> None:
    assert percentile([10] + [0] * (SIZE - 1), share) == found
