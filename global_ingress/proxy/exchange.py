"""One request's whole trip: choose, try, take the answer or repeat elsewhere.

The client's connection starts it; the frontend's connection tells it what came. Nothing here waits: every step is the
reaction to one event. The client sees nothing until an answer is accepted; until then a failed try may be repeated
elsewhere, afterwards never (I30, I41).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from global_ingress.proxy.answering import Answering, Client
from global_ingress.proxy.attempt import (
    BLAMED,
    FAULT_OF,
    GATEWAY_STATUSES,
    REPEATABLE,
    STREAM_END,
    UNCONNECTED,
    WORDS,
    Trouble,
)
from global_ingress.proxy.choosing import Chooser, Frontend, Place
from global_ingress.proxy.delivery import Mode, framed
from global_ingress.proxy.errors import FAULTS, Refusal
from global_ingress.proxy.gate import Gate, Verdict
from global_ingress.proxy.headers import Answer, Head
from global_ingress.proxy.observer import Observer
from global_ingress.proxy.request import Buffer, peek, with_model
from global_ingress.proxy.tally import bump
from global_ingress.proxy.upstream import Connection, connect, take_idle
from global_ingress.proxy.wheel import NEVER

if TYPE_CHECKING:
    from global_ingress.proxy.plane import Plane

JOINED = 64 * 1024  # a body up to this size goes out in one piece with its head


class Exchange(Answering):
    """The trip of one request. It holds a frontend (counted in the ledger) from a try's begin to its end."""

    # What most requests never change.
    _connection: Connection | None = None
    _connecting: asyncio.Task[None] | None = None
    _gate: Gate | None = None
    _kept: Gate | None = None  # the last answer that was held back and then tried elsewhere
    _reached = 0  # tries that reached a frontend
    _sent_at = 0.0
    _total_at = NEVER

    def __init__(self, client: Client, plane: Plane, head: Head, body: Buffer, *, anthropic: bool) -> None:
        Answering.__init__(self, client, plane, head, body, anthropic=anthropic)
        self._tried: list[Frontend] = []
        self._sent_at = self._started
        total = plane.timeouts.total
        if total is not None:
            self._total_at = self._started + total

    # What the client's connection tells.

    def start(self) -> None:
        """Peek, choose, try. A refusal is answered at once."""
        self._plane.budget.deposit()
        try:
            asked = peek(self._body)
            self._stream = asked.stream is True
            chooser = self._chooser = self._find(asked.model)
            found = chooser.first(None if chooser.affinity is None else self._affinity(chooser))
            if found is None:
                raise _nowhere(chooser)
        except Refusal as refusal:
            self._answer_fault(refusal.fault, str(refusal), "refused", refusal.param)
            return
        self._try(*found)

    def pause(self) -> None:
        """The client does not read: neither do we, and the frontend's silence is not its fault."""
        if self._connection is not None:
            self._connection.pause()
            self._connection.set_deadline(self._total_at)

    def resume(self) -> None:
        """The client reads again."""
        if self._connection is not None:
            self._connection.resume()
            self._wait(self._plane.clock())

    def client_gone(self, code: str) -> None:
        """The client left, or is being left since it reads nothing: the frontend must not work for nobody (I43).
        `code` is client_closed or client_stalled."""
        if self._over:
            return
        self._leave()
        answer, observer = self._answer, self._observer
        if answer is not None and observer is not None and observer.done and observer.error is None:
            # It has read [DONE] and hung up, as SDKs do, before the end of the body came.
            self._account(answer.status, "ok", None, "done")
            return
        self._plane.tally.client_disconnects += 1
        self._account(499, "client_closed", code, code)

    def cut_for_drain(self) -> None:
        """Time is up while draining."""
        if not self._over:
            self._leave()
            self._end_badly(FAULTS["draining"], "the load balancer is shutting down", "drained", "drain")

    # Choosing and trying.

    def _find(self, model: str) -> Chooser:
        plane = self._plane
        alias = plane.aliases.get(model)
        if alias is not None:
            self._body = with_model(self._body, alias)
            model = alias
        chooser = plane.choosers.get(model)
        if chooser is None:
            if not plane.choosers:
                raise Refusal("no_ready_pool", "no pool is known yet")
            raise Refusal("model_not_found", f"the model `{model[:200]}` does not exist", "model")
        return chooser

    def _affinity(self, chooser: Chooser) -> bytes | None:
        return None if chooser.affinity is None else self._head.affinity.get(chooser.affinity)

    def _try(self, place: Place, frontend: Frontend) -> None:
        plane = self._plane
        self._place = place
        self._frontend = frontend
        self._attempts += 1
        self._tried.append(frontend)
        self._holding = frontend.slot
        plane.ledger.begin(frontend.slot)
        connection = take_idle(frontend, plane)
        if connection is not None:
            self._send(connection)
        else:
            self._connect(frontend)

    def _connect(self, frontend: Frontend) -> None:
        self._connecting = self._plane.loop.create_task(self._connected(frontend))

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
        head = self._head
        data = b"%b%b%b\r\nContent-Length: %d\r\nx-request-id: %b\r\n\r\n%b" % (
            head.begin,
            connection.frontend.authority,
            head.forward,
            len(body),
            self._request_id,
            bytes(body) if small else b"",
        )
        self._sent_at = plane.clock()
        connection.begin(self, data, None if small else body, self._request_id, self._first_byte_at())
        if self._client.paused:
            self.pause()

    def _first_byte_at(self) -> float:
        """When waiting for the first byte ends: the try's own limit, what the client waits for in all, the total."""
        at = min(self._sent_at + self._plane.timeouts.first_byte, self._total_at)
        patience = self._head.patience
        return at if patience is None else min(at, self._started + patience)

    def _begun(self) -> bool:
        """Whether silence is now that inside an answer; a held stream has not begun before its first event."""
        return self._committed or (self._gate is not None and not self._gate.stream)

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
        if pieces:
            self._keep_tail(pieces)
        if self._place is not None:
            self._open(answer, self._place, raw, pieces, now)
        self._complete(answer)

    def answer_body(self, raw: bytes, pieces: list[bytes], now: float) -> None:
        observer = self._observer
        if observer is not None:
            for piece in pieces:
                observer.feed(piece)
        elif pieces:
            self._keep_tail(pieces)
        if not self._committed:
            self._undecided(raw, pieces, now)
        elif raw:
            place, connection = self._place, self._connection
            if observer is not None and place is not None:
                place.track.chunk(now - self._last_at)
            self._last_at = now
            self._pass(raw if self._mode is Mode.RAW else framed(self._mode, raw, pieces))
            if connection is not None and not self._client.paused:
                idle_at = now + self._plane.timeouts.idle
                connection.deadline = idle_at if idle_at < self._total_at else self._total_at

    def _undecided(self, raw: bytes, pieces: list[bytes], now: float) -> None:
        """The client has seen nothing yet: hold this, or accept the answer."""
        gate = self._gate
        if gate is None:
            self._accept(raw, pieces, now)
        else:
            gate.hold(raw, pieces)
            self._judge(gate.verdict(self._observer), now)

    def answer_end(self) -> None:
        self._connection = None
        if self._observer is not None:
            self._observer.end()
        if self._gate is not None:
            self._judge(self._gate.at_end(self._observer), self._plane.clock())
        if self._committed and not self._over and self._answer is not None:
            self._complete(self._answer)

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
            if not gate.stream and not self._client.paused:
                self._wait(now)
        elif verdict is Verdict.OPEN:
            self._gate = None
            self._accept(gate.raw(), gate.pieces, now)
        else:
            self._drop_connection()
            if verdict is Verdict.ERROR_EVENT:
                self._failed(Trouble.ERROR_EVENT)
            else:
                self._failed(Trouble.NO_WORKERS if gate.answer.status == 404 else Trouble.STATUS)

    def _accept(self, raw: bytes, pieces: list[bytes], now: float) -> None:
        """This answer is the one the client gets; its body goes on as it comes."""
        if self._answer is not None and self._place is not None:
            self._open(self._answer, self._place, raw, pieces, now)
            if not self._client.paused:
                self._wait(now)

    # A try went wrong.

    def _may_repeat(self, answer: Answer | None) -> bool:
        plane = self._plane
        return self._reached < plane.retries.attempts and (answer is None or answer.again) and plane.budget.has()

    def _failed(self, trouble: Trouble) -> None:
        """Repeat elsewhere if that is allowed, else tell the client."""
        self._release()
        plane, gate, frontend, chooser = self._plane, self._gate, self._frontend, self._chooser
        bump(plane.tally.attempts, trouble.value)
        if frontend is None or chooser is None:
            return
        if trouble in BLAMED or (gate is not None and gate.status() in GATEWAY_STATUSES):
            plane.blame(frontend, trouble, chooser)
        if not self._committed:
            if gate is not None and trouble in REPEATABLE:
                self._kept = gate
            self._gate = self._answer = self._observer = None
            if self._repeated(trouble, gate, chooser):
                return
            if self._kept is not None:
                self._give_kept(self._kept)
                return
        outcome = "stream_error" if self._observer is not None else "upstream_error"
        self._end_badly(FAULTS[FAULT_OF[trouble]], WORDS[trouble], outcome, STREAM_END.get(trouble))

    def _repeated(self, trouble: Trouble, gate: Gate | None, chooser: Chooser) -> bool:
        plane, place = self._plane, self._place
        unconnected = trouble in UNCONNECTED
        if unconnected:
            may = plane.clock() - self._sent_at <= 2 * plane.timeouts.connect
        else:
            may = trouble in REPEATABLE and self._may_repeat(gate.answer if gate is not None else None)
            if trouble is Trouble.ERROR_EVENT and gate is not None:
                may = may and gate.status() in plane.retries.statuses
        if not may or place is None:
            return False
        found = chooser.next(place, self._affinity(chooser), self._tried, again=not unconnected)
        if found is None or not (unconnected or plane.budget.spend()):
            return False
        self._try(*found)
        return True

    def _give_kept(self, kept: Gate) -> None:
        """No try did better: the last answer that came is the one given."""
        self._place = kept.place
        if kept.stream:
            outcome = "upstream_error" if kept.status() >= 500 else "client_error"
            self._respond(kept.status(), kept.error_body(anthropic=self._anthropic), b"", outcome, "error_event")
            return
        self._answer = kept.answer
        self._open(kept.answer, kept.place, kept.raw(), kept.pieces, self._plane.clock())
        self._complete(kept.answer)

    # Letting go.

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._clean = self._mode is not Mode.RAW or connection.clean
            connection.abandon()

    def _leave(self) -> None:
        self._drop_connection()
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        self._release()


def _nowhere(chooser: Chooser) -> Refusal:
    if chooser.full():
        return Refusal("overloaded", f"every pool of the model `{chooser.id}` has as many requests as it may have")
    why = chooser.why or "none is listed"
    return Refusal("no_ready_pool", f"no pool can serve the model `{chooser.id}` now: {why}")
