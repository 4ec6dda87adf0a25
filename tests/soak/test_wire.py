"""The clients of the soak see what is wrong with an answer; else a soak without failures says nothing."""

from __future__ import annotations

import asyncio

import pytest

from tests.soak import wire
from tests.soak.test_soak import excused
from tests.soak.wire import Wrong, mark, request

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
DONE = b"e\r\ndata: [DONE]\n\n\r\n"


def given(data: bytes) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return reader


def unary(body: bytes, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %b\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body)


def event(id: str, n: int) -> bytes:
    text = b'data: {"id":"%b","n":%d}\n\n' % (id.encode(), n)
    return b"%x\r\n%b\r\n" % (len(text), text)


async def test_a_right_answer_is_right() -> None:
    assert await wire.read_unary(given(unary(b'{"id":"a"}')), "a") == {"content-length": "10"}
    reader = given(HEAD + event("a", 0) + event("a", 1) + DONE + wire.END)
    await wire.open_stream(reader)
    await wire.read_rest(reader, "a", 0, 2)
    assert reader.at_eof()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (unary(b'{"id":"b"}'), "another request"),
        (unary(b"{}", b"502 Bad Gateway"), "502"),
        (unary(b'{"id":"a"}')[:-3], "cut"),
        (unary(b'{"id":"a"}')[:20], "in the head"),
    ],
)
async def test_a_wrong_unary_answer_is_wrong(data: bytes, words: str) -> None:
    with pytest.raises(Wrong, match=words):
        await wire.read_unary(given(data), "a")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (event("a", 0) + event("b", 1) + DONE + wire.END, "event 1 of a"),
        (event("a", 0) + event("a", 0) + DONE + wire.END, "event 1 of a"),
        (event("a", 0) + DONE + wire.END, "event 1 of a"),
        (event("a", 0) + event("a", 1) + wire.END, "instead of"),
        (event("a", 0) + event("a", 1) + DONE, "cut"),
        (event("a", 0) + event("a", 1)[:9], "cut"),
        (event("a", 0) + event("a", 1) + DONE + event("a", 2), "after"),
    ],
)
async def test_a_wrong_stream_is_wrong(data: bytes, words: str) -> None:
    reader = given(HEAD + data)
    await wire.open_stream(reader)
    with pytest.raises(Wrong, match=words):
        await wire.read_rest(reader, "a", 0, 2)


def test_only_what_a_killed_worker_had_accepted_is_excused() -> None:
    kills = [(10.0, {5000})]
    assert excused({"at": 10.5, "port": 5000}, kills)
    assert not excused({"at": 9.5, "port": 5000}, kills)
    assert not excused({"at": 10.5, "port": 5001}, kills)


def test_a_chunked_request_says_the_same_as_one_with_a_length() -> None:
    whole, pieces = (request(mark("a"), pad=100, chunked=chunked) for chunked in (False, True))
    body = whole.partition(b"\r\n\r\n")[2]
    half = len(body) // 2
    assert body[:half] in pieces
    assert body[half:] in pieces
