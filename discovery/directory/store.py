"""The table that is served, its recent past, and who waits for the next one.

Owns the one swap: a table is replaced between two awaits and readers only ever hold whole tables. Nothing is queued
for anybody: a watcher remembers which table it has sent and asks what is new, so a slow one costs a reference, and one
that has fallen behind the kept past starts over with a reset.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable

from discovery.kit.clock import Clock
from discovery.pool import Pool, PoolTable, Router, next_table


class Store:
    """Begins with an empty, incomplete table of `epoch`, since nothing is known yet."""

    def __init__(self, epoch: str, clock: Clock, *, history: int = 64) -> None:
        self._clock = clock
        self._table = PoolTable(epoch, 0, False)
        self._past: OrderedDict[int, PoolTable] = OrderedDict({0: self._table})
        self._history = history
        self._news = asyncio.Event()
        self.published_at = clock.monotonic()
        self.closed = False

    def __repr__(self) -> str:
        table = self._table
        return f"<Store {table.epoch}.{table.revision} complete={table.complete} pools={len(table.pools)}>"

    @property
    def table(self) -> PoolTable:
        return self._table

    def publish(self, pools: Iterable[Pool], routers: Iterable[Router], *, complete: bool) -> bool:
        """Swap the next table in and wake whoever waits; False when nothing has changed."""
        table = next_table(self._table, pools, routers, complete)
        if table is self._table:
            return False
        self._table = table
        self._past[table.revision] = table
        while len(self._past) > self._history:
            self._past.popitem(last=False)
        self.published_at = self._clock.monotonic()
        self._wake()
        return True

    def at(self, epoch: str, revision: int) -> PoolTable | None:
        """The table of that version, None when it is of another epoch or too old."""
        return self._past.get(revision) if epoch == self._table.epoch else None

    async def newer(self, than: PoolTable) -> None:
        """Wait until the table is not `than` any more, or the store is closed."""
        while self._table is than and not self.closed:
            await self._news.wait()

    def close(self) -> None:
        """No further table will come: everybody who waits goes home."""
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
