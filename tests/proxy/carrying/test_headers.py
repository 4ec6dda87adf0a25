"""What of a request's head goes on to a frontend (I2, I12): nothing hop by hop, all else as it came."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from global_ingress.proxy.carrying.headers import HOP, HOP_BY_HOP, Head, Peer, read_answer, read_head
from global_ingress.proxy.shared.errors import Refusal
from tests.proxy.heads import (
    FRIEND,
    NAMES,
    STRANGER,
    Field,
    Mixed,
    forwarded,
    head_of,
    mixed,
    pairs_of,
    read,
    without_ours,
)


@given(mixed())
def test_no_hop_by_hop_name_passes_to_a_frontend_and_everything_else_does(given: Mixed) -> None:
    head = read(given.pairs)
    assert without_ours(forwarded(head)) == without_ours(given.passing)
    assert not {name.lower() for name, _ in forwarded(head)} & (HOP_BY_HOP | {b"host", b"content-length", b"expect"})


@given(mixed(), st.sampled_from((STRANGER, FRIEND)))
def test_reading_what_goes_on_again_changes_nothing_more(given: Mixed, peer: Peer) -> None:
    once = read(given.pairs, peer)
    again = read_head(once.begin + b"frontend:8000" + once.forward, FRIEND, NAMES)
    assert without_ours(forwarded(again)) == without_ours(forwarded(once))
    assert again.looped, "a loop is seen"
    assert again.affinity == once.affinity
    assert (again.method, again.target, again.chunked, again.expects) == (once.method, once.target, False, False)


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
    assert (head.affinity, head.patience, head.expects) == ({b"x-session-id": b"s 1"}, 600.0, True)
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
