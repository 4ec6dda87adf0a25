"""The bucket: what passes, what waits, and that what it says is true (I60)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from global_ingress.proxy.shared.rate import look

WINDOWS = st.integers(10**6, 10**12)  # nanoseconds
RATES = WINDOWS.flatmap(lambda window: st.tuples(st.integers(1, min(10**9, window // 1000)), st.just(window)))


def test_a_full_bucket_holds_its_count_and_fills_evenly() -> None:
    full_at, now, passed = 0, 10**9, []
    for _ in range(4):
        verdict = look(full_at, now, 3, 30)
        full_at = verdict.full_at
        passed.append((verdict.allowed, verdict.remaining, verdict.wait))
    assert passed == [(True, 2, 0), (True, 1, 0), (True, 0, 0), (False, 0, 10)]
    assert not look(full_at, now + 9, 3, 30).allowed
    assert look(full_at, now + 10, 3, 30).allowed


@given(rate=RATES, gaps=st.lists(st.integers(0, 10**10), max_size=60))
def test_never_more_than_the_bucket_and_what_flowed_in(rate: tuple[int, int], gaps: list[int]) -> None:
    count, window = rate
    full_at, now, passed = 0, 10**12, 0
    start = now
    for gap in gaps:
        now += gap
        verdict = look(full_at, now, count, window)
        full_at = verdict.full_at
        passed += verdict.allowed
        assert passed <= count + (now - start) // (window // count) + 1
        assert verdict.allowed == (verdict.wait == 0)


@given(rate=RATES, used=st.integers(0, 3000))
def test_waiting_as_long_as_it_says_is_enough_and_less_is_not(rate: tuple[int, int], used: int) -> None:
    count, window = rate
    now = 10**12
    full_at = now + min(used, count) * (window // count)
    verdict = look(full_at, now, count, window)
    if not verdict.allowed:
        assert look(full_at, now + verdict.wait, count, window).allowed
        assert not look(full_at, now + verdict.wait - 1, count, window).allowed


@given(before=RATES, after=RATES, used=st.integers(1, 100))
def test_another_rate_holds_at_once(before: tuple[int, int], after: tuple[int, int], used: int) -> None:
    """Nobody waits longer than the new rate makes anybody wait."""
    full_at, now = 0, 10**12
    for _ in range(used):
        full_at = look(full_at, now, *before).full_at
    count, window = after
    for later in (0, window // 2, window):
        assert look(full_at, now + later, count, window).wait <= window // count
