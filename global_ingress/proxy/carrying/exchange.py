"""One request's whole trip: choose, try, take the answer or repeat elsewhere.

The client's connection starts it; the frontend's connection tells it what came. Nothing here waits: every step is the
reaction to one event. The client sees nothing until an answer is accepted; until then a failed try may be repeated
elsewhere, afterwards never (I30, I41).
"""

from __future__ import annotations

from global_ingress.proxy.carrying.answering import Answering
from global_ingress.proxy.carrying.choosing import Chooser, Frontend, Place
from global_ingress.proxy.carrying.delivery import Mode, framed
from global_ingress.proxy.carrying.doors import may_use
from global_ingress.proxy.carrying.gate import Gate
from global_ingress.proxy.carrying.headers import Answer
from global_ingress.proxy.carrying.hedge import Hedge
from global_ingress.proxy.carrying.request import Recount, Span, named_once, peek, with_model
from global_ingress.proxy.carrying.tally import bump
from global_ingress.proxy.carrying.trying import Trying
from global_ingress.proxy.carrying.wheel import NEVER
from global_ingress.proxy.shared.attempt import (
    BLAMED,
    FAULT_OF,
    GATEWAY_STATUSES,
    REPEATABLE,
    STREAM_END,
    UNCONNECTED,
    WORDS,
    Trouble,
)
from global_ingress.proxy.shared.errors import FAULTS, Refusal

_RAW = Mode.RAW


