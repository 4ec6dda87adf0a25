"""The shared counters and what their numbers mean: one schedule per model, and per model and pool.

A schedule and its counter stay as long as the members and their weights do; a change makes a new counter that starts
at the identity due next (rule I20). Owns the descriptors: a counter that no schedule uses any more is closed here (the
workers hold their own copies).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from global_ingress.proxy.shared import balance

Key = tuple[str, ...]


class Counter(Protocol):
    fd: int

    def position(self) -> int: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class _Schedule:
    number: int
    weights: tuple[tuple[str, int], ...]
    sequence: tuple[str, ...]
    counter: Counter
    used: bool = True


class Schedules:
    """Schedules by key, of which `most` have a counter of their own. The others, and those that came when the process
    had no descriptor left, share a spare one: their order is then only about right, which is better than no answer."""

    def __init__(self, make: Callable[[], Counter], most: int = 1_000_000) -> None:
        self._make = make
        self._most = most
        self._spare = make()
        self._schedules: dict[Key, _Schedule] = {}
        self._last = 0
        self._own = 0

    def __repr__(self) -> str:
        return f"<Schedules {len(self._schedules)}, {self.starved} without a counter of their own>"

    @property
    def starved(self) -> int:
        return sum(schedule.number == 0 for schedule in self._schedules.values())

    def begin(self) -> None:
        """From here to `end`, whatever is not asked for is given up."""
        for schedule in self._schedules.values():
            schedule.used = False

    def schedule(self, key: Key, weights: Mapping[str, int]) -> tuple[int, tuple[str, ...]]:
        """The number of the counter and the sequence of members it moves through."""
        members = tuple(weights.items())
        old = self._schedules.get(key)
        if old is not None and sorted(old.weights) == sorted(members):
            old.used = True
            return old.number, old.sequence
        if old is None:
            sequence = balance.smooth(weights)
        else:
            sequence = balance.succeeded(old.sequence, old.counter.position(), weights)
            self._close(old)
        number, counter = self._counter()
        self._schedules[key] = _Schedule(number, members, sequence, counter)
        return number, sequence

    def end(self) -> None:
        for key in [key for key, schedule in self._schedules.items() if not schedule.used]:
            self._close(self._schedules.pop(key))

    def counters(self) -> Iterator[tuple[int, int]]:
        """Number and descriptor of every counter in use."""
        if self.starved:
            yield 0, self._spare.fd
        for schedule in self._schedules.values():
            if schedule.number:
                yield schedule.number, schedule.counter.fd

    def close(self) -> None:
        for schedule in self._schedules.values():
            self._close(schedule)
        self._schedules.clear()
        self._spare.close()

    def _counter(self) -> tuple[int, Counter]:
        if self._own >= self._most:
            return 0, self._spare
        try:
            counter = self._make()
        except OSError:
            return 0, self._spare
        self._own += 1
        self._last += 1
        return self._last, counter

    def _close(self, schedule: _Schedule) -> None:
        if schedule.number:
            self._own -= 1
            schedule.counter.close()
