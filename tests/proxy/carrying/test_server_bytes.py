"""Client to frontend and back by bytes alone: cuts change nothing, nothing is smuggled, all is let go."""

from __future__ import annotations

from typing import Any, NamedTuple

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from global_ingress.proxy.carrying.headers import HOP_BY_HOP
from global_ingress.proxy.carrying.server import ClientConnection
from global_ingress.proxy.shared.errors import FAULTS
from tests.proxy.cuts import PLACES, cut_at, every_cut
from tests.proxy.reading import Theirs, read_with_h11
from tests.proxy.smuggling import CL, NEXT, REQUESTS, B, P, RequestCase
from tests.proxy.wirekit import Recorder, Rig, Wire, rigged, routes

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


class Reply(NamedTuple):
    status: int
    headers: dict[bytes, bytes]
    body: bytes
    whole: bool


def replies(data: bytes, count: int = 1, method: str = "POST") -> list[Reply]:
    """What a client reads, by h11."""
    out: list[Reply] = []
    while data and len(out) < count:
        connection = h11.Connection(h11.CLIENT)
        connection.send(h11.Request(method=method, target="/", headers=[("host", "a"), ("content-length", "0")]))
        connection.send(h11.EndOfMessage())
        connection.receive_data(data)
        event: Any = connection.next_event()
        while isinstance(event, h11.InformationalResponse):
            event = connection.next_event()
        assert isinstance(event, h11.Response), event
        head, body = event, b""
        while isinstance(event := connection.next_event(), h11.Data):
            body += bytes(event.data)
        headers = {bytes(name): bytes(value) for name, value in head.headers}
        out.append(Reply(head.status_code, headers, body, isinstance(event, h11.EndOfMessage)))
        data = connection.trailing_data[0]
    return out


class Talk:
    """A client's connection; `frontend` answers each request whole as soon as it is there."""

    def __init__(self, rig: Rig, answer: bytes = ANSWER) -> None:
        self.rig = rig
        self.answer = answer
        self.upstream = rig.stock()
        self.client, self.wire = rig.client()

    def feed(self, data: bytes) -> None:
        self.rig.feed(self.client, self.wire, data)
        while self.upstream.reader is not None:
            self.rig.feed(self.upstream, self.upstream.transport, self.answer)

    @property
    def asked(self) -> list[Theirs]:
        found, refused = read_with_h11(bytes(self.upstream.transport.written))
        assert not refused, "what we send is well formed"
        return found


def talk(pieces: list[bytes], answer: bytes = ANSWER) -> tuple[list[Theirs], bytes, Wire]:
    with rigged() as rig:
        one = Talk(rig, answer)
        for piece in pieces:
            one.feed(piece)
        assert rig.plane.ledger.in_flight(0) == 0
        assert rig.plane.buffered == 0 or not one.wire.ended
        return one.asked, bytes(one.wire.written), one.wire


ROW = (
    NEXT
    + b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"
    + P
    + b"Transfer-Encoding: chunked\r\nX-A: b\r\n\r\n"
    + (b'5\r\n{"mod\r\n8\r\nel":"m"}\r\n0\r\nT: u\r\n\r\n' + NEXT + P + b"Content-Length: 2\r\n\r\n{}")
)


def without_ids(answers: list[Reply]) -> list[tuple[int, bytes, bool]]:
    return [(reply.status, reply.body, reply.whole) for reply in answers]


def test_a_row_of_requests_gives_the_same_answers_and_the_same_questions_for_every_cut() -> None:
    want_asked, written, _ = talk([ROW])
    want = without_ids(replies(written, 5))
    assert [status for status, _, _ in want] == [200, 200, 200, 200, 400]
    assert [theirs.body for theirs in want_asked] == [B, B, B]
    for pieces in every_cut(ROW):
        asked, written, _ = talk(pieces)
        assert without_ids(replies(written, 5)) == want
        assert [theirs.body for theirs in asked] == [B, B, B]


