"""One coarse timer for everything that waits: connections stand in it, not requests (I44).

Each connection stands in the wheel and moves its own `deadline` by plain assignment; only a deadline earlier
than the next look at the connection needs `watch`. So a request costs no timer, and limits hold to one tick.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

TICK = 0.05  # seconds
NEVER = float("inf")


class Timed(Protocol):
    """What can stand in the wheel. `deadline` is monotonic seconds; `look` belongs to the wheel."""

    deadline: float
    look: float

    def expired(self, now: float) -> None:
        """The deadline has passed. May set a new one."""


class Wheel:
    """`every_tick(now)` is called once a tick. `lag` is how late the last tick came, in seconds."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        every_tick: Callable[[float], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._every_tick = every_tick
        self._failed = failed
        self._buckets: dict[int, set[Timed]] = {}
        self._tick = int(clock() / TICK)
        self._handle: asyncio.TimerHandle | None = None
        self.lag = 0.0
        self.last = clock()

    def start(self) -> None:
        self._handle = self._loop.call_later(TICK, self._turn)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def watch(self, item: Timed) -> None:
        """Look at the item when its deadline has come. To be called when that is earlier than `item.look`."""
        if item.deadline == NEVER:
            item.look = NEVER
            return
        tick = max(int(item.deadline / TICK) + 1, self._tick + 1)
        item.look = tick * TICK
        self._buckets.setdefault(tick, set()).add(item)

    def forget(self, item: Timed) -> None:
        """The item has ended and is not to be held until its next look."""
        item.deadline = NEVER
        if item.look != NEVER:
            self._buckets.get(int(item.look / TICK + 0.5), set()).discard(item)
            item.look = NEVER

    def _turn(self) -> None:
        now = self._clock()
        self.lag = max(0.0, now - self.last - TICK)
        self.last = now
        self._handle = self._loop.call_later(TICK, self._turn)
        until = int(now / TICK)
        while self._tick < until:
            self._tick += 1
            for item in self._buckets.pop(self._tick, ()):
                if item.look == self._tick * TICK:  # else it has been put elsewhere since
                    self._look_at(item, now)
        self._every_tick(now)

    def _look_at(self, item: Timed, now: float) -> None:
        item.look = NEVER
        if item.deadline <= now:
            try:
                item.expired(now)
            except Exception as error:  # noqa: BLE001 - the outermost frame: one broken item must not stop the wheel
                self._failed(error)
        if item.look == NEVER and item.deadline != NEVER:
            self.watch(item)
