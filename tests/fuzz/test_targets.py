"""The targets hold for what hypothesis makes, so that they are right before they are fuzzed for long."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS

PIECES = (
    b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 14\r\n\r\n",
    b'{"model": "a"}',
    b"GET /v1/models HTTP/1.0\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n",
    b'data: {"error": {"message": "m", "code": 503}}\n\n',
    b'data: {"usage": {"prompt_tokens": 1, "completion_tokens": 2}}\r\n\r\n',
    b"event: error\r",
    b"data: [DONE]\n\n",
    b"discovery:\n  urls: [http://a:1]\n",
    b'{"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "metadata": {"name": "a"}}',
    b'{"complete": true, "epoch": "e", "revision": 1, "pools": []}',
    b'{"type": "reset", "epoch": "e", "revision": 1, "complete": true}',
    b"\r\n",
    b"\n",
    b":",
)
texts = st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=8)), max_size=6).map(b"".join)


@pytest.mark.parametrize("name", TARGETS)
@given(texts)
@example(b"")
@example(b"".join(PIECES))
def test_it_takes_any_bytes(name: str, data: bytes) -> None:
    TARGETS[name](data)
