"""The plan: exact counts and every kind at every pool, whatever the number of pools and wherever the turn stands."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from global_ingress.validate.evidence import KINDS
from global_ingress.validate.plan import everything, kind_of, requests

POOLS = st.integers(1, 12)
PER_POOL = st.integers(1, 24)


@given(POOLS, PER_POOL, st.integers(0, 50))
def test_every_pool_gets_r_requests_and_every_kind(pools: int, per_pool: int, turn: int) -> None:
    got: dict[int, Counter[str]] = {pool: Counter() for pool in range(pools)}
    for asked in requests("ohio", 1, pools, per_pool):
        got[(asked.number + turn) % pools][str(asked.kind)] += 1
    for counts in got.values():
        assert counts.total() == per_pool
        assert len(counts) == min(per_pool, len(KINDS))
        assert max(counts.values()) - min(counts.values()) <= 1


@given(POOLS, st.integers(1, 12).map(lambda half: 2 * half), st.integers(0, 50))
def test_half_of_what_each_pool_gets_is_sse(pools: int, per_pool: int, turn: int) -> None:
    streams = Counter(
        (asked.number + turn) % pools for asked in requests("ohio", 1, pools, per_pool) if asked.kind.stream
    )
    assert all(streams[pool] * 2 == per_pool for pool in range(pools))


@given(st.sampled_from([4, 8, 12]), st.integers(0, 500))
def test_for_multiples_of_four_pools_the_kind_is_place_plus_round(pools: int, number: int) -> None:
    assert kind_of(number, pools) == KINDS[(number + number // pools) % 4]


@given(st.integers(1, 5), st.integers(1, 3), POOLS, PER_POOL)
def test_everything_is_planned_once(ingresses: int, runs: int, pools: int, per_pool: int) -> None:
    planned = everything([f"c{i}" for i in range(ingresses)], runs, pools, per_pool)
    assert len(planned) == len(set(planned)) == ingresses * runs * pools * per_pool


def test_four_regions_four_pools_ten_each_twice_are_320() -> None:
    assert len(everything(["a", "b", "c", "d"], 2, 4, 10)) == 320