def named(cases: tuple[RequestCase, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=[case.name for case in cases])


@named(tuple(case for case in REQUESTS if case.refused in (None, "bad_request", "request_too_large")))
def test_nothing_is_smuggled_to_a_frontend(case: RequestCase) -> None:
    half = case.name == "a body not yet whole"
    after = [case.raw] if half else [case.raw, NEXT]
    for pieces in ([case.raw], [case.raw[n : n + 1] for n in range(len(case.raw))], after):
        asked, written, wire = talk(pieces)
        follows = pieces[-1] is NEXT and case.refused is None
        assert [theirs.body for theirs in asked] == [*case.taken, *([B] if follows else [])]
        got = replies(written, 9)
        statuses = [200] * len(asked)
        if case.refused is not None:
            statuses.append(FAULTS[case.refused].status)
            assert got[-1].headers[b"connection"] == b"close"
            assert wire.ended, "it is closed once its answer was read"
        assert [reply.status for reply in got] == statuses
        for theirs in asked:
            names = [name for name, _ in theirs.headers]
            assert not set(names) & HOP_BY_HOP
            assert all(names.count(name) == 1 for name in (b"host", b"content-length", b"x-request-id"))
            assert dict(theirs.headers)[b"host"] == b"f0"


def test_the_id_and_the_pool_are_told() -> None:
    asked, written, _ = talk([P + CL + b"x-request-id: abc-1\r\n\r\n" + B])
    [reply] = replies(written)
    assert dict(asked[0].headers)[b"x-request-id"] == b"abc-1" == reply.headers[b"x-request-id"]
    assert reply.headers[b"x-dynamo-pool"] == b"c0/dynamo/llama"
    assert reply.headers[b"x-dynamo-attempts"] == b"1"


def test_a_refused_body_that_was_read_whole_leaves_the_connection_open() -> None:
    _, written, wire = talk([P + b"Content-Length: 2\r\n\r\n{}" + NEXT])
    assert [reply.status for reply in replies(written, 2)] == [400, 200]
    assert not wire.closed


def test_an_alias_is_rewritten_and_the_length_with_it() -> None:
    body = b'{"x":{"model":"alias"},"model" : "alias"}'
    asked, _, _ = talk([P + b"Content-Length: %d\r\n\r\n" % len(body) + body])
    assert asked[0].body == b'{"x":{"model":"alias"},"model" : "m"}'


# Whatever happens, everything is let go, and the client is told the truth.

SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def event(text: bytes) -> bytes:
    data = b"data: " + text + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(data), data)


WHOLE = {
    ANSWER: 200,
    SSE + event(b'{"a":1}') + event(b"[DONE]") + b"0\r\n\r\n": 200,
    SSE + event(b'{"error":{"message":"x","code":503}}') + b"0\r\n\r\n": 503,
    SSE + event(b'{"error":{"message":"x","code":422}}') + b"0\r\n\r\n": 422,
    b"HTTP/1.1 503 Busy\r\nRetry-After: 3\r\nContent-Length: 2\r\n\r\n[]": 503,
    b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n": 404,
    b"HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\n[]": 404,
    b"HTTP/1.1 429 Slow\r\nContent-Length: 2\r\n\r\n[]": 429,
    b"HTTP/1.1 302 Go\r\nLocation: http://x/\r\nContent-Length: 0\r\n\r\n": 502,
    b"HTTP/1.1 200 OK\r\n\r\nuntil the end": 200,
    b"HTTP/1.1 204 No\r\n\r\n": 204,
    b"garbage\r\n\r\n": 502,
}
REPEATED = {503, 404}


class Try(NamedTuple):
    answer: bytes
    upto: int  # bytes of it that come
    end: str  # eof, reset, silence, whole
    places: list[int]


TRIES = st.builds(
    Try,
    st.sampled_from(sorted(WHOLE)),
    st.one_of(st.just(1 << 16), st.integers(0, 200)),
    st.sampled_from(("eof", "eof", "reset", "silence")),
    PLACES,
)


def play(rig: Rig, connection: Any, one: Try) -> None:
    """What the frontend does, until the exchange has let go of this connection."""
    wire = connection.transport
    for piece in cut_at(one.answer[: one.upto], one.places):
        if connection.reader is not None:
            rig.feed(connection, wire, piece)
    reader = connection.reader
    if reader is None:
        return
    if one.end == "silence":
        rig.now += 1000
        connection.expired(rig.now)
    else:
        connection.connection_lost(ConnectionResetError() if one.end == "reset" else None)
    assert connection.reader is not reader


