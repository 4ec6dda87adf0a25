"""Where a request on a client's connection begins and ends, strictly (I2).

llhttp and our own reading must agree on every message before a byte of it goes on: exactly the bytes of one message are
fed to llhttp, which must report exactly one begin and one end. A head that repeats on a connection, but for the digits
of its Content-Length, is recognised by its bytes and not read again: that is what SDKs send.
"""

from __future__ import annotations

import re
from typing import Any

import httptools

from global_ingress.proxy.carrying.chunks import ChunkReader
from global_ingress.proxy.carrying.headers import Head, Peer, read_head
from global_ingress.proxy.shared.errors import Refusal

_UPGRADE = re.compile(rb"\r\nupgrade(?=:)", re.IGNORECASE)
_IGNORED = b"\r\nx-offer"  # under this name llhttp checks the line and sees no upgrade
_LARGE = 64 * 1024  # a body beyond this is gathered in one growing buffer, not as pieces


class Framer:
    """Reads the requests of one connection, one after the other.

    `read_head` takes what came until there is a head, `read_body` what came after it; `repeated` takes a whole request
    whose head is the last one's again. True is a message that is whole: `head` and `body` are it, and `rest()` gives
    what came after it. In between `head` is None (no head yet) or the head of the body that is still coming.
    Refusals say what is wrong; after one that says `bad_request` or about sizes nothing more can be read.
    """

    __slots__ = (
        "_begun",
        "_buffer",
        "_chunks",
        "_ended",
        "_fed",
        "_names",
        "_parser",
        "_pieces",
        "_prefix",
        "_rest",
        "_same",
        "_suffix",
        "body",
        "have",
        "head",
        "need",
    )

    def __init__(self) -> None:
        self._parser: Any = httptools.HttpRequestParser(self)
        self._buffer = b""
        self._fed = 0
        self._begun = 0
        self._ended = 0
        self._pieces: list[bytes] | bytearray = []
        self._chunks: ChunkReader | None = None
        self._rest = b""
        self._same: Head | None = None
        self._prefix = b""
        self._suffix = b""
        self._names: frozenset[bytes] = frozenset()
        self.head: Head | None = None
        self.body: bytes | bytearray = b""
        self.need = 0
        self.have = 0

    # What llhttp calls.

    def on_message_begin(self) -> None:
        self._begun += 1

    def on_message_complete(self) -> None:
        self._ended += 1

    # Reading.

    def empty(self) -> bool:
        """Whether nothing of a next message has come."""
        return self.head is None and not self._buffer

    def repeated(self, data: bytes, affinity_names: frozenset[bytes], limit: int) -> bool:
        """The quick way: one whole message whose head is that of the last one. False says nothing about the data."""
        prefix = self._prefix
        if not prefix or not data.startswith(prefix) or self._buffer or self._names is not affinity_names:
            return False
        start = len(prefix)
        end = data.find(b"\r", start, start + 16)
        if end < 0:
            return False
        suffix = self._suffix
        digits = data[start:end]
        if not digits.isdigit() or not data.startswith(suffix, end):
            return False
        begin = end + len(suffix)
        length = int(digits)
        if len(data) != begin + length or length > limit:
            return False
        self._begun = self._ended = 0
        self._feed(data)
        if self._begun != 1 or self._ended != 1:
            raise Refusal("bad_request", "the request is framed in more than one way")
        self.head = self._same
        self.body = data[begin:]
        return True

    def read_head(self, data: bytes, peer: Peer, affinity_names: frozenset[bytes], limit: int) -> bool:
        """Read on towards the end of a head; True when `head` stands. What follows it is kept for `read_body`."""
        buffer = self._buffer + data if self._buffer else data.lstrip(b"\r\n")
        end = buffer.find(b"\r\n\r\n", max(0, self._fed - 3))
        if end < 0 or end + 4 > limit:
            if len(buffer) > limit:
                raise Refusal("headers_too_large", f"the request's head is larger than the limit of {limit} bytes")
            self._feed(buffer[self._fed :])
            self._buffer, self._fed = buffer, len(buffer)
            return False
        try:
            self._feed(buffer[self._fed : end + 4])
        except Refusal:
            if not _UPGRADE.search(buffer, 0, end) or buffer[:8] == b"CONNECT ":
                raise
            # An offer to upgrade is ignored, as a server may; llhttp would stop there, so it sees another name.
            self._parser = httptools.HttpRequestParser(self)
            self._begun = self._ended = 0
            self._feed(_UPGRADE.sub(_IGNORED, buffer[: end + 4]))
        raw = buffer[:end]
        head = read_head(raw, peer, affinity_names)
        self._remember(raw, head, affinity_names)
        self.head = head
        self._buffer, self._fed = b"", 0
        self._rest = buffer[end + 4 :]
        self.need = max(head.length, 0)
        return True

    def read_body(self, data: bytes, limit: int) -> bool:
        """Take body bytes; True when the message is whole. Call it once with b"" right after the head."""
        if self._rest:
            data, self._rest = self._rest + data, b""
        head = self.head
        if head is None:
            return False
        if head.chunked:
            return self._read_chunks(data, limit)
        need = self.need - self.have
        if len(data) > need:
            data, self._rest = data[:need], data[need:]
        if data:
            self._feed(data)
            self.have += len(data)
            self._gather(data)
        if self.have < self.need:
            return False
        self._agree()
        pieces = self._pieces
        self.body = b"".join(pieces) if isinstance(pieces, list) else pieces
        return True

    def arrived(self) -> bool:
        """Whether what followed the head in the same read already ends the body, or has begun it."""
        return bool(self._rest) or (self.need == 0 and self.head is not None and not self.head.chunked)

    def rest(self) -> bytes:
        """The message was taken: forget it, and give what came after it."""
        rest, self._rest = self._rest, b""
        self.head = None
        self.body = b""
        self._pieces = []
        self._chunks = None
        self._begun = self._ended = self.have = self.need = 0
        return rest

    def _read_chunks(self, data: bytes, limit: int) -> bool:
        if self._chunks is None:
            self._chunks = ChunkReader(limit)
        used = self._chunks.take(data)
        data, self._rest = data[:used], data[used:]
        if data:
            self._feed(data)
        self.have = len(self._chunks.body)
        if not self._chunks.done:
            return False
        self._agree()
        self.body = self._chunks.body
        return True

    def _gather(self, data: bytes) -> None:
        pieces = self._pieces
        if isinstance(pieces, list):
            pieces.append(data)
            if self.have > _LARGE:
                self._pieces = bytearray(b"".join(pieces))
        else:
            pieces += data

    def _agree(self) -> None:
        if self._begun != 1 or self._ended != 1:
            raise Refusal("bad_request", "the request is framed in more than one way")

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise Refusal("bad_request", "CONNECT and upgrades are not served here") from None
        except httptools.HttpParserError as error:
            raise Refusal("bad_request", f"the request is not valid HTTP/1.1: {error}") from None

    def close(self) -> None:
        """The connection is gone: the parser and this refer to each other, and wait for no collection of cycles."""
        self._parser = None
        self._buffer = self._rest = b""
        self._pieces = []
        self._chunks = self.head = self._same = None
        self.body = b""

    def forget(self) -> None:
        """Do not take the last head for that of the next request."""
        self._prefix = b""

    def _remember(self, raw: bytes, head: Head, affinity_names: frozenset[bytes]) -> None:
        """Keep the head for `repeated`, unless its request would not be the same when sent again."""
        start, end = head.length_at
        self._names = affinity_names
        if head.minor and not head.expects and not head.request_id and end and not _UPGRADE.search(raw):
            self._prefix, self._suffix, self._same = raw[:start], raw[end:] + b"\r\n\r\n", head
        else:
            self._prefix = b""
