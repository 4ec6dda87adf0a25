"""Counters stay while the members stay, and go on with the member due next when they change (I20)."""

from __future__ import annotations

import errno

from global_ingress.proxy.supervising.schedules import Schedules

OPEN: set[int] = set()


class Count:
    """A counter that needs no descriptor."""

    made = 0

    def __init__(self) -> None:
        Count.made += 1
        self.fd = 1000 + Count.made
        self.drawn = 0
        OPEN.add(self.fd)

    def position(self) -> int:
        return self.drawn

    def close(self) -> None:
        OPEN.remove(self.fd)


class Maker:
    def __init__(self, left: int = 1000) -> None:
        self.counters: list[Count] = []
        self.left = left

    def __call__(self) -> Count:
        if self.left == 0:
            raise OSError(errno.EMFILE, "Too many open files")
        self.left -= 1
        self.counters.append(Count())
        return self.counters[-1]


def test_the_same_members_keep_counter_and_order_whatever_order_they_come_in() -> None:
    maker = Maker()
    schedules = Schedules(maker)
    first = schedules.schedule(("model", "m"), {"a": 1, "b": 1})
    assert first == (1, ("a", "b"))
    assert schedules.schedule(("model", "m"), {"b": 1, "a": 1}) == first
    assert len(maker.counters) == 2
    schedules.close()
    assert not OPEN


def test_a_change_makes_a_new_counter_that_goes_on() -> None:
    maker = Maker()
    schedules = Schedules(maker)
    schedules.schedule(("model", "m"), dict.fromkeys("abc", 1))
    maker.counters[-1].drawn = 4  # b is due
    assert schedules.schedule(("model", "m"), dict.fromkeys("abcd", 1)) == (2, ("b", "c", "a", "d"))
    assert maker.counters[1].fd not in OPEN
    assert list(schedules.counters()) == [(2, maker.counters[2].fd)]
    schedules.close()


def test_what_nobody_asks_for_is_given_up() -> None:
    schedules = Schedules(Maker())
    for members in ("ab", "abc"):
        schedules.begin()
        schedules.schedule(("model", "m"), dict.fromkeys(members, 1))
        if members == "ab":
            schedules.schedule(("pool", "m", "p"), {"x": 1, "y": 1})
        schedules.end()
    assert [number for number, _ in schedules.counters()] == [3]
    assert len(OPEN) == 2
    schedules.close()
    assert not OPEN


def test_without_descriptors_schedules_share_one_counter_and_go_on() -> None:
    short_of_descriptors(Schedules(Maker(left=2)))


def test_beyond_the_most_allowed_schedules_share_one_counter() -> None:
    short_of_descriptors(Schedules(Maker(), most=1))


def short_of_descriptors(schedules: Schedules) -> None:
    assert schedules.schedule(("model", "m"), {"a": 1, "b": 1})[0] == 1
    assert schedules.schedule(("model", "n"), {"a": 1, "b": 1}) == (0, ("a", "b"))
    assert schedules.starved == 1
    assert [number for number, _ in schedules.counters()] == [0, 1]
    schedules.begin()
    schedules.end()
    assert (schedules.starved, list(schedules.counters())) == (0, [])
    schedules.close()
    assert not OPEN
