"""Answers that are held, how an answer reaches the client, and the errors we make (I1, I13, I34, I35, I41)."""

from __future__ import annotations

import h11
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_ingress.proxy.carrying.choosing import Frontend, Place, Pool
from global_ingress.proxy.carrying.delivery import Mode, ending, extra_frame, framed, mode_of, start_of
from global_ingress.proxy.carrying.gate import HELD, Gate, Verdict
from global_ingress.proxy.carrying.headers import Answer, read_answer
from global_ingress.proxy.carrying.observer import Observer
from global_ingress.proxy.carrying.tally import Track
from global_ingress.proxy.shared.errors import FAULTS, Refusal, error_body, error_frame, fault_headers, response
from global_ingress.proxy.shared.routes import FrontendRoute, Member, PoolRoute

SSE = b"Content-Type: text/event-stream\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


def answer(lines: bytes = b"", status: int = 200) -> Answer:
    found = read_answer((b"HTTP/1.1 %d Word\r\n" % status + lines).removesuffix(b"\r\n"), expose_pool=True)
    assert found is not None
    return found


def place() -> Place:
    """Where it came from."""
    frontend = FrontendRoute("http://f:80", "f", 80, 0)
    pool = Pool(PoolRoute("p", "c/dynamo/llama", "c", "r", (frontend,)), {frontend.url: Frontend(frontend)})
    return Place(0, Member("p", 1, -1, (0,)), pool, lambda: 1, Track("m", "p"))


# How it reaches the client.


@pytest.mark.parametrize(
    ("lines", "status", "minor", "want"),
    [
        (b"Content-Length: 5\r\n", 200, 1, Mode.RAW),
        (b"Content-Length: 5\r\n", 200, 0, Mode.RAW),
        (CHUNKED, 200, 1, Mode.RAW),
        (CHUNKED, 200, 0, Mode.PLAIN),
        (b"", 200, 1, Mode.CHUNKED),
        (b"", 200, 0, Mode.PLAIN),
        (b"", 204, 0, Mode.RAW),
        (b"", 304, 1, Mode.RAW),
        (SSE + CHUNKED, 200, 1, Mode.RAW),
        (SSE + b"Content-Length: 5\r\n", 200, 1, Mode.CHUNKED),
        (SSE + b"Content-Length: 5\r\n", 200, 0, Mode.PLAIN),
        (SSE, 200, 1, Mode.CHUNKED),
    ],
)
def test_modes(lines: bytes, status: int, minor: int, want: Mode) -> None:
    assert mode_of(answer(lines, status), minor) is want


PIECES = st.lists(st.binary(min_size=1, max_size=40), max_size=6)


