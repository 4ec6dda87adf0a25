"""What a stream says about itself: a bounded reader of Server-Sent Events that never delays or alters a byte.

It sees error events, `[DONE]` and the last usage, for LF, CR and CRLF line ends and any cut of the bytes, and knows
whether the stream stands between two events. It holds at most CARRY bytes; when one line outgrows that it stops
observing (`lost`), and the stream flows on.
"""

from __future__ import annotations

import re

import msgspec
import orjson

CARRY = 64 * 1024
FEW = 4  # pieces up to which it does not pay to join them

_LINE = re.compile(rb"[^\r\n]*+(?:\r\n|\n|\r)")


class ErrorEvent(msgspec.Struct, frozen=True):
    """An error that came inside a stream, as far as it could be read. `code` is an HTTP status or None."""

    message: str
    type: str
    code: int | None


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
            and b"rror" not in piece
            and (b'"usage"' not in piece or piece.count(b'"usage"') == piece.count(b'"usage":null'))
            and b"DONE" not in piece
            and b"failed" not in piece
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
        if b'"usage"' in data and _USAGE.search(data) is not None:
            self._first_usage = self._first_usage or data
            self._usage = data
        if self.error is None and (event == b"error" or b"rror" in data or b"failed" in data):
            self.error = read_error(event, data)
            self.error_first = self.error is not None and self.events == 1


def read_error(event: bytes, data: bytes) -> ErrorEvent | None:
    """The error of one event, or None when it is none: `event: error`, a top-level `error`, or `response.failed`."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        return ErrorEvent("the stream reported an error", "upstream_error", None) if event == b"error" else None
    inner = value.get("error")
    if inner is None and value.get("type") == "response.failed":
        reply = value.get("response")
        inner = reply.get("error") if isinstance(reply, dict) else None
        inner = inner or {"message": "the response failed"}
    if inner is None and event != b"error":
        return None
    if not isinstance(inner, dict):
        inner = {"message": inner} if isinstance(inner, str) else value
    message, kind, code = inner.get("message"), inner.get("type"), inner.get("code")
    return ErrorEvent(
        message if isinstance(message, str) and message else "the stream reported an error",
        kind if isinstance(kind, str) and kind else "upstream_error",
        _status(code),
    )


def _status(code: object) -> int | None:
    if isinstance(code, str) and code.isascii() and code.isdigit() and len(code) == 3:
        code = int(code)
    return code if isinstance(code, int) and 400 <= code <= 599 else None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


class _Reply(msgspec.Struct, gc=False):
    usage: _Usage | None = None


_decode_reply = msgspec.json.Decoder(_Reply).decode
_decode_usage = msgspec.json.Decoder(_Usage).decode
_USAGE = re.compile(rb'"usage"\s*:\s*\{')
_FLAT = re.compile(rb'"usage"\s*:\s*(\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})')


def read_usage(data: bytes) -> tuple[int, int] | None:
    """(input, output) tokens of a JSON object's `usage`, or of the last one in the end of some JSON; None without. Two
    spellings are known."""
    try:
        usage = _decode_reply(data).usage
    except (msgspec.DecodeError, RecursionError):
        usage = None
    if usage is None:
        usage = _usage_in(data)
    if usage is None:
        return None
    tokens_in = usage.prompt_tokens if usage.prompt_tokens is not None else usage.input_tokens
    tokens_out = usage.completion_tokens if usage.completion_tokens is not None else usage.output_tokens
    if tokens_in is None and tokens_out is None:
        return None
    return tokens_in or 0, tokens_out or 0


def _usage_in(data: bytes) -> _Usage | None:
    last = data.rfind(b'"usage"')
    found = _FLAT.match(data, last) if last >= 0 else None
    if found is None:
        return None
    try:
        return _decode_usage(found[1])
    except msgspec.DecodeError:
        return None
