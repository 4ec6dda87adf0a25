"""The ledger is shared, counts to zero, and forgets the dead (I33, I53)."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_ingress.proxy.shared.ledger import SLOTS, Ledger, allowance_size, create_ledger, ledger_size

WORKERS = 3


@pytest.fixture
def fd() -> Iterator[int]:
    fd = create_ledger(WORKERS)
    yield fd
    os.close(fd)


def test_each_worker_writes_its_own_row_and_all_read_the_sum(fd: int) -> None:
    rows = [Ledger(fd, WORKERS, n) for n in range(WORKERS)]
    reader = Ledger(fd, WORKERS)
    for slot in (0, 7, SLOTS - 1):
        for row in rows:
            row.begin(slot)
        rows[0].begin(slot)
        rows[1].end(slot)
        assert (reader.in_flight(slot), rows[2].in_flight(slot)) == (3, 3)
    assert reader.in_flight(1) == 0
    for one in (*rows, reader):
        one.close()


def test_a_dead_worker_holds_nothing(fd: int) -> None:
    rows = [Ledger(fd, WORKERS, n) for n in range(WORKERS)]
    reader = Ledger(fd, WORKERS)
    for row in rows[:2]:
        row.begin(5)
        row.begin(9)
    reader.clear_worker(0, [5, 9])
    assert [reader.in_flight(slot) for slot in (5, 9)] == [1, 1]
    reader.clear_worker(1)
    assert [reader.in_flight(slot) for slot in (5, 9)] == [0, 0]
    for one in (*rows, reader):
        one.close()


def test_a_slot_for_another_frontend_starts_clean_and_its_neighbours_stay(fd: int) -> None:
    row = Ledger(fd, WORKERS, 1)
    for slot in (3, 4):
        row.begin(slot)
        row.set_streak(slot, 4)
        row.eject(slot, 99)
    row.clear_slot(3)
    assert (row.in_flight(3), row.streak(3), row.ejections(3), row.ejected_until(3)) == (0, 0, 0, 0)
    assert (row.in_flight(4), row.streak(4), row.ejections(4), row.ejected_until(4)) == (1, 4, 1, 99)
    row.close()


def test_ejection_trial_and_readmission(fd: int) -> None:
    one, other = Ledger(fd, WORKERS, 0), Ledger(fd, WORKERS, 1)
    one.set_streak(2, 5)
    one.eject(2, 1000)
    assert (other.ejected_until(2), other.ejections(2), other.on_trial(2)) == (1000, 1, False)
    other.shorten(2, 2000)
    assert one.ejected_until(2) == 1000
    other.shorten(2, 500)
    assert (one.ejected_until(2), one.streak(2), one.ejections(2)) == (500, 5, 1)
    other.begin_trial(2, 600)
    assert one.on_trial(2)
    assert one.ejected_until(2) > 600
    one.eject(2, 3000)
    assert (other.on_trial(2), other.ejections(2)) == (False, 2)
    one.readmit(2)
    assert (other.streak(2), other.ejections(2), other.ejected_until(2)) == (0, 0, 0)
    one.close()
    other.close()


def test_only_touched_pages_cost_memory(fd: int) -> None:
    ledger = Ledger(fd, WORKERS, 0)
    ledger.begin(1)
    assert os.fstat(fd).st_size == ledger_size(WORKERS) + allowance_size(WORKERS)
    assert os.fstat(fd).st_blocks * 512 < ledger_size(WORKERS) / 4
    ledger.close()


@given(st.lists(st.tuples(st.integers(0, WORKERS - 1), st.integers(0, 4), st.booleans()), max_size=60))
def test_it_comes_back_to_zero_when_all_have_ended(steps: list[tuple[int, int, bool]]) -> None:
    fd = create_ledger(WORKERS)
    rows = [Ledger(fd, WORKERS, n) for n in range(WORKERS)]
    held: list[tuple[int, int]] = []
    for worker, slot, begin in steps:
        if begin:
            rows[worker].begin(slot)
            held.append((worker, slot))
        elif held:
            gone = held.pop(0)
            rows[gone[0]].end(gone[1])
        assert [rows[0].in_flight(s) for s in range(5)] == [sum(h[1] == s for h in held) for s in range(5)]
    for worker, slot in held:
        rows[worker].end(slot)
    assert [rows[2].in_flight(s) for s in range(5)] == [0] * 5
    for row in rows:
        row.close()
    os.close(fd)
