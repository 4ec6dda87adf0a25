"""One update that takes everything away is doubted for a while; every other one is obeyed (I49)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from discovery.identity import PoolKey
from discovery.pool import Pool
from global_ingress.proxy.supervising.hold import Held, LastGood
from tests.proxy.making import frontend, pool

A, B = pool("a", frontend(1)), pool("b", frontend(2))
EMPTY = pool("a")


def apply(holds: LastGood, listed: list[Pool], now: float, failing: tuple[int, ...] = (), hold: float = 60) -> Held:
    return holds.apply("m", listed, now=now, hold=hold, failing={frontend(n).url: "refused" for n in failing})


def test_a_removal_with_others_left_is_obeyed_at_once() -> None:
    holds = LastGood()
    apply(holds, [A, B], 0)
    assert apply(holds, [B], 1) == Held((B,))


def test_the_last_good_set_is_held_and_let_go_when_the_time_is_over() -> None:
    holds = LastGood()
    apply(holds, [A, B], 0)
    assert apply(holds, [], 10) == Held((A, B), 60)
    assert apply(holds, [], 69) == Held((A, B), 1)
    assert apply(holds, [], 70) == Held(())
    assert apply(holds, [], 71) == Held(()), "not held again"


def test_pools_that_lost_all_their_frontends_are_gone_too() -> None:
    holds = LastGood()
    apply(holds, [A], 0)
    assert apply(holds, [EMPTY], 1) == Held((A,), 60)


def test_holding_ends_when_all_their_probes_fail() -> None:
    holds = LastGood()
    apply(holds, [A, B], 0)
    assert apply(holds, [], 1, failing=(1,)).left is not None
    assert apply(holds, [], 2, failing=(1, 2)) == Held(())


def test_what_comes_back_ends_the_holding() -> None:
    holds = LastGood()
    apply(holds, [A, B], 0)
    apply(holds, [], 1)
    assert apply(holds, [B], 2) == Held((B,))
    assert apply(holds, [], 100) == Held((B,), 60)


def test_nothing_is_held_of_a_model_that_never_had_a_pool_nor_with_hold_off() -> None:
    holds = LastGood()
    assert apply(holds, [], 0) == Held(())
    apply(holds, [A], 1)
    assert apply(holds, [], 2, hold=0) == Held(())


def test_forgetting() -> None:
    holds = LastGood()
    apply(holds, [A], 0)
    holds.keep_only(["other"])
    assert apply(holds, [], 1) == Held(())
    apply(holds, [A], 2)
    holds.forget()
    assert apply(holds, [], 3) == Held(())


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from([[], [A], [B], [A, B], [EMPTY]])), max_size=20))
def test_a_pool_is_never_held_longer_than_the_time(steps: list[tuple[int, list[Pool]]]) -> None:
    holds, now = LastGood(), 0.0
    last: dict[PoolKey, float] = {}
    for wait, listed in steps:
        now += wait
        last |= {p.key: now for p in listed if p.frontends}
        result = apply(holds, listed, now)
        for held in result.pools:
            if held.frontends and held not in listed:
                assert result.left is not None
                assert now - last[held.key] < 60 + 30
        assert {p.key for p in listed} <= {p.key for p in result.pools}
