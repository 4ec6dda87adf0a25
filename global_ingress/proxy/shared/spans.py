"""A span as a worker tells it to the supervisor, which exports it, and the envelope of many. Pure values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

Value = str | int | float | bool
RESULTS = ("exported", "failed", "dropped")  # what can become of a span


class Span(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Ids in lower-case hex, "" without a parent; `remote`: the parent is the caller's span. Times are nanoseconds
    since the epoch. `failed`: the span's status is an error."""

    trace_id: str
    span_id: str
    parent_id: str
    remote: bool
    state: str
    flags: int
    kind: Literal["server", "client"]
    name: str
    start: int
    end: int
    attributes: dict[str, Value]
    failed: bool
    events: tuple[tuple[str, int], ...] = ()


class Batch(NamedTuple):
    """`size` spans, encoded, and how many before them were dropped for want of room."""

    size: int
    dropped: int
    spans: bytes


_encode = msgspec.msgpack.Encoder().encode
decode_spans = msgspec.msgpack.Decoder(list[Span]).decode


def pack(spans: Sequence[Span], dropped: int) -> bytes:
    """The message of these spans; how many they are can be read without decoding them."""
    return len(spans).to_bytes(4, "big") + dropped.to_bytes(8, "big") + _encode(spans)


def unpack(payload: bytes) -> Batch:
    return Batch(int.from_bytes(payload[:4], "big"), int.from_bytes(payload[4:12], "big"), payload[12:])
