"""A watch: a table and then its changes, a line each, for as long as the caller stays.

Owns the pace of one reader. It holds the table that its reader has, nothing more: a reader that falls behind the kept
past gets a reset, one that takes nothing for `stalled` seconds is let go, and when the store closes the stream ends in
order.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing

import anyio
from starlette.types import Receive, Scope, Send

from discovery.directory.encoded import Encoded, pieces
from discovery.directory.query import Query, Selection
from discovery.directory.store import Store
from discovery.kit.clock import Clock
from discovery.pool import PoolTable
from discovery.wire import encode_bookmark, encode_ready, encode_reset, encode_router_line

BOOKMARK_SECONDS = 10.0
STALLED_SECONDS = 60.0
LONGEST_CHANGE = 4 * 1024 * 1024
"""Bytes. A longer change is told as a reset, whose lines are a pool each."""


class WatchResponse:
    """An ASGI response. `count` is told +1 when a watch begins and -1 when it has ended, however it ended; `reset`
    is told of every reset after the first line."""

    def __init__(
        self,
        query: Query,
        store: Store,
        encoded: Encoded,
        clock: Clock,
        *,
        count: Callable[[int], None],
        on_reset: Callable[[], None],
    ) -> None:
        self._query = query
        self._store = store
        self._encoded = encoded
        self._clock = clock
        self._count = count
        self._on_reset = on_reset

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"application/x-ndjson"), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        self._count(1)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._until_gone, receive, group.cancel_scope)
                await self._send_all(send)
                group.cancel_scope.cancel()
        finally:
            self._count(-1)

    async def _until_gone(self, receive: Receive, scope: anyio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        scope.cancel()

    async def _send_all(self, send: Send) -> None:
        async with aclosing(self._pieces()) as every_piece:
            async for piece in every_piece:
                try:
                    async with asyncio.timeout(STALLED_SECONDS):
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
                except TimeoutError:
                    # Leaving without the last body message makes the server cut the connection: the reader must not
                    # take this for a stream that ended in order.
                    return
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pieces(self) -> AsyncGenerator[bytes, None]:
        has = self._start()
        if has is None:
            has = self._store.table
            async for piece in self._cut(self._whole(has)):
                yield piece
        while not self._store.closed:
            if has is self._store.table:
                has_news = await self._news(has)
                if not has_news:
                    yield encode_bookmark(has.revision, has.complete)
                continue
            now = self._store.table
            change = self._change(has, now)
            if change is None:
                self._on_reset()
            parts = self._whole(now) if change is None else [change]
            # Taken before the pieces are sent: what is published meanwhile is a change to this table.
            has = now
            async for piece in self._cut(parts):
                yield piece

    async def _cut(self, parts: Iterable[bytes]) -> AsyncGenerator[bytes, None]:
        for piece in pieces(parts):
            yield piece
            # A big table is encoded bit by bit: others get their turn between two pieces.
            await self._clock.sleep(0)

    async def _news(self, has: PoolTable) -> bool:
        """Wait for another table; False when it is time to say that the connection lives."""
        waiting = asyncio.ensure_future(self._store.newer(has))
        pause = asyncio.ensure_future(self._clock.sleep(BOOKMARK_SECONDS))
        try:
            await asyncio.wait([waiting, pause], return_when=asyncio.FIRST_COMPLETED)
            return waiting.done()
        finally:
            waiting.cancel()
            pause.cancel()

    def _start(self) -> PoolTable | None:
        """The table that the reader says it has, if it is one of ours that is still known."""
        return self._store.at(*self._query.since) if self._query.since else None

    def _change(self, has: PoolTable, now: PoolTable) -> bytes | None:
        """The line from one table to the other; None when a reset serves better."""
        if self._store.at(has.epoch, has.revision) is None:
            return None
        line = self._encoded.change(self._query.selection, has, now)
        return line if line is not None and len(line) <= LONGEST_CHANGE else None

    def _whole(self, table: PoolTable) -> Iterator[bytes]:
        return whole(self._query.selection, table, self._encoded)


def whole(selection: Selection, table: PoolTable, encoded: Encoded) -> Iterator[bytes]:
    """Reset, everything that is selected, ready; encoded as it is asked for."""
    view = encoded.view(selection, table)
    yield encode_reset(table)
    if selection.of == "routers":
        yield from (encode_router_line(router) for router in view.routers)
    else:
        yield from (encoded.pool_line(pool, table) for pool in view.pools)
    yield encode_ready(table.revision)
