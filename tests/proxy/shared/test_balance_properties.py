"""Schedules are exact, even, and go on where they stood (I20)."""

from __future__ import annotations

import math
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from global_ingress.proxy.shared.balance import LONGEST, smooth, succeeded

WEIGHTS = st.dictionaries(st.text("abcdefgh", min_size=1, max_size=2), st.integers(0, 7), max_size=7)
MEMBERS = st.lists(st.integers(0, 30), unique=True, max_size=8)


@given(WEIGHTS)
def test_each_key_occurs_as_often_as_its_weight_says(weights: dict[str, int]) -> None:
    live = {key: weight for key, weight in weights.items() if weight}
    divisor = math.gcd(*live.values()) or 1
    assert Counter(smooth(weights)) == {key: weight // divisor for key, weight in live.items()}


@given(WEIGHTS)
def test_after_any_number_of_turns_nobody_is_far_from_his_share(weights: dict[str, int]) -> None:
    sequence = smooth(weights)
    whole = Counter(sequence)
    seen: Counter[str] = Counter()
    for n, key in enumerate(sequence * 2, 1):
        seen[key] += 1
        for other, weight in whole.items():
            assert abs(seen[other] - n * weight / len(sequence)) < max(2, len(whole) / 2)


@given(MEMBERS)
def test_equal_weights_keep_the_order_given(members: list[int]) -> None:
    assert smooth(dict.fromkeys(members, 3)) == tuple(members)


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=400))
def test_a_schedule_stays_short_and_nobody_is_forgotten(weights: list[int]) -> None:
    sequence = smooth(dict(enumerate(weights)))
    assert set(sequence) == set(range(len(weights)))
    assert len(sequence) <= 2 * max(LONGEST, len(weights))


def test_rounding_keeps_the_shares() -> None:
    counts = Counter(smooth(dict.fromkeys(range(20), 997) | {99: 499}))
    assert abs(counts[0] / counts[99] - 997 / 499) < 0.05


@given(MEMBERS, st.integers(0, 50), MEMBERS)
def test_a_change_goes_on_with_the_member_due_next(old: list[int], drawn: int, new: list[int]) -> None:
    before = smooth(dict.fromkeys(old, 1))
    after = succeeded(before, drawn, dict.fromkeys(new, 1))
    assert sorted(after) == sorted(new)
    due = [before[(drawn + n) % len(before)] for n in range(len(before))]
    stayed = [key for key in due if key in new]
    assert list(after[: len(stayed)]) == stayed


@given(MEMBERS, st.integers(0, 50), MEMBERS, MEMBERS)
def test_nobody_waits_more_than_one_more_round(old: list[int], drawn: int, new: list[int], third: list[int]) -> None:
    """Whoever stays through two changes, at any moment, is served within a round of the old and one of the new."""
    sequence, position = smooth(dict.fromkeys(old, 1)), drawn
    for members in (new, third):
        following = succeeded(sequence, position, dict.fromkeys(members, 1))
        for key in set(sequence) & set(following):
            waited = next(n for n in range(len(sequence)) if sequence[(position - n - 1) % len(sequence)] == key)
            assert waited + following.index(key) < len(sequence) + len(following)
        sequence, position = following, 0


@given(WEIGHTS, st.integers(0, 40), WEIGHTS)
def test_a_succession_has_the_new_shares(old: dict[str, int], drawn: int, new: dict[str, int]) -> None:
    assert Counter(succeeded(smooth(old), drawn, new)) == Counter(smooth(new))
