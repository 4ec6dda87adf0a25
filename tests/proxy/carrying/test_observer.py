"""The observer sees error, done and usage for any line end and any cut, and its memory is bounded (I42)."""

from __future__ import annotations

import re
from inspect import isdatadescriptor
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_ingress.proxy.carrying.eventdata import read_error, read_usage
from global_ingress.proxy.carrying.observer import CARRY, Observer
from tests.proxy.cuts import PLACES, cut_at, every_cut, every_two_cuts

EOLS = (b"\n", b"\r\n", b"\r")
_END = re.compile(rb"\r\n|\r|\n")


class Seen(NamedTuple):
    """What a stream says about itself."""

    some: bool
    done: bool
    error: str | None
    error_first: bool
    usage: tuple[int, int] | None


def observe(pieces: list[bytes]) -> tuple[Seen, Observer]:
    observer = Observer()
    for piece in pieces:
        observer.feed(piece)
    observer.end()
    error = None if observer.error is None else observer.error.message
    return Seen(observer.events > 0, observer.done, error, observer.error_first, observer.usage()), observer


def stands_between(data: bytes) -> bool:
    """Whether these bytes end between two events, read the plain way."""
    *lines, tail = _END.split(data)
    return tail == b"" and (not lines or lines[-1] == b"")


def read_plainly(data: bytes) -> Seen:
    """All of it at once, line by line."""
    blocks: list[list[bytes]] = [[]]
    for line in _END.split(data):
        if line:
            blocks[-1].append(line)
        elif blocks[-1]:
            blocks.append([])
    events = 0
    done, error, first, usage = False, None, False, None
    for block in blocks:
        parts = [line[5:].removeprefix(b" ") for line in block if line.startswith(b"data:")]
        names = [line[6:].strip() for line in block if line.startswith(b"event:")]
        content, name = b"\n".join(parts), names[-1] if names else b""
        if not content and not name:
            continue
        events += 1
        if content.strip() == b"[DONE]":
            done = True
            continue
        usage = read_usage(content) or usage
        found = read_error(name, content)
        if found is not None and error is None:
            error, first = found.message, events == 1
    return Seen(events > 0, done, error, first, usage)


class Event(NamedTuple):
    lines: tuple[bytes, ...]
    is_event: bool = True
    error: str | None = None
    done: bool = False
    usage: tuple[int, int] | None = None


KINDS = (
    Event((b'data: {"choices":[{"delta":{"content":"a"}}],"usage":null}',)),
    Event((b'data:{"choices":[{"delta":{"content":"\xe5\xa5\xbd \\"usage\\" [DONE] error"}}]}',)),
    Event((b"id: 7", b"retry: 10", b"event: message", b"data: {", b'data: "a":1}')),
    Event((b": ping",), is_event=False),
    Event((b": error", b": [DONE]"), is_event=False),
    Event((b'data: {"error":{"message":"boom","type":"t","code":503}}',), error="boom"),
    Event((b"event: error", b": boom"), error="the stream reported an error"),
    Event((b"event:error", b'data: {"type":"error","error":{"message":"late"}}'), error="late"),
    Event(
        (b"event: response.failed", b'data: {"type":"response.failed","response":{"error":{"message":"f"}}}'), error="f"
    ),
    Event((b'data: {"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":34}}',), usage=(12, 34)),
    Event((b'data: {"x":1,"usage":', b'data: {"input_tokens":5,"output_tokens":6,"d":{"x":1}}}'), usage=(5, 6)),
    Event((b"data: [DONE]",), done=True),
    Event((b"data:[DONE]",), done=True),
)


def truth(events: list[Event]) -> Seen:
    real = [event for event in events if event.is_event]
    errors = [event.error for event in real if event.error is not None]
    usages = [event.usage for event in real if event.usage is not None]
    first = bool(real) and real[0].error is not None
    done = any(event.done for event in real)
    return Seen(bool(real), done, errors[0] if errors else None, first, usages[-1] if usages else None)


