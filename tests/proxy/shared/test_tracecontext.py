"""The headers of W3C Trace Context: what is read is what was written, and whatever comes is read or is none."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_ingress.proxy.shared.tracecontext import Context, context_lines, read_traceparent

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def hexes(size: int) -> st.SearchStrategy[str]:
    return st.integers(1, 16**size - 1).map(lambda n: f"{n:0{size}x}")


@given(hexes(32), hexes(16), st.sampled_from([0, 1, 2, 3]))
def test_what_is_written_is_read(trace_id: str, span_id: str, flags: int) -> None:
    context = Context(trace_id, span_id, flags)
    line = context_lines(context, b"")
    assert line.startswith(b"\r\ntraceparent: ")
    assert read_traceparent(line.partition(b": ")[2]) == context
    assert context_lines(context, b"a=1").endswith(b"\r\ntracestate: a=1")


@given(st.one_of(st.binary(max_size=80), st.from_regex(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}.{0,3}")))
def test_anything_is_read_or_none(value: bytes) -> None:
    found = read_traceparent(value)
    if found is not None:
        assert re.fullmatch("[0-9a-f]{32}", found.trace_id)
        assert re.fullmatch("[0-9a-f]{16}", found.span_id)
        assert found.flags in (0, 1, 2, 3)
        assert b"," not in value[:55]


@pytest.mark.parametrize(
    ("value", "flags"),
    [
        (f"00-{TRACE}-{SPAN}-01", 1),
        (f"00-{TRACE}-{SPAN}-fe", 2),
        (f"01-{TRACE}-{SPAN}-01-more", 1),
        (f"01-{TRACE}-{SPAN}-01more", None),
        (f"00-{TRACE}-{SPAN}-01-more", None),
        (f"ff-{TRACE}-{SPAN}-01", None),
        (f"00-{'0' * 32}-{SPAN}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (f"00-{TRACE.upper()}-{SPAN}-01", None),
        (f"00-{TRACE}-{SPAN}-01, 00-{TRACE}-{SPAN}-01", None),
        (f"00-{TRACE}-{SPAN}-01\n", None),
        ("", None),
    ],
)
def test_examples(value: str, flags: int | None) -> None:
    assert read_traceparent(value.encode()) == (None if flags is None else Context(TRACE, SPAN, flags))
