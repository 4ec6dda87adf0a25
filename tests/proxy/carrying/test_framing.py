"""Where requests begin and end: the same for every cut, as h11 reads them, and the quick way is the slow one (I2)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from global_ingress.proxy.carrying.chunks import EXTENSION, TRAILERS, ChunkReader
from global_ingress.proxy.carrying.framing import Framer
from global_ingress.proxy.shared.errors import Refusal
from tests.proxy.cuts import PLACES, cut_at, every_cut
from tests.proxy.reading import BODY, HEADER, NAMES, PEER, Driver, read, read_with_h11

TOKEN = st.text("abcXYZ09-_!#$%&'*+.^`|~", min_size=1, max_size=6).filter(
    lambda name: name.lower() not in ("host", "expect", "upgrade", "te", "connection", "trailer")
)
VALUE = st.text('aB9 ,;:="/\\()<>é', max_size=8).map(lambda v: v.strip().encode("latin-1"))
PATHS = st.sampled_from((b"/v1/chat/completions", b"/v1/messages?a=b", b"/live", b"/v1/models/a%2Fb", b"/"))


def chunk(draw: st.DrawFn, piece: bytes) -> bytes:
    size = draw(st.sampled_from(("%x", "%X", "0%x"))) % len(piece)
    extension = draw(st.sampled_from((b"", b"", b";a", b";a=b", b';a="b c"')))
    return size.encode() + extension + b"\r\n" + piece + b"\r\n"


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """One well-formed request."""
    headers = [name.encode() + b": " + value for name, value in draw(st.lists(st.tuples(TOKEN, VALUE), max_size=4))]
    headers.append(draw(st.sampled_from((b"Host: a", b"host:a:80", b"HOST:  [::1]:8000 "))))
    method, body = draw(st.sampled_from(((b"POST", True), (b"POST", True), (b"GET", False)))), b""
    if method[1]:
        pieces = draw(st.lists(st.binary(min_size=1, max_size=20), max_size=4))
        if draw(st.booleans()):
            headers.append(b"Content-Length: %d" % len(b"".join(pieces)))
            body = b"".join(pieces)
        else:
            headers.append(b"Transfer-Encoding: chunked")
            trailers = draw(st.sampled_from((b"", b"", b"X-T: y\r\n", b"A: \r\nB: c\r\n")))
            body = b"".join(chunk(draw, piece) for piece in pieces) + b"0\r\n" + trailers + b"\r\n"
    line = b"%b %b HTTP/1.1" % (method[0], draw(PATHS))
    return b"\r\n".join([line, *draw(st.permutations(headers)), b"", b""]) + body


ROWS = st.lists(requests(), min_size=1, max_size=4)


@given(ROWS, PLACES)
def test_any_cut_gives_the_same_messages_and_h11_reads_them_too(rows: list[bytes], places: list[int]) -> None:
    data = b"".join(rows)
    reading = read(cut_at(data, places), routed=False)
    assert reading.refused is None
    assert reading.what() == read([data], routed=False).what() == read(rows, routed=False, quick=False).what()
    theirs, refused = read_with_h11(data)
    assert not refused
    assert [(m.head.method, m.head.target, m.body) for m in reading.messages] == [
        (t.method, t.target, t.body) for t in theirs
    ]
    for message, their in zip(reading.messages, theirs, strict=True):
        passed = {line.partition(b":")[0].lower() for line in message.head.forward.split(b"\r\n")[1:]}
        assert {name for name, _ in their.headers} - passed <= {b"host", b"content-length", b"transfer-encoding"}


ONE = (
    b"POST /v1/chat/completions?x HTTP/1.1\r\nHost: a\r\nX-A: b\r\nContent-Length: 5\r\n\r\nhello",
    b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nT: u\r\n\r\n",
    b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\nContent-Length: 2\r\n\r\n{}",
    b"POST /v1/messages HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}",
    b"\r\n\r\nPOST /v1/messages HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
)


@pytest.mark.parametrize("raw", ONE)
def test_every_cut_gives_the_same_message(raw: bytes) -> None:
    want = read([raw]).what()
    assert len(read([raw]).messages) == 1
    assert all(read(pieces).what() == want for pieces in every_cut(raw))


def test_a_pipelined_row_is_read_one_by_one_for_every_cut() -> None:
    data = ONE[0] + ONE[1] + ONE[0] + b"\r\n" + ONE[2] + ONE[0]
    want = read([data]).what()
    assert [message.body for message in read([data]).messages] == [b"hello", b"hello", b"hello", b"{}", b"hello"]
    assert all(read(pieces).what() == want for pieces in every_cut(data))


def test_what_follows_a_message_is_not_part_of_it() -> None:
    for raw in ONE[:3]:
        framer = Framer()
        assert framer.read_head(raw + b"rest", PEER, NAMES, HEADER)
        assert framer.read_body(b"", BODY)
        assert framer.rest() == b"rest"
        assert framer.empty()


# The quick way.

SAME = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nx-session-id: s\r\ncontent-length: %d\r\nX-Z: 1\r\n\r\n%b"


def same(body: bytes) -> bytes:
    return SAME % (len(body), body)


def test_the_quick_way_is_taken_for_a_request_that_repeats() -> None:
    driver = Driver()
    for body in (b"{}", b"x" * 12345, b"", b"{}"):
        driver.feed(same(body))
    assert (driver.quick_taken, driver.refused) == (3, None)
    assert [len(message.body) for message in driver.messages] == [2, 12345, 0, 2]


MUTATIONS = st.lists(
    st.tuples(
        st.integers(0, 400),
        st.sampled_from(("change", "insert", "delete", "double")),
        st.one_of(
            st.sampled_from(
                (b"\r", b"\n", b"\r\n", b" ", b"\t", b"0", b"9", b"-", b"+", b":", b"\x00", b"\xff", b"\r\n\r\n")
            ),
            st.sampled_from(
                (b"Content-Length: 2\r\n", b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n", b"GET / ")
            ),
            st.binary(min_size=1, max_size=3),
        ),
    ),
    max_size=3,
)
Edits = list[tuple[int, str, bytes]]


def mutated(raw: bytes, edits: Edits) -> bytes:
    for place, kind, what in edits:
        at = place % (len(raw) + 1)
        if kind == "change":
            raw = raw[:at] + what + raw[at + len(what) :]
        elif kind == "insert":
            raw = raw[:at] + what + raw[at:]
        elif kind == "delete":
            raw = raw[:at] + raw[at + len(what) :]
        else:
            raw = raw[:at] + raw[at : at + 12] + raw[at:]
    return raw


@settings(max_examples=400)
@given(st.lists(st.tuples(st.binary(max_size=12), MUTATIONS), min_size=1, max_size=4), st.booleans())
def test_the_quick_way_reads_what_a_fresh_framer_reads(rows: list[tuple[bytes, Edits]], routed: bool) -> None:
    """Reads that each hold one request, more or less, after one that is remembered."""
    pieces = [same(b"{}"), *(mutated(same(body), edits) for body, edits in rows)]
    quick, slow = read(pieces, routed=routed), read(pieces, routed=routed, quick=False)
    assert quick.what() == slow.what()


def test_every_changed_byte_of_a_repeated_request_is_seen() -> None:
    raw = same(b"abcd")
    for at in range(len(raw)):
        for byte in b"\r\n :0Z\x00":
            changed = raw[:at] + bytes((byte,)) + raw[at + 1 :]
            assert read([raw, changed]).what() == read([raw, changed], quick=False).what(), changed


@pytest.mark.parametrize(
    "first",
    [
        b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nx-request-id: r\r\nContent-Length: 2\r\n\r\n{}",
        b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
        b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"GET /live HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
def test_what_is_of_one_request_is_not_repeated(first: bytes) -> None:
    driver = Driver(routed=False)
    for _ in range(2):
        driver.feed(first)
    assert (len(driver.messages), driver.quick_taken) == (2, 0)


def test_the_quick_way_keeps_the_limit_of_bodies() -> None:
    assert read([same(b"{}"), same(b"x" * 99)], body=50).refused == "request_too_large"
    assert read([same(b"{}"), SAME.replace(b"%d", b"9" * 16) % b"{}"]).refused == "bad_request"


def test_other_affinity_names_are_not_those_of_the_head_that_was_read() -> None:
    framer = Framer()
    assert framer.read_head(same(b""), PEER, NAMES, HEADER)
    framer.read_body(b"", BODY)
    framer.rest()
    assert framer.repeated(same(b""), NAMES, BODY)
    framer.rest()
    assert not framer.repeated(same(b""), frozenset({b"other"}), BODY)
    framer.forget()
    assert not framer.repeated(same(b""), NAMES, BODY)


def test_a_request_that_offers_an_upgrade_may_be_repeated() -> None:
    assert len(read([ONE[2], ONE[2], ONE[2]]).messages) == 3


# Limits.


def with_head_of(size: int) -> bytes:
    start, end = b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nX: ", b"\r\n\r\n{}"
    return start + b"x" * (size - len(start) - len(end) + 2) + end


def test_a_head_may_be_as_long_as_its_limit_and_no_longer() -> None:
    fits, over = with_head_of(HEADER), with_head_of(HEADER + 1)
    for size in (1000, 4096, HEADER - 1, HEADER, HEADER + 1, len(over)):
        for raw, want in ((fits, (1, None)), (over, (0, "headers_too_large"))):
            reading = read([raw[n : n + size] for n in range(0, len(raw), size)])
            assert (len(reading.messages), reading.refused) == want


def test_an_endless_head_is_refused_at_its_limit() -> None:
    driver = Driver()
    fed = 0
    while driver.refused is None and fed < 10 * HEADER:
        driver.feed(b"POST /v1/messages HTTP/1.1\r\nX: " if not fed else b"x" * 1000)
        fed += 1000
    assert driver.refused == "headers_too_large"
    assert fed <= HEADER + 2000


def test_a_large_body_in_many_pieces_is_whole() -> None:
    body = bytes(range(256)) * 1000
    raw = b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    [message] = read([raw[n : n + 7000] for n in range(0, len(raw), 7000)]).messages
    assert message.body == body


def test_whether_the_body_has_begun_to_come() -> None:
    head = b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
    for raw, want in ((head % 2, False), (head % 2 + b"{", True), (head % 0, True)):
        framer = Framer()
        assert framer.read_head(raw, PEER, NAMES, HEADER)
        assert framer.arrived() is want


# Chunks alone.


def decode(pieces: list[bytes], limit: int = BODY) -> tuple[bytes, int, bool] | str:
    reader, used = ChunkReader(limit), 0
    try:
        for piece in pieces:
            used += reader.take(piece)
    except Refusal as refusal:
        return refusal.fault.code
    return bytes(reader.body), used, reader.done


@given(st.data(), st.lists(st.binary(min_size=1, max_size=30), max_size=5), st.binary(max_size=9), PLACES)
def test_chunks_are_decoded_for_any_cut_and_no_byte_past_their_end_is_taken(
    data: st.DataObject, pieces: list[bytes], after: bytes, places: list[int]
) -> None:
    raw = b"".join(data.draw(st.composite(chunk)(piece)) for piece in pieces) + b"0\r\n\r\n"
    assert decode(cut_at(raw + after, places)) == (b"".join(pieces), len(raw), True)
    for cut in (raw[:-1], raw[:-3]):
        found = decode([cut])
        assert isinstance(found, tuple)
        assert found[1:] == (len(cut), False)


@given(
    st.lists(
        st.sampled_from((b"\r\n", b"\r", b"\n", b"0", b"1", b"2", b"ab", b";", b" ", b"x", b"g", b"\r\n\r\n"))
    ).map(b"".join)
)
def test_any_cut_of_any_bytes_gives_the_same_verdict(raw: bytes) -> None:
    want = decode([raw])
    assert all(decode(pieces) == want for pieces in every_cut(raw) if pieces != [b""])


def test_what_is_read_over_is_bounded() -> None:
    assert decode([b"1;" + b"e" * (EXTENSION - 1) + b"\r\nx\r\n0\r\n\r\n"]) == (b"x", EXTENSION + 11, True)
    assert decode([b"1;" + b"e" * (EXTENSION + 9)]) == BAD
    line = b"T: " + b"t" * 995 + b"\r\n"
    assert decode([b"0\r\n", *[line] * (TRAILERS // 1000), b"\r\n"]) == (b"", 3 + 1000 * (TRAILERS // 1000) + 2, True)
    assert decode([b"0\r\n", *[line] * (TRAILERS // 1000 + 1)]) == BAD
    assert decode([b"0\r\n", *[b"t"] * (TRAILERS + 1)]) == BAD


BAD = "bad_request"


def test_the_limit_is_known_before_the_bytes_come() -> None:
    assert decode([b"a\r\n"], limit=9) == "request_too_large"
    assert decode([b"5\r\nhello\r\n5\r\n"], limit=9) == "request_too_large"
    assert decode([b"5\r\nhello\r\n4\r\n"], limit=9) == (b"hello", 13, False)
