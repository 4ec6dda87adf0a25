"""How one request is answered: what the client sees, and what is counted and logged of it.

An answer is opened, passed on, and ended well or badly; whatever the end, it is accounted for exactly once. Which
frontend gives the answer is the exchange's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from global_ingress.proxy.carrying.accesslog import Entry
from global_ingress.proxy.carrying.choosing import Chooser, Frontend, Place
from global_ingress.proxy.carrying.delivery import Mode, ending, extra_frame, framed, mode_of, start_of
from global_ingress.proxy.carrying.doors import Holder
from global_ingress.proxy.carrying.eventdata import read_usage
from global_ingress.proxy.carrying.explaining import Story, candidates, place_of
from global_ingress.proxy.carrying.headers import Answer, Head
from global_ingress.proxy.carrying.peeked import Peek
from global_ingress.proxy.carrying.request import Buffer
from global_ingress.proxy.carrying.tally import bump
from global_ingress.proxy.carrying.tracing import Trace
from global_ingress.proxy.carrying.trying import Trying
from global_ingress.proxy.carrying.wheel import NEVER
from global_ingress.proxy.shared.decided import Decision, Try, told
from global_ingress.proxy.shared.errors import Fault, error_body, error_frame, fault_headers

if TYPE_CHECKING:
    from global_ingress.proxy.carrying.plane import Plane

STARTS = 64  # beginnings of answers kept per place
TAIL = 4 * 1024  # bytes of a unary answer's end in which its usage is looked for

HEARTBEAT = b": ping\n"  # one line end: two would end an event that has only an id

_RAW, _PLAIN = Mode.RAW, Mode.PLAIN


class Client(Protocol):
    """What an exchange asks of the client's connection."""

    paused: bool  # the client does not keep up with what was written
    address: str
    holder: Holder | None  # whose key the request shows, when keys are asked for

    def write(self, data: bytes) -> None:
        """Write to the client."""

    def respond(self, status: int, body: bytes, headers: bytes, request_id: bytes) -> int:
        """Write a whole answer of ours; returns the size of its body."""

    def keeps(self) -> bool:
        """Whether the connection stays open after this answer."""

    def finished(self, *, keep: bool) -> None:
        """The exchange is over; with `keep` the connection may carry the next request. Always the last call."""

    def cut(self) -> None:
        """The exchange is over, and only a reset can tell the client so. Always the last call."""


