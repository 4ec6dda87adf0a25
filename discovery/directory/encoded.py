"""Encoded pools and changes, kept so that many readers of one revision cost one encoding.

Owns bytes only; their shapes belong to `discovery.wire`. An entry is right as long as its pool is the same object,
which `next_table` keeps for pools that have not changed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import TypeVar

from discovery.directory.query import Selection
from discovery.identity import PoolKey
from discovery.pool import Pool, PoolTable, diff
from discovery.wire import encode_change, encode_pool_line

PIECE = 64 * 1024
LARGEST_CHANGE = 20_000
"""Frontends. The line of a change of more would be megabytes: it is not even encoded."""
_LINE_START = b'{"type":"pool",'

K = TypeVar("K")
V = TypeVar("V")


class Encoded:
    def __init__(self, *, changes: int = 64) -> None:
        self._pools: dict[PoolKey, tuple[Pool, bytes]] = {}
        self._pools_of: PoolTable | None = None
        self._views: OrderedDict[tuple[Selection, int], PoolTable] = OrderedDict()
        self._changes: OrderedDict[tuple[Selection, int, int], bytes | None] = OrderedDict()
        self._kept = changes

    def view(self, selection: Selection, table: PoolTable) -> PoolTable:
        """The selected part of a table."""
        key = (selection, table.revision)
        found = self._views.get(key)
        if found is None:
            found = self._views[key] = selection.of_table(table)
            _trim(self._views, self._kept)
        return found

    def pool(self, pool: Pool, table: PoolTable) -> bytes:
        """A pool as an element of a list: its line without the line's type and end."""
        return b"{" + self.pool_line(pool, table)[len(_LINE_START) : -1]

    def pool_line(self, pool: Pool, table: PoolTable) -> bytes:
        """A pool as a line of a watch."""
        return self._entry(pool, table)[1]

    def change(self, selection: Selection, old: PoolTable, new: PoolTable) -> bytes | None:
        """The line that leads from one table to a later one; empty when nothing that is selected differs, None when
        it would be too large."""
        key = (selection, old.revision, new.revision)
        if key not in self._changes:
            change = diff(self.view(selection, old), self.view(selection, new))
            same = not change.upserted and not change.removed and change.routers is None
            if sum(len(pool.frontends) for pool in change.upserted) > LARGEST_CHANGE:
                self._changes[key] = None
            else:
                self._changes[key] = b"" if same and old.complete == new.complete else encode_change(change)
            _trim(self._changes, self._kept)
        return self._changes[key]

    def _entry(self, pool: Pool, table: PoolTable) -> tuple[Pool, bytes]:
        if self._pools_of is not table:
            self._forget(table)
        found = self._pools.get(pool.key)
        if found is None or found[0] is not pool:
            found = self._pools[pool.key] = (pool, encode_pool_line(pool))
        return found

    def _forget(self, table: PoolTable) -> None:
        """Drop the entries of pools that are gone, once there are many of them."""
        self._pools_of = table
        if len(self._pools) > 2 * len(table.pools) + 16:
            listed = {pool.key for pool in table.pools}
            self._pools = {key: entry for key, entry in self._pools.items() if key in listed}


def _trim(kept: OrderedDict[K, V], size: int) -> None:
    while len(kept) > size:
        kept.popitem(last=False)


def pieces(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of at most 64 KiB."""
    gathered = bytearray()
    for part in parts:
        gathered += part
        while len(gathered) >= PIECE:
            yield bytes(gathered[:PIECE])
            del gathered[:PIECE]
    if gathered:
        yield bytes(gathered)
