"""A strict decoder of chunked request bodies: the second opinion on where such a message ends (I2).

llhttp reads the same bytes; both must agree. Chunk extensions and trailers are read over and dropped, within bounds.
"""

from __future__ import annotations

import re

from global_ingress.proxy.shared.errors import Refusal

EXTENSION = 256  # bytes of a chunk's extension
TINY = 16  # bytes a chunk should have on average,
FREE = 4096  # beyond so many chunks: each costs us more than it carries
TRAILERS = 8192  # bytes of all trailers together

_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\Z")
_LINE_MAX = 8 + EXTENSION


class ChunkReader:
    """Feed it bytes after the head. `take` says how many of them belong to this message; `done` when it has ended.

    The decoded body grows in `body`; a size that would take it past `limit` raises request_too_large at once.
    """

    __slots__ = ("_count", "_left", "_line", "_state", "_trailers", "body", "done", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.body = bytearray()
        self.done = False
        self._line = b""
        self._left = 0
        self._count = 0
        self._state = "size"
        self._trailers = 0

    def take(self, data: bytes) -> int:
        """Decode; returns how many bytes were used (all of them until the message ends). Raises Refusal."""
        at = 0
        while at < len(data) and not self.done:
            if self._state == "data":
                part = data[at : at + self._left]
                self.body += part
                self._left -= len(part)
                at += len(part)
                if not self._left:
                    self._state = "end"
                continue
            end = data.find(b"\n", at)
            piece = data[at : end + 1] if end >= 0 else data[at:]
            self._line += piece
            at += len(piece)
            if len(self._line) > (TRAILERS if self._state == "trailer" else _LINE_MAX):
                raise Refusal("bad_request", "a chunk line is too long")
            if end >= 0:
                line, self._line = self._line, b""
                self._take_line(line)
        return at

    def _take_line(self, line: bytes) -> None:
        if line[-2:] != b"\r\n" or b"\r" in line[:-2]:
            raise Refusal("bad_request", "a line of the chunked body does not end with CRLF")
        line = line[:-2]
        if self._state == "size":
            self._take_size(line)
        elif self._state == "end":
            if line:
                raise Refusal("bad_request", "a chunk is longer than its size says")
            self._state = "size"
        elif line:
            self._trailers += len(line) + 2
            if self._trailers > TRAILERS:
                raise Refusal("bad_request", "the trailers are too long")
        else:
            self.done = True

    def _take_size(self, line: bytes) -> None:
        self._count += 1
        if self._count > FREE + len(self.body) // TINY:
            raise Refusal("bad_request", f"the body comes in too many chunks of less than {TINY} bytes")
        found = _SIZE.match(line)
        if found is None:
            raise Refusal("bad_request", "a chunk size is not a hexadecimal number")
        self._left = int(found[1], 16)
        if len(self.body) + self._left > self.limit:
            raise Refusal("request_too_large", f"the body is larger than the limit of {self.limit} bytes")
        self._state = "data" if self._left else "trailer"
