"""Waking everybody who waits for something to happen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from discovery.kit.clock import Clock


class Bell:
    """Who waits hears the next ring. Between looking at the state and waiting there must be no await."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def ring(self) -> None:
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def heard(self, clock: Clock, seconds: float | None = None) -> bool:
        """Wait for a ring, at most `seconds`; False when there was none."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        waits: set[asyncio.Future[None]] = {future}
        if seconds is not None:
            waits.add(asyncio.ensure_future(clock.sleep(seconds)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            return future.done()
        finally:
            self._waiting.discard(future)
            for wait in waits:
                wait.cancel()

    async def until(self, true: Callable[[], bool], clock: Clock, seconds: float) -> bool:
        """Wait until `true()` holds after some ring; False when it does not within `seconds`."""
        end = clock.monotonic() + seconds
        while not true():
            left = end - clock.monotonic()
            if left <= 0 or not await self.heard(clock, left):
                return true()
        return True
