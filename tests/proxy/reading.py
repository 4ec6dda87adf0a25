"""Reading requests as the server does, with a Framer alone."""

from __future__ import annotations

from typing import NamedTuple

import h11

from global_ingress.proxy.carrying.framing import Framer
from global_ingress.proxy.carrying.headers import Head, Peer
from global_ingress.proxy.carrying.paths import Kind, match
from global_ingress.proxy.shared.errors import Refusal

PEER = Peer(b"192.0.2.7", b"http", False)
NAMES: frozenset[bytes] = frozenset({b"x-session-id"})
HEADER = 32 * 1024
BODY = 1024 * 1024


class Message(NamedTuple):
    head: Head
    body: bytes

    def what(self) -> tuple[object, ...]:
        """All of it but where the digits of its Content-Length stand, and what they say: the body shows that."""
        return (*self.head._replace(length=0, length_at=(0, 0)), self.body)


class Reading(NamedTuple):
    messages: list[Message]
    refused: str | None

    def what(self) -> tuple[object, ...]:
        return ([message.what() for message in self.messages], self.refused)


class Driver:
    """Feeds a Framer as a client's connection does. `quick` allows the way for requests that repeat."""

    def __init__(self, *, quick: bool = True, routed: bool = True, body: int = BODY) -> None:
        self.framer = Framer()
        self.messages: list[Message] = []
        self.refused: str | None = None
        self.quick_taken = 0
        self._quick = quick
        self._routed = routed
        self._limit = body
        self._in_head = True
        self._closing = False

    def feed(self, data: bytes) -> None:
        try:
            while data and self.refused is None and not self._closing:
                data = self._step(data)
        except Refusal as refusal:
            self.refused = refusal.fault.code

    def _step(self, data: bytes) -> bytes:
        framer = self.framer
        if self._in_head:
            if self._quick and framer.empty() and framer.repeated(data, NAMES, self._limit):
                self.quick_taken += 1
                return self._take()
            if not framer.read_head(data, PEER, NAMES, HEADER):
                return b""
            self._in_head = False
            head = framer.head
            assert head is not None
            if head.length > self._limit:
                raise Refusal("request_too_large", "by its length")
            if self._routed and match(head.method, head.target).kind is not Kind.PROXY:
                raise Refusal("unknown_url", "answered here")
            data = b""
        return self._take() if framer.read_body(data, self._limit) else b""

    def _take(self) -> bytes:
        head = self.framer.head
        assert head is not None
        self.messages.append(Message(head, bytes(self.framer.body)))
        self._in_head = True
        self._closing = head.closes or not head.minor
        return self.framer.rest()


def read(pieces: list[bytes], *, quick: bool = True, routed: bool = True, body: int = BODY) -> Reading:
    driver = Driver(quick=quick, routed=routed, body=body)
    for piece in pieces:
        driver.feed(piece)
    return Reading(driver.messages, driver.refused)


class Theirs(NamedTuple):
    """One request as h11 reads it."""

    method: bytes
    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes


def read_with_h11(data: bytes) -> tuple[list[Theirs], bool]:
    """(requests, whether h11 refuses what follows)."""
    out: list[Theirs] = []
    while data:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEADER)
        connection.receive_data(data)
        try:
            request = connection.next_event()
            if not isinstance(request, h11.Request):
                return out, False
            body = b""
            while isinstance(event := connection.next_event(), h11.Data):
                body += event.data
        except h11.RemoteProtocolError:
            return out, True
        if not isinstance(event, h11.EndOfMessage):
            return out, False
        headers = [(bytes(name), bytes(value)) for name, value in request.headers]
        out.append(Theirs(bytes(request.method), bytes(request.target), headers, body))
        data = connection.trailing_data[0]
    return out, False
