"""Keys that need a look, each at most once at a time, with patience for those that fail.

Owns the waiting. Level semantics: a key says "look again", nothing more; one that is added while it is looked at is
looked at once more afterwards.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

from discovery.kit.backoff import Backoff, Chance
from discovery.kit.clock import Clock

K = TypeVar("K")

BACKOFF = Backoff(0.005, 1000.0)
"""Of one key that fails again and again."""


class WorkQueue(Generic[K]):
    def __init__(self, clock: Clock, chance: Chance, backoff: Backoff = BACKOFF) -> None:
        self._clock = clock
        self._chance = chance
        self._backoff = backoff
        self._ready: dict[K, None] = {}
        self._busy: set[K] = set()
        self._again: set[K] = set()
        self._failures: Counter[K] = Counter()
        self._timers: dict[K, asyncio.Task[None]] = {}
        self._news = asyncio.Event()

    def __repr__(self) -> str:
        return f"<WorkQueue {len(self._ready)} ready, {len(self._busy)} busy, {len(self._timers)} waiting>"

    def __len__(self) -> int:
        return len(self._ready) + len(self._busy)

    @property
    def failing(self) -> int:
        return len(self._failures)

    def add(self, keys: Iterable[K]) -> None:
        for key in keys:
            if key in self._busy:
                self._again.add(key)
            else:
                self._ready[key] = None
        if self._ready:
            self._news.set()

    def add_later(self, key: K, seconds: float) -> None:
        """Add it after so long, once."""
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        self._timers[key] = asyncio.create_task(self._later(key, seconds))

    async def _later(self, key: K, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._timers.pop(key, None)
        self.add([key])

    async def run(self, work: Callable[[K], Awaitable[bool]], *, workers: int) -> None:
        """For ever. `work` says whether all went well; a key that did not comes back by itself, later and later."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(self._worker(work))
        finally:
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()

    async def _worker(self, work: Callable[[K], Awaitable[bool]]) -> None:
        while True:
            while not self._ready:
                self._news.clear()
                await self._news.wait()
            key = next(iter(self._ready))
            del self._ready[key]
            self._busy.add(key)
            try:
                well = await work(key)
            finally:
                self._busy.discard(key)
            if well:
                self._failures.pop(key, None)
            else:
                self._failures[key] += 1
                self.add_later(key, self._backoff.delay(self._failures[key], self._chance()))
            if key in self._again:
                self._again.discard(key)
                self.add([key])