def written(events: list[Event], eol: bytes) -> bytes:
    return b"".join(b"".join(line + eol for line in event.lines) + eol for event in events)


STREAMS = st.lists(st.sampled_from(KINDS), max_size=7)


@given(STREAMS, st.sampled_from(EOLS), PLACES)
def test_it_finds_what_the_stream_says_for_any_cut(events: list[Event], eol: bytes, places: list[int]) -> None:
    data = written(events, eol)
    assert observe(cut_at(data, places))[0] == truth(events)
    assert read_plainly(data) == truth(events), "the plain reader of this test is right"


@pytest.mark.parametrize("eol", EOLS)
def test_every_cut_of_a_stream_with_all_kinds(eol: bytes) -> None:
    data = written(list(KINDS), eol)
    assert {observe(pieces)[0] for pieces in every_cut(data)} == {truth(list(KINDS))}


@pytest.mark.parametrize("eol", EOLS)
@pytest.mark.parametrize("event", [event for event in KINDS if event.error or event.done or event.usage])
def test_every_two_cuts_of_one_event(event: Event, eol: bytes) -> None:
    short = Event((b": c",), is_event=False)
    data = written([short, event], eol)
    assert all(observe(pieces)[0] == truth([event]) for pieces in every_two_cuts(data))


BURSTS = st.lists(st.one_of(st.just(KINDS[0]), st.just(KINDS[0]), st.sampled_from(KINDS)), min_size=6, max_size=20)


@pytest.mark.parametrize("eol", EOLS)
@pytest.mark.parametrize("event", KINDS)
@pytest.mark.parametrize("place", range(7))
def test_nothing_hides_in_a_read_of_many_events(event: Event, eol: bytes, place: int) -> None:
    events = [KINDS[0]] * 6
    events.insert(place, event)
    observer = Observer()
    observer.feed_all([written([one], eol) for one in events])
    assert observer.between
    error = None if observer.error is None else observer.error.message
    seen = Seen(observer.events > 0, observer.done, error, observer.error_first, observer.usage())
    assert seen == truth(events)


@given(BURSTS, st.sampled_from(EOLS), st.lists(st.integers(4, 30), min_size=1, max_size=8), PLACES)
def test_a_read_of_many_pieces_is_seen_as_they_are_one_by_one(
    events: list[Event], eol: bytes, reads: list[int], places: list[int]
) -> None:
    """Most pieces are an event each, as frontends write them; some are cut elsewhere too."""
    data = written(events, eol)
    ends = [len(written(events[: n + 1], eol)) for n in range(len(events))]
    pieces = cut_at(data, ends + [place for place in places if place % 3 == 0])
    observer, single = Observer(), Observer()
    at = 0
    for count in reads * len(pieces):
        read = pieces[at : at + count]
        at += count
        observer.feed_all(read)
        for piece in read:
            single.feed(piece)
        assert observer.between == single.between == stands_between(b"".join(pieces[:at]))
    observer.end()
    error = None if observer.error is None else observer.error.message
    seen = Seen(observer.events > 0, observer.done, error, observer.error_first, observer.usage())
    assert seen == truth(events)


@given(STREAMS, st.sampled_from(KINDS), st.sampled_from(EOLS), st.booleans(), PLACES)
def test_a_last_event_without_a_blank_line_counts(
    events: list[Event], last: Event, eol: bytes, line_ended: bool, places: list[int]
) -> None:
    data = written(events, eol) + eol.join(last.lines) + (eol if line_ended else b"")
    assert observe(cut_at(data, places))[0] == truth([*events, last])


TEXT = st.lists(
    st.sampled_from(
        (
            *(b"\r", b"\n", b"\n\n", b"\r\n\r\n", b"data:", b"data: ", b"event: error", b":", b"[DONE]", b"x", b"\xff"),
            *(b'{"error":"x"}', b'{"usage":{"prompt_tokens":1}}', b'data: {"a":1}\n\n'),
        )
    ),
    max_size=14,
).map(b"".join)