class Answering(Trying):
    """The answer to one request. `committed` says that the client has seen some of it, `over` that it has ended."""

    # What most requests never change.
    _chooser: Chooser | None = None
    _attempts = 0  # all tries
    _bytes_out = 0
    _first_at = 0.0
    _last_at = 0.0
    _clean = True  # what the client got ends between two chunks
    _committed = False
    _over = False
    _asked: Peek | None = None
    _tail = b""
    _story: Story | None = None  # of tries that went wrong
    _try_at = 0.0  # when the try began, if it is not the first one

    def __init__(self, client: Client, plane: Plane, head: Head, body: Buffer, *, anthropic: bool) -> None:
        Trying.__init__(self, plane, head, body, head.request_id or plane.request_id(), plane.clock())
        self._client = client
        self._mode = _RAW
        self._hedge_at = NEVER  # when a second try begins, if the first has not answered
        self._bytes_in = len(body)
        self._anthropic = anthropic
        self._tried: list[Frontend] = []
        if plane.tracing is not None:
            self._trace = plane.tracing.begin(head.traceparent, head.tracestate)

    # A frontend's answer, accepted.

    def _open(self, answer: Answer, place: Place, raw: bytes, pieces: list[bytes], now: float) -> None:
        """From here on the client sees this answer: its head, and the body as far as it has come."""
        self._committed = True
        self._first_at = self._last_at = now
        place.track.first(now - self._started)
        mode = self._mode = mode_of(answer, self._head.minor)
        body = raw if mode is _RAW else framed(mode, raw, pieces)
        self._bytes_out += len(body)
        request_id = b"" if answer.has_request_id else self._request_id
        self._client.write(b"".join((self._start_of(answer, place, mode), request_id, b"\r\n\r\n", body)))

    def _start_of(self, answer: Answer, place: Place, mode: Mode) -> bytes:
        """The head towards the client, up to its last value: the request id, if the answer has none of its own. Answers
        that are equal begin equally, so the start is made once."""
        keeps = mode is not _PLAIN and self._client.keeps()
        cors = self._plane.cors
        common = keeps and self._attempts == 1 and mode is _RAW and cors is None
        if common:
            start = place.starts.get(answer)
            if start is not None:
                return start
        added = b"" if keeps else b"\r\nConnection: close"
        if self._plane.expose_pool:
            added += b"%b\r\nx-dynamo-attempts: %d" % (place.pool.exposed, self._attempts)
        if self._plane.explain:
            added += b"\r\nx-dynamo-decision: " + self._told(place).encode("ascii", "replace")
        if not answer.has_request_id:
            added += b"\r\nx-request-id: "
        if cors is None:
            start = start_of(answer, mode, added)
        else:
            start = cors.replaced(start_of(answer, mode, b""), self._head.origin) + added
        if common:
            if len(place.starts) >= STARTS:
                place.starts.clear()
            place.starts[answer] = start
        return start

    def _pass(self, data: bytes) -> None:
        if data:
            self._bytes_out += len(data)
            self._client.write(data)

    def _keep_tail(self, pieces: list[bytes]) -> None:
        """Where a unary answer tells its usage."""
        last = pieces[-1]
        self._tail = last if len(last) >= TAIL or (len(pieces) == 1 and not self._tail) else self._joined_tail(pieces)

    def _joined_tail(self, pieces: list[bytes]) -> bytes:
        return (self._tail + b"".join(pieces))[-TAIL:]

    def _complete(self, answer: Answer) -> None:
        """The answer is whole."""
        status, observer, mode = answer.status, self._observer, self._mode
        self._release()
        if mode is not _RAW:
            self._pass(ending(mode))
        outcome = "ok" if status < 400 else "client_error" if status < 500 else "upstream_error"
        stream_end = None
        if observer is not None:
            stream_end = "done" if observer.done else "no_done"
            if observer.error is not None:
                outcome, stream_end = "stream_error", "upstream_error_event"
        self._account(status, outcome, None, stream_end)
        self._client.finished(keep=mode is not _PLAIN)

    def _beat(self) -> None:
        """A comment between two events, so that nobody in between takes the stream for dead (I45)."""
        observer, connection = self._observer, self._connection
        if observer is None or connection is None or not observer.between or observer.done:
            return
        if self._mode is not _RAW or connection.clean:
            self._pass(extra_frame(self._mode, HEARTBEAT))

    # Anything else.

    def _end_badly(self, fault: Fault, message: str, outcome: str, stream_end: str | None) -> None:
        """A plain error while the client has seen nothing; else R1: one error frame if it may stand here, no [DONE], no
        proper end, and the connection is closed."""
        if not self._committed:
            self._answer_fault(fault, message, outcome)
            return
        observer, answer = self._observer, self._answer
        told = (
            observer is not None and observer.between and not observer.done and observer.error is None and self._clean
        )
        if told:
            self._pass(extra_frame(self._mode, error_frame(fault, message, anthropic=self._anthropic)))
        status = answer.status if answer is not None else 0
        self._account(status, outcome, fault.code, stream_end if observer is not None else None)
        if self._mode is _PLAIN and not told:
            self._client.cut()
        else:
            self._client.finished(keep=False)

    def _answer_fault(self, fault: Fault, message: str, outcome: str, param: str | None = None) -> None:
        body = error_body(fault, message, param, anthropic=self._anthropic)
        self._respond(fault.status, body, fault_headers(fault), outcome, fault.code)

    def _respond(self, status: int, body: bytes, headers: bytes, outcome: str, code: str) -> None:
        """A whole answer of ours."""
        self._release()
        if self._plane.expose_pool and self._place is not None:
            headers += b"%b\r\nx-dynamo-attempts: %d\r\n" % (self._place.pool.exposed[2:], self._attempts)
        if self._plane.explain and self._chooser is not None:
            headers += b"x-dynamo-decision: " + self._told(None).encode("ascii", "replace") + b"\r\n"
        self._bytes_out += self._client.respond(status, body, headers, self._request_id)
        self._account(status, outcome, code, None)
        self._client.finished(keep=True)

    # Accounting.

    def _account(self, status: int, outcome: str, code: str | None, stream_end: str | None) -> None:
        self._over = True
        plane, place, chooser, observer = self._plane, self._place, self._chooser, self._observer
        seconds = plane.clock() - self._started
        track = place.track if place is not None else chooser.nowhere if chooser is not None else plane.nowhere
        stream = observer is not None
        if self._answer is None and self._asked is not None:
            stream = self._asked.streaming
        track.request(status, outcome, stream, seconds)
        if stream_end is not None and observer is not None:
            bump(plane.tally.stream_ends, stream_end)
        if outcome == "refused" and code is not None:
            bump(plane.tally.refusals, code)
        trace = self._trace
        if plane.log is not None:
            entry = self._entry(status, outcome, code, seconds, stream=stream)
            plane.log.add(entry)
            if isinstance(trace, Trace):
                self._end_trace(trace, entry)
        elif isinstance(trace, Trace):
            self._end_trace(trace, self._entry(status, outcome, code, seconds, stream=stream))
        if self._story is not None or outcome != "ok" or plane.explained.sampling:
            self._explain(status, outcome, code, seconds, stream=stream)

    def _entry(self, status: int, outcome: str, code: str | None, seconds: float, *, stream: bool) -> Entry:
        """The request as it is logged."""
        plane, place, chooser, observer = self._plane, self._place, self._chooser, self._observer
        usage = observer.usage() if observer is not None else read_usage(self._tail) if self._tail else None
        tokens_in, tokens_out = usage if usage is not None else (None, None)
        pool, frontend = place.pool if place is not None else None, self._frontend
        # In whole microseconds; round() would go by way of decimal digits, which is slow.
        first = int((self._first_at - self._started) * 1e6 + 0.5) / 1e3 if self._first_at else None
        return Entry(
            plane.wall(),
            self._request_id.decode(),
            "POST",
            self._head.path,
            chooser.id if chooser is not None else None,
            pool.name if pool is not None else None,
            pool.region if pool is not None else None,
            frontend.url if frontend is not None else None,
            status,
            outcome,
            code,
            self._attempts,
            self._bytes_in,
            self._bytes_out,
            first,
            int(seconds * 1e6 + 0.5) / 1e3,
            stream,
            tokens_in,
            tokens_out,
            self._client.address,
            self._told(None) if self._story is not None else None,
        )

    # Explaining: only for requests that were not plain, and a sample of the others.

    def _remember(self, ended: str, frontend: Frontend, began: float, status: int | None = None) -> None:
        """A try is over and has not given the answer."""
        chooser = self._chooser
        if chooser is None:
            return
        if self._story is None:
            self._story = Story(chooser, frontend)
        one = self._tried_at(chooser, frontend, began, ended, status)
        self._story.add(one)
        if self._trace is not None:
            self._trace.tried(frontend, one)

    def _end_trace(self, trace: Trace, entry: Entry) -> None:
        """The request is over, and so is the try that was under way, answered or not."""
        answered = self._committed and entry.outcome not in ("client_closed", "drained", "stream_error")
        tries = self._tries("answered" if answered else entry.code or entry.outcome, entry.status if answered else None)
        trace.finish(entry, tries[len(self._story.tries) if self._story is not None else 0 :], self._frontend)

    def _tried_at(self, chooser: Chooser, frontend: Frontend, began: float, ended: str, status: int | None) -> Try:
        place, start = place_of(chooser, frontend), self._started
        pool, region = (place.pool.name, place.pool.region) if place is not None else ("", "")
        began_ms, ended_ms = round((began - start) * 1e3, 3), round((self._plane.clock() - start) * 1e3, 3)
        return Try(pool, region, frontend.url, began_ms, ended_ms, ended, status)

    def _tries(self, ended: str, status: int | None) -> list[Try]:
        """All tries, the running one included."""
        tries = list(self._story.tries) if self._story is not None else []
        over = sum(one.ended != "stale_connection" for one in tries)
        if self._chooser is not None and self._frontend is not None and over < self._attempts:
            began = self._try_at or self._started
            tries.append(self._tried_at(self._chooser, self._frontend, began, ended, status))
        return tries

    def _told(self, place: Place | None) -> str:
        """The tries in one line. Of a plain answer it is always the same, so that its head can be kept."""
        chooser = self._chooser
        pools = len(chooser.places) if chooser is not None else 0
        if self._story is None and place is not None:
            return f"of={pools}; {place.pool.name}"
        answer = self._answer
        return told(
            self._tries("answered" if answer is not None else "given_up", answer.status if answer else None), pools
        )

    def _explain(self, status: int, outcome: str, code: str | None, seconds: float, *, stream: bool) -> None:
        plane, chooser, story = self._plane, self._chooser, self._story
        explained = plane.explained
        plain = story is None and outcome == "ok"
        if plain:
            explained.sampling = False
        if chooser is None or not explained.room():
            return
        answered = self._committed and outcome not in ("client_closed", "drained")
        tries = self._tries("answered" if answered else code or outcome, status if answered else None)
        seen = story.candidates if story is not None else candidates(chooser, self._frontend, ())
        explained.add(
            Decision(
                plane.wall(),
                self._request_id.decode(),
                chooser.id,
                "sampled" if plain else _why(outcome, tries),
                status,
                outcome,
                code,
                stream,
                round(seconds * 1e3, 3),
                plane.routes.generation if plane.routes is not None else 0,
                seen,
                len(chooser.places) - len(seen),
                tuple(tries),
            )
        )


def _why(outcome: str, tries: list[Try]) -> str:
    """Why a request that was not plain is worth a record."""
    if outcome != "ok":
        return "refused" if outcome == "refused" else "failed"
    return "hedged" if any(one.ended == "outrun" for one in tries) else "retried"
