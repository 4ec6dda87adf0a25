"""When a change becomes a table: at once after quiet, at most every 100 ms in a burst (G13).

Owns the pace only. `publish` computes from the whole state, so any number of touches before it is one change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from discovery.kit.clock import Clock

PACE = 0.1
"""Seconds between two tables of a burst. A change that comes later than this after the last table waits for nobody."""


class Publisher:
    def __init__(self, publish: Callable[[], Awaitable[None]], clock: Clock) -> None:
        self._publish = publish
        self._clock = clock
        self._touched = asyncio.Event()
        self._touched_at: float | None = None
        self.count = 0
        self.latency = 0.0
        """Seconds from the first touch to the end of publishing, summed over all."""

    def touch(self) -> None:
        """Something may have changed: look again."""
        if self._touched_at is None:
            self._touched_at = self._clock.monotonic()
        self._touched.set()

    async def run(self) -> None:
        earliest = self._clock.monotonic()
        while True:
            await self._touched.wait()
            wait = earliest - self._clock.monotonic()
            if wait > 0:
                await self._clock.sleep(wait)
            # Cleared before the state is read: what is touched while publishing is published next.
            self._touched.clear()
            since, self._touched_at = self._touched_at, None
            await self._publish()
            now = self._clock.monotonic()
            self.count += 1
            self.latency += now - (now if since is None else since)
            earliest = now + PACE
