"""An event loop whose time is virtual: waiting costs nothing, and the same program does the same again.

Owns time itself, so that `asyncio.sleep` and `asyncio.timeout` of the code under test are virtual, too. Nothing here
may wait for the outside world: a loop that has nothing left to do is an error, not a wait.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

START = datetime(2026, 1, 1, tzinfo=UTC)
_TURNS = 200_000


class Stuck(Exception):
    """Nobody waits for time, or nobody lets it pass."""


class _Instant(selectors.BaseSelector):
    """Never waits: time jumps to where somebody wants it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.turns = 0
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = self._keys[fileobj] = selectors.SelectorKey(fileobj, 0, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise Stuck("nobody waits for time to pass")
        self.turns = 0 if timeout > 0 else self.turns + 1
        if self.turns > _TURNS:
            raise Stuck(f"{_TURNS} turns of the loop at {self.now:g} s")
        self.now += timeout
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._instant = _Instant()
        super().__init__(self._instant)

    def time(self) -> float:
        return self._instant.now

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """At once, in no thread: one works in real time, and time here would jump ahead of it as far as it likes."""
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - as an executor does: it is whoever awaits it that gets it
            done.set_exception(error)
        return done


class HostClock:
    """The clock of one host: its date is `ahead` seconds wrong. A host that stands still does not wake in time."""

    def __init__(self, loop: VirtualLoop, ahead: float = 0.0, awake: asyncio.Event | None = None) -> None:
        self._loop = loop
        self._ahead = ahead
        self._awake = awake

    def monotonic(self) -> float:
        return self._loop.time()

    def now(self) -> datetime:
        return START + timedelta(seconds=self._loop.time() + self._ahead)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if self._awake is not None:
            await self._awake.wait()