class Exchange(Answering):
    """The trip of one request."""

    _kept: Gate | None = None  # the last answer that was held back and then tried elsewhere
    _hedge: Hedge | None = None
    _seeking_since = 0.0  # when the search for a connection began, if not with the request
    _beaten = False  # the first try has failed, the second one is still under way

    # What the client's connection tells.

    def start(self) -> None:
        """Peek, choose, try. A refusal is answered at once."""
        self._plane.budget.deposit()
        if self._plane.hedging is not None:
            self._plane.hedges.deposit()
        try:
            asked = peek(self._body)
            once = named_once(self._body)
        except Refusal as refusal:
            self._refuse(refusal)
            return
        self._asked = asked
        if once:
            self._choose(asked.model)
        else:
            self._recount(asked.model, Recount(self._body, place=asked.model in self._plane.aliases))

    def _recount(self, model: str, recount: Recount) -> None:
        """A large body is looked through in steps, with everybody else's turns between them."""
        if self._over:
            return
        try:
            sure = recount.step()
        except Refusal as refusal:
            self._refuse(refusal)
            return
        if sure:
            self._choose(model, recount.span())
        else:
            self._plane.loop.call_soon(self._recount, model, recount)

    def _choose(self, model: str, span: Span | None = None) -> None:
        try:
            chooser = self._chooser = self._find(model, span)
            found = chooser.first(None if chooser.affinity is None else self._affinity(chooser))
            if found is None:
                raise _nowhere(chooser)
        except Refusal as refusal:
            self._refuse(refusal)
            return
        self._begin(*found)

    def _refuse(self, refusal: Refusal) -> None:
        self._answer_fault(refusal.fault, str(refusal), "refused", refusal.param)

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
        self._leave_all()
        answer, observer = self._answer, self._observer
        if answer is not None and observer is not None and observer.done and observer.error is None:
            # It has read [DONE] and hung up, as SDKs do, before the end of the body came.
            self._account(answer.status, "ok", None, "done")
            return
        self._plane.tally.client_disconnects += 1
        if self._frontend is not None:
            self._plane.trial_left(self._frontend)
        self._account(499, "client_closed", code, code)

    def cut_for_drain(self) -> None:
        """Time is up while draining."""
        if not self._over:
            self._leave_all()
            self._end_badly(FAULTS["draining"], "the load balancer is shutting down", "drained", "drain")

    # Choosing and trying.

    def _find(self, model: str, span: Span | None) -> Chooser:
        plane = self._plane
        alias = plane.aliases.get(model)
        if alias is not None:
            self._body = with_model(self._body, alias, span)
            model = alias
        holder = self._client.holder
        if holder is not None:
            may_use(holder, model)
        chooser = plane.choosers.get(model)
        if chooser is None:
            if not plane.choosers:
                raise Refusal("no_ready_pool", "no pool is known yet")
            raise Refusal("model_not_found", f"the model `{model[:200]}` does not exist", "model")
        return chooser

    def _affinity(self, chooser: Chooser) -> bytes | None:
        return None if chooser.affinity is None else self._head.affinity.get(chooser.affinity) or None

    def _begin(self, place: Place, frontend: Frontend) -> None:
        self._attempts += 1
        self._tried.append(frontend)
        self._try(place, frontend)

    def _paused(self) -> bool:
        return self._client.paused

    def _begun(self) -> bool:
        return self._committed or Trying._begun(self)

    def _patience_ends(self) -> float:
        """Also when a second try is due, which only the first one may have."""
        rules, place, at = self._plane.hedging, self._place, self._first_byte_at()
        if rules is None or place is None or self._attempts > 1 or self._bytes_in > rules.max_body:
            return at
        late = place.lateness.limit(rules.quantile)
        if late is None:
            return at
        self._hedge_at = self._sent_at + late
        return min(at, self._hedge_at)

    # What the frontend's connection tells.

    def answer_whole(self, answer: Answer, raw: bytes, pieces: list[bytes], now: float) -> None:
        """The common answer, in as few steps as it takes."""
        place, frontend = self._place, self._frontend
        if self._plane.hedging is not None or place is None or frontend is None:
            Trying.answer_whole(self, answer, raw, pieces, now)
            return
        self._connection = None
        self._answer = answer
        if pieces:
            self._keep_tail(pieces)
        self._plane.praise(frontend)
        self._open(answer, place, raw, pieces, now)
        self._complete(answer)

    def answer_body(self, raw: bytes, pieces: list[bytes], now: float) -> None:
        if not self._committed:
            Trying.answer_body(self, raw, pieces, now)
            return
        observer = self._observer
        if observer is not None:
            if len(pieces) == 1:
                observer.feed(pieces[0])
            else:
                observer.feed_all(pieces)
            if self._place is not None:
                self._place.track.chunk(now - self._last_at)
        elif pieces:
            self._keep_tail(pieces)
        if not raw:
            return
        self._last_at = now
        self._pass(raw if self._mode is _RAW else framed(self._mode, raw, pieces))
        connection = self._connection
        if connection is not None and not self._client.paused:
            silent_at = now + self._plane.silence
            connection.deadline = silent_at if silent_at < self._total_at else self._total_at

    def answer_end(self) -> None:
        Trying.answer_end(self)
        if self._committed and not self._over and self._answer is not None:
            if self._answer.status == 404 and not self._tail:
                self._blame(Trouble.NO_WORKERS)
            self._complete(self._answer)

    def answer_trouble(self, trouble: Trouble) -> None:
        if trouble is Trouble.STALE_CONNECTION and self._frontend is not None:
            self._remember(trouble.value, self._frontend, self._sent_at)
        if trouble is not Trouble.STALE_CONNECTION or self._hedge is None:
            Trying.answer_trouble(self, trouble)
            return
        self._drop_connection()
        self._reached -= 1
        self._failed(trouble)  # the second try is its repeat, under way already

    def timed_out(self, now: float) -> None:
        """The connection's deadline: the end of a wait, or only the time for a second try or for a heartbeat."""
        if not self._committed and now >= self._hedge_at:
            self._hedge_at = NEVER
            if now < self._first_byte_at():
                self._try_beside()
                self._wait(now)
                return
        if self._committed and now < min(self._last_at + self._plane.timeouts.idle, self._total_at):
            self._beat()
            self._wait(now)
            return
        Trying.timed_out(self, now)

    def _accepted(self, answer: Answer, place: Place, raw: bytes, pieces: list[bytes], now: float) -> None:
        """This answer is the one the client gets; its body goes on as it comes."""
        if self._hedge is not None:
            if self._hedge.frontend is not None:
                self._remember("outrun", self._hedge.frontend, self._hedge.began)
            self._hedge.give_up()
            self._hedge = None
        if self._observer is None and pieces:
            self._keep_tail(pieces)
        if self._plane.hedging is not None:
            place.lateness.add(now - self._sent_at)
        if answer.status in GATEWAY_STATUSES:
            self._blame(Trouble.STATUS)
        elif self._frontend is not None:
            self._plane.praise(self._frontend)
        self._open(answer, place, raw, pieces, now)
        if self._connection is not None and not self._client.paused:
            self._wait(now)

    def _wait(self, now: float) -> None:
        if self._committed and self._connection is not None:
            idle_at = self._last_at + self._plane.timeouts.idle
            self._connection.set_deadline(min(now + self._plane.silence, idle_at, self._total_at))
        else:
            Trying._wait(self, now)

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._clean = self._mode is not _RAW or self._connection.clean
        Trying._drop_connection(self)

    def _leave_all(self) -> None:
        self._leave()
        if self._hedge is not None:
            self._hedge.give_up()
            self._hedge = None

    # A second try beside the first.

    def _try_beside(self) -> None:
        plane, chooser, place = self._plane, self._chooser, self._place
        if chooser is None or place is None or not (plane.hedges.has() and plane.budget.has()):
            return
        found = chooser.elsewhere(place, self._tried)
        if found is None:
            return
        plane.hedges.spend()
        plane.budget.spend()
        bump(plane.tally.attempts, "hedge")
        self._attempts += 1
        self._tried.append(found[1])
        hedge = self._hedge = Hedge(self, plane, self._head, self._body, self._request_id, self._started)
        hedge.begin(*found, self._trace)

    def hedge_won(self, hedge: Hedge, raw: bytes, pieces: list[bytes], now: float) -> None:
        """The first try is closed, and everything of the second one becomes ours."""
        if self._frontend is not None and not self._beaten:
            self._remember("outrun", self._frontend, self._try_at or self._started)
        self._leave()
        self._hedge, self._beaten, self._try_at = None, False, hedge.began
        hedge.hand_over(self)
        if self._answer is not None and self._place is not None:
            self._accepted(self._answer, self._place, raw, pieces, now)

    def hedge_ended(self) -> None:
        self.answer_end()

    def hedge_failed(self, hedge: Hedge, trouble: Trouble, gate: Gate | None) -> None:
        self._hedge = None
        if self._beaten:
            self._beaten, self._try_at = False, hedge.began
            hedge.hand_over(self)
            self._gate = gate
            self._failed(trouble)
        elif hedge.frontend is not None:
            self._reached += hedge.reached
            self._note(trouble, gate, hedge.frontend, hedge.began)
            if gate is not None and trouble in REPEATABLE:
                self._kept = gate

    # A try went wrong.

    def _may_repeat(self, answer: Answer | None) -> bool:
        plane = self._plane
        return self._reached < plane.retries.attempts and (answer is None or answer.again) and plane.budget.has()

    def _failed(self, trouble: Trouble) -> None:
        """Repeat elsewhere if that is allowed, else tell the client; a second try that is under way goes on."""
        self._release()
        gate, frontend, chooser = self._gate, self._frontend, self._chooser
        if frontend is None or chooser is None:
            return
        self._note(trouble, gate, frontend, self._try_at or self._started)
        if not self._committed:
            if gate is not None and trouble in REPEATABLE:
                self._kept = gate
            self._gate = self._answer = self._observer = None
            if self._hedge is not None:
                self._beaten = True
                return
            if self._repeated(trouble, gate, chooser):
                return
            if self._kept is not None:
                self._give_kept(self._kept)
                return
        outcome = "stream_error" if self._observer is not None else "upstream_error"
        self._end_badly(FAULTS[FAULT_OF[trouble]], WORDS[trouble], outcome, STREAM_END.get(trouble))

    def _note(self, trouble: Trouble, gate: Gate | None, frontend: Frontend, began: float) -> None:
        """Count what happened, and whose fault it was."""
        bump(self._plane.tally.attempts, trouble.value)
        self._remember(trouble.value, frontend, began, gate.status() if gate is not None else None)
        blamed = trouble in BLAMED or (gate is not None and gate.status() in GATEWAY_STATUSES)
        if blamed and self._chooser is not None:
            self._plane.blame(frontend, trouble, self._chooser)

    def _blame(self, trouble: Trouble) -> None:
        """The frontend failed in what the client gets all the same."""
        if self._frontend is not None and self._chooser is not None:
            self._plane.blame(self._frontend, trouble, self._chooser)

    def _repeated(self, trouble: Trouble, gate: Gate | None, chooser: Chooser) -> bool:
        plane, place = self._plane, self._place
        unconnected = trouble in UNCONNECTED
        if unconnected:
            since = self._seeking_since or self._started
            may = plane.clock() - since <= 2 * plane.timeouts.connect
        else:
            may = trouble in REPEATABLE and self._may_repeat(gate.answer if gate is not None else None)
            if trouble is Trouble.ERROR_EVENT and gate is not None:
                may = may and gate.status() in plane.retries.statuses
        if not may or place is None:
            return False
        found = chooser.next(place, self._affinity(chooser), self._tried, again=not unconnected)
        if found is None or not (unconnected or plane.budget.spend()):
            return False
        if not unconnected:
            self._seeking_since = plane.clock()
        self._try_at = plane.clock()
        self._begin(*found)
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


def _nowhere(chooser: Chooser) -> Refusal:
    if chooser.full():
        return Refusal("overloaded", f"every pool of the model `{chooser.id}` has as many requests as it may have")
    why = chooser.why or "none is listed"
    return Refusal("no_ready_pool", f"no pool can serve the model `{chooser.id}` now: {why}")
