"""The connection of one client: reads its requests one after the other, answers what is answered here, and gives the
rest to an exchange (sections 3 and 4).

A half-closed connection counts as gone. What cannot be read any further is answered, then the connection is closed
after it was read empty for a while, so that the answer is not lost in a reset.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from global_ingress.proxy.carrying.admission import account, admit, refused
from global_ingress.proxy.carrying.doors import Holder
from global_ingress.proxy.carrying.exchange import Exchange
from global_ingress.proxy.carrying.framing import Framer
from global_ingress.proxy.carrying.local import local_answer
from global_ingress.proxy.carrying.paths import NO_KEY, Kind, Path
from global_ingress.proxy.carrying.transports import cut_off, end_sending, untaken
from global_ingress.proxy.carrying.wheel import NEVER
from global_ingress.proxy.shared.errors import Refusal, response

if TYPE_CHECKING:
    from global_ingress.proxy.carrying.plane import Plane

HIGH_WATER = 4 * 1024  # bytes waiting for the client beyond which its frontend is not read
LOW_WATER = 1024
PIPELINED = 64 * 1024  # bytes of further requests read ahead
SMALL = 64 * 1024  # bytes of a body that came in one read and is not counted against `limits.buffered`
LINGER = 2.0  # seconds a refused connection is still read, so that its answer arrives


class State(Enum):
    """What the connection waits for."""

    IDLE = "idle"  # a request
    HEAD = "head"  # the rest of a head
    BODY = "body"  # the rest of a body
    BUSY = "busy"  # its exchange
    LINGER = "linger"  # the client to read the last answer and close
    CLOSED = "closed"


# Names of the module: to look one up in its enumeration takes twice as long.
_IDLE, _HEAD, _BODY, _BUSY, _LINGER, _CLOSED = State
_PROXY = Kind.PROXY


class ClientConnection:
    """One client's connection, as asyncio's protocol by name."""

    __slots__ = (
        "_ahead",
        "_buffered",
        "_exchange",
        "_framer",
        "_keep",
        "_left",
        "_path",
        "_peer",
        "_plane",
        "_state",
        "_transport",
        "address",
        "deadline",
        "holder",
        "look",
        "paused",
        "write",
    )

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._framer = Framer()
        self._exchange: Exchange | None = None
        self._state = _IDLE
        self._transport: Any = None
        self._ahead = b""
        self._buffered = 0
        self._keep = True
        self.holder: Holder | None = None
        self._left = 0
        self._path: Path | None = None
        self._peer = plane.peer("")
        self.address = ""
        self.paused = False
        self.deadline = NEVER
        self.look = NEVER
        self.write: Any = None

    # What asyncio calls.

    def connection_made(self, transport: Any) -> None:
        plane = self._plane
        self._transport = transport
        self.write = transport.write
        transport.set_write_buffer_limits(HIGH_WATER, LOW_WATER)
        peer = transport.get_extra_info("peername")
        self.address = peer[0] if peer else ""
        self.meet()
        plane.clients.add(self)
        plane.tally.client_connections = len(plane.clients)
        self._await(plane.timeouts.client_header)
        if len(plane.clients) > plane.limits.connections:
            self._turn_away("too many connections are open")

    def meet(self) -> None:
        """How this client is treated, now and whenever that has changed; heads are read anew then."""
        self._peer = self._plane.peer(self.address, tls=self._transport.get_extra_info("ssl_object") is not None)
        self._framer.forget()

    def data_received(self, data: bytes) -> None:
        state = self._state
        if state is _BUSY or (state is _IDLE and (self._ahead or self.paused)):
            # In order: what came before waits for its turn, and nothing new begins while answers are not read.
            self._read_ahead(data)
        elif state is _IDLE:
            self._begin(data)
        elif state is _HEAD or state is _BODY:
            self._go_on(data)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        plane = self._plane
        self._state = _CLOSED
        plane.wheel.forget(self)
        plane.leave(self)
        self._forget_body()
        self._let_out()
        self._framer.close()
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.client_gone("client_closed")

    def pause_writing(self) -> None:
        self.paused = True
        self._left = untaken(self._transport)
        self._await(self._plane.timeouts.client_write)
        if self._exchange is not None:
            self._exchange.pause()

    def resume_writing(self) -> None:
        self.paused = False
        if self._state is _IDLE:
            self._await(self._plane.timeouts.keep_alive)
            if self._ahead:
                self._plane.loop.call_soon(self._go_on_ahead)
        elif self._state is _BUSY:
            self.deadline = NEVER
        if self._exchange is not None:
            self._exchange.resume()

    def expired(self, now: float) -> None:
        state = self._state
        if state is _LINGER:
            self._transport.abort()
        elif self.paused:
            self._stalled()
        elif state is _IDLE:
            self._close()
        elif state is _HEAD or state is _BODY:
            what = "head" if state is _HEAD else "body"
            self._refuse_unread(Refusal("request_timeout", f"the request's {what} did not come in time"))

    # Reading requests.

    def _begin(self, data: bytes) -> None:
        """The first bytes of a request."""
        plane = self._plane
        try:
            if self._framer.repeated(data, plane.affinity_names, plane.limits.body):
                self._dispatch()
                return
        except Refusal as refusal:
            self._refuse_unread(refusal)
            return
        if not data.strip(b"\r\n"):
            if self.deadline == NEVER:
                self._await(plane.timeouts.keep_alive)
            return  # blank lines between requests are nothing, and win no time
        self._await(plane.timeouts.client_header)
        self._state = _HEAD
        self._go_on(data)

    def _go_on(self, data: bytes) -> None:
        """More bytes of a request that has begun."""
        framer, plane = self._framer, self._plane
        refusal = None
        try:
            if self._state is _HEAD:
                if not framer.read_head(data, self._peer, plane.affinity_names, plane.limits.header):
                    if framer.empty():
                        self._state = _IDLE
                    return
                data = b""
                refusal = self._admit(framer)
            whole = framer.read_body(data, plane.limits.body)
        except Refusal as broken:
            self._refuse_unread(broken)
            return
        if refusal is not None:
            self._refuse(refusal, whole=whole)
        elif whole:
            self._dispatch()
        else:
            self._hold_body()

    def _admit(self, framer: Framer) -> Refusal | None:
        """The head stands: what is to be refused by it alone is refused before the body is read."""
        head, plane = framer.head, self._plane
        if head is None:
            return None
        self._state = _BODY
        self._path = None
        try:
            self._path = admit(head, plane)
        except Refusal as refusal:
            return refusal
        if head.expects and not framer.arrived():
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return None

    def _hold_body(self) -> None:
        """Part of a body has come; all connections together hold at most `limits.buffered`."""
        if self._held(self._framer.have):
            self._await(self._plane.timeouts.client_body)
        else:
            self._refuse_unread(Refusal("overloaded", "too many request bodies are held"))

    def _held(self, size: int) -> bool:
        """This connection holds so much of a body, until its exchange is over; False when that is too much for all."""
        plane = self._plane
        plane.buffered += size - self._buffered
        self._buffered = size
        return plane.buffered <= plane.limits.buffered

    def _forget_body(self) -> None:
        self._plane.buffered -= self._buffered
        self._buffered = 0

    def _dispatch(self) -> None:
        """A whole request."""
        plane, framer = self._plane, self._framer
        head, body, path = framer.head, framer.body, self._path
        if head is None or path is None:
            return
        if len(body) > SMALL and not self._held(len(body)):
            self._refuse(Refusal("overloaded", "too many request bodies are held"), whole=True)
            return
        self._state = _BUSY
        if not self.paused:
            self.deadline = NEVER
        self._keep = head.minor == 1 and not head.closes
        if plane.doors is not None and path.kind not in NO_KEY:
            try:
                self.holder = plane.doors.enter(head.secret)
            except Refusal as refusal:
                self._refuse(refusal, whole=True)
                return
        if path.kind is _PROXY:
            exchange = self._exchange = Exchange(self, plane, head, body, anthropic=path.anthropic)
            exchange.start()
            return
        status, answer, headers = local_answer(path, plane, head, self.holder)
        request_id = head.request_id or plane.request_id()
        account(plane, self.address, head, status, "ok" if status < 400 else "refused", None, request_id)
        self.respond(status, answer, headers, request_id)
        self.finished(keep=True)

    def _let_out(self) -> None:
        """The holder's request is over."""
        holder, self.holder = self.holder, None
        if holder is not None and self._plane.allowance is not None:
            self._plane.allowance.end(holder.key.slot)

    def _read_ahead(self, data: bytes) -> None:
        """Pipelined requests wait for their turn; beyond a bound they wait in the kernel."""
        self._ahead += data
        if len(self._ahead) > PIPELINED:
            self._transport.pause_reading()

    # What the exchange asks.

    def keeps(self) -> bool:
        return self._keep and not self._plane.closing

    def respond(self, status: int, body: bytes, headers: bytes, request_id: bytes) -> int:
        head = self._framer.head
        if self._plane.cors is not None:
            headers += self._plane.cors.lines(b"" if head is None else head.origin)
        lines = b"x-request-id: %b\r\n%b" % (request_id, headers)
        head_only = head is not None and head.method == b"HEAD"
        self.write(response(status, body, lines, close=not self.keeps(), head_only=head_only))
        return 0 if head_only else len(body)

    def finished(self, *, keep: bool) -> None:
        self._exchange = None
        if self.holder is not None:
            self._let_out()
        if self._buffered:
            self._forget_body()
        if self._state is _CLOSED:
            return
        if not (keep and self.keeps()):
            self._close()
            return
        self._state = _IDLE
        rest = self._framer.rest()
        if rest or self._ahead:
            self._ahead = rest + self._ahead
            self._plane.loop.call_soon(self._go_on_ahead)  # not at once: a long row of small requests would nest
        elif not self.paused:
            self._await(self._plane.timeouts.keep_alive)

    def _go_on_ahead(self) -> None:
        """Serve what was sent while the last request was busy."""
        if self._state is _IDLE and self._ahead and not self.paused:
            data, self._ahead = self._ahead, b""
            if len(data) > PIPELINED:
                self._transport.resume_reading()
            self._begin(data)

    def cut(self) -> None:
        """The exchange is over, its answer not whole, which the client must see: a mere close looks like an end."""
        self._exchange = None
        self._forget_body()
        self._let_out()
        if self._state is not _CLOSED:
            cut_off(self._transport)
            self._close()

    # Saying no, and ending.

    def _refuse(self, refusal: Refusal, *, whole: bool) -> None:
        """Answer no; with the request read whole the connection goes on, else it is closed."""
        if not whole:
            self._keep = False
        plane, head = self._plane, self._framer.head
        request_id = head.request_id if head is not None and head.request_id else plane.request_id()
        fault = refusal.fault
        headers, body = refused(refusal, head)
        self._forget_body()
        account(plane, self.address, head, fault.status, "refused", fault.code, request_id)
        self.respond(fault.status, body, headers, request_id)
        self._framer.forget()
        if whole:
            self.finished(keep=True)
        else:
            self._linger()

    def _refuse_unread(self, refusal: Refusal) -> None:
        if self._state is _HEAD:
            self._keep = False
        self._refuse(refusal, whole=False)

    def _turn_away(self, words: str) -> None:
        self._refuse(Refusal("overloaded", words), whole=False)

    def _linger(self) -> None:
        """No more is read as a request; the connection ends when the client has ended it, or soon."""
        self._state = _LINGER
        end_sending(self._transport)
        self._await(LINGER)

    def _stalled(self) -> None:
        """Nothing was taken for `client_write`: as gone as a client can be. A slow one that moves is left alone."""
        left = untaken(self._transport)
        if left < self._left:
            self._left = left
            self._await(self._plane.timeouts.client_write)
            return
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.client_gone("client_stalled")
        self._transport.abort()

    def _close(self) -> None:
        """Close once everything written has been taken, or after `client_write`."""
        self._state = _LINGER
        self._await(self._plane.timeouts.client_write)
        self._transport.close()

    def _await(self, seconds: float) -> None:
        self.deadline = self._plane.clock() + seconds
        if self.deadline < self.look:
            self._plane.wheel.watch(self)

    def close_if_idle(self) -> None:
        """While draining: a connection that carries nothing is closed."""
        if self._state is _IDLE and not self._ahead:
            self._close()

    def end_now(self) -> None:
        """Time is up: what runs ends by R1."""
        if self._exchange is not None:
            self._exchange.cut_for_drain()
        elif self._state is not _LINGER:
            self._close()
