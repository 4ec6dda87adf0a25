"""What of an answer's head goes on to a client (I2, I13), with h11 as second opinion on how it is read."""

from __future__ import annotations

import h11
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from global_ingress.proxy.carrying.headers import Answer, read_answer, stream_lines, without_framing
from tests.proxy.heads import OTHERS, Field, Mixed, head_of, lines, mixed, pairs_of


@given(mixed())
def test_no_hop_by_hop_name_passes_to_a_client_and_everything_else_does(given: Mixed) -> None:
    assume(not any(name.lower().startswith(b"x-dynamo-") for name, _ in given.pairs))
    answer = read_answer(head_of(given.pairs, b"HTTP/1.1 200 OK"), expose_pool=True)
    assert answer is not None
    want = [pair for pair in given.passing if pair[0].lower() != b"x-request-id"]
    assert [pair for pair in pairs_of(answer.lines) if pair[0].lower() != b"x-request-id"] == want


@given(mixed())
def test_an_answer_read_again_is_the_same(given: Mixed) -> None:
    once = read_answer(head_of(given.pairs, b"HTTP/1.1 200 OK"), expose_pool=True)
    assert once is not None
    again = read_answer(once.first + once.lines, expose_pool=True)
    assert again is not None
    assert (again.first, again.lines) == (once.first, once.lines)


def read_with_h11(head: bytes) -> tuple[int, list[Field], int, bool] | None:
    """(status, headers, length, chunked) by h11, None when it refuses."""
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="POST", target="/", headers=[("host", "a"), ("content-length", "0")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(head + b"\r\n\r\n")
    try:
        event = connection.next_event()
    except h11.RemoteProtocolError:
        return None
    assert isinstance(event, h11.Response | h11.InformationalResponse)
    raw = [(bytes(name), bytes(value)) for name, value in event.headers.raw_items()]
    small = {name.lower(): value for name, value in raw}
    chunked = small.get(b"transfer-encoding", b"").lower() == b"chunked"
    return event.status_code, raw, int(small.get(b"content-length", b"-1")), chunked


def unframed(pairs: list[Field]) -> list[Field]:
    framing = (b"content-length", b"transfer-encoding")
    return [(name, b"" if name.lower() in framing else value) for name, value in pairs]


FRAMING: st.SearchStrategy[list[Field]] = st.sampled_from(
    [
        [],
        [(b"Content-Length", b"0")],
        [(b"content-LENGTH", b"00012")],
        [(b"Transfer-Encoding", b"chunked")],
        [(b"transfer-encoding", b"Chunked")],
        [(b"Transfer-Encoding", b"gzip")],
        [(b"Transfer-Encoding", b"gzip, chunked")],
        [(b"Content-Length", b"1"), (b"Content-Length", b"2")],
        [(b"Content-Length", b"1"), (b"Transfer-Encoding", b"chunked")],
        [(b"Content-Length", b"-1")],
        [(b"Content-Length", b"1e1")],
        [(b"Content-Length", b"")],
    ]
)


@given(
    st.integers(100, 999).filter(lambda status: status != 101),
    st.sampled_from(("", " ", " OK", " Site is överladen")),
    OTHERS,
    FRAMING,
    st.integers(0, 7),
)
def test_answers_are_read_as_h11_reads_them_or_refused(
    status: int, reason: str, others: list[Field], framing: list[Field], at: int
) -> None:
    pairs = [*others[:at], *framing, *others[at:]]
    head = head_of(pairs, f"HTTP/1.1 {status}{reason}".encode("latin-1"))
    ours, theirs = read_answer(head, expose_pool=False), read_with_h11(head)
    if theirs is None:
        assert ours is None
    elif ours is not None:
        assert (ours.status, ours.length, ours.chunked) == (theirs[0], theirs[2], theirs[3])
        ids = [pair for pair in theirs[1] if pair[0].lower() == b"x-request-id"]
        if not ids:
            assert unframed(pairs_of(ours.lines)) == unframed(theirs[1]), "h11 writes the framing's values anew"
    else:
        assert len(framing) == 2 or framing[0][1] not in (b"0", b"00012", b"chunked", b"Chunked"), (
            "only what is ambiguous"
        )


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"HTTP/1.1",
        b"HTTP/1.1 ",
        b"HTTP/1.1 20 OK",
        b"HTTP/1.1 2x0 OK",
        b"HTTP/1.1  200 OK",
        b"HTTP/2.0 200 OK",
        b"HTTP/1.2 200 OK",
        b"HTTP/0.9 200 OK",
        b"http/1.1 200 OK",
        b"ICY 200 OK",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1, 1",
        b"HTTP/1.1 200 OK\r\nContent-Length: +1",
        b"HTTP/1.1 200 OK\r\nContent-Length: \xc2\xb2",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"1" * 16,
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, identity",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked",
    ],
)
def test_answers_that_are_refused(head: bytes) -> None:
    assert read_answer(head, expose_pool=True) is None


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 20", b"HTTP/1.1 2000 OK", b"HTTP/1.1 200OK", b"HTTP/1.1 000 No", b"HTTP/1.1 099 No"]
)
def test_a_status_is_three_digits_from_100(head: bytes) -> None:
    assert read_answer(head, expose_pool=True) is None


