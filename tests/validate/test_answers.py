"""Reading bodies: what is complete has no faults; what lacks something says what."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_ingress.validate.answers import read_body
from global_ingress.validate.evidence import KINDS, Kind

UNARY, SSE = Kind("chat", stream=False), Kind("chat", stream=True)
CHUNKS: list[dict[str, object]] = [
    {"choices": [{"index": 0, "delta": {"content": " r0w1", "role": "assistant"}, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {"content": " r0w2"}, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]},
]


def stream(chunks: list[dict[str, object]], end: str = "data: [DONE]\n\n") -> str:
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + end


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_a_whole_stream_has_no_faults(line_end: str) -> None:
    told = read_body(SSE, stream(CHUNKS).replace("\n", line_end).encode())
    assert (told.text, told.finish, told.faults) == (" r0w1 r0w2", ("length",), ())


def test_comments_and_usage_are_no_faults() -> None:
    body = ": ping\n\n" + stream([*CHUNKS, {"choices": [], "usage": {"total_tokens": 3}}])
    assert read_body(SSE, body.encode()).faults == ()


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (stream(CHUNKS, ""), "no [DONE] at the end"),
        (stream(CHUNKS, "data: [DONE]\n"), "it ends inside an event: 'data: [DONE]'"),
        (stream(CHUNKS) + "data: {}\n\n", "an event after [DONE]: '{}'"),
        (stream(CHUNKS[:2]), "no finish_reason"),
        (stream(CHUNKS[2:]), "no text"),
        (
            stream([*CHUNKS, {"error": {"message": "away", "code": 503}}]),
            "an error event: {'message': 'away', 'code': 503}",
        ),
        ("event: error\ndata: {}\n\n" + stream(CHUNKS), "an error event: {}"),
        ("data: nonsense\n\n" + stream(CHUNKS), "an event that is no JSON object: 'nonsense'"),
        (stream([])[:-1] + "\n", "no text"),
        ("", "no [DONE] at the end"),
    ],
)
def test_what_a_stream_lacks_is_named(body: str, fault: str) -> None:
    assert fault in read_body(SSE, body.encode()).faults


def unary(**changes: object) -> bytes:
    choice = {"index": 0, "message": {"content": " r0w1", "role": "assistant"}, "finish_reason": "length"}
    return json.dumps({"object": "chat.completion", "choices": [choice]} | changes).encode()


def test_a_whole_unary_body_has_no_faults() -> None:
    assert read_body(UNARY, unary()).faults == ()


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (unary()[:-1], "no JSON object"),
        (b"[]", "no JSON object"),
        (unary(choices=[]), "no text"),
        (unary(choices=[{"message": {"content": "x"}}]), "no finish_reason"),
        (unary(object="chat.completion.chunk"), "object is 'chat.completion.chunk'"),
        (unary(error={"message": "x"}), "an error in a 200 answer"),
        (b"\xff", "not UTF-8 at byte 0"),
    ],
)
def test_what_a_unary_body_lacks_is_named(body: bytes, fault: str) -> None:
    assert any(found.startswith(fault) for found in read_body(UNARY, body).faults)


@given(st.sampled_from(KINDS), st.binary(max_size=300))
def test_any_bytes_are_told(kind: Kind, body: bytes) -> None:
    assert read_body(kind, body).faults


@given(st.integers(0, len(stream(CHUNKS).encode()) - 1))
def test_no_part_of_a_stream_passes_for_the_whole(cut: int) -> None:
    assert read_body(SSE, stream(CHUNKS).encode()[:cut]).faults


@given(st.integers(0, len(unary()) - 1))
def test_no_part_of_a_unary_body_passes_for_the_whole(cut: int) -> None:
    assert read_body(UNARY, unary()[:cut]).faults
