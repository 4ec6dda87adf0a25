"""One try at one frontend: hold it, connect, send the request, and look at the answer until it is decided about.

Whoever tries is told what comes: `_accepted` when the answer is to be given to the client, `_failed` when the try went
wrong. Until one of the two nothing has been shown to anybody, so the try may be given up at any time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from global_ingress.proxy.carrying.choosing import Frontend, Place
from global_ingress.proxy.carrying.delivery import request_bytes
from global_ingress.proxy.carrying.gate import Gate, Verdict
from global_ingress.proxy.carrying.headers import Answer, Head
from global_ingress.proxy.carrying.keeping import connect, take_idle
from global_ingress.proxy.carrying.observer import Observer
from global_ingress.proxy.carrying.request import Buffer
from global_ingress.proxy.carrying.tally import bump
from global_ingress.proxy.carrying.tracing import Trace, Unsampled
from global_ingress.proxy.carrying.upstream import Connection
from global_ingress.proxy.carrying.wheel import NEVER
from global_ingress.proxy.shared.attempt import Trouble

if TYPE_CHECKING:
    from global_ingress.proxy.carrying.plane import Plane

JOINED = 64 * 1024  # a body up to this size goes out in one piece with its head


class Trying:
    """A try. It holds a frontend (counted in the ledger) from `_try` to `_release`."""

    # What most tries never change.
    _place: Place | None = None
    _frontend: Frontend | None = None
    _connection: Connection | None = None
    _connecting: asyncio.Task[None] | None = None
    _answer: Answer | None = None
    _observer: Observer | None = None
    _gate: Gate | None = None
    _trace: Trace | Unsampled | None = None  # while requests are traced
    _holding = -1  # the slot of the frontend that is held
    _reached = 0  # tries that reached a frontend

    def __init__(self, plane: Plane, head: Head, body: Buffer, request_id: bytes, started: float) -> None:
        self._plane = plane
        self._head = head
        self._body = body
        self._request_id = request_id
        self._started = self._sent_at = started
        total = plane.timeouts.total
        self._total_at = NEVER if total is None else started + total

    # What whoever tries has to say.

    def _accepted(self, answer: Answer, place: Place, raw: bytes, pieces: list[bytes], now: float) -> None:
        """The answer is good, as far as it has come; more follows unless `answer_end` comes next."""
        raise NotImplementedError

    def _failed(self, trouble: Trouble) -> None:
        """The try went wrong; its connection is gone, the frontend is still held."""
        raise NotImplementedError

    def _may_repeat(self, answer: Answer | None) -> bool:
        """Whether another frontend could still be asked, so that it is worth holding this answer back."""
        raise NotImplementedError

    def _paused(self) -> bool:
        """Whether nothing more should be read for now."""
        return False

    # The try.

    def _try(self, place: Place, frontend: Frontend) -> None:
        plane = self._plane
        self._place = place
        self._frontend = frontend
        self._holding = frontend.slot
        plane.ledger.begin(frontend.slot)
        connection = take_idle(frontend, plane)
        if connection is not None:
            self._send(connection)
        else:
            self._connect(frontend)

    def _connect(self, frontend: Frontend) -> None:
        self._connecting = self._plane.spawn(self._connected(frontend))

    async def _connected(self, frontend: Frontend) -> None:
        result = await connect(self._plane, frontend)
        self._connecting = None
        if isinstance(result, Trouble):
            self._failed(result)
        else:
            self._send(result)

    def _send(self, connection: Connection) -> None:
        plane, body = self._plane, self._body
        self._connection = connection
        self._reached += 1
        small = len(body) <= JOINED
        request_id = self._request_id
        if self._trace is not None:
            request_id += self._trace.sent(connection.frontend)
        data = request_bytes(self._head, connection.frontend.authority, request_id, body, whole=small)
        self._sent_at = plane.clock()
        connection.begin(self, data, None if small else body, self._request_id, self._patience_ends())
        if self._paused():
            connection.pause()
            connection.set_deadline(self._total_at)

    def _first_byte_at(self) -> float:
        """When waiting for the first byte ends: the try's own limit, what the client waits for in all, the total."""
        at = self._sent_at + self._plane.timeouts.first_byte
        if at > self._total_at:
            at = self._total_at
        patience = self._head.patience
        return at if patience is None else min(at, self._started + patience)

    def _patience_ends(self) -> float:
        """When silence after the request is to be looked at."""
        return self._first_byte_at()

    def _begun(self) -> bool:
        """Whether silence is now that inside an answer; a held stream has not begun before its first event."""
        return self._gate is not None and not self._gate.stream

    def _wait(self, now: float) -> None:
        if self._connection is not None:
            idle_at = min(now + self._plane.timeouts.idle, self._total_at)
            self._connection.set_deadline(idle_at if self._begun() else self._first_byte_at())

    # What the frontend's connection tells.

    def answer_head(self, answer: Answer) -> None:
        self._answer = answer
        status, retries, place = answer.status, self._plane.retries, self._place
        if 300 <= status < 400 and status != 304:
            self._drop_connection()
            self._failed(Trouble.REDIRECT)
            return
        if answer.event_stream:
            self._observer = Observer()
        if place is None:
            return
        if answer.event_stream and 200 <= status < 300:
            if retries.first_event_gate:
                self._gate = Gate(answer, place, stream=True)
        elif status >= 400 and (status in retries.statuses or status == 404) and self._may_repeat(answer):
            self._gate = Gate(answer, place, stream=False)

    def answer_whole(self, answer: Answer, raw: bytes, pieces: list[bytes], now: float) -> None:
        """A good answer that is no stream, and came in one read."""
        self._connection = None
        self._answer = answer
        if self._place is not None:
            self._accepted(answer, self._place, raw, pieces, now)
        self.answer_end()

    def answer_body(self, raw: bytes, pieces: list[bytes], now: float) -> None:
        """A read of an answer that is not decided about yet."""
        observer, gate = self._observer, self._gate
        if observer is not None:
            observer.feed_all(pieces)
        if gate is not None:
            gate.hold(raw, pieces)
            self._judge(gate.verdict(observer), now)
        elif self._answer is not None and self._place is not None:
            self._accepted(self._answer, self._place, raw, pieces, now)

    def answer_end(self) -> None:
        self._connection = None
        if self._observer is not None:
            self._observer.end()
        if self._gate is not None:
            self._judge(self._gate.at_end(self._observer), self._plane.clock())

    def answer_trouble(self, trouble: Trouble) -> None:
        self._drop_connection()
        if trouble is Trouble.STALE_CONNECTION and self._frontend is not None:
            # A kept connection was closed just as we used it: once more on a fresh one, and it is no attempt.
            bump(self._plane.tally.attempts, trouble.value)
            self._reached -= 1
            self._connect(self._frontend)
            return
        self._failed(trouble)

    def timed_out(self, now: float) -> None:
        begun = self._begun()
        self._drop_connection()
        if now >= self._total_at:
            self._failed(Trouble.TOTAL_TIMEOUT)
        else:
            self._failed(Trouble.IDLE_TIMEOUT if begun else Trouble.FIRST_BYTE_TIMEOUT)

    def _judge(self, verdict: Verdict, now: float) -> None:
        """What the gate says of the answer it holds."""
        gate = self._gate
        if gate is None:
            return
        if verdict is Verdict.WAIT:
            if not gate.stream and not self._paused():
                self._wait(now)
        elif verdict is Verdict.OPEN:
            self._gate = None
            self._accepted(gate.answer, gate.place, gate.raw(), gate.pieces, now)
        else:
            self._drop_connection()
            if verdict is Verdict.ERROR_EVENT:
                self._failed(Trouble.ERROR_EVENT)
            else:
                self._failed(Trouble.NO_WORKERS if gate.answer.status == 404 else Trouble.STATUS)

    # Letting go.

    def _release(self) -> None:
        """The frontend is held no more."""
        if self._holding >= 0:
            self._plane.ledger.end(self._holding)
            self._holding = -1

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abandon()

    def _leave(self) -> None:
        """Give the try up, at whatever point it is."""
        self._drop_connection()
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        self._release()
