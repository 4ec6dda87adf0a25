"""Repeats are bounded by a budget; the words of every trouble are there; sentences and their share (I30, I31, I33)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_ingress.proxy.shared.attempt import (
    BLAMED,
    FAULT_OF,
    REPEATABLE,
    START,
    STREAM_END,
    UNCONNECTED,
    WINDOW,
    WORDS,
    Budget,
    Trouble,
)
from global_ingress.proxy.shared.counts import STREAM_ENDS
from global_ingress.proxy.shared.ejection import may_eject, sentence
from global_ingress.proxy.shared.errors import FAULTS

STEPS = st.lists(st.sampled_from("rrrsst"), max_size=300)


@given(st.floats(0, 2), STEPS)
def test_n_requests_never_make_more_than_their_share_and_three(share: float, steps: list[str]) -> None:
    budget, asked, repeats = Budget(share), 0, 0
    for step in steps:
        if step == "r":
            budget.deposit()
            asked += 1
        elif step == "s":
            could = budget.has()
            assert budget.spend() == could
            repeats += could
        else:
            budget.second()
        assert asked + repeats <= (1 + share) * asked + START + 1e-6
        assert budget.tokens >= 0


@given(st.floats(0, 1), st.lists(st.integers(0, 40), max_size=40))
def test_what_was_saved_up_is_forgotten_after_the_window(share: float, seconds: list[int]) -> None:
    budget = Budget(share)
    for requests in seconds:
        for _ in range(requests):
            budget.deposit()
        budget.second()
    saved = 0
    while budget.spend():
        saved += 1
    assert saved <= START + share * sum(seconds[-WINDOW:]) + 1e-6


def test_a_budget_of_nothing_is_three_repeats_for_ever() -> None:
    budget = Budget(0.0)
    for _ in range(1000):
        budget.deposit()
    assert [budget.spend() for _ in range(4)] == [True, True, True, False]


def test_a_full_share_pays_for_each_request() -> None:
    budget = Budget(1.0)
    for _ in range(50):
        budget.deposit()
        assert budget.spend()


def test_every_trouble_has_its_words() -> None:
    held_back = {
        Trouble.STATUS,
        Trouble.NO_WORKERS,
        Trouble.ERROR_EVENT,
    }  # what the frontend said is what the client gets
    assert set(FAULT_OF) == set(WORDS) == set(Trouble) - held_back
    assert set(FAULT_OF.values()) <= set(FAULTS)
    assert set(STREAM_END.values()) <= set(STREAM_ENDS)
    assert len({trouble.value for trouble in Trouble}) == len(Trouble)


def test_what_may_have_been_worked_on_is_never_repeated() -> None:
    for trouble in (
        Trouble.FIRST_BYTE_TIMEOUT,
        Trouble.IDLE_TIMEOUT,
        Trouble.TRUNCATED,
        Trouble.BROKEN,
        Trouble.TOTAL_TIMEOUT,
    ):
        assert trouble not in REPEATABLE | UNCONNECTED
        assert not FAULTS[FAULT_OF[trouble]].again
    assert UNCONNECTED <= BLAMED
    assert not BLAMED & {Trouble.STALE_CONNECTION, Trouble.ERROR_EVENT, Trouble.TOTAL_TIMEOUT, Trouble.REDIRECT}


@given(st.floats(0.1, 100), st.floats(0.1, 1000), st.integers(0, 10_000))
def test_sentences_double_up_to_the_longest(base: float, longest: float, before: int) -> None:
    found = sentence(base, longest, before)
    assert found == min(base * 2.0 ** min(before, 20), longest)
    assert sentence(base, longest, before + 1) >= found


@given(st.integers(0, 20), st.integers(0, 20), st.floats(0, 1), st.booleans())
def test_the_last_one_is_never_out_and_answers_alone_put_out_a_share(
    out: int, listed: int, share: float, unconnected: bool
) -> None:
    may = may_eject(out, listed, share, unconnected=unconnected)
    if may:
        assert out + 1 < listed
        assert unconnected or out + 1 <= share * listed
    elif unconnected:
        assert out + 1 >= listed


@pytest.mark.parametrize(
    ("out", "listed", "want"), [(0, 2, True), (1, 2, False), (0, 1, False), (1, 4, True), (2, 4, False)]
)
def test_half_may_be_out(out: int, listed: int, want: bool) -> None:
    assert may_eject(out, listed, 0.5, unconnected=False) is want


def test_what_we_lack_ourselves_is_nobody_s_fault_and_tried_nowhere_else() -> None:
    assert Trouble.EXHAUSTED not in UNCONNECTED | REPEATABLE | BLAMED
    assert FAULT_OF[Trouble.EXHAUSTED] == "overloaded"
