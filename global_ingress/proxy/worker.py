"""A worker process: the data listener and the connections to frontends, nothing else (I53).

Started by the supervisor with inherited descriptors: its listening socket, its control socket, the shared ledger. It
does what it is told and ends when the supervisor is gone. Signals to the process group are the supervisor's business.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
from collections.abc import Coroutine
from typing import Any

from discovery.kit import log
from discovery.kit.clock import SYSTEM_CLOCK, monotonic, monotonic_ns, wall
from global_ingress.proxy.carrying.accesslog import AccessLog, json_lines, text_lines
from global_ingress.proxy.carrying.keeping import GOODBYE
from global_ingress.proxy.carrying.plane import Plane, Times
from global_ingress.proxy.carrying.server import ClientConnection
from global_ingress.proxy.shared import control
from global_ingress.proxy.shared.allowance import Allowance
from global_ingress.proxy.shared.counts import Notice, encode_counts, encode_notice
from global_ingress.proxy.shared.decided import encode_decisions
from global_ingress.proxy.shared.ledger import Ledger
from global_ingress.proxy.shared.routes import Drain, TlsFiles, decode_drain, decode_routes
from global_ingress.proxy.shared.tls import server_context
from global_ingress.proxy.shared.turns import unpack_numbers

_log = log.logger("global_ingress.worker")

QUEUE_EMPTY = 0.1  # seconds in which what waits in the listener's queue is accepted
SPANS_WAITING = 64  # messages the supervisor may be behind with before spans are dropped
LAST_WORDS = 1.0  # seconds for the last bytes to leave


class Worker:
    """The life of the process, from the first routes to the last stream."""

    def __init__(self, args: argparse.Namespace, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._clock = SYSTEM_CLOCK
        self._listener = socket.socket(fileno=args.listen_fd)
        ledger = Ledger(args.ledger_fd, args.workers, args.index)
        self._access = _access_log(args.access_log, args.log_format)
        allowance = Allowance(args.ledger_fd, args.workers, args.index)
        times = Times(monotonic, monotonic_ns, wall)
        self.plane = Plane(loop, times, ledger, self._access, self._notify, self._item_failed, allowance)
        self.plane.send_spans = self._send_spans
        self._server: asyncio.Server | None = None
        self._listening = False
        self._tls: TlsFiles | None = None
        self._changing = asyncio.Lock()
        self._draining: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.failed = False
        self.ended = asyncio.Event()
        self._control = control.Control(socket.socket(fileno=args.control_fd), loop, self._told, self._orphaned)

    def _told(self, kind: bytes, payload: bytes, fds: list[int]) -> None:
        """One message of the supervisor."""
        if kind == control.TURNS:
            self.plane.add_turns(unpack_numbers(payload), fds)
        elif kind == control.ROUTES:
            routes = decode_routes(payload)
            self.plane.apply(routes)
            if not self._listening or routes.tls != self._tls:
                self._listening, self._tls = True, routes.tls
                self._start(self._listen(routes.tls))
        elif kind == control.COMPLETE:
            self.plane.complete = True
        elif kind == control.REPORT:
            self._report()
        elif kind == control.DRAIN:
            self._drain(decode_drain(payload))
        elif kind == control.END:
            self._end_now()
        else:
            _log.error("unknown control message", kind=kind.decode("ascii", "replace"))

    def _report(self) -> None:
        plane = self.plane
        counts = plane.tally.counts(
            buffered=plane.buffered,
            log_dropped=self._access.dropped if self._access is not None else 0,
            loop_lag=plane.wheel.lag,
            last_tick=plane.wall() - (plane.clock() - plane.wheel.last),
        )
        decisions = plane.explained.take()
        if decisions.records or decisions.dropped:
            self._control.send(control.DECISIONS, encode_decisions(decisions))
        self._control.send(control.COUNTS, encode_counts(counts))

    async def _listen(self, tls: TlsFiles | None) -> None:
        """Listen, or go on with another certificate: the new server is there before the old one goes, both take from
        the one queue, and open connections keep what they have."""
        async with self._changing:
            if self.plane.closing or tls != self._tls:
                return
            plane, given = self.plane, _secured(tls, self.plane.timeouts.client_header)
            factory = lambda: ClientConnection(plane)  # noqa: E731
            before, first = self._server, self._server is None
            listener = self._listener.dup()
            self._server = await self._loop.create_server(factory, sock=listener, backlog=4096, **given)  # type: ignore[arg-type]
            if before is not None:
                before.close()
            if first:
                plane.wheel.start()
                self._control.send(control.LISTENING)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            _log.exception("worker failed", error)
            self.failed = True
            self.ended.set()

    def _drain(self, drain: Drain) -> None:
        if self._draining is None:
            self.plane.draining = True
            self._draining = self._loop.create_task(self._drained(drain))
            self._draining.add_done_callback(self._done)

    async def _drained(self, drain: Drain) -> None:
        """Serve on for the delay, empty the listener's queue, let streams finish, cut the rest (I52)."""
        plane = self.plane
        await self._clock.sleep(drain.delay)
        plane.closing = True
        await self._stop_accepting()
        for client in list(plane.clients):
            client.close_if_idle()
        await self._until_deserted(drain.timeout)
        await self._cut_all()

    async def _stop_accepting(self) -> None:
        """Accept until the queue is empty, so that nobody who has connected is reset, then close the listener."""
        if self._server is not None:
            await self._clock.sleep(QUEUE_EMPTY)
            self._server.close()
        self._listener.close()

    async def _until_deserted(self, limit: float) -> None:
        """Wait until no client is connected, for at most `limit` seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit):
                await self.plane.deserted()

    async def _cut_all(self) -> None:
        for client in list(self.plane.clients):
            client.end_now()
        await self._until_deserted(LAST_WORDS)
        self.ended.set()

    def _end_now(self) -> None:
        if self._draining is not None:
            self._draining.cancel()
        self.plane.draining = self.plane.closing = True
        if self._server is not None:
            self._server.close()
        self._listener.close()
        self._start(self._cut_all())

    def _orphaned(self) -> None:
        if not self.ended.is_set():
            _log.warning("the supervisor is gone, draining")
            routes = self.plane.routes
            self._drain(Drain(delay=0.0, timeout=routes.drain_timeout if routes is not None else 0.0))

    def _notify(self, notice: Notice) -> None:
        self._control.send(control.NOTICE, encode_notice(notice))

    def _send_spans(self, payload: bytes) -> bool:
        if self._control.waiting > SPANS_WAITING:
            return False
        self._control.send(control.SPANS, payload)
        return True

    def _item_failed(self, error: Exception) -> None:
        _log.exception("a connection's timer failed", error)

    def close(self) -> None:
        """The last thing: what was counted and logged gets out."""
        if self.plane.tracing is not None:
            self.plane.tracing.pass_on()
        self._report()
        self._control.close()
        self.plane.wheel.stop()
        if self._access is not None:
            self._access.close(2.0)


def _secured(tls: TlsFiles | None, patience: float) -> dict[str, Any]:
    """How the listener speaks TLS. A handshake is part of the head's arriving: one that is slow ends as that does."""
    if tls is None:
        return {}
    return {"ssl": server_context(tls), "ssl_handshake_timeout": patience, "ssl_shutdown_timeout": GOODBYE}


