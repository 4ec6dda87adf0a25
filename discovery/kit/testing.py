"""A clock that tests own: time passes only when they say so."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from datetime import UTC, datetime, timedelta

_START = datetime(2026, 1, 1, tzinfo=UTC)


class VirtualClock:
    """A `Clock` whose sleepers wake, in order of their time, only while `advance` runs."""

    def __init__(self) -> None:
        self._elapsed = 0.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def __repr__(self) -> str:
        return f"<VirtualClock +{self._elapsed:g}s, {self.sleepers} asleep>"

    @property
    def sleepers(self) -> int:
        """How many tasks are waiting for time to pass."""
        return sum(not future.done() for _, _, future in self._sleepers)

    def monotonic(self) -> float:
        return self._elapsed

    def now(self) -> datetime:
        return _START + timedelta(seconds=self._elapsed)

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._order), future))
        await future

    async def advance(self, seconds: float) -> None:
        """Let `seconds` pass. After each sleeper that wakes, everybody gets to run until they wait again."""
        end = self._elapsed + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, future = heapq.heappop(self._sleepers)
            if future.done():
                continue
            self._elapsed = max(self._elapsed, due)
            future.set_result(None)
            await settle()
        self._elapsed = end
        await settle()


async def settle(rounds: int = 50) -> None:
    """Give every task that can run the chance to do so: enough turns of the loop for long chains of awaits."""
    for _ in range(rounds):
        await asyncio.sleep(0)