@given(TEXT, PLACES)
def test_any_bytes_are_read_as_the_plain_reader_reads_them(data: bytes, places: list[int]) -> None:
    assert observe(cut_at(data, places))[0] == read_plainly(data)


def test_an_empty_event_is_none_for_every_cut() -> None:
    assert [observe(pieces)[0].some for pieces in every_cut(b"data:\n\n")] == [False] * 8


@given(TEXT, PLACES)
def test_between_is_right_after_every_piece(data: bytes, places: list[int]) -> None:
    observer, so_far = Observer(), b""
    for piece in cut_at(data, places):
        observer.feed(piece)
        so_far += piece
        assert observer.between == stands_between(so_far), so_far


@pytest.mark.parametrize("eol", EOLS)
def test_between_is_right_at_every_byte(eol: bytes) -> None:
    data = written(list(KINDS), eol)
    for cut in range(len(data)):
        observer = Observer()
        if cut:
            observer.feed(data[:cut])
        assert observer.between == stands_between(data[:cut]), data[:cut]


def held(observer: Observer) -> int:
    """Bytes of text that the observer holds, whatever it calls them."""

    def size(value: object) -> int:
        if isinstance(value, bytes | bytearray | str):
            return len(value)
        if isinstance(value, list):
            return sum(map(size, value))
        return size(value.message) if value is not None and hasattr(value, "message") else 0

    return sum(size(getattr(observer, name)) for name, kind in vars(Observer).items() if isdatadescriptor(kind))


