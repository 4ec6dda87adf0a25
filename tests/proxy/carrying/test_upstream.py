"""What is read from a frontend: the same for every cut, never past its end, kept only if clean (I2, I54)."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from global_ingress.proxy.carrying.keeping import take_idle
from global_ingress.proxy.carrying.upstream import HEAD_LIMIT, Connection
from global_ingress.proxy.shared.attempt import Trouble
from tests.proxy.cuts import PLACES, cut_at, every_cut
from tests.proxy.smuggling import ANSWERS, BAD_PHRASES, AnswerCase
from tests.proxy.wirekit import Recorder, Rig, Wire, rigged

ID = b"3f2c-id"


class Told(NamedTuple):
    """What the reader was told, and what became of the connection."""

    status: int | None
    head: bytes
    body: bytes
    end: str
    kept: bool


def ask(rig: Rig, connection: Connection | None = None, request_id: bytes = ID) -> tuple[Recorder, Connection, Wire]:
    """A request is out on this connection."""
    one = connection or rig.stock()
    assert take_idle(one.frontend, rig.plane) is one
    reader = Recorder()
    reader.connection = one
    one.begin(reader, b"POST / HTTP/1.1\r\n\r\n", None, request_id, rig.now + 300)
    return reader, one, one.transport


def told(pieces: list[bytes], *, closed: bool = False, request_id: bytes = ID) -> tuple[Told, Recorder]:
    with rigged() as rig:
        reader, connection, wire = ask(rig, request_id=request_id)
        for piece in pieces:
            rig.feed(connection, wire, piece)
        kept = connection in connection.frontend.idle and not wire.closed
        if closed and not wire.closed:
            connection.connection_lost(None)
        assert rig.plane.tally.upstream["idle"] == len(connection.frontend.idle)
        assert rig.plane.tally.upstream["active"] == (reader.end == "")
    answer = reader.answer
    status, head = (None, b"") if answer is None else (answer.status, answer.first + answer.lines)
    return Told(status, head, reader.body, reader.end, kept), reader


# The corpus.


def named(cases: tuple[AnswerCase, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=[case.name for case in cases])


@named(tuple(case for case in ANSWERS if case.status is not None))
def test_each_answer_is_read_alike_for_every_cut(case: AnswerCase) -> None:
    wrong = []
    for pieces in every_cut(case.raw):
        found, _ = told(pieces, closed=case.closed)
        # Of what comes after the end nothing may be seen; a connection with excess bytes is closed once they come.
        if (found.status, found.body, found.end) != (case.status, case.body, "whole") or (case.kept and not found.kept):
            wrong.append((pieces, found))
    assert not wrong, wrong[:2]
    assert told([case.raw], closed=case.closed)[0].kept == case.kept


@named(tuple(case for case in ANSWERS if case.status is None))
def test_each_bad_answer_is_bad_for_every_cut(case: AnswerCase) -> None:
    wrong = []
    for pieces in every_cut(case.raw):
        found, reader = told(pieces, closed=True)
        fine = found.end == "bad_response" and case.body.startswith(found.body) and not found.kept
        if not fine or (reader.answer is not None and not case.raw.startswith(b"HTTP/1.1 200")):
            wrong.append((pieces, found))
    assert not wrong, wrong[:2]


@named(BAD_PHRASES)
def test_no_control_character_of_a_phrase_passes(case: AnswerCase) -> None:
    assert told([case.raw])[0].end == "bad_response"


def test_the_corpus_is_large_and_has_no_name_twice() -> None:
    assert len({case.name for case in ANSWERS}) == len(ANSWERS) >= 60


# Answers made by chance.


class Made(NamedTuple):
    raw: bytes
    start: int  # where the body begins
    body: bytes
    status: int
    between: frozenset[int]  # offsets in the body as it comes that stand between two chunks
    closed: bool
    kept: bool


@st.composite
def chunked(draw: st.DrawFn, head: bytes, pieces: list[bytes], *, extensions: bool, last: tuple[bytes, ...]) -> Made:
    raw, between = b"", {0}
    for piece in pieces:
        size = draw(st.sampled_from(("%x", "%X", "00%x"))) % len(piece)
        extension = draw(st.sampled_from((b"", b";a=b"))) if extensions else b""
        raw += size.encode() + extension + b"\r\n" + piece + b"\r\n"
        between.add(len(raw))
    raw += draw(st.sampled_from(last))
    head += b"Transfer-Encoding: chunked\r\n\r\n"
    return Made(head + raw, len(head), b"".join(pieces), 200, frozenset(between), closed=False, kept=True)


TYPE = st.sampled_from((b"", b"Content-Type: application/json\r\n", b"Content-Type: text/event-stream\r\n"))
PIECE = st.one_of(
    st.sampled_from((b"data: {}\n\n", b"data: x\r\n\r\n", b"\n", b"\r", b"\r\n", b"\n\r\n", b"0\r\n\r\n", b"{}")),
    st.binary(min_size=1, max_size=20),
)
PIECES = st.lists(PIECE, max_size=5)


@st.composite
def answers(draw: st.DrawFn) -> Made:
    """A well-formed answer without trailers."""
    interim = draw(st.sampled_from((b"", b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 E\r\nA: b\r\n\r\n" * 2)))
    pieces = draw(PIECES)
    body = b"".join(pieces)
    kind = draw(st.sampled_from(("length", "chunks", "chunks", "close", "empty")))
    line = draw(st.sampled_from((b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 404 \r\nX-A: b\r\n")))
    head = interim + line + draw(TYPE)
    if kind == "chunks":
        made = draw(chunked(head, pieces, extensions=True, last=(b"0\r\n\r\n", b"000\r\n\r\n")))
        return made._replace(status=int(line[9:12]))
    if kind == "empty":
        status = draw(st.sampled_from((204, 304)))
        raw = interim + b"HTTP/1.1 %d X\r\n\r\n" % status
        return Made(raw, len(raw), b"", status, frozenset({0}), closed=False, kept=True)
    if kind == "length":
        head += b"Content-Length: %d\r\n\r\n" % len(body)
    else:
        head += b"\r\n"
    kept = kind == "length"
    return Made(head + body, len(head), body, int(line[9:12]), frozenset({0}), closed=not kept, kept=kept)


@settings(max_examples=250)
@given(answers(), PLACES)
def test_well_formed_answers_are_read_alike_for_any_cut(made: Made, places: list[int]) -> None:
    whole, _ = told([made.raw], closed=made.closed)
    assert (whole.status, whole.body, whole.end, whole.kept) == (made.status, made.body, "whole", made.kept)
    found, reader = told(cut_at(made.raw, places), closed=made.closed)
    assert found == whole
    assert reader.raw == made.raw[made.start :], "the body goes on as it came"


@settings(max_examples=250)
@given(st.data(), PIECES, TYPE, PLACES)
def test_clean_is_said_only_between_two_chunks(
    data: st.DataObject, pieces: list[bytes], kind: bytes, places: list[int]
) -> None:
    head = b"HTTP/1.1 200 OK\r\n" + kind
    made = data.draw(chunked(head, pieces, extensions=True, last=(b"0\r\n\r\n",)))
    for cut in (cut_at(made.raw, places), [made.raw[n : n + 1] for n in range(len(made.raw))]):
        _, reader = told(cut)
        inside = [(at, clean) for at, clean in reader.clean if at < len(made.raw) - made.start]
        assert all(at in made.between for at, clean in inside if clean), (made.raw[made.start :], inside)


@pytest.mark.parametrize("event", [b"data: {}\n\n", b"data: {}\r\n\r\n", b"data: {}\r\r"])
def test_clean_is_said_after_every_whole_event(event: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"%x\r\n%b\r\n" % (len(event), event)
    for first in range(len(chunk) - 3):
        _, reader = told([head, chunk[:first], chunk[first:] + chunk] if first else [head, chunk])
        assert reader.clean[-1][1]
    _, reader = told([head + chunk])
    assert reader.clean == [(len(chunk), True)]


@settings(max_examples=200)
@given(answers().filter(lambda made: not made.closed), st.binary(min_size=1, max_size=30), PLACES)
def test_no_byte_past_the_end_is_passed_on_and_such_a_connection_is_not_kept(
    made: Made, after: bytes, places: list[int]
) -> None:
    if b"Transfer-Encoding" in made.raw:
        return  # see below
    found, reader = told([*cut_at(made.raw, places)[:-1], cut_at(made.raw, places)[-1] + after])
    assert (found.body, found.end, found.kept) == (made.body, "whole", False)
    assert reader.raw == made.raw[made.start :]
    found, _ = told([made.raw, after])
    assert (found.body, found.end, found.kept) == (made.body, "whole", False)


SECOND = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("after", [b"x", b"\r\n", SECOND, b"0\r\n\r\n", b"5\r\nhello\r\n0\r\n\r\n"])
def test_what_follows_the_last_chunk_in_its_read_is_not_passed_on(after: bytes) -> None:
    found, reader = told([HEAD + b"5\r\nhello\r\n0\r\n\r\n" + after])
    assert (found.status, found.end, found.kept) == (200, "whole", False)
    assert (found.body, reader.raw) == (b"hello", b"5\r\nhello\r\n0\r\n\r\n")


@pytest.mark.parametrize(
    "rest", [b"0\r\nX-T: y\r\n\r\n", b"0;a=b\r\n\r\n", b"0\r\n\r\n" + b"x"], ids=["trailer", "extension", "excess"]
)
def test_a_last_chunk_with_more_is_read_alike_for_every_cut(rest: bytes) -> None:
    raw = HEAD + b"5\r\nhello\r\n" + rest
    wrong = [pieces for pieces in every_cut(raw) if told(pieces)[0][2:4] != (b"hello", "whole")]
    assert not wrong, wrong[:3]


# Ids, heads, ends.


@pytest.mark.parametrize("request_id", [b"1", b"2", b"0", b"T", b"OK", b"C", b"200", b"-", b"json", b"Content-Length"])
def test_the_request_id_of_a_client_changes_nothing_in_an_answer(request_id: bytes) -> None:
    raw = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\nhello, world"
    found, _ = told([raw], request_id=request_id)
    assert (found.head, found.body, found.end) == (raw.partition(b"\r\n\r\n")[0], b"hello, world", "whole")


@pytest.mark.parametrize("name", [b"x-request-id", b"X-Request-ID"])
def test_our_own_id_echoed_does_not_keep_equal_heads_apart(name: bytes) -> None:
    raw = b"HTTP/1.1 200 OK\r\n%b: %b\r\nContent-Length: 2\r\n\r\n{}" % (name, ID)
    with rigged() as rig:
        readers = []
        connection = None
        for _ in range(2):
            reader, connection, wire = ask(rig, connection)
            rig.feed(connection, wire, raw)
            readers.append(reader)
        assert readers[0].answer is readers[1].answer
        assert readers[0].answer is not None
        assert not readers[0].answer.has_request_id


def test_many_interim_answers_are_skipped_or_refused_but_never_break_the_reader() -> None:
    found, _ = told([b"HTTP/1.1 100 Continue\r\n\r\n" * 2000 + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"])
    assert found.end in ("whole", "bad_response")


def test_a_head_without_end_is_bad_at_its_limit() -> None:
    found, _ = told([b"HTTP/1.1 200 OK\r\n"] + [b"X: " + b"y" * 1000 + b"\r\n"] * (HEAD_LIMIT // 1000 + 1))
    assert found.end == "bad_response"
    long = b"HTTP/1.1 200 OK\r\nX: " + b"y" * (HEAD_LIMIT - 100) + b"\r\nContent-Length: 2\r\n\r\n{}"
    assert told([long])[0].end == "whole"
    assert told([long.replace(b"\r\n\r\n", b"\r\nZ: " + b"z" * 100 + b"\r\n\r\n")])[0].end == "bad_response"


LONG = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"


@pytest.mark.parametrize(
    ("pieces", "broken", "want"),
    [
        ([], False, "reset"),
        ([], True, "reset"),
        ([b"HTTP/1.1 2"], False, "truncated"),
        ([b"HTTP/1.1 100 C\r\n\r\n"], False, "truncated"),
        ([LONG], False, "truncated"),
        ([LONG, b"hell"], True, "broken"),
        ([HEAD, b"5\r\nhello\r\n"], False, "truncated"),
        ([HEAD, b"5\r\nhello\r\n0\r\n"], False, "truncated"),
        ([b"HTTP/1.1 200 OK\r\n\r\nhel"], True, "broken"),
        ([b"HTTP/1.1 200 OK\r\n\r\nhel"], False, "whole"),
    ],
)
def test_how_a_lost_connection_is_told(pieces: list[bytes], broken: bool, want: str) -> None:
    with rigged() as rig:
        reader, connection, wire = ask(rig)
        for piece in pieces:
            rig.feed(connection, wire, piece)
        connection.connection_lost(ConnectionResetError() if broken else None)
        assert (reader.end, rig.plane.tally.upstream["active"]) == (want, 0)


# Kept connections.


def test_a_kept_connection_answers_again_and_a_stale_one_says_so() -> None:
    with rigged() as rig:
        connection = rig.stock()
        for n in range(3):
            reader, _, wire = ask(rig, connection)
            rig.feed(connection, wire, LONG + b"hello" if n % 2 else HEAD + b"5\r\nhello\r\n0\r\n\r\n")
            assert (reader.end, reader.body, connection.frontend.idle) == ("whole", b"hello", [connection])
        reader, _, _ = ask(rig, connection)
        connection.connection_lost(None)
        assert reader.end == Trouble.STALE_CONNECTION.value


@pytest.mark.parametrize("data", [b"x", b"HTTP/1.1 408 Timeout\r\n\r\n"])
def test_bytes_on_an_idle_connection_end_it(data: bytes) -> None:
    with rigged() as rig:
        connection = rig.stock()
        rig.feed(connection, connection.transport, data)
        assert connection.transport.aborted
        assert take_idle(connection.frontend, rig.plane) is None
        connection.connection_lost(None)
        assert rig.plane.tally.upstream["idle"] == 0


def test_an_idle_connection_is_closed_in_time_and_forgotten_when_it_ends() -> None:
    with rigged() as rig:
        connection, reader = rig.stock(), Recorder()
        ask(rig, connection)
        connection.reader = reader
        rig.feed(connection, connection.transport, LONG + b"hello")
        assert connection.deadline == rig.now + 4.0
        connection.expired(rig.now + 4.0)
        assert connection.transport.closed
        connection.connection_lost(None)
        assert (connection.frontend.idle, rig.plane.tally.upstream["idle"]) == ([], 0)


def test_an_abandoned_answer_ends_the_connection_at_once() -> None:
    with rigged() as rig:
        reader, connection, wire = ask(rig)
        rig.feed(connection, wire, LONG + b"he")
        connection.abandon()
        assert (wire.aborted, reader.end, rig.plane.tally.upstream["active"]) == (True, "", 0)
        assert rig.plane.tally.upstream["closing"] == 1
        connection.connection_lost(None)
        assert (reader.end, set(rig.plane.tally.upstream.values())) == ("", {0})


def test_a_frontend_that_has_left_keeps_no_connection() -> None:
    with rigged() as rig:
        _, connection, wire = ask(rig)
        connection.frontend.gone = True
        rig.feed(connection, wire, LONG + b"hello")
        assert (wire.closed, connection.frontend.idle) == (True, [])


def test_pausing_and_resuming() -> None:
    with rigged() as rig:
        _, connection, wire = ask(rig)
        connection.pause()
        assert not wire.reading
        rig.feed(connection, wire, LONG + b"hello")
        assert wire.reading, "a kept connection is read, so that its end is seen"
