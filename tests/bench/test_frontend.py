"""The mock frontends, with h11 as second opinion on every message."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import h11
import pytest

from tests.bench.instruments import MODEL, Frontends


class Client:
    """One connection, read through h11."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._parser = h11.Connection(h11.CLIENT)

    def expect(self, method: str = "POST", target: str = "/v1/chat/completions") -> None:
        """Tells the parser what was asked, without sending it."""
        if self._parser.our_state is not h11.IDLE:
            self._parser.start_next_cycle()
        self._parser.send(h11.Request(method=method, target=target, headers=[("Host", "x")]))
        self._parser.send(h11.EndOfMessage())

    def answer(self) -> tuple[int, dict[bytes, bytes], list[bytes]]:
        """Status, headers and the pieces of the body; ends with the message."""
        head: h11.Response | None = None
        pieces: list[bytes] = []
        while True:
            event = self._parser.next_event()
            if event is h11.NEED_DATA:
                self._parser.receive_data(self.socket.recv(65536))
            elif isinstance(event, h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                pieces.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                assert head is not None
                return head.status_code, dict(head.headers), pieces
            else:
                raise AssertionError(f"the frontend ended within an answer: {event!r}")


@pytest.fixture
def client(frontends: Frontends) -> Iterator[Client]:
    made = Client(frontends.ports[1])
    yield made
    made.socket.close()


def completion(**more: object) -> bytes:
    body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "hello"}], **more}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\ncontent-LENGTH: {len(body)}\r\n\r\n"
    return head.encode() + body


def stream(chunks: int, every_us: int = 0) -> bytes:
    prompt = f"[chunks={chunks} every={every_us}us] hello"
    return completion(stream=True, messages=[{"role": "user", "content": prompt}])


def test_a_unary_answer_is_whole_and_of_the_promised_size(client: Client) -> None:
    client.expect()
    client.socket.sendall(completion())
    status, headers, pieces = client.answer()
    body = b"".join(pieces)
    assert status == 200
    assert int(headers[b"content-length"]) == len(body)
    assert 550 <= len(body) <= 650
    assert json.loads(body)["choices"][0]["finish_reason"] == "stop"


def test_a_request_may_be_cut_anywhere(client: Client, frontends: Frontends) -> None:
    request = completion()
    for cut in range(1, len(request)):
        client.expect()
        client.socket.sendall(request[:cut])
        assert sum(frontends.counts().requests) == cut - 1  # its one thread has seen the first part, and waits
        client.socket.sendall(request[cut:])
        assert client.answer()[0] == 200
    assert frontends.counts().requests == (0, len(request) - 1, 0, 0)


def test_requests_sent_back_to_back_are_answered_in_order(client: Client) -> None:
    client.socket.sendall(completion() + stream(3) + completion())
    for expected in (b'{"id"', b"data: {", b'{"id"'):
        client.expect()
        status, _, pieces = client.answer()
        assert (status, pieces[0][: len(expected)]) == (200, expected)


def test_a_stream_has_the_asked_events_and_an_end(client: Client) -> None:
    client.expect()
    client.socket.sendall(stream(5, every_us=1000))
    status, headers, pieces = client.answer()
    events = b"".join(pieces).split(b"\n\n")
    assert status == 200
    assert headers[b"content-type"] == b"text/event-stream"
    assert headers[b"transfer-encoding"] == b"chunked"
    assert events[5:] == [b"data: [DONE]", b""]
    stamps = [int(json.loads(event.removeprefix(b"data: "))["id"].removeprefix("chatcmpl-")) for event in events[:5]]
    assert stamps == sorted(stamps)
    assert stamps[-1] - stamps[0] >= 3_500_000  # four pauses of a millisecond, and clocks do not run backwards
    assert all(180 <= len(event) <= 205 for event in events[:5])


def test_models_lists_the_model(client: Client) -> None:
    client.expect("GET", "/v1/models")
    client.socket.sendall(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
    status, _, pieces = client.answer()
    assert status == 200
    assert [model["id"] for model in json.loads(b"".join(pieces))["data"]] == [MODEL]


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", 501),
        (b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n", 413),
        (b"GET /elsewhere HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"nonsense\r\n\r\n", 400),
    ],
)
def test_what_it_does_not_do_it_refuses(client: Client, request_bytes: bytes, status: int) -> None:
    client.expect()
    client.socket.sendall(request_bytes)
    assert client.answer()[0] == status


def test_a_client_that_leaves_is_counted(client: Client, frontends: Frontends) -> None:
    client.socket.sendall(stream(1000, every_us=100_000))
    assert client.socket.recv(1000)
    client.socket.close()
    counts = frontends.counts()
    while counts.open > 1:  # the one that asks
        counts = frontends.counts()
    assert (counts.streams, counts.aborted) == (1, 1)
