"""The load generator: counts what the frontends count, and takes no wrong answer for a right one."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.bench import instruments
from tests.bench.instruments import BenchError, Frontends, Load, Programs, run_load, spread

EVENT = b'data: {"id":"chatcmpl-0000000000000000001"}\n\n'
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
GOOD_UNARY = b'HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{"a":1}'


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


GOOD_STREAM = STREAM_HEAD + chunk(EVENT) + chunk(EVENT) + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"


@contextmanager
def answering(answer: bytes, piece: int = 0) -> Iterator[int]:
    """A server of one connection at a time that answers each read with these bytes, in pieces, and then closes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                try:
                    if connection.recv(65536):
                        size = piece or max(1, len(answer))
                        for start in range(0, len(answer), size):
                            connection.sendall(answer[start : start + size])
                except ConnectionError:
                    continue

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


def test_closed_loop_counts_agree(programs: Programs, frontends: Frontends) -> None:
    result = run_load(programs.load, frontends.ports[2], Load(8, 0.3))
    counts = frontends.counts()
    assert result.asked == result.good == counts.unary > 8
    assert counts.requests == (0, 0, result.good, 0)
    assert result.connects == 8
    assert result.body_min == result.body_max > 500


def test_streams_and_events_agree(programs: Programs, frontends: Frontends) -> None:
    result = run_load(programs.load, frontends.ports[0], Load(8, 0.3, chunks=20, every_us=500))
    counts = frontends.counts()
    assert result.good == counts.streams >= 8
    assert result.events == counts.events == 20 * result.good
    assert counts.aborted == 0
    assert 0 < result.delay_p50 <= result.delay_p99
    assert 0 < result.first_chunk_p50 < result.latency_p50


def test_full_speed_streams_agree(programs: Programs, frontends: Frontends) -> None:
    result = run_load(programs.load, frontends.ports[0], Load(4, 0.2, chunks=100))
    assert result.events == frontends.counts().events == 100 * result.good


def test_open_loop_asks_at_its_rate(programs: Programs, frontends: Frontends) -> None:
    result = run_load(programs.load, frontends.ports[0], Load(16, 0.5, rate=200))
    assert result.asked == result.good == frontends.counts().unary == 100
    assert 0 < result.latency_p50 <= result.latency_p90 <= result.latency_p99


@pytest.mark.parametrize("piece", [0, 1, 7])
def test_a_right_answer_may_be_cut_anywhere(programs: Programs, piece: int) -> None:
    with answering(GOOD_STREAM, piece) as port:
        result = run_load(programs.load, port, Load(1, 0.1, chunks=2))
    assert result.good >= 1
    assert result.events == 2 * result.good


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\n{}", "status line"),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"a":1}', "before the answer was whole"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno", "no JSON object"),
        (b'HTTP/1.1 200 OK\r\n\r\n{"a":1}', "neither Content-Length nor chunked"),
        (GOOD_UNARY + b"x", "after the end"),
        (b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\n{"a":1}xx', "chunk framing"),
        (b"", "before the answer was whole"),
    ],
)
def test_a_wrong_unary_answer_is_told(programs: Programs, answer: bytes, says: str) -> None:
    with answering(answer) as port, pytest.raises(BenchError, match=says):
        run_load(programs.load, port, Load(1, 0.1))


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (STREAM_HEAD + chunk(EVENT) + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n", "a stream of 1 events"),
        (STREAM_HEAD + chunk(EVENT) + chunk(EVENT) + b"0\r\n\r\n", "without .DONE."),
        (GOOD_STREAM[:-5], "before the answer was whole"),
    ],
)
def test_a_wrong_stream_is_told(programs: Programs, answer: bytes, says: str) -> None:
    with answering(answer) as port, pytest.raises(BenchError, match=says):
        run_load(programs.load, port, Load(1, 0.1, chunks=2))


def test_no_server_is_told(programs: Programs) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(BenchError, match="connect"):
            run_load(programs.load, unused.getsockname()[1], Load(1, 0.1))


def test_no_compiler_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BenchError, match="apt-get install gcc"):
        instruments.build(tmp_path)


@pytest.mark.parametrize(
    ("requests", "expected"), [((5, 5, 5, 5), 1.0), ((20, 0, 0, 0), 0.0), ((3, 1), 0.5), ((0, 0), 0.0)]
)
def test_spread(requests: tuple[int, ...], expected: float) -> None:
    assert spread(requests) == expected
