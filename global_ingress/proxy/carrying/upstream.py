"""A connection to a frontend, and what is read from it (I2): never reused unless clean (I54).

A Connection reads one answer at a time: llhttp checks and frames every byte before it is passed on, our own reading of
the head must agree with it, and a read that breaks the framing is not forwarded. What an answer means is the
exchange's business; it is told head, body as it comes, and the end or the trouble.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import httptools

from global_ingress.proxy.carrying.bodies import AFTER_EVENT, EXTRA, end_of, ends_exactly, whole
from global_ingress.proxy.carrying.choosing import Frontend
from global_ingress.proxy.carrying.headers import Answer, read_answer
from global_ingress.proxy.carrying.wheel import NEVER
from global_ingress.proxy.shared.attempt import Trouble

if TYPE_CHECKING:
    from global_ingress.proxy.carrying.plane import Plane

HEAD_LIMIT = 64 * 1024  # bytes of an answer's head
INTERIM = 16  # interim answers read over in one read


class Reader(Protocol):
    """Who reads an answer: the exchange."""

    def answer_head(self, answer: Answer) -> None:
        """The final head has come; its body follows, perhaps in the same read."""

    def answer_whole(self, answer: Answer, raw: bytes, pieces: list[bytes], now: float) -> None:
        """Head, body and end in one: of an answer of status 2xx that is no event stream."""

    def answer_body(self, raw: bytes, pieces: list[bytes], now: float) -> None:
        """One read of the body: as it came, and without its chunk framing."""

    def answer_end(self) -> None:
        """The body has ended properly; the connection is no longer the exchange's."""

    def answer_trouble(self, trouble: Trouble) -> None:
        """The answer will not come, or not whole; the connection is closed."""

    def timed_out(self, now: float) -> None:
        """The connection's deadline has passed."""


