"""One end of a TCP connection as plain bytes: what came and when, how it ended, and every way to send or break off."""

from __future__ import annotations

import asyncio
import bisect
import random
import socket
import struct
from collections.abc import Callable
from typing import cast

LIMIT = 15.0  # seconds for anything to happen that should happen at once


class Gone(Exception):
    """The other side has ended the connection."""


def free_port() -> int:
    """A free port that the kernel gives to no outgoing connection, so that it stays free while nobody listens there."""
    while True:
        port = random.randint(20_500, 31_500)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class Wire(asyncio.Protocol):
    """`raw` is everything that came, `at` how far it was read; `end` is "" while open, else fin, rst or closed (that is
    by us)."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.raw = bytearray()
        self.at = 0
        self.arrivals: list[tuple[int, float]] = []  # (length of raw after it, when)
        self.sent: list[tuple[float, bytes]] = []
        self.end = ""
        self.end_at = 0.0
        self._full = False
        self._waiting: list[asyncio.Future[None]] = []
        self.transport: asyncio.Transport

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is one by its methods, not by its class
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tls = transport.get_extra_info("ssl_object") is not None
        self.transport.set_write_buffer_limits(high=int(tls))  # with TLS, 0 is reached by nothing at all

    def data_received(self, data: bytes) -> None:
        self.raw += data
        self.arrivals.append((len(self.raw), self.loop.time()))
        self._ring()

    def eof_received(self) -> bool:
        self._ended("fin")
        return self.transport.get_extra_info("ssl_object") is None  # we go on sending until we say so, if one can

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended("rst" if exc is not None else "closed")

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._ring()

    def _ended(self, how: str) -> None:
        if not self.end:
            self.end, self.end_at = how, self.loop.time()
        self._ring()

    def _ring(self) -> None:
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(None)

    async def news(self) -> None:
        """Anything happens on this connection."""
        one: asyncio.Future[None] = self.loop.create_future()
        self._waiting.append(one)
        await one

    async def until(self, condition: Callable[[], bool], what: str, limit: float = LIMIT) -> None:
        try:
            async with asyncio.timeout(limit):
                while not condition():
                    await self.news()
        except TimeoutError:
            raise AssertionError(
                f"not in {limit:g} s: {what}; unread {bytes(self.raw[self.at :][:300])!r}, end {self.end!r}"
            ) from None

    # Reading.

    async def more(self) -> None:
        """More bytes than there were. Raises Gone when none will come."""
        size = len(self.raw)
        while len(self.raw) == size:
            if self.end:
                raise Gone
            await self.news()

    async def line(self) -> bytes:
        """The next line, without its CRLF."""
        while (found := self.raw.find(b"\r\n", self.at)) < 0:
            await self.more()
        line = bytes(self.raw[self.at : found])
        self.at = found + 2
        return line

    async def take(self, count: int) -> bytes:
        while len(self.raw) - self.at < count:
            await self.more()
        data = bytes(self.raw[self.at : self.at + count])
        self.at += count
        return data

    async def seen(self, mark: bytes, limit: float = LIMIT) -> float:
        """When these bytes, not yet read, had arrived."""
        await self.until(lambda: self.raw.find(mark, self.at) >= 0, f"{mark[:60]!r}", limit)
        return self.when(self.raw.find(mark, self.at) + len(mark))

    def when(self, offset: int) -> float:
        """When the first `offset` bytes had arrived."""
        return self.arrivals[bisect.bisect_left(self.arrivals, (offset, 0.0))][1]

    async def ended(self, limit: float = LIMIT) -> float:
        """When the other side ended it."""
        await self.until(lambda: bool(self.end), "the other side closes the connection", limit)
        return self.end_at

    # Writing and breaking off.

    async def send(self, data: bytes) -> float:
        """Write it, wait until the kernel has it, tell when that began. Raises Gone."""
        if self.transport.is_closing() or self.end == "rst":
            raise Gone
        at = self.loop.time()
        self.sent.append((at, data))
        self.transport.write(data)
        while self._full:
            if self.transport.is_closing() or self.end == "rst":
                raise Gone
            await self.news()
        return at

    def half(self) -> None:
        """No more from us; we still read."""
        self.transport.write_eof()

    def fin(self) -> float:
        """Close properly."""
        self.transport.close()
        return self.loop.time()

    def leave(self) -> None:
        """Close, and forget what the other side has not taken."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def rst(self) -> float:
        """Close with a reset."""
        if not self.transport.is_closing():
            sock = self.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()
        return self.loop.time()

    def pause(self) -> None:
        """Read nothing from the kernel any more."""
        self.transport.pause_reading()

    def resume(self) -> None:
        if not self.transport.is_closing():
            self.transport.resume_reading()

    @property
    def open(self) -> bool:
        return not self.end and not self.transport.is_closing()