@settings(max_examples=400, deadline=None)
@given(st.lists(TRIES, min_size=3, max_size=3), st.integers(0, 3), st.sampled_from(("1.1", "1.0")))
def test_whatever_frontends_do_the_client_is_answered_once_and_all_is_let_go(
    tries: list[Try], leave_after: int, version: str
) -> None:
    with rigged(routes(3)) as rig:
        stock = [rig.stock(n) for n in range(3)]
        client, wire = rig.client()
        rig.feed(client, wire, NEXT.replace(b"HTTP/1.1", f"HTTP/{version}".encode()))
        played = 0
        while busy := [connection for connection in stock if connection.reader is not None]:
            assert len(busy) == 1, "one frontend at a time"
            assert sum(rig.plane.ledger.in_flight(n) for n in range(3)) == 1
            if played == leave_after:
                client.connection_lost(None)
                assert busy[0].transport.aborted
                break
            play(rig, busy[0], tries[played])
            played += 1
        assert played <= 2, "at most one repeat"
        assert [rig.plane.ledger.in_flight(n) for n in range(3)] == [0, 0, 0]
        assert rig.plane.tally.upstream["active"] == 0
        assert not rig.failures
        told(bytes(wire.written), wire, tries[:played], left=played == leave_after and bool(busy), version=version)


def told(written: bytes, wire: Wire, tries: list[Try], *, left: bool, version: str) -> None:
    """The client got one answer, whole or visibly cut."""
    if left and not written:
        return
    [reply] = replies(written)
    last = tries[-1] if tries else None
    if reply.status == 200 and last is not None and not left:
        came_whole = last.upto >= len(last.answer) and (b"until the end" not in last.answer or last.end == "eof")
        until_close = b"until the end" in last.answer and last.end == "eof"
        by_closing = version == "1.0" and b"content-length" not in reply.headers
        if by_closing:
            assert wire.closed
        else:
            assert reply.whole == (came_whole or until_close)
        if not reply.whole:
            assert wire.closed
            assert b"[DONE]" not in reply.body or b"[DONE]" in last.answer[: last.upto]
    elif not left:
        # An answer that is passed on may be cut like any other.
        assert reply.whole or (reply.status in (404, 429) and last is not None and last.upto < len(last.answer))
        assert reply.status in {*WHOLE.values(), 504}


@pytest.mark.parametrize("at", range(3))
def test_a_client_that_leaves_ends_the_work_at_once(at: int) -> None:
    with rigged() as rig:
        connection = rig.stock()
        client, wire = rig.client()
        rig.feed(client, wire, NEXT)
        for piece in [SSE, event(b"1")][:at]:
            rig.feed(connection, connection.transport, piece)
        client.connection_lost(None)
        assert connection.transport.aborted
        assert (rig.plane.ledger.in_flight(0), len(rig.plane.clients)) == (0, 0)
        assert rig.plane.tally.client_disconnects == 1


def stream(pieces: list[bytes]) -> tuple[bytes, Wire]:
    """What the client gets of a stream that breaks off after these pieces."""
    with rigged() as rig:
        connection = rig.stock()
        client, wire = rig.client()
        rig.feed(client, wire, NEXT)
        for piece in pieces:
            rig.feed(connection, connection.transport, piece)
        connection.connection_lost(None)
        return bytes(wire.written), wire


def test_a_cut_stream_gets_one_error_frame_between_events_and_none_inside_one() -> None:
    between, wire = stream([SSE, event(b"1"), event(b"2")])
    [reply] = replies(between)
    assert reply.body.count(b'"code":"upstream_truncated"') == 1
    assert (reply.whole, wire.closed, wire.aborted) == (False, True, False)
    inside, wire = stream([SSE, event(b"1"), event(b"2")[:-4]])
    [reply] = replies(inside)
    assert b"upstream_truncated" not in reply.body
    assert (reply.whole, wire.closed) == (False, True)
    done, _ = stream([SSE, event(b"1"), event(b"[DONE]")])
    assert b"upstream_truncated" not in replies(done)[0].body


@settings(max_examples=150)
@given(st.integers(1, 200), PLACES)
def test_a_frame_of_ours_never_stands_inside_a_chunk_or_an_event(upto: int, places: list[int]) -> None:
    body = event(b"one") + event(b"two\ndata: more") + event(b"three")
    came = body[: upto % len(body)]
    written, _ = stream([SSE, *cut_at(came, places)])
    [reply] = replies(written)  # h11 reads it: the chunks are well formed as far as they go
    if reply.status != 200:
        assert (reply.status, reply.whole) == (502, True), "no event had come whole"
    elif b'"error"' in reply.body:
        assert b'\n\ndata: {"error"' in reply.body
        assert came in {body[:at] for at in (len(event(b"one")), len(event(b"one") + event(b"two\ndata: more")))}


def test_a_recorder_is_enough_for_a_connection() -> None:
    """The kit's reader and client are what their protocols ask for."""
    reader: Any = Recorder()
    assert all(hasattr(reader, name) for name in ("answer_head", "answer_whole", "answer_body", "answer_end"))
    assert all(hasattr(ClientConnection, name) for name in ("respond", "keeps", "finished"))
