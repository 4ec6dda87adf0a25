"""When leases are judged: trouble of our own ends none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from discovery.directory.hearing import Hearing, begin, heard

STEPS = st.lists(st.tuples(st.integers(1, 40), st.booleans()), max_size=30)


def start() -> Hearing:
    return begin(100.0, lease=15.0, fresh=5.0)


def test_complete_one_lease_after_the_start() -> None:
    hearing = start()
    assert not hearing.complete(100.0)
    for now in range(100, 118, 2):
        hearing = heard(hearing, float(now))
        assert hearing.complete(float(now)) == (now >= 115)
        assert hearing.judged_at(float(now)) == now
    assert hearing.next_turn(116.0) == 121.0


def test_a_silence_stops_time_until_one_lease_after_it() -> None:
    hearing = start()
    for now in range(100, 117, 4):
        hearing = heard(hearing, float(now))
    assert hearing.complete(121.0)
    assert not hearing.complete(121.1)
    assert hearing.judged_at(150.0) == 121.0
    hearing = heard(hearing, 150.0)
    assert not hearing.complete(150.0)
    for later in (154.0, 158.0, 162.0):
        hearing = heard(hearing, later)
        assert (hearing.complete(later), hearing.judged_at(later)) == (False, 121.0)
    assert hearing.next_turn(162.0) == 165.0
    assert (hearing.complete(165.0), hearing.judged_at(165.0)) == (True, 165.0)
    hearing = heard(hearing, 166.0)
    assert hearing.judged_at(167.0) == 167.0


def test_a_first_word_that_comes_late_starts_the_lease_anew() -> None:
    hearing = heard(start(), 140.0)
    assert hearing.settles_at == 155.0
    assert heard(start(), 103.0).settles_at == 115.0


@given(STEPS)
def test_time_never_goes_back_nor_ahead_and_complete_means_heard(steps: list[tuple[int, bool]]) -> None:
    hearing, now, judged = start(), 100.0, 0.0
    last_heard = None
    for wait, is_heard in steps:
        now += wait
        moment = hearing.judged_at(now)
        assert judged <= moment <= now
        judged = moment
        if is_heard:
            hearing, last_heard = heard(hearing, now), now
            assert judged <= hearing.judged_at(now) <= now
        if hearing.complete(now):
            assert last_heard is not None
            assert now - last_heard <= hearing.fresh
            assert hearing.judged_at(now) == now


@given(STEPS, st.integers(6, 500))
def test_who_was_live_when_silence_began_is_live_until_a_lease_after_it(
    steps: list[tuple[int, bool]], silence: int
) -> None:
    hearing, now = heard(start(), 100.0), 100.0
    for wait, is_heard in steps:
        now += wait
        if is_heard:
            hearing = heard(hearing, now)
    hearing = heard(hearing, now)
    before = hearing.judged_at(now)
    now += silence
    hearing = heard(hearing, now)
    assert hearing.judged_at(now) <= max(before, now - silence + hearing.fresh)
    # A Relay that renews within a heartbeat of the end is seen long before time goes on.
    while now + 4 < hearing.settles_at:
        now += 4
        hearing = heard(hearing, now)
        assert hearing.judged_at(now) <= now - 4
        assert not hearing.complete(now)
