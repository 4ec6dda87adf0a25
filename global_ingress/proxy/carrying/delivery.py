"""The bytes that are sent: a request to a frontend, and an accepted answer to the client. Pure functions.

An answer goes on as it came, framed anew, or plain for HTTP/1.0.
"""

from __future__ import annotations

from enum import Enum

from global_ingress.proxy.carrying.headers import Answer, Head, stream_lines, without_framing
from global_ingress.proxy.carrying.request import Buffer


class Mode(Enum):
    """How the body is framed towards the client."""

    RAW = "raw"  # as it came, framing included
    CHUNKED = "chunked"  # framed by us, so that its end can be told and a frame added
    PLAIN = "plain"  # for HTTP/1.0: ended by closing


_RAW, _CHUNKED, _PLAIN = Mode.RAW, Mode.CHUNKED, Mode.PLAIN


def request_bytes(head: Head, authority: bytes, request_id: bytes, body: Buffer, *, whole: bool) -> bytes:
    """The request towards a frontend; its body is joined to it only with `whole`."""
    # Joined, not formatted: that is several times as quick.
    length = b"\r\nContent-Length: %d\r\nx-request-id: " % len(body)
    return b"".join((head.begin, authority, head.forward, length, request_id, b"\r\n\r\n", body if whole else b""))


def mode_of(answer: Answer, minor: int) -> Mode:
    """The framing of this answer for a client of HTTP/1.`minor`."""
    if answer.status in (204, 304) or (answer.length >= 0 and not answer.event_stream):
        return _RAW
    if minor == 0:
        return _PLAIN
    return _RAW if answer.chunked else _CHUNKED


def start_of(answer: Answer, mode: Mode, added: bytes) -> bytes:
    """The head towards the client without its end; `added` are lines, each with CRLF before it, and come last."""
    lines = answer.lines
    if mode is not _RAW:
        lines = without_framing(lines)
        if mode is _CHUNKED:
            lines += b"\r\nTransfer-Encoding: chunked"
    if answer.event_stream:
        lines += stream_lines(lines)
    return b"".join((answer.first, lines, added))


def framed(mode: Mode, raw: bytes, pieces: list[bytes]) -> bytes:
    """One read of the body as the client gets it."""
    if mode is _RAW:
        return raw
    if mode is _CHUNKED:
        return b"".join([b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece])
    return b"".join(pieces)


def ending(mode: Mode) -> bytes:
    """What ends a body that is whole; in RAW it has come with the body."""
    return b"0\r\n\r\n" if mode is _CHUNKED else b""


def extra_frame(mode: Mode, frame: bytes) -> bytes:
    """A frame of ours inside the body, where the client stands between two chunks."""
    return frame if mode is _PLAIN else b"%x\r\n%b\r\n" % (len(frame), frame)
