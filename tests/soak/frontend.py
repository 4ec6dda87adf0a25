"""Simulated frontends: one process, many loopback addresses, told what to do by lines of JSON on its standard input.

A request says in its body how it wants to be answered, `[id=.. events=N every=Nms size=N delay=Nms]`; every answer
carries that id back, every event its number and the nanosecond of its sending. Owns the life of a pod as Kubernetes
lives it: `open` listens; `drain` closes the listener and the idle connections, lets what runs finish, and is gone.
The process ends with its standard input.

    {"do": "open", "addresses": [..], "port": N}   {"do": "drain", "address": ".."}   {"do": "counts"}
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sys
import threading
import time
from functools import partial
from typing import Any, cast

import uvloop

MODELS = ("soak-model", "soak-big", "mock-model")
_MARK = re.compile(rb"\[id=(\w+) events=(\d+) every=(\d+)ms size=(\d+) delay=(\d+)ms\]")
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_LISTING = json.dumps({"object": "list", "data": [{"id": model, "object": "model"} for model in MODELS]}).encode()
_MARKED = 4096  # bytes at either end of a body in which the mark may stand
_FLOOD = 1 << 20  # bytes; a stream of more, without pauses, is written in blocks as fast as it is taken
_BLOCK = 64 * 1024
_END = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


class Frontend:
    """One address. `active` are requests that hold it now."""

    def __init__(self, fleet: Fleet, address: str) -> None:
        self.fleet = fleet
        self.address = address
        self.server: asyncio.Server | None = None
        self.connections: set[Connection] = set()
        self.requests = self.active = self.aborted = 0
        self.draining = False

    def drain(self) -> None:
        self.draining = True
        if self.server is not None:
            self.server.close()
        for connection in list(self.connections):
            if not connection.busy:
                connection.transport.close()

    def counts(self) -> dict[str, Any]:
        return {
            "requests": self.requests,
            "active": self.active,
            "aborted": self.aborted,
            "taken": sum(one.taken() for one in self.connections),
            "connections": len(self.connections),
            "gone": self.draining and not self.connections,
        }


class Connection(asyncio.Protocol):
    """Requests one after the other."""

    transport: asyncio.Transport

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self._loop = frontend.fleet.loop
        self._data = bytearray()
        self._needed = 0
        self._timer: asyncio.TimerHandle | None = None
        self._flood = 0
        self._block = b""
        self._full = False
        self._written = 0
        self.busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._frontend.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        frontend = self._frontend
        frontend.connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        if self.busy:
            self.busy = False
            self._flood = 0
            frontend.active -= 1
            frontend.aborted += 1

    def data_received(self, data: bytes) -> None:
        self._data += data
        if not self.busy and len(self._data) >= self._needed:
            self._look()

    def _look(self) -> None:
        end = self._data.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._data[:end])
        found = _LENGTH.search(head)
        start = end + 4
        self._needed = start + (int(found[1]) if found else 0)
        if len(self._data) < self._needed:
            return
        first = bytes(self._data[start : start + _MARKED])
        last = bytes(self._data[max(start, self._needed - _MARKED) : self._needed])
        del self._data[: self._needed]
        self._needed = 0
        self._answer(head, first, last)

    def _answer(self, head: bytes, first: bytes, last: bytes) -> None:
        if head.startswith(b"GET "):
            self._whole(_LISTING)
            return
        mark = _MARK.search(first) or _MARK.search(last)
        self.busy = True
        self._frontend.requests += 1
        self._frontend.active += 1
        if mark is None:  # the load generator of the benchmark: unary, and it looks at the length only
            self._unary(b"none")
            return
        events, every, size, delay = map(int, mark.groups()[1:])
        if events:
            act = partial(self._stream, mark[1], events, every / 1000, size)
        else:
            act = partial(self._unary, mark[1])
        if delay:
            self._timer = self._loop.call_later(delay / 1000, act)
        else:
            act()

    def _whole(self, body: bytes, status: bytes = b"200 OK") -> None:
        close = b"connection: close\r\n" if self._frontend.draining else b""
        self.transport.write(
            b"HTTP/1.1 %b\r\ncontent-type: application/json\r\n%bcontent-length: %d\r\n\r\n%b"
            % (status, close, len(body), body)
        )
        if close:
            self.transport.close()

    def _unary(self, id: bytes) -> None:
        self._whole(b'{"id":"%b","frontend":"%b"}' % (id, self._frontend.address.encode()))
        self._ended()

    def _stream(self, id: bytes, events: int, every: float, size: int) -> None:
        close = b"connection: close\r\n" if self._frontend.draining else b""
        self.transport.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n%btransfer-encoding: chunked\r\n\r\n" % close
        )
        if not every and events * size > _FLOOD:
            block = max(1, _BLOCK // size)
            self._flood, self._block = events // block, _event(id, 0, size) * block
            self._pour()
        else:
            self._next(id, 0, events, every, size)

    def _pour(self) -> None:
        """Write blocks until the transport has had enough."""
        while self._flood and not self._full:
            self._flood -= 1
            self._written += len(self._block)
            self.transport.write(self._block)
            if not self._flood:
                self.transport.write(_END)
                self._ended()

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._pour()

    def _next(self, id: bytes, n: int, events: int, every: float, size: int) -> None:
        if n == events:
            self.transport.write(_END)
            self._ended()
            return
        self.transport.write(_event(id, n, size))
        self._timer = self._loop.call_later(every, self._next, id, n + 1, events, every, size)

    def taken(self) -> int:
        """Bytes of a flood that have left for the kernel."""
        return self._written - self.transport.get_write_buffer_size() if self._written else 0

    def _ended(self) -> None:
        self.busy = False
        self._frontend.active -= 1
        self._timer = None
        if self._frontend.draining:
            self.transport.close()
        elif self._data:
            self._loop.call_soon(self._look)


def _event(id: bytes, n: int, size: int) -> bytes:
    text = b'data: {"id":"%b","n":%d,"at":%d,"pad":"%b"}\n\n' % (id, n, time.monotonic_ns(), b"x" * size)
    return b"%x\r\n%b\r\n" % (len(text), text)


class Fleet:
    """All frontends of this process."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.frontends: dict[str, Frontend] = {}

    async def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        if order["do"] == "open":
            for address in order["addresses"]:
                await self._open(address, order["port"])
            return {}
        if order["do"] == "drain":
            self.frontends[order["address"]].drain()
            return {}
        if order["do"] == "counts":
            return {address: one.counts() for address, one in self.frontends.items()}
        raise ValueError(f"unknown order {order!r}")

    async def _open(self, address: str, port: int) -> None:
        frontend = Frontend(self, address)
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        frontend.server = await self.loop.create_server(lambda: Connection(frontend), sock=listener, backlog=4096)
        self.frontends[address] = frontend


async def _run() -> None:
    loop = asyncio.get_running_loop()
    fleet = Fleet(loop)
    orders: asyncio.Queue[str] = asyncio.Queue()

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(orders.put_nowait, line)
        loop.call_soon_threadsafe(orders.put_nowait, "")

    threading.Thread(target=read, daemon=True).start()
    while line := await orders.get():
        print(json.dumps(await fleet.obey(json.loads(line))), flush=True)


if __name__ == "__main__":
    uvloop.run(_run())