def answer_of(*pairs: Field) -> Answer:
    answer = read_answer(head_of(list(pairs), b"HTTP/1.1 200 OK"), expose_pool=True)
    assert answer is not None
    return answer


def test_an_old_frontend_is_answered_on_as_http_1_1() -> None:
    answer = read_answer(b"HTTP/1.0 200 Fine\r\nContent-Length: 2", expose_pool=True)
    assert answer is not None
    assert (answer.first, answer.length) == (b"HTTP/1.1 200 Fine", 2)


def test_our_names_replace_those_of_the_frontend_unless_they_are_not_shown() -> None:
    pairs = [(b"X-Dynamo-Pool", b"x"), (b"x-dynamo-attempts", b"9"), (b"x-dynamo-other", b"1")]
    assert pairs_of(answer_of(*pairs).lines) == [pairs[2]]
    hidden = read_answer(head_of(pairs, b"HTTP/1.1 200 OK"), expose_pool=False)
    assert hidden is not None
    assert pairs_of(hidden.lines) == pairs


@pytest.mark.parametrize(
    ("given", "want"),
    [([], []), ([b"a"], [b"a"]), ([b"a", b"b"], [b"a"]), ([b"", b"b"], [b"b"]), ([b""], []), ([b"", b""], [])],
)
def test_at_most_one_request_id_of_the_frontend_passes(given: list[bytes], want: list[bytes]) -> None:
    answer = answer_of(*((b"X-Request-Id", value) for value in given), (b"a", b"b"))
    assert [value for name, value in pairs_of(answer.lines) if name.lower() == b"x-request-id"] == want
    assert answer.has_request_id == bool(want)


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (b"text/event-stream", True),
        (b"Text/Event-Stream; charset=utf-8", True),
        (b"text/event-stream ;x", True),
        (b"text/event-streams", False),
        (b"application/json", False),
        (b"x text/event-stream", False),
    ],
)
def test_what_is_an_event_stream(value: bytes, want: bool) -> None:
    for pairs in ([(b"Content-TYPE", value)], [(b"content-type", value), (b"a", b"b")]):
        answer = answer_of(*pairs)
        assert (answer.event_stream, answer.plain) == (want, not want)


@pytest.mark.parametrize(
    ("value", "again"), [(b"false", False), (b"FALSE", False), (b"true", True), (b"falsehood", True)]
)
def test_a_frontend_may_ask_not_to_be_asked_again(value: bytes, again: bool) -> None:
    assert answer_of((b"X-Should-Retry", value)).again is again
    assert answer_of((b"X-Should-Retry", value), (b"a", b"b")).again is again
    assert answer_of((b"a", b"x-should-retry: false")).again


def test_framing_is_taken_out_and_nothing_else() -> None:
    pairs = [(b"A", b"1"), (b"CONTENT-length", b"5"), (b"Content-Length-X", b"2"), (b"transfer-Encoding", b"chunked")]
    assert pairs_of(without_framing(lines(pairs))) == [pairs[0], pairs[2]]


def test_streams_are_not_held_back_by_proxies_in_front() -> None:
    assert pairs_of(stream_lines(b"")) == [(b"Cache-Control", b"no-cache"), (b"X-Accel-Buffering", b"no")]
    assert stream_lines(b"\r\nCACHE-CONTROL: x\r\nx-accel-Buffering: yes") == b""
