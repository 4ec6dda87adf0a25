"""What ingresses and frontends say of themselves is read, or is unknown."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_ingress.validate.evidence import RouterListing, Unknown, View
from global_ingress.validate.views import cancellations, counted, read_routers, read_view

STATUS = json.dumps({"version": "1.2", "started_at": "2026-01-01T00:00:00Z", "more": 1}).encode()
FRONTEND = {"url": "http://a:1", "state": "usable", "why": "gets requests", "in_flight": 2, "probe": {"failures": 0}}
POOL = {"cluster": "c", "namespace": "n", "name": "p", "routable": False, "why": "drained", "frontends": [FRONTEND]}
POOLS = json.dumps({"pools": [POOL]}).encode()


def test_a_view_is_read() -> None:
    seen = read_view(STATUS, POOLS)
    assert isinstance(seen, View)
    assert (seen.version, seen.started) == ("1.2", "2026-01-01T00:00:00Z")
    [one] = seen.frontends
    assert (one.pool, one.url, one.probed, one.in_flight, one.pool_why) == ("c/n/p", "http://a:1", True, 2, "drained")


@pytest.mark.parametrize(("status", "pools"), [(b"", POOLS), (STATUS, b"[]"), (STATUS, b"\xff"), (b"{}", POOLS)])
def test_what_is_no_view_is_unknown(status: bytes, pools: bytes) -> None:
    assert isinstance(read_view(status, pools), Unknown)


@given(st.binary(max_size=100))
def test_any_bytes_are_routers_or_unknown(body: bytes) -> None:
    assert isinstance(read_routers(200, body), RouterListing | Unknown)
    assert isinstance(read_routers(503, body), Unknown)


def test_counters_are_summed_over_their_labels() -> None:
    text = '# TYPE a counter\na{x="1 2"} 3\na{x="y"} 4.0\nab 9\n'
    assert counted("a", text) == 7.0
    assert counted("ab", text) == 9.0
    assert counted("b", text) is None
    assert counted("a", "a{} nonsense\n") is None


def test_a_frontend_that_has_not_counted_yet_counts_none_and_another_program_does_not_tell() -> None:
    assert cancellations('dynamo_frontend_model_cancellation_total{model="m"} 2\n') == 2.0
    assert cancellations("dynamo_frontend_inflight_requests 0\n") == 0.0
    assert cancellations("process_cpu_seconds_total 1\n") is None
