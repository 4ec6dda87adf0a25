"""Header rules, both ways (I2, I12, I13): nothing hop by hop passes, everything else does, as it came."""

from __future__ import annotations

import re
from typing import NamedTuple

import h11
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from global_ingress.proxy.errors import Refusal
from global_ingress.proxy.headers import (
    HOP,
    HOP_BY_HOP,
    Answer,
    Head,
    Peer,
    read_answer,
    read_head,
    stream_lines,
    without_framing,
)

STRANGER = Peer(b"192.0.2.7", b"http", False)
FRIEND = Peer(b"10.0.0.1", b"https", True)
NAMES = frozenset({b"x-session-id"})
NEVER_PASS = (
    *("Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "TE", "Trailer"),
    *("Transfer-Encoding", "Upgrade"),
)
OURS = {b"host", b"content-length", b"expect", b"x-request-id", b"x-forwarded-for"}

Field = tuple[bytes, bytes]


def any_case(name: str) -> st.SearchStrategy[str]:
    return st.lists(st.booleans(), min_size=len(name), max_size=len(name)).map(
        lambda ups: "".join(c.upper() if up else c.lower() for c, up in zip(name, ups, strict=True))
    )


TOKEN = st.text("abcXYZ09-_!#$%&'*+.^`|~", min_size=1, max_size=6)
VALUE = st.text('aB9 \t,;:="/\\()<>é', max_size=10).map(lambda v: v.strip(" \t"))
PLAIN = st.sampled_from(
    ("Set-Cookie", "Authorization", "X-A", "x-a", "Accept", "traceparent", "X-Long-Name", "Server", "Date")
)
OTHER_NAME = st.one_of(PLAIN, TOKEN).filter(
    lambda n: n.lower().encode() not in OURS | HOP_BY_HOP | {b"content-encoding"}
)


def fields(names: st.SearchStrategy[str]) -> st.SearchStrategy[list[Field]]:
    one = st.tuples(names.map(str.encode), VALUE.map(lambda v: v.encode("latin-1")))
    return st.lists(one, max_size=7)


OTHERS = fields(OTHER_NAME)
HOPS = fields(
    st.sampled_from([n for n in NEVER_PASS if n not in ("Connection", "Transfer-Encoding")]).flatmap(any_case)
)


def lines(pairs: list[Field]) -> bytes:
    return b"".join(b"\r\n%b: %b" % pair for pair in pairs)


def head_of(pairs: list[Field], first: bytes = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a") -> bytes:
    return first + lines(pairs)


def read(pairs: list[Field], peer: Peer = STRANGER, **more: bytes) -> Head:
    return read_head(head_of(pairs, **more), peer, NAMES)


def pairs_of(raw: bytes) -> list[Field]:
    return [(n, v.strip(b" \t")) for n, _, v in (line.partition(b":") for line in raw.split(b"\r\n")[1:])]


def forwarded(head: Head) -> list[Field]:
    return pairs_of(head.forward)


def without_ours(pairs: list[Field]) -> list[Field]:
    """Without what we add at the end."""
    added = (b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", HOP)
    return [pair for pair in pairs if pair[0].lower() not in added]


class Mixed(NamedTuple):
    pairs: list[Field]
    passing: list[Field]


@st.composite
def mixed(draw: st.DrawFn) -> Mixed:
    """Headers that pass, hop-by-hop ones and ones that Connection names, in any order and case."""
    others = draw(OTHERS)
    named = draw(st.lists(st.sampled_from([name for name, _ in others] or [b"x-none"]), max_size=2, unique=True))
    named_strange = [draw(any_case(name.decode())) for name in named]
    tokens = draw(
        st.permutations(
            [*named_strange, *draw(st.lists(st.sampled_from(("close", "keep-alive", "Host", "")), max_size=2))]
        )
    )
    pad = draw(st.sampled_from(("", " ", "\t", " \t")))
    connections: list[Field] = []
    for token_list in (tokens[:1], tokens[1:]):
        if token_list:
            name = draw(any_case("connection"))
            connections.append((name.encode(), f"{pad},{pad}".join(token_list).encode()))
    hops = [*draw(HOPS), *connections]
    order = draw(st.permutations([*range(len(hops)), *[-1] * len(others)]))
    waiting = iter(others)
    pairs = [hops[n] if n >= 0 else next(waiting) for n in order]
    gone = {name.lower() for name in named}
    return Mixed(pairs, [pair for pair in others if pair[0].lower() not in gone])


@given(mixed())
def test_no_hop_by_hop_name_passes_to_a_frontend_and_everything_else_does(given: Mixed) -> None:
    head = read(given.pairs)
    assert without_ours(forwarded(head)) == without_ours(given.passing)
    assert not {name.lower() for name, _ in forwarded(head)} & (HOP_BY_HOP | {b"host", b"content-length", b"expect"})


@given(mixed())
def test_no_hop_by_hop_name_passes_to_a_client_and_everything_else_does(given: Mixed) -> None:
    assume(not any(name.lower().startswith(b"x-dynamo-") for name, _ in given.pairs))
    answer = read_answer(head_of(given.pairs, b"HTTP/1.1 200 OK"), expose_pool=True)
    assert answer is not None
    want = [pair for pair in given.passing if pair[0].lower() != b"x-request-id"]
    assert [pair for pair in pairs_of(answer.lines) if pair[0].lower() != b"x-request-id"] == want


@given(mixed(), st.sampled_from((STRANGER, FRIEND)))
def test_reading_what_goes_on_again_changes_nothing_more(given: Mixed, peer: Peer) -> None:
    once = read(given.pairs, peer)
    again = read_head(once.begin + b"frontend:8000" + once.forward, FRIEND, NAMES)
    assert without_ours(forwarded(again)) == without_ours(forwarded(once))
    assert again.looped, "a loop is seen"
    assert again.affinity == once.affinity
    assert (again.method, again.target, again.chunked, again.expects) == (once.method, once.target, False, False)


@given(mixed())
def test_an_answer_read_again_is_the_same(given: Mixed) -> None:
    once = read_answer(head_of(given.pairs, b"HTTP/1.1 200 OK"), expose_pool=True)
    assert once is not None
    again = read_answer(once.first + once.lines, expose_pool=True)
    assert again is not None
    assert (again.first, again.lines) == (once.first, once.lines)


@pytest.mark.parametrize("framing", [b"Content-Length", b"content-length", b"HOST", b"X-Forwarded-For"])
def test_connection_cannot_take_framing_or_address_away(framing: bytes) -> None:
    given = [(b"Content-Length", b"5"), (b"X-Forwarded-For", b"1.1.1.1"), (b"Connection", framing)]
    head = read(given)
    assert (head.length, head.begin) == (5, b"POST /v1/chat/completions HTTP/1.1\r\nHost: ")
    assert (b"X-Forwarded-For", b"1.1.1.1, 192.0.2.7") in forwarded(head)
    answer = read_answer(
        head_of([(b"Content-Length", b"5"), (b"Connection", framing)], b"HTTP/1.1 200 OK"), expose_pool=True
    )
    assert answer is not None
    assert (answer.length, pairs_of(answer.lines)) == (5, [(b"Content-Length", b"5")])


def test_repetition_order_and_case_stay() -> None:
    pairs = [(b"Set-Cookie", b"A=1"), (b"X-b", b"Q"), (b"SET-COOKIE", b"a=2"), (b"Set-Cookie", b"A=1"), (b"x-B", b"")]
    assert without_ours(forwarded(read(pairs))) == pairs
    answer = read_answer(head_of(pairs, b"HTTP/1.1 529 Site is overloaded"), expose_pool=True)
    assert answer is not None
    assert (answer.status, answer.first, pairs_of(answer.lines)) == (529, b"HTTP/1.1 529 Site is overloaded", pairs)


def values(head: Head, name: bytes) -> list[bytes]:
    return [value for n, value in forwarded(head) if n.lower() == name]


FORGED = [
    (b"x-Forwarded-Proto", b"https"),
    (b"X-FORWARDED-HOST", b"evil"),
    (b"X-Forwarded-For", b"1.1.1.1"),
    (b"x-forwarded-for", b"2.2.2.2"),
]


def test_a_stranger_is_not_believed() -> None:
    head = read(FORGED)
    assert values(head, b"x-forwarded-proto") == [b"http"]
    assert values(head, b"x-forwarded-host") == [b"a"]
    assert values(head, b"x-forwarded-for") == [b"1.1.1.1, 2.2.2.2, 192.0.2.7"]


def test_a_trusted_proxy_is_believed() -> None:
    head = read(FORGED, FRIEND)
    assert values(head, b"x-forwarded-proto") == [b"https"]
    assert values(head, b"x-forwarded-host") == [b"evil"]
    assert values(head, b"x-forwarded-for") == [b"1.1.1.1, 2.2.2.2, 10.0.0.1"]
    plain = read([], FRIEND)
    assert values(plain, b"x-forwarded-proto") == [b"https"]
    assert values(plain, b"x-forwarded-host") == [b"a"]
    assert values(plain, b"x-forwarded-for") == [b"10.0.0.1"]


@given(st.lists(st.sampled_from(FORGED), max_size=5), st.sampled_from((STRANGER, FRIEND)))
def test_exactly_one_chain_of_addresses_goes_on_and_ends_in_the_peer(pairs: list[Field], peer: Peer) -> None:
    [chain] = values(read(pairs, peer), b"x-forwarded-for")
    given = [value for name, value in pairs if name.lower() == b"x-forwarded-for"]
    assert chain.split(b", ") == [*given, peer.address]


def test_a_request_without_host_gets_no_forwarded_host() -> None:
    head = read_head(b"GET /v1/models HTTP/1.0", STRANGER, NAMES)
    assert (values(head, b"x-forwarded-host"), head.minor, head.begin) == ([], 0, b"GET /v1/models HTTP/1.1\r\nHost: ")


@given(st.one_of(st.from_regex(rb"[A-Za-z0-9._-]{1,128}", fullmatch=True), st.binary(max_size=140)))
def test_a_request_id_is_kept_when_it_is_harmless(given: bytes) -> None:
    assume(not set(given) & set(b"\r\n"))
    fine = re.fullmatch(rb"[A-Za-z0-9._-]{1,128}", given.strip(b" \t")) is not None
    head = read([(b"X-Request-ID", given)])
    assert head.request_id == (given.strip(b" \t") if fine else b"")
    assert values(head, b"x-request-id") == [], "it is added for each try"


@pytest.mark.parametrize("bad", [b"a" * 129, b"", b"a b", b"a\xc3\xa9", b"a/b", b"a;b"])
def test_other_request_ids_are_not(bad: bytes) -> None:
    assert read([(b"x-request-id", bad)]).request_id == b""


def refusal(raw: bytes) -> str:
    with pytest.raises(Refusal) as caught:
        read_head(raw, STRANGER, NAMES)
    return caught.value.fault.code


REQUEST_LINES = (
    *(b"GET / HTTP/0.9", b"GET / HTTP/2.0", b"GET / HTTP/1.2", b"GET /", b"GET  / HTTP/1.1", b"GET / HTTP/1.1 "),
    *(b"get / HTTP/1.1", b"GET / http/1.1", b" GET / HTTP/1.1", b"GET /a b HTTP/1.1", b"GET /\xc3\xa9 HTTP/1.1"),
    *(b"GET\t/ HTTP/1.1", b"", b"GET / HTTP/1.1\x00", b"GET /\x7f HTTP/1.1", b"G@T / HTTP/1.1", b"GET / HTTP/1.10"),
)


@pytest.mark.parametrize("line", REQUEST_LINES)
def test_other_request_lines_are_refused(line: bytes) -> None:
    assert refusal(line + b"\r\nHost: a") == "bad_request"


@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"\r\nHost: a\r\nhost: a",
        b"\r\nHost: a b",
        b"\r\nHost: a/b",
        b"\r\nHost: a@b",
        b"\r\nHost: a:b",
        b"\r\nHost: a:123456",
        b"\r\nHost: [::1",
        b"\r\nHost: \xc3\xa9",
        b"\r\nHost: a, b\x00",
        b"\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1",
        b"\r\nHost: a\r\nContent-Length: 1, 1",
        b"\r\nHost: a\r\nContent-Length: +1",
        b"\r\nHost: a\r\nContent-Length: -1",
        b"\r\nHost: a\r\nContent-Length: 0x1",
        b"\r\nHost: a\r\nContent-Length: 1_0",
        b"\r\nHost: a\r\nContent-Length: 1 1",
        b"\r\nHost: a\r\nContent-Length: ",
        b"\r\nHost: a\r\nContent-Length: \xc2\xb2",
        b"\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked",
        b"\r\nHost: a\r\ntransfer-encoding: CHUNKED\r\ncontent-length: 1",
        b"\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        b"\r\nHost: a\r\nTransfer-Encoding: gzip, chunked",
        b"\r\nHost: a\r\nTransfer-Encoding: chunked, identity",
        b"\r\nHost: a\r\nTransfer-Encoding: identity",
        b"\r\nHost: a\r\nTransfer-Encoding: xchunked",
        b"\r\nHost: a\r\nTransfer-Encoding: \x0bchunked",
        b"\r\nHost: a\r\nTransfer-Encoding: ",
        b"\r\nHost: a\r\nContent-Length: " + b"1" * 5000,
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(given: bytes) -> None:
    assert refusal(b"POST /v1/chat/completions HTTP/1.1" + given) == "bad_request"


def test_chunked_is_of_http_1_1() -> None:
    assert refusal(b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked") == "bad_request"
    assert refusal(b"POST / HTTP/1.0\r\nHost: a\r\nHost: b") == "bad_request"


@pytest.mark.parametrize("host", [b"", b"a", b"a:80", b"a:", b"[::1]", b"[fe80::1%25eth0]:80", b"1.2.3.4", b"a_b.c-d~"])
def test_hosts(host: bytes) -> None:
    head = read_head(b"GET / HTTP/1.1\r\nHost:\t" + host, STRANGER, NAMES)
    assert values(head, b"x-forwarded-host") == ([host] if host else [])


def test_an_encoded_body_is_refused_and_identity_is_not() -> None:
    for value in (b"gzip", b"br, gzip", b"identity, gzip", b"x"):
        assert refusal(head_of([(b"CONTENT-encoding", value)])) == "unsupported_encoding"
    assert values(read([(b"Content-Encoding", b"Identity")]), b"content-encoding") == [b"Identity"]


def test_what_is_noted_besides() -> None:
    head = read(
        [
            (b"X-Session-ID", b"s 1"),
            (b"x-stainless-retry-count", b"2"),
            (b"x-stainless-read-timeout", b"600"),
            (b"Expect", b"100-Continue"),
        ]
    )
    assert (head.affinity, head.retry_count, head.patience, head.expects) == ({b"x-session-id": b"s 1"}, 2, 600.0, True)
    assert not head.looped
    assert read([(HOP.upper(), b"1")]).looped
    assert read([(b"Connection", b"a, CLOSE")]).closes


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ([b"5", b"3"], 3.0),
        ([b"NOT_GIVEN", b"0.5"], 0.5),
        ([b"0", b"-1"], None),
        ([b"1e3", b"inf"], None),
        ([b"0.0", b"nan"], None),
        ([b"5" * 400, b""], None),
    ],
)
def test_patience(given: list[bytes], want: float | None) -> None:
    names = (b"x-stainless-timeout", b"X-Stainless-Read-Timeout")
    assert read(list(zip(names, given, strict=True))).patience == want


@pytest.mark.parametrize("count", [b"x", b"-1", b"", b"1.5", b"\xc2\xb2"])
def test_a_strange_retry_count_is_none(count: bytes) -> None:
    assert read([(b"x-stainless-retry-count", count)]).retry_count == 0


@pytest.mark.xfail(strict=True, raises=ValueError, reason="int() refuses more than 4300 digits and nobody catches it")
def test_a_long_retry_count_is_no_failure() -> None:
    read([(b"x-stainless-retry-count", b"1" * 5000)])


@given(
    st.lists(
        st.sampled_from(
            (
                b"a",
                b"POST",
                b" ",
                b"/",
                b"HTTP/1.1",
                b"\r\n",
                b":",
                b"Host",
                b"\x00",
                b"\xff",
                b"Content-Length",
                b"1",
                b"Connection",
                b"TE",
            )
        )
    ).map(b"".join)
)
def test_any_bytes_are_a_head_or_a_refusal(raw: bytes) -> None:
    for head in (raw, b"POST / HTTP/1.1\r\nHost: a\r\n" + raw):
        try:
            read_head(head, STRANGER, NAMES)
        except Refusal:
            pass
        read_answer(head, expose_pool=True)
        read_answer(b"HTTP/1.1 200 " + raw, expose_pool=False)


# Answers.


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
    st.integers(100, 999), st.sampled_from(("", " ", " OK", " Site is överladen")), OTHERS, FRAMING, st.integers(0, 7)
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


@pytest.mark.xfail(strict=True, reason="only three digits are looked at")
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