@given(PIECES, st.sampled_from((b"", SSE)), st.sampled_from(("length", "chunks", "close")), st.integers(0, 1))
def test_h11_reads_the_body_that_came_in_every_mode(pieces: list[bytes], kind: bytes, framing: str, minor: int) -> None:
    body = b"".join(pieces)
    lines = {"length": b"Content-Length: %d\r\n" % len(body), "chunks": CHUNKED, "close": b""}[framing]
    raws = [b"%x\r\n%b\r\n" % (len(piece), piece) if framing == "chunks" else piece for piece in pieces]
    one = answer(kind + lines)
    mode = mode_of(one, minor)
    closing = b"" if minor else b"\r\nConnection: close"
    sent = start_of(one, mode, b"\r\nX-Last: 1" + closing) + b"\r\n\r\n"
    sent += b"".join(framed(mode, raw, [piece]) for raw, piece in zip(raws, pieces, strict=True))
    sent += ending(mode) or (b"0\r\n\r\n" if mode is Mode.RAW and framing == "chunks" else b"")
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="GET", target="/", headers=[("host", "a")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(sent)
    connection.receive_data(b"")
    head, got = connection.next_event(), b""
    assert isinstance(head, h11.Response)
    while isinstance(event := connection.next_event(), h11.Data):
        got += bytes(event.data)
    assert (got, isinstance(event, h11.EndOfMessage)) == (body, True)
    names = [bytes(name) for name, _ in head.headers]
    assert (minor, b"transfer-encoding" in names) != (0, True)
    assert (b"cache-control" in names) == bool(kind)


def test_a_frame_of_ours_is_a_chunk_or_plain() -> None:
    assert extra_frame(Mode.RAW, b"abc") == extra_frame(Mode.CHUNKED, b"abc") == b"3\r\nabc\r\n"
    assert extra_frame(Mode.PLAIN, b"abc") == b"abc"
    assert framed(Mode.CHUNKED, b"x", [b"", b"ab"]) == b"2\r\nab\r\n", "an empty piece would end the body"


# What is held back.


def gate_of(pieces: list[bytes], *, ended: bool = False) -> tuple[Verdict, Gate]:
    gate, observer = Gate(answer(SSE + CHUNKED), place(), stream=True), Observer()
    verdict = gate.verdict(observer)
    for piece in pieces:
        observer.feed(piece)
        gate.hold(b"raw:" + piece, [piece])
        verdict = gate.verdict(observer)
    if ended:
        observer.end()
        verdict = gate.at_end(observer)
    return verdict, gate


@pytest.mark.parametrize(
    ("pieces", "ended", "want"),
    [
        ([], False, Verdict.WAIT),
        ([b": ping\n\n", b": ping\n\n"], False, Verdict.WAIT),
        ([b'data: {"a"'], False, Verdict.WAIT),
        ([b'data: {"a":1}\n\n'], False, Verdict.OPEN),
        ([b": c\n\n", b'data: {"error":{"message":"m"}}\n\n'], False, Verdict.ERROR_EVENT),
        ([b'data: {"a":1}\n\ndata: {"error":{"message":"m"}}\n\n'], False, Verdict.OPEN),
        ([b'data: {"error":{"message":"m"}}\n\ndata: [DONE]\n\n'], False, Verdict.ERROR_EVENT),
        ([b"event: error\n: boom\n\n"], False, Verdict.ERROR_EVENT),
        ([b'data: {"error":{"message":"m"}}'], True, Verdict.ERROR_EVENT),
        ([b": only\n\n"], True, Verdict.OPEN),
        ([], True, Verdict.OPEN),
        ([b"data: [DONE]\n\n"], False, Verdict.OPEN),
        ([b": c\n" * (HELD // 4), b": c"], False, Verdict.OPEN),
        ([b"x" * (HELD + 1)], False, Verdict.OPEN),
    ],
)
def test_a_stream_is_held_until_its_first_event(pieces: list[bytes], ended: bool, want: Verdict) -> None:
    verdict, gate = gate_of(pieces, ended=ended)
    assert verdict is want
    assert gate.raw() == b"".join(b"raw:" + piece for piece in pieces)
    assert gate.pieces == pieces


@pytest.mark.parametrize(
    ("error", "want"),
    [
        (b'{"message":"m","code":422}', 422),
        (b'{"message":"m","code":"503"}', 503),
        (b'{"message":"m","code":200,"type":"timeout_error"}', 504),
        (b'{"message":"m","code":600,"type":"invalid_request_error"}', 400),
        (b'{"message":"m","type":"service_unavailable"}', 503),
        (b'{"message":"m","type":"what"}', 502),
        (b'"words"', 502),
    ],
)
def test_the_status_of_an_error_event(error: bytes, want: int) -> None:
    verdict, gate = gate_of([b'data: {"error":%b}\n\n' % error])
    assert (verdict, gate.status()) == (Verdict.ERROR_EVENT, want)
    told = orjson.loads(gate.error_body(anthropic=False))["error"]
    assert told["message"] in ("m", "words")
    assert (told["code"], told["param"]) == (str(want), None)
    assert orjson.loads(gate.error_body(anthropic=True))["type"] == "error"


def test_an_error_answer_is_held_until_it_is_whole_and_a_404_only_while_it_is_empty() -> None:
    for status, piece, verdict, at_end in (
        (503, b"x", Verdict.WAIT, Verdict.REPEAT),
        (404, b"x", Verdict.OPEN, Verdict.OPEN),
        (404, b"", Verdict.WAIT, Verdict.REPEAT),
        (503, b"x" * (HELD + 1), Verdict.OPEN, Verdict.OPEN),
    ):
        gate = Gate(answer(b"", status), place(), stream=False)
        gate.hold(piece, [piece] if piece else [])
        assert (gate.verdict(None), gate.at_end(None), gate.status()) == (verdict, at_end, status)


# Errors of ours.


@pytest.mark.parametrize("code", FAULTS)
def test_every_error_is_whole_json_of_its_shape(code: str) -> None:
    fault = FAULTS[code]
    assert orjson.loads(error_body(fault, "wörds", "p"))["error"] == {
        "message": "wörds",
        "type": fault.type,
        "param": "p",
        "code": code,
    }
    other = orjson.loads(error_body(fault, "words", anthropic=True))
    assert (other["type"], other["error"]["message"], set(other["error"])) == ("error", "words", {"type", "message"})
    assert 400 <= fault.status < 600
    assert fault.code == code
    assert Refusal(code, "words").fault is fault


@pytest.mark.parametrize("code", FAULTS)
@pytest.mark.parametrize("anthropic", [False, True])
def test_every_error_frame_is_one_event_that_is_seen_as_an_error(code: str, anthropic: bool) -> None:
    frame = error_frame(FAULTS[code], "multi\nline\r\nwords", anthropic=anthropic)
    observer = Observer()
    observer.feed(frame)
    assert (observer.events, observer.between, observer.done) == (1, True, False)
    assert observer.error is not None
    assert observer.error.message == "multi\nline\r\nwords"
    assert frame.startswith(b"event: error\ndata: " if anthropic else b"data: ")


@pytest.mark.parametrize("code", FAULTS)
@pytest.mark.parametrize("close", [False, True])
def test_every_error_answer_is_read_by_h11(code: str, close: bool) -> None:
    fault = FAULTS[code]
    body = error_body(fault, "words")
    for method, want in (("POST", body), ("HEAD", b"")):
        raw = response(fault.status, body, fault_headers(fault), close=close, head_only=method == "HEAD")
        connection = h11.Connection(h11.CLIENT)
        connection.send(h11.Request(method=method, target="/", headers=[("host", "a")]))
        connection.send(h11.EndOfMessage())
        connection.receive_data(raw)
        head, got = connection.next_event(), b""
        assert isinstance(head, h11.Response)
        while isinstance(event := connection.next_event(), h11.Data):
            got += bytes(event.data)
        assert (got, isinstance(event, h11.EndOfMessage)) == (want, True)
        headers = {bytes(name): bytes(value) for name, value in head.headers}
        assert headers[b"content-length"] == b"%d" % len(body)
        assert (headers.get(b"connection") == b"close") == close
        assert (headers.get(b"x-should-retry") == b"false") == (not fault.again)
        assert head.reason != b"Error", "every status has its phrase"
        after = headers.get(b"retry-after")
        assert after is None or (fault.again and 1 <= int(after) <= 5)


def test_retry_after_may_be_given() -> None:
    assert b"Retry-After: 4\r\n" in fault_headers(FAULTS["overloaded"], 4)
