"""A data plane without sockets: transports that record, a clock that is set by hand, and routes of a few pools."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from global_ingress.proxy.carrying.headers import Answer
from global_ingress.proxy.carrying.plane import Plane, Times
from global_ingress.proxy.carrying.server import ClientConnection
from global_ingress.proxy.carrying.upstream import Connection
from global_ingress.proxy.shared.attempt import Trouble
from global_ingress.proxy.shared.counts import Notice
from global_ingress.proxy.shared.ledger import Ledger, create_ledger
from global_ingress.proxy.shared.routes import (
    Ejection,
    FrontendRoute,
    Limits,
    Member,
    ModelRoute,
    PoolRoute,
    Retries,
    Routes,
    Timeouts,
)
from global_ingress.proxy.shared.turns import new_turn

TIMEOUTS = Timeouts(5.0, 300.0, 120.0, None, 10.0, 30.0, 60.0, 75.0, 4.0)


class Wire:
    """A transport that only records. After `close` or `abort` nothing is to be fed to its protocol any more."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.closed = False
        self.aborted = False
        self.ended = False
        self.reading = True

    def write(self, data: bytes | bytearray) -> None:
        assert not self.ended, "written after the end"
        self.written += data

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def write_eof(self) -> None:
        self.ended = True

    def can_write_eof(self) -> bool:
        return True

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        assert high > low

    def get_extra_info(self, name: str) -> tuple[str, int] | None:
        return ("192.0.2.7", 4711) if name == "peername" else None

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class HandLoop:
    """The parts of an event loop that are used without sockets: what was called soon runs in `settle`."""

    def __init__(self) -> None:
        self.soon: list[tuple[Callable[..., object], tuple[object, ...]]] = []
        self.tasks: list[Any] = []

    def call_soon(self, call: Callable[..., object], *arguments: object) -> None:
        self.soon.append((call, arguments))

    def create_task(self, what: Any) -> Any:
        """A connection is wanted: nobody answers."""
        what.close()
        task = HandTask()
        self.tasks.append(task)
        return task

    def settle(self) -> None:
        while self.soon:
            call, arguments = self.soon.pop(0)
            call(*arguments)


class HandTask:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True

    def add_done_callback(self, call: Callable[..., object]) -> None:
        """It never ends by itself."""


def routes(
    pools: int = 1, *, statuses: Sequence[int] = (502, 503, 504, 529), aliases: tuple[str, ...] = ("alias",)
) -> Routes:
    """`pools` pools of one frontend each, all of model `m`."""
    made = tuple(
        PoolRoute(f"p{n}", f"c{n}/dynamo/llama", f"c{n}", f"r{n}", (FrontendRoute(f"http://f{n}:80", f"f{n}", 80, n),))
        for n in range(pools)
    )
    members = tuple(Member(pool.id, 1, -1, (0,)) for pool in made)
    model = ModelRoute("m", aliases, "round_robin", None, members, 1, tuple(range(pools)))
    return Routes(
        generation=1,
        known=True,
        region=None,
        timeouts=TIMEOUTS,
        limits=Limits(1 << 20, 32 * 1024, 100, 8 << 20, None),
        retries=Retries(2, 0.2, frozenset(statuses), True),
        ejection=Ejection(5, 10.0, 300.0, 0.5),
        expose_pool=True,
        trusted_proxies=(),
        access_log=False,
        drain_timeout=300.0,
        heartbeat=None,
        hedge=None,
        pools=made,
        models=(model,),
        listing=b'{"object":"list","data":[]}',
    )


class Rig:
    """One worker's plane, with `now` as its clock and a kept connection to each frontend when `stock` was called."""

    def __init__(self, ledger: Ledger, given: Routes) -> None:
        self.now = 100.0
        self.loop = HandLoop()
        self.notices: list[Notice] = []
        self.failures: list[Exception] = []
        times = Times(lambda: self.now, lambda: int(self.now * 1e9), lambda: 1e9 + self.now)
        self.plane = Plane(cast(Any, self.loop), times, ledger, None, self.notices.append, self.failures.append)
        self.plane.turns[1] = new_turn()
        self.plane.apply(given)

    def stock(self, frontend: int = 0) -> Connection:
        """A fresh kept connection to this frontend."""
        one = self.plane.frontends[f"http://f{frontend}:80"]
        connection = Connection(self.plane, one)
        connection.connection_made(Wire())
        one.idle.append(connection)
        self.plane.tally.upstream["idle"] += 1
        return connection

    def client(self) -> tuple[ClientConnection, Wire]:
        client, wire = ClientConnection(self.plane), Wire()
        client.connection_made(wire)
        return client, wire

    def feed(self, protocol: Any, wire: Wire, data: bytes) -> None:
        """As a loop does: nothing comes from a transport that is closed."""
        if not wire.closed:
            protocol.data_received(data)
            self.loop.settle()


@contextmanager
def rigged(given: Routes | None = None) -> Iterator[Rig]:
    fd = create_ledger(1)
    ledger = Ledger(fd, 1, 0)
    rig = Rig(ledger, given or routes())
    try:
        yield rig
    finally:
        for turn in rig.plane.turns.values():
            turn.close()
        ledger.close()
        os.close(fd)


class Recorder:
    """Reads an answer and keeps what it was told."""

    def __init__(self) -> None:
        self.answer: Answer | None = None
        self.raw = b""
        self.body = b""
        self.end = ""
        self.clean: list[tuple[int, bool]] = []  # bytes of `raw` so far, and what the connection said then
        self.connection: Connection | None = None

    def answer_head(self, answer: Answer) -> None:
        assert self.answer is None, "two heads"
        assert not self.end
        self.answer = answer

    def answer_whole(self, answer: Answer, raw: bytes, pieces: list[bytes], now: float) -> None:
        self.answer_head(answer)
        self.answer_body(raw, pieces, now)
        self.answer_end()

    def answer_body(self, raw: bytes, pieces: list[bytes], now: float) -> None:
        assert self.answer is not None, "a body before its head"
        assert not self.end
        self.raw += raw
        self.body += b"".join(pieces)
        if self.connection is not None:
            self.clean.append((len(self.raw), self.connection.clean))

    def answer_end(self) -> None:
        assert not self.end, "two ends"
        self.end = "whole"

    def answer_trouble(self, trouble: Trouble) -> None:
        assert not self.end, "two ends"
        self.end = trouble.value

    def timed_out(self, now: float) -> None:
        self.end = "timed out"
