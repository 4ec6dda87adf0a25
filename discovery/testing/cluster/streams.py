"""Watches on the wire: one stream of lines for each.

Owns the pace: lines as they come, bookmarks, the time limit, the end. Whoever asks for the stream gets 200 first; a
refusal after that is an ERROR line.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

import anyio
from starlette.types import Receive, Scope, Send

from discovery.kit.clock import Clock
from discovery.testing.cluster.bell import Bell
from discovery.testing.cluster.cursor import Cursor, error_line
from discovery.testing.cluster.failures import ApiFailure
from discovery.testing.cluster.wire_faults import cut

PIECE = 64 * 1024
LAST_BOOKMARK_BEFORE_END = 2.0


@dataclass
class Streams:
    """All open watches and what they share. `bookmark_every` seconds; `chance` gives 0..1 for random limits.

    `bell` wakes the watches; `moved` those outside who wait for what the watches and the others do.
    """

    clock: Clock
    bookmark_every: float
    chance: Callable[[], float]
    bell: Bell = field(default_factory=Bell)
    moved: Bell = field(default_factory=Bell)
    open: list[WatchStream] = field(default_factory=list)
    closed: bool = False
    silent: bool = False

    def happened(self) -> None:
        """Something was written."""
        self.bell.ring()
        self.moved.ring()

    def end_all(self) -> None:
        """End every watch in order, as a server that shuts down does."""
        self.closed = True
        self.bell.ring()

    def send_all(self, raw: bytes) -> None:
        """Put bytes into every open watch, whatever they are."""
        for stream in self.open:
            stream.extra.append(raw)
        self.bell.ring()


@dataclass
class WatchStream:
    """An ASGI response. `wait_first` is awaited before the first line (a streaming list of a future version), and
    may refuse; `end_mark`: the initial events end with a marked bookmark."""

    streams: Streams
    resource: str
    cursor: Cursor
    timeout: int
    bookmarks: bool
    end_mark: bool = False
    failure: ApiFailure | None = None
    wait_first: Callable[[], Awaitable[None]] | None = None
    extra: list[bytes] = field(default_factory=list)
    over: bool = False
    _receive: Receive | None = None

    def __repr__(self) -> str:
        return f"<watch of {self.resource} at {self.cursor.revision}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"content-type", b"application/json"), (b"cache-control", b"no-cache, private")],
            }
        )
        # The headers alone do not leave the server: an empty piece makes them.
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        self._receive = receive
        self.streams.open.append(self)
        self.streams.moved.ring()
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._until_gone, receive, group.cancel_scope)
                await self._lines(send)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                group.cancel_scope.cancel()
        finally:
            # By identity: two watches of the same state are not the same watch.
            self.streams.open = [stream for stream in self.streams.open if stream is not self]
            self.streams.moved.ring()

    def cut(self) -> None:
        """Cut the connection under this watch."""
        if self._receive is not None:
            cut(self._receive)

    async def _until_gone(self, receive: Receive, scope: anyio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        scope.cancel()

    async def _lines(self, send: Send) -> None:
        try:
            if self.failure is not None:
                raise self.failure
            if self.wait_first is not None:
                await self.wait_first()
            await self._all_lines(send)
        except ApiFailure as failure:
            await self._send(send, [error_line(failure)])

    async def _all_lines(self, send: Send) -> None:
        clock = self.streams.clock
        end = clock.monotonic() + (self.timeout or 1800 + 1800 * self.streams.chance())
        await self._send(send, self.cursor.initial())
        if self.end_mark and self.bookmarks:
            await self._send(send, [self.cursor.bookmark(end=True)])
        due = self._marks(clock.monotonic(), end)
        while not self._ends and (left := end - clock.monotonic()) > 0:
            if not self.streams.silent:
                extra, self.extra = self.extra, []
                await self._send(send, [*extra, *self.cursor.news()])
                if due and due[0] <= clock.monotonic():
                    await self._bookmark(send)
                    due = [at for at in due if at > clock.monotonic()]
            until = min([end, *due[:1]]) - clock.monotonic() if not self.streams.silent else left
            if not self._has_news():
                self.streams.moved.ring()
                await self.streams.bell.heard(clock, max(until, 0.0))

    @property
    def _ends(self) -> bool:
        return self.over or self.streams.closed

    def _has_news(self) -> bool:
        if self._ends:
            return True
        return not self.streams.silent and (bool(self.extra) or self.cursor.behind)

    def _marks(self, now: float, end: float) -> list[float]:
        """When bookmarks are due: regularly, and twice just before the end of a stream that lives for longer."""
        every = self.streams.bookmark_every
        if not self.bookmarks or end - now <= every:
            return []
        count = int((end - now) / every)
        last = [at for at in (end - LAST_BOOKMARK_BEFORE_END, end - LAST_BOOKMARK_BEFORE_END / 2) if at > now]
        return sorted([now + every * n for n in range(1, count + 1)] + last)

    async def _bookmark(self, send: Send) -> None:
        # Of the future nothing can be said.
        if not self.cursor.ahead:
            await self._send(send, [self.cursor.bookmark()])

    async def _send(self, send: Send, lines: Iterable[bytes]) -> None:
        piece = bytearray()
        for line in lines:
            piece += line
            if len(piece) >= PIECE:
                await send({"type": "http.response.body", "body": bytes(piece), "more_body": True})
                piece.clear()
                await self.streams.clock.sleep(0)
        if piece:
            await send({"type": "http.response.body", "body": bytes(piece), "more_body": True})
