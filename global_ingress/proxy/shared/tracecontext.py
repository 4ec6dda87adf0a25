"""The W3C headers that carry a trace from hop to hop: read strictly, written in version 00. Pure.

A traceparent that cannot be read is none, and its tracestate goes with it: the trace begins anew here, as the
specification says.
"""

from __future__ import annotations

import re
from typing import NamedTuple

SAMPLED = 0x01
RANDOM = 0x02  # the trace id is chance, as whoever began it says
_KEPT = SAMPLED | RANDOM

_PARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[ -~]*)?\Z")
_NO_TRACE, _NO_SPAN = b"0" * 32, b"0" * 16


class Context(NamedTuple):
    """Whose child a request is: lower-case hex digits, and the flags that are known."""

    trace_id: str
    span_id: str
    flags: int


def read_traceparent(value: bytes) -> Context | None:
    """What the header says; None when it is no valid one. Two of them, joined by a comma, are none."""
    found = _PARENT.match(value)
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == b"ff" or (version == b"00" and more is not None) or trace_id == _NO_TRACE or span_id == _NO_SPAN:
        return None
    return Context(trace_id.decode(), span_id.decode(), int(flags, 16) & _KEPT)


def context_lines(context: Context, state: bytes) -> bytes:
    """Header lines for the next hop, each with CRLF before it."""
    line = f"\r\ntraceparent: 00-{context.trace_id}-{context.span_id}-{context.flags:02x}".encode()
    return line + b"\r\ntracestate: " + state if state else line
