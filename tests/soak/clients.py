"""Clients of the soak, a process of their own: a constant mixture of everything that clients do, and what went wrong.

    python -m tests.soak.clients PORT          lines on standard input: counts, stop

Each kind of client works in a row, so the load is bounded. Owns the count of good answers per kind and every failure
with the local port of its connection, by which the soak knows whose worker it was. `stop` finishes what runs.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import uvloop

from tests.soak import wire
from tests.soak.wire import Wrong, mark, request

LIMIT = 30.0  # seconds for any one request
_RESET = struct.pack("ii", 1, 0)


class Link:
    """One connection, opened again when the other side has closed it while it was idle."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter | None = None
        self.local = 0

    async def ready(self) -> None:
        if self._writer is None or self.reader.at_eof() or self._writer.is_closing():
            self.close()
            self.reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
            self.local = self._writer.get_extra_info("sockname")[1]

    async def send(self, data: bytes) -> None:
        await self.ready()
        assert self._writer is not None
        self._writer.write(data)
        await self._writer.drain()

    def close(self, *, reset: bool = False) -> None:
        writer, self._writer = self._writer, None
        if writer is None:
            return
        if reset:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()
        else:
            writer.close()


class Clients:
    """What all of them share."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.good: Counter[str] = Counter()
        self.failures: list[dict[str, Any]] = []
        self.stopped = asyncio.Event()
        self._ids = 0

    def id(self) -> str:
        self._ids += 1
        return f"r{self._ids}"

    async def forever(self, kind: str, pause: float, act: Callable[[Link], Awaitable[int]], *, keep: bool) -> None:
        """One client: `act` makes one round and says how many answers it got."""
        link = Link(self.port)
        while not self.stopped.is_set():
            began = time.monotonic()
            try:
                async with asyncio.timeout(LIMIT):
                    answers = await act(link)
            except (Wrong, OSError, TimeoutError, httpx.HTTPError) as fault:
                words = f"{type(fault).__name__}: {fault}"
                at = {"at": time.monotonic(), "after": round(time.monotonic() - began, 3)}
                self.failures.append({"kind": kind, "port": link.local, "why": words, **at})
                link.close()
                pause = max(pause, 0.01)
            else:
                self.good[kind] += answers
            if not keep:
                link.close()
            await asyncio.sleep(pause)
        link.close()

    # ---- what a client does in one round

    async def unary(self, link: Link) -> int:
        id = self.id()
        await link.send(request(mark(id)))
        await wire.read_unary(link.reader, id)
        return 1

    async def upload(self, link: Link) -> int:
        id = self.id()
        await link.send(request(mark(id), pad=300_000, chunked=self._ids % 2 == 0))
        await wire.read_unary(link.reader, id)
        return 1

    async def pipelined(self, link: Link) -> int:
        ids = [self.id() for _ in range(6)]
        await link.send(b"".join(request(mark(id)) for id in ids))
        for id in ids:
            await wire.read_unary(link.reader, id)
        return len(ids)

    async def stream(self, link: Link) -> int:
        return await self._whole_stream(link, events=20, every=5)

    async def long_stream(self, link: Link) -> int:
        return await self._whole_stream(link, events=50, every=100)

    async def _whole_stream(self, link: Link, events: int, every: int) -> int:
        id = self.id()
        await link.send(request(mark(id, events=events, every=every, size=100)))
        await wire.open_stream(link.reader)
        await wire.read_rest(link.reader, id, 0, events)
        return 1

    async def leaves(self, link: Link) -> int:
        """Away in the middle of a stream, or before its head, politely or by reset."""
        id = self.id()
        late = self._ids % 3 == 0
        await link.send(request(mark(id, events=50, every=20, size=100, delay=500 if late else 0)))
        if late:
            await asyncio.sleep(0.02)
        else:
            await wire.open_stream(link.reader)
            await wire.read_event(link.reader, id, 0)
        link.close(reset=self._ids % 2 == 0)
        return 1

    async def through_httpx(self) -> None:
        """A client as people have it, with its pool of connections; it has no port of its own to tell."""
        limits = httpx.Limits(max_connections=2, max_keepalive_connections=2)
        url = f"http://127.0.0.1:{self.port}/v1/chat/completions"
        async with httpx.AsyncClient(trust_env=False, limits=limits, timeout=LIMIT) as client:

            async def ask(link: Link) -> int:
                id = self.id()
                body = {"model": wire.MODEL, "messages": [{"role": "user", "content": mark(id)}]}
                async with client.stream("POST", url, json=body) as answer:
                    link.local = answer.extensions["network_stream"].get_extra_info("client_addr")[1]
                    got = await answer.aread()
                if answer.status_code != 200 or json.loads(got)["id"] != id:
                    raise Wrong(f"{answer.status_code}: {got[:300]!r}")
                return 1

            await self.forever("httpx", 0.1, ask, keep=True)

    async def work(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(self.forever("keep-alive", 0.02, self.unary, keep=True))
                group.create_task(self.forever("fresh", 0.03, self.unary, keep=False))
                group.create_task(self.forever("sse", 0.02, self.stream, keep=True))
                group.create_task(self.forever("long sse", 0.0, self.long_stream, keep=False))
                group.create_task(self.forever("left", 0.1, self.leaves, keep=False))
            for _ in range(2):
                group.create_task(self.forever("pipelined", 0.05, self.pipelined, keep=True))
                group.create_task(self.forever("upload", 0.2, self.upload, keep=True))
            group.create_task(self.through_httpx())

    def counts(self) -> dict[str, Any]:
        return {"good": dict(self.good), "failures": self.failures}


async def _run(port: int) -> None:
    loop = asyncio.get_running_loop()
    clients = Clients(port)
    orders: asyncio.Queue[str] = asyncio.Queue()

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(orders.put_nowait, line.strip())
        loop.call_soon_threadsafe(orders.put_nowait, "")

    threading.Thread(target=read, daemon=True).start()
    work = asyncio.create_task(clients.work())
    while order := await orders.get():
        if json.loads(order)["do"] == "stop":
            clients.stopped.set()
            await work
        print(json.dumps(clients.counts()), flush=True)
    work.cancel()


if __name__ == "__main__":
    uvloop.run(_run(int(sys.argv[1])))