READ = 64 * 1024  # bytes of one read
ENDLESS = {
    "one line": b"x" * READ,
    "one data line": b"data: " + b"x" * (READ - 6),
    "data lines": b"data: y\n" * (READ // 8),
    "data lines of CR": b"data: y\r" * (READ // 8),
    "event lines": (b"event: " + b"e" * 1016 + b"\n") * (READ // 1024),
    "comments": (b": " + b"c" * 1021 + b"\n") * (READ // 1024),
    "blank lines": b"\n" * READ,
    "open usage": b'data: {"usage":{"prompt_tokens":1},"x":"' + b"y" * 1000,
}


@pytest.mark.parametrize("what", ENDLESS)
def test_memory_is_bounded_for_a_stream_without_end(what: str) -> None:
    observer = Observer()
    for _ in range(20):
        observer.feed(ENDLESS[what])
        assert held(observer) <= 2 * CARRY
    observer.end()


def test_an_outgrown_line_ends_the_observing_and_says_so() -> None:
    observer = Observer()
    observer.feed(b"data: " + b"x" * CARRY)
    assert (observer.lost, observer.between, held(observer)) == (True, False, 0)
    observer.feed(b"\n\ndata: [DONE]\n\n")
    observer.feed(b'data: {"a":1}\n\n')
    observer.end()
    assert (observer.done, observer.between, observer.error) == (False, False, None)


def test_an_event_as_large_as_may_be_is_still_seen() -> None:
    data = b'data: {"error":{"message":"' + b"m" * (CARRY - 100) + b'"}}\n\n'
    for size in (1024, 4096, len(data)):
        seen, observer = observe([data[n : n + size] for n in range(0, len(data), size)])
        assert (seen.error_first, observer.lost) == (True, False)


@given(st.lists(st.binary(max_size=400).map(lambda b: b * 100), max_size=8))
def test_memory_is_bounded_for_any_bytes(pieces: list[bytes]) -> None:
    observer = Observer()
    for piece in pieces:
        observer.feed(piece)
        assert held(observer) <= CARRY + len(piece)


@pytest.mark.parametrize("data", [b'{"usage":{"prompt_tokens":1},"x":"%b"}', b'{"error":{"message":"%b"}}'])
def test_one_huge_event_is_not_kept(data: bytes) -> None:
    observer = Observer()
    observer.feed(b"data: " + data.replace(b"%b", b"y" * (4 * CARRY)) + b"\n\n")
    assert held(observer) <= CARRY


def test_a_null_usage_after_the_real_one_does_not_hide_it() -> None:
    data = b'data: {"usage":{"prompt_tokens":3,"completion_tokens":4}}\n\ndata: {"usage": null}\n\n'
    assert observe([data])[0].usage == (3, 4)


def test_usage_inside_the_last_event_of_the_responses_api_is_seen() -> None:
    data = (
        b'event: response.completed\ndata: {"type":"response.completed","response":{"status":"completed","usage":'
        b'{"input_tokens":5,"output_tokens":6,"output_tokens_details":{"reasoning_tokens":0}}}}\n\n'
    )
    assert observe([data])[0].usage == (5, 6)


def test_tokens_of_the_messages_api_are_added_up_over_its_events() -> None:
    data = (
        b'event: message_start\ndata: {"type":"message_start","message":{"usage":'
        b'{"input_tokens":25,"output_tokens":1}}}\n\n'
        b'event: message_delta\ndata: {"type":"message_delta","usage":{"output_tokens":15}}\n\n'
    )
    assert observe([data])[0].usage == (25, 15)


@pytest.mark.parametrize(
    ("event", "data", "want"),
    [
        (b"", b'{"error":null}', None),
        (b"", b'{"choices":[{"text":"error"}]}', None),
        (b"", b'{"type":"response.completed"}', None),
        (b"", b'["error"]', None),
        (b"", b"error", None),
        (b"error", b"", ("the stream reported an error", "upstream_error", None)),
        (b"error", b"not json", ("the stream reported an error", "upstream_error", None)),
        (b"error", b'{"message":"m","type":"t","code":"429"}', ("m", "t", 429)),
        (b"", b'{"error":"words"}', ("words", "upstream_error", None)),
        (b"", b'{"error":{"message":"m","code":200}}', ("m", "upstream_error", None)),
        (b"", b'{"error":{"message":"m","code":true}}', ("m", "upstream_error", None)),
        (b"", b'{"error":{"message":"m","code":"4\xc2\xb22"}}', ("m", "upstream_error", None)),
        (b"", b'{"error":{"message":7,"type":[],"code":599}}', ("the stream reported an error", "upstream_error", 599)),
        (b"", b'{"type":"response.failed"}', ("the response failed", "upstream_error", None)),
        (b"", b'{"type":"response.failed","response":7}', ("the response failed", "upstream_error", None)),
    ],
)
def test_what_is_an_error(event: bytes, data: bytes, want: tuple[str, str, int | None] | None) -> None:
    found = read_error(event, data)
    assert (None if found is None else (found.message, found.type, found.code)) == want


@given(st.binary(max_size=60), st.binary(max_size=80))
def test_reading_an_event_never_fails(event: bytes, data: bytes) -> None:
    read_error(event, data)
    read_usage(data)
    read_usage(b'{"usage":' + data)


@pytest.mark.parametrize(
    ("data", "want"),
    [
        (b'{"usage":{"prompt_tokens":1,"completion_tokens":2}}', (1, 2)),
        (b'{"usage" : {"input_tokens":1}}', (1, 0)),
        (b'{"usage":{"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":1}}}', (0, 2)),
        (b'{"usage":{}}', None),
        (b'{"usage":null}', None),
        (b'{"usage":{"prompt_tokens":"1"}}', None),
        (b'tail of a body","usage":{"prompt_tokens":1}}', (1, 0)),
        (b'{"usage":{"prompt_tokens":1', None),
        (b"", None),
    ],
)
def test_usage(data: bytes, want: tuple[int, int] | None) -> None:
    assert read_usage(data) == want
