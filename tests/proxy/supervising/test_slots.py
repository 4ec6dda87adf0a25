"""Rows of the ledger: stable, unique, and nobody inherits what another still holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from global_ingress.proxy.supervising.slots import QUARANTINE, Slots


def test_a_frontend_keeps_its_row_while_listed_and_while_it_holds_requests() -> None:
    slots, busy = Slots(10), {0: 1}
    slots.update(["a", "b"], 0, lambda slot: busy.get(slot, 0))
    assert (slots.of("a"), slots.of("b"), slots.of("c")) == (0, 1, None)
    slots.update(["b"], 1, lambda slot: busy.get(slot, 0))
    slots.update(["b"], 1000, lambda slot: busy.get(slot, 0))
    assert slots.of("a") == 0
    busy.clear()
    assert slots.update(["b", "c"], 1001, lambda slot: 0) == [0]
    assert (slots.of("a"), slots.of("c")) == (None, 0)


def test_a_free_row_rests_before_it_is_given_away() -> None:
    slots = Slots(10)
    slots.update(["a"], 0, lambda slot: 0)
    slots.update([], 5, lambda slot: 0)
    assert slots.leaving == 1
    assert slots.update(["b"], 5 + QUARANTINE - 1, lambda slot: 0) == []
    assert slots.of("b") == 1
    slots.update(["a", "b"], 6 + QUARANTINE, lambda slot: 0)
    assert (slots.of("a"), slots.leaving) == (0, 0)


def test_frontends_beyond_the_size_share_the_last_row() -> None:
    slots = Slots(3)
    slots.update(["a", "b", "c", "d"], 0, lambda slot: 0)
    assert ([slots.of(url) for url in "abcd"], slots.crowded) == ([0, 1, 2, 2], 2)
    slots.update(["a", "c"], 1, lambda slot: 0)
    slots.update(["a", "c"], 2 + QUARANTINE, lambda slot: 0)
    assert slots.update(["a", "c", "e", "f"], 3 + QUARANTINE, lambda slot: 0) == [1]
    assert [slots.of(url) for url in "acef"] == [0, 2, 1, 2]


@given(st.lists(st.tuples(st.sets(st.sampled_from("abcdefgh"), max_size=5), st.integers(0, 20)), max_size=30))
def test_no_two_share_a_row_and_nobody_moves(steps: list[tuple[set[str], int]]) -> None:
    slots, now = Slots(100), 0.0
    for listed, wait in steps:
        now += wait
        before = dict(slots)
        cleared = slots.update(sorted(listed), now, lambda slot: 0)
        after = dict(slots)
        assert len(set(after.values())) == len(after)
        assert listed <= set(after)
        assert all(after[url] == before[url] for url in listed & set(before))
        assert set(cleared) <= {after[url] for url in set(after) - set(before)}
