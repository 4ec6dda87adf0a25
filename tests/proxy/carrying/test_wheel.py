"""The wheel looks at each item in time, never early, and one broken item stops nobody (I44)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_ingress.proxy.carrying.wheel import NEVER, TICK, Wheel


class Loop:
    """Time by hand: `advance` runs what is due, each call `late` seconds after its time."""

    def __init__(self, late: float = 0.0) -> None:
        self.now = 1000.0
        self.late = late
        self.due: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, seconds: float, call: Callable[[], None]) -> Loop:
        self.due.append((self.now + seconds + self.late, call))
        return self

    def cancel(self) -> None:
        self.due.clear()

    def advance(self, seconds: float) -> None:
        until = self.now + seconds
        while self.due and min(self.due)[0] <= until:
            at, call = self.due.pop(self.due.index(min(self.due)))
            self.now = at
            call()
        self.now = until


class Item:
    def __init__(self, deadline: float, broken: bool = False) -> None:
        self.deadline = deadline
        self.look = NEVER
        self.broken = broken
        self.times: list[float] = []
        self.again: list[float] = []

    def expired(self, now: float) -> None:
        assert now >= self.deadline, "early"
        self.times.append(now)
        self.deadline = self.again.pop(0) if self.again else NEVER
        if self.broken:
            raise ValueError("broken")


class Rig:
    def __init__(self, late: float = 0.0) -> None:
        self.loop = Loop(late)
        self.ticks: list[float] = []
        self.failures: list[Exception] = []
        clock = lambda: self.loop.now  # noqa: E731
        self.wheel = Wheel(cast(Any, self.loop), clock, self.ticks.append, self.failures.append)
        self.wheel.start()

    def move(self, item: Item, deadline: float) -> None:
        """As connections do it."""
        item.deadline = deadline
        if deadline < item.look:
            self.wheel.watch(item)


LATENESS = 2 * TICK + 1e-6
AFTER = st.floats(-1.0, 3.0)


@given(st.lists(AFTER, max_size=60), st.floats(0, 0.04))
def test_each_item_is_looked_at_once_in_time_and_never_early(after: list[float], late: float) -> None:
    rig = Rig(late)
    items = [Item(rig.loop.now + seconds) for seconds in after]
    deadlines = [item.deadline for item in items]
    began = rig.loop.now
    for item in items:
        rig.move(item, item.deadline)
    rig.loop.advance(4)
    for item, deadline in zip(items, deadlines, strict=True):
        [seen] = item.times
        assert seen - max(deadline, began) + (deadline < began) * 1e-9 >= 0
        assert seen - max(deadline, began) <= LATENESS + late


@given(st.lists(st.tuples(st.floats(0, 0.3), st.one_of(AFTER, st.just(NEVER))), min_size=1, max_size=30))
def test_moved_deadlines_are_kept_earlier_and_later(moves: list[tuple[float, float]]) -> None:
    rig = Rig()
    item = Item(NEVER)
    for pause, after in moves:
        before = len(item.times)
        rig.loop.advance(pause)
        if len(item.times) > before:
            assert item.deadline == NEVER
        rig.move(item, rig.loop.now + after)
    count, deadline, now = len(item.times), item.deadline, rig.loop.now
    rig.loop.advance(4)
    if deadline == NEVER:
        assert len(item.times) == count
    else:
        assert len(item.times) == count + 1
        assert item.times[-1] - max(deadline, now) <= LATENESS


def test_an_item_may_set_its_next_deadline_when_it_is_looked_at() -> None:
    rig = Rig()
    item = Item(rig.loop.now + 1)
    item.again = [rig.loop.now + 2, rig.loop.now + 2.01, rig.loop.now - 5, rig.loop.now + 3]
    rig.move(item, item.deadline)
    rig.loop.advance(5)
    want = [1001.0, 1002.0, 1002.01, 1002.01, 1003.0]
    assert len(item.times) == len(want)
    assert all(0 <= at - due <= 2 * LATENESS for at, due in zip(item.times, want, strict=True)), item.times


def test_an_item_that_raises_is_told_and_the_others_go_on() -> None:
    rig = Rig()
    items = [Item(rig.loop.now + 0.5, broken=n % 2 == 0) for n in range(6)]
    for item in items:
        rig.move(item, item.deadline)
    rig.loop.advance(2)
    assert [len(item.times) for item in items] == [1] * 6
    assert [str(failure) for failure in rig.failures] == ["broken"] * 3
    rig.loop.advance(1)
    assert len(rig.ticks) >= 55


def test_many_items_are_looked_at_each_in_its_turn() -> None:
    rig = Rig()
    items = [Item(rig.loop.now + n % 1000 / 100) for n in range(20_000)]
    for item in items:
        rig.move(item, item.deadline)
    rig.loop.advance(11)
    assert all(len(item.times) == 1 for item in items)


def test_a_deadline_that_moves_away_costs_one_look_only() -> None:
    """As a connection that is busy: its deadline is moved by assignment before each look."""
    rig = Rig()
    item = Item(NEVER)
    rig.move(item, rig.loop.now + 1)
    for _ in range(100):
        rig.loop.advance(0.5)
        item.deadline = rig.loop.now + 1
    assert item.times == []
    rig.loop.advance(2)
    assert len(item.times) == 1


def test_the_wheel_catches_up_after_the_loop_stood_still_and_says_how_late_it_was() -> None:
    rig = Rig()
    items = [Item(rig.loop.now + 0.1 * n) for n in range(1, 30)]
    for item in items:
        rig.move(item, item.deadline)
    at, call = rig.loop.due.pop()
    rig.loop.now = at + 5
    call()
    assert all(len(item.times) == 1 for item in items)
    assert rig.wheel.lag == pytest.approx(5, abs=0.01)
    rig.loop.advance(1)
    assert rig.wheel.lag < TICK


def test_a_stopped_wheel_turns_no_more() -> None:
    rig = Rig()
    item = Item(rig.loop.now + 1)
    rig.move(item, item.deadline)
    rig.wheel.stop()
    rig.wheel.stop()
    rig.loop.advance(5)
    assert (item.times, rig.ticks) == ([], [])
