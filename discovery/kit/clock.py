"""Time as an argument.

Owns the one protocol by which code asks for time, and the real clock. Everything that waits or measures takes a
`Clock`, so that a test can own time (`discovery.kit.testing.VirtualClock`).
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Durations by `monotonic` (seconds), dates by `now` (always UTC), waiting by `sleep`."""

    def monotonic(self) -> float: ...

    def now(self) -> datetime: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's clock and the running loop's timers."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


SYSTEM_CLOCK = SystemClock()

# The bare functions, for code that asks for the time with every read of a socket.
monotonic = time.monotonic
monotonic_ns = time.monotonic_ns
wall = time.time


def rfc3339(moment: datetime) -> str:
    """`2026-11-30T12:00:00.000Z`, whatever zone the moment was given in."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
