"""A worker that speaks the control protocol and serves one-line answers, for tests of the supervisor alone.

It answers every connection with its own pid, the number it drew from the first model's counter, and the generation of
its routes. `/hold` keeps a connection open as a stream would, until END or the drain's timeout. A file named by
FAKE_WORKER_DIE makes it exit at the start, as a broken installation would; while one named by FAKE_WORKER_LATE exists,
the second worker does not listen. `/complete` says whether it was told that all workers listen.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import sys
import time

from global_ingress.proxy.shared import control, turns
from global_ingress.proxy.shared.counts import Counts, Histogram, Notice, Series, encode_counts, encode_notice
from global_ingress.proxy.shared.ledger import Ledger
from global_ingress.proxy.shared.routes import Routes, decode_drain, decode_routes


class Fake:
    def __init__(self, args: argparse.Namespace) -> None:
        self.loop = asyncio.get_running_loop()
        self.ledger = Ledger(args.ledger_fd, args.workers, args.index)
        self.socket = socket.socket(fileno=args.listen_fd)
        self.routes: Routes | None = None
        self.turns: dict[int, turns.Turn] = {}
        self.served = 0
        self.server: asyncio.Server | None = None
        self.open: set[asyncio.StreamWriter] = set()
        self.ended: asyncio.Future[None] = self.loop.create_future()
        self.draining = False
        self.complete = False
        self.late = args.index == 1 and os.environ.get("FAKE_WORKER_LATE", "")
        ours = socket.socket(fileno=args.control_fd)
        ours.setblocking(False)
        self.control = control.Control(ours, self.loop, self.on_message, self.end)

    def on_message(self, kind: bytes, payload: bytes, fds: list[int]) -> None:
        if kind == control.TURNS:
            self.turns.update(zip(turns.unpack_numbers(payload), map(turns.Turn, fds), strict=True))
        elif kind == control.ROUTES:
            first = self.routes is None
            self.routes = decode_routes(payload)
            if first:
                self.begin()
        elif kind == control.COMPLETE:
            self.complete = True
        elif kind == control.REPORT:
            self.control.send(control.COUNTS, encode_counts(self.counts()))
        elif kind == control.DRAIN:
            self.drain(*((d := decode_drain(payload)).delay, d.timeout))
        elif kind == control.END:
            self.end()

    def begin(self) -> None:
        if self.late and os.path.exists(self.late):
            self.loop.call_later(0.01, self.begin)
        else:
            self.loop.create_task(self.listen())

    async def listen(self) -> None:
        self.server = await asyncio.start_server(self.serve, sock=self.socket)
        self.control.send(control.LISTENING)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self.routes is not None
        line = await reader.readline()
        await reader.readuntil(b"\r\n\r\n")
        path = line.split(b" ")[1].decode()
        drawn, slot = 0, None
        if self.routes.models and self.routes.models[0].members:
            model = self.routes.models[0]
            drawn = self.turns[model.turn].draw()
            pool = model.members[model.sequence[(drawn - 1) % len(model.sequence)]].pool
            slot = next(p for p in self.routes.pools if p.id == pool).frontends[0].slot
        self.served += 1
        if path == "/notice":
            self.control.send(control.NOTICE, encode_notice(Notice("ejected", "http://127.0.0.1:1", "5 failures")))
        if path == "/hold" and slot is not None:
            await self.hold(slot, reader, writer)
            return
        if path == "/eject" and slot is not None:
            self.ledger.eject(slot, time.monotonic_ns() + 60_000_000_000)
        body = f"{os.getpid()} {drawn} {self.routes.generation}".encode()
        if path == "/complete":
            body = str(self.complete).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        writer.close()

    async def hold(self, slot: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until the client leaves."""
        self.ledger.begin(slot)
        self.open.add(writer)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nheld")
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()
        self.open.discard(writer)
        self.ledger.end(slot)
        if self.draining and not self.open:
            self.end()

    def counts(self) -> Counts:
        buckets = [0] * 16
        buckets[0] = self.served
        pool = self.routes.pools[0].id if self.routes and self.routes.pools else ""
        model = self.routes.models[0].id if self.routes and self.routes.models else "other"
        series = Series(
            model,
            pool,
            {(200, "ok", False): self.served},
            Histogram(buckets, 0.1),
            Histogram([0] * 16),
            Histogram([0] * 14),
        )
        return Counts(
            [series],
            {"first": self.served},
            {},
            {"done": 1},
            0,
            len(self.open),
            0,
            0,
            {},
            {"idle": 1},
            0,
            0,
            0.001,
            time.time(),
        )

    def drain(self, delay: float, timeout: float) -> None:
        self.loop.call_later(delay, self.stop_accepting)
        self.loop.call_later(delay + timeout, self.end)

    def stop_accepting(self) -> None:
        self.draining = True
        if self.server is not None:
            self.server.close()
        if not self.open:
            self.end()

    def end(self) -> None:
        for writer in self.open:
            writer.transport.abort()
        if not self.ended.done():
            self.ended.set_result(None)


async def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("index", "workers", "listen-fd", "control-fd", "ledger-fd"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("loop", "log-format", "log-level", "access-log"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    fake = Fake(args)
    await fake.ended
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.path.exists(os.environ.get("FAKE_WORKER_DIE", "/nonexistent/path")):
        sys.exit(7)
    sys.exit(asyncio.run(main()))
