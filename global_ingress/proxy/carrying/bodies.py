"""Where the body of an answer ends within one read, told from its bytes alone: the second reading (I2)."""

from __future__ import annotations

import re

LAST_CHUNK = b"0\r\n\r\n"
EXTRA = re.compile(rb"\r\n\r\n(?:\r\n)+\Z")
_FRAMING = b"0123456789abcdefABCDEF\r\n"  # what may stand between two pieces of a chunked body, without extensions
# How a read ends where a chunk of ours may follow. A chunk is over when llhttp says so and nothing of the next one's
# size line has come; an event ends with a line end, so before the chunk's own CRLF there is another one, which no size
# line has.
AFTER_EVENT = (b"\n\r\n", b"\r\r\n")


def whole(left: int, data: bytes) -> bool:
    """Whether a message that llhttp calls ended has ended by our own reading too: by its length or its last chunk."""
    return left == 0 or (left < 0 and data[-5:] == LAST_CHUNK)


def end_of(raw: bytes, pieces: list[bytes], *, whole: bool) -> int:
    """Where in this read of a chunked body the good part ends: with the message if it is `whole`, else with the last
    piece. 0 when that cannot be told: when a piece looks as the framing between the pieces might."""
    at = 0
    for piece in pieces:
        if not piece.strip(_FRAMING):
            return 0
        at = raw.find(piece, at) + len(piece)
    if not whole:
        return at + 2 if at and raw[at : at + 2] == b"\r\n" else at
    end = raw.find(b"\r\n\r\n", at)
    if end >= 0:
        return end + 4
    # The end began in the read before.
    return 2 if raw[:2] == b"\r\n" else 1 if raw[:1] == b"\n" else 0


def ends_exactly(raw: bytes) -> bool:
    """Whether a read that ends a chunked body holds nothing after it (and no trailers before its end)."""
    return raw[-5:] == LAST_CHUNK or LAST_CHUNK.endswith(raw)