def _access_log(where: str, form: str) -> AccessLog | None:
    if where == "off":
        return None
    fd = 1 if where == "stdout" else os.open(where, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
    return AccessLog(fd, text_lines if form == "text" else json_lines)


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="global-ingress worker", description="Started by `global-ingress serve`.")
    for name in ("--index", "--workers", "--listen-fd", "--control-fd", "--ledger-fd"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--loop", choices=("uvloop", "asyncio"), default="uvloop")
    parser.add_argument("--log-format", choices=("json", "text"), default="json")
    parser.add_argument("--log-level", default="info")
    parser.add_argument("--access-log", default="stdout")
    return parser.parse_args(argv)


def _calm_collector() -> None:
    """What was loaded at the start stays; requests make no cycles, so collections may be rare."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


async def _serve(args: argparse.Namespace) -> int:
    worker = Worker(args, asyncio.get_running_loop())
    _calm_collector()
    await worker.ended.wait()
    worker.close()
    return 1 if worker.failed else 0


def main(argv: list[str] | None = None) -> int:
    """The process, until it has drained; its exit code."""
    args = _arguments(sys.argv[1:] if argv is None else argv)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    log.configure(args.log_format, args.log_level, sys.stderr)
    if args.loop == "uvloop":
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_serve(args))
    return asyncio.run(_serve(args))


if __name__ == "__main__":
    sys.exit(main())
