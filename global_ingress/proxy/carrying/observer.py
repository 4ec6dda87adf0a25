"""What a stream says about itself: a bounded reader of Server-Sent Events that never delays or alters a byte.

It sees error events, `[DONE]` and the last usage, for LF, CR and CRLF line ends and any cut of the bytes, and knows
whether the stream stands between two events. It holds at most CARRY bytes; when one line outgrows that it stops
observing (`lost`), and the stream flows on.
"""

from __future__ import annotations

import re

from global_ingress.proxy.carrying.eventdata import USAGE, ErrorEvent, read_error, read_usage

CARRY = 64 * 1024
FEW = 4  # pieces up to which it does not pay to join them

_LINE = re.compile(rb"[^\r\n]*+(?:\r\n|\n|\r)")


class Observer:
    """One stream's observer. Feed it the body's bytes as they come, then `end()` once.

    `events` counts events that are not only comments; `error` is the first error event, `error_first` says that the
    stream began with it; `between` is true when all
    bytes so far end between two events, so that a frame may be added.
    """

    __slots__ = (
        "_carry",
        "_data",
        "_event",
        "_filled",
        "_first_usage",
        "_held",
        "_pending_cr",
        "_usage",
        "between",
        "done",
        "error",
        "error_first",
        "events",
        "lost",
    )

    def __init__(self) -> None:
        self._carry = b""
        self._data: list[bytes] = []
        self._event = b""
        self._filled = False
        self._pending_cr = False
        self._held = 0
        self._first_usage = b""
        self._usage = b""
        self.between = True
        self.done = False
        self.error: ErrorEvent | None = None
        self.error_first = False
        self.events = 0
        self.lost = False

    def feed(self, piece: bytes) -> None:
        """Look at the next bytes of the body."""
        if self._plain(piece):
            self.events += 1  # one piece may hold several; the count only has to tell none from some
        elif not self.lost:
            self._scan(piece)

    def feed_all(self, pieces: list[bytes]) -> None:
        """Look at all that one read has brought. A read cuts the first event and the last one where it will; those in
        between are mostly whole, and looked at together."""
        if len(pieces) > FEW:
            self.feed(pieces[0])
            if self._plain(b"".join(pieces[1:-1])):
                self.events += 1
                self.feed(pieces[-1])
                return
            pieces = pieces[1:]
        for piece in pieces:
            self.feed(piece)

    def _plain(self, piece: bytes) -> bool:
        """Whether this is the common case: whole events that say nothing we look for."""
        return (
            piece[-2:] == b"\n\n"
            and piece[:7] == b"data: {"
            and self.between
            and not self._pending_cr
            # Not by `in`, which makes and drops an exception before it looks: bytes might be asked for a number.
            and piece.find(b"rror") < 0
            and (piece.find(b'"usage"') < 0 or piece.count(b'"usage"') == piece.count(b'"usage":null'))
            and piece.find(b"DONE") < 0
            and piece.find(b"failed") < 0
        )

    def end(self) -> None:
        """The body is over: what stands there without a blank line still counts."""
        if self.lost:
            return
        if self._carry:
            self._line(self._carry)
            self._carry = b""
        if self._filled:
            self._dispatch()

    def usage(self) -> tuple[int, int] | None:
        """(input, output) tokens of the last usage that was seen, or None; what only the first one told counts too."""
        if not self._usage:
            return None
        last = read_usage(self._usage)
        if last is None or last[0] or self._first_usage is self._usage:
            return last
        first = read_usage(self._first_usage)
        return last if first is None else (first[0], last[1])

    def _scan(self, piece: bytes) -> None:
        if self._pending_cr:
            self._pending_cr = False
            if piece[:1] == b"\n":
                piece = piece[1:]
        data = self._carry + piece if self._carry else piece
        at = 0
        size = len(data)
        while at < size:
            found = _LINE.match(data, at)
            if found is None:
                break
            line = found[0]
            at = found.end()
            if line[-1:] == b"\r":
                self._pending_cr = at == size
            self._line(line.rstrip(b"\r\n"))
        self._carry = data[at:] if at else data
        if len(self._carry) + self._held > CARRY:
            self._give_up()
            return
        self.between = not self._carry and not self._filled

    def _give_up(self) -> None:
        self.lost = True
        self.between = False
        self._carry = b""
        self._data.clear()

    def _line(self, line: bytes) -> None:
        if not line:
            if self._filled:
                self._dispatch()
            return
        self._filled = True
        if line[:5] == b"data:":
            self._data.append(line[5:].removeprefix(b" "))
            self._held += len(line)
        elif line[:6] == b"event:":
            self._event = line[6:].strip()

    def _dispatch(self) -> None:
        """One event is whole. Comments alone are no event."""
        data = b"\n".join(self._data)
        event = self._event
        self._data.clear()
        self._event = b""
        self._filled = False
        self._held = 0
        if not data and not event:
            return
        self.events += 1
        if data.strip() == b"[DONE]":
            self.done = True
            return
        if len(data) > CARRY:
            return
        if b'"usage"' in data and USAGE.search(data) is not None:
            self._first_usage = self._first_usage or data
            self._usage = data
        if self.error is None and (event == b"error" or b"rror" in data or b"failed" in data):
            self.error = read_error(event, data)
            self.error_first = self.error is not None and self.events == 1