class Connection:
    """One connection to a frontend. `reader` is the exchange that waits for an answer, None while it is idle.

    `clean` says that what was passed on so far ends between two chunks, so that a chunk of ours may follow.
    """

    __slots__ = (
        "_abandoned",
        "_at_boundary",
        "_begun",
        "_done",
        "_echo",
        "_feed",
        "_got",
        "_head",
        "_in_body",
        "_keep",
        "_left",
        "_parser",
        "_paused",
        "_pieces",
        "_plane",
        "_until_close",
        "clean",
        "deadline",
        "frontend",
        "look",
        "reader",
        "transport",
        "used",
        "write",
    )

    def __init__(self, plane: Plane, frontend: Frontend) -> None:
        self._plane = plane
        self.frontend = frontend
        self.reader: Reader | None = None
        self.transport: Any = None
        self.write: Any = None
        self.used = False
        self.deadline = NEVER
        self.look = NEVER
        self._paused = False
        self._abandoned = False
        self._parser: Any = None
        self._feed: Any = None
        self._pieces: list[bytes] = []
        self._echo = b""
        self._reset()

    def _reset(self) -> None:
        self._begun = 0
        self._done = False
        self._keep = False
        self._got = False
        self._in_body = False
        self._left = -1
        self._until_close = False
        self._at_boundary = True
        self.clean = True
        self._head = b""

    def begin(
        self, reader: Reader, data: bytes, body: bytes | bytearray | None, request_id: bytes, deadline: float
    ) -> None:
        """Send one request: `data` is its head and, if it is small, its body; else `body` follows without a copy."""
        self.reader = reader
        self._echo = b": " + request_id
        if self.used:
            self._reset()
        self._plane.tally.upstream["active"] += 1
        self.write(data)
        if body is not None:
            self.write(body)
        self.deadline = deadline
        if deadline < self.look:
            self._plane.wheel.watch(self)

    def set_deadline(self, deadline: float) -> None:
        """Move the deadline, also to an earlier time."""
        self.deadline = deadline
        if deadline < self.look:
            self._plane.wheel.watch(self)

    def abandon(self) -> None:
        """No more of this answer is wanted: the frontend learns it at once. That the connection really is closed is
        counted."""
        if self._let_go() is None:
            return
        self._abandoned = True
        self._plane.tally.upstream["closing"] += 1
        self.transport.abort()

    def pause(self) -> None:
        """Read no more: the client does not keep up."""
        if not self._paused:
            self._paused = True
            self.transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        if self._paused:
            self._paused = False
            self.transport.resume_reading()

    def _let_go(self) -> Reader | None:
        reader = self.reader
        if reader is not None:
            self.reader = None
            self._plane.tally.upstream["active"] -= 1
        return reader

    # What asyncio calls.

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.write = transport.write
        self._parser = httptools.HttpResponseParser(self)
        self._feed = self._parser.feed_data

    def data_received(self, data: bytes) -> None:
        reader = self.reader
        if reader is None:
            self.transport.abort()  # nobody asked: such a connection is never used again
        elif not self._in_body:
            self._read_head(data)
        elif self._left >= 0:
            self._read_counted(data)
        else:
            self._read_chunks(reader, data)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._plane.wheel.forget(self)
        self._parser = self._feed = None  # it refers back to this
        if self._abandoned:
            self._abandoned = False
            self._plane.tally.upstream["closing"] -= 1
        elif self.reader is None:
            try:
                self.frontend.idle.remove(self)
                self._plane.tally.upstream["idle"] -= 1
            except ValueError:
                pass  # it was closed by us
        elif self._until_close and self._in_body and exc is None:
            reader = self._let_go()
            if reader is not None:
                reader.answer_end()
        elif self._got:
            self._fail(Trouble.BROKEN if exc is not None else Trouble.TRUNCATED)
        else:
            self._fail(Trouble.STALE_CONNECTION if self.used else Trouble.RESET)

    def pause_writing(self) -> None:
        """The request's body waits in the transport's buffer, where it already is: nothing more is added."""

    def resume_writing(self) -> None:
        """See pause_writing."""

    def expired(self, now: float) -> None:
        if self.reader is not None:
            self.reader.timed_out(now)
        elif self.transport is not None:
            self.transport.close()  # idle for long enough

    # What llhttp calls.

    def on_message_begin(self) -> None:
        self._begun += 1

    def on_body(self, piece: bytes) -> None:
        self._at_boundary = False
        if not self._done:  # what follows the message is not its body
            self._pieces.append(piece)

    def on_chunk_complete(self) -> None:
        self._at_boundary = True

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() >= 200:
            self._keep = self._parser.should_keep_alive()
            self._done = True

    # Reading.

    def _read_head(self, data: bytes) -> None:
        """One or more reads up to the final head; what follows it in the same read is body."""
        self._got = True
        if self._head:
            data = self._head + data
            self._head = b""
        end = data.find(b"\r\n\r\n")
        if end < 0:
            # llhttp would keep what it is fed, so a head in pieces is only looked at for what can never become one.
            if len(data) > HEAD_LIMIT or data[:5] != b"HTTP/"[: len(data)] or b"\n\n" in data or b"\n\r\n" in data:
                self._fail(Trouble.BAD_RESPONSE)
            else:
                self._head = data
            return
        answer = self._answer(data[:end]) if end <= HEAD_LIMIT else None
        for _ in range(INTERIM):
            if answer is None or answer.status >= 200:
                break
            # 100 Continue and its like are not the answer (B72).
            if not self._parsed(data[: end + 4]) or self._begun != 1:
                answer = None
                break
            self._begun = 0
            data = data[end + 4 :]
            end = data.find(b"\r\n\r\n")
            if end < 0:
                self._head = data
                return
            answer = self._answer(data[:end]) if end <= HEAD_LIMIT else None
        if answer is None or answer.status < 200:
            self._fail(Trouble.BAD_RESPONSE)
        else:
            self._start_body(answer, data, end + 4)

    def _answer(self, head: bytes) -> Answer | None:
        """The head, read; heads that are equal but for our own request id, echoed, are read once."""
        plane = self._plane
        at = head.find(self._echo)
        if at >= 0:
            start, end = head.rfind(b"\r\n", 0, at), at + len(self._echo)
            if start >= 0 and head[start + 2 : at].lower() == b"x-request-id" and head[end : end + 2] in (b"", b"\r\n"):
                head = head[:start] + head[end:]
        answer = plane.answers.get(head)
        if answer is None:
            answer = read_answer(head, expose_pool=plane.expose_pool)
            if answer is not None:
                plane.remember(head, answer)
        return answer

    def _start_body(self, answer: Answer, data: bytes, start: int) -> None:
        empty = answer.status in (204, 304)
        if empty or answer.length >= 0:
            self._left = 0 if empty else answer.length
        elif not answer.chunked:
            self._until_close = True
        self._in_body = True
        reader = self.reader
        excess = self._left >= 0 and len(data) - start > self._left
        if excess:
            data = data[: start + self._left]
        if self._left >= 0:
            self._left -= len(data) - start
        self._pieces = []
        parsed = self._parsed(data)
        if not self._begun or (not parsed and not self._done and not self._pieces):
            self._fail(Trouble.BAD_RESPONSE)
            return
        if reader is None:
            return
        if self._done and parsed and not excess and self._begun == 1 and answer.plain and whole(self._left, data):
            now = self._plane.clock()
            self._finish(now, keep=self._keep)
            reader.answer_whole(answer, data[start:], self._pieces, now)
            return
        reader.answer_head(answer)
        self._pass_on(data[start:], parsed=parsed, excess=excess)

    def _read_chunks(self, reader: Reader, data: bytes) -> None:
        """One read of a body that ends by its last chunk, or by the connection's end."""
        was_clean = self.clean
        pieces: list[bytes] = []
        self._pieces = pieces
        parsed = True
        try:
            self._feed(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            parsed = False
        if parsed and self._begun == 1 and not self._done:
            self.clean = self._at_boundary and data[-3:] in AFTER_EVENT
            reader.answer_body(data, pieces, self._plane.clock())
        else:
            self._pass_on(data, parsed=parsed, excess=False, was_clean=was_clean)

    def _read_counted(self, data: bytes) -> None:
        """One read of a body whose length is known; nothing beyond it is looked at."""
        left = self._left
        excess = len(data) > left
        if excess:
            data = data[:left]
        self._left = left - len(data)
        self._pieces = []
        self._pass_on(data, parsed=self._parsed(data), excess=excess)

    def _parsed(self, data: bytes) -> bool:
        try:
            self._feed(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            return False
        return True

    def _pass_on(self, raw: bytes, *, parsed: bool, excess: bool, was_clean: bool = True) -> None:
        """Forward one read of the body if both readings of it agree; else only what was whole before the fault."""
        reader = self.reader
        if reader is None:
            return
        if self._left >= 0:
            if not parsed or self._begun != 1 or (self._left == 0) != self._done:
                self._fail(Trouble.BAD_RESPONSE)
                return
        elif not parsed or self._begun != 1:
            end = end_of(raw, self._pieces, whole=self._done)
            excess = True
            self.clean = end >= 3 and raw[end - 3 : end] in AFTER_EVENT if end else was_clean
            if not self._done or not end:
                if end:
                    reader.answer_body(raw[:end], self._pieces, self._plane.clock())
                self._fail(Trouble.BAD_RESPONSE)
                return
            raw = raw[:end]
        elif self._done and not ends_exactly(raw):
            excess = True  # trailers, or line ends after the message: not kept, since nobody knows what else follows
            raw = EXTRA.sub(b"\r\n\r\n", raw)
        else:
            self.clean = self._at_boundary and (not raw or raw[-3:] in AFTER_EVENT)
        reader.answer_body(raw, self._pieces, self._plane.clock())
        reader = self.reader  # it may have been handed over, or let go
        if self._done and reader is not None:
            self._finish(self._plane.clock(), keep=self._keep and not excess)
            reader.answer_end()

    def _finish(self, now: float, *, keep: bool) -> None:
        """The answer is whole: keep the connection if it may be used again."""
        self._let_go()
        transport, frontend = self.transport, self.frontend
        if transport.get_write_buffer_size():
            # It answered before it took the whole request, and may never take the rest: closing would wait for it.
            self._abandoned = True
            self._plane.tally.upstream["closing"] += 1
            transport.abort()
            return
        if not keep or frontend.gone or transport.is_closing():
            transport.close()
            return
        self.resume()
        self.used = True
        frontend.idle.append(self)
        self._plane.tally.upstream["idle"] += 1
        self.set_deadline(now + self._plane.timeouts.upstream_keep_alive)

    def _fail(self, trouble: Trouble) -> None:
        reader = self._let_go()
        self.transport.abort()
        if reader is not None:
            reader.answer_trouble(trouble)
