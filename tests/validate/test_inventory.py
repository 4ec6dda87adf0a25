"""Stable means complete, equal n times, and equal everywhere; unknown stays unknown."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery.identity import PoolKey, pool_id
from global_ingress.validate.evidence import Listed, Listing, Reading, Unknown
from global_ingress.validate.inventory import differences, read_listing, stable, unsettled
from tests.validate.evidences import pools, readings, task

FULL = Listing(True, pools(4))


def body(**changes: object) -> bytes:
    frontends = [{"url": "http://b:1", "ready": True}, {"url": "http://a:1"}, {"url": "http://c:1", "ready": False}]
    key = {"cluster": "ohio", "namespace": "dynamo", "name": "llama"}
    pool = {"id": pool_id(PoolKey(**key)), **key, "region": "r", "frontends": frontends}
    return json.dumps({"complete": True, "epoch": "e", "revision": 3, "pools": [pool | changes]}).encode()


def test_a_list_is_read_with_its_usable_frontends() -> None:
    listed = Listed("ohio/dynamo/llama", "r", ("http://a:1", "http://b:1"))
    assert read_listing(200, body()) == (Listing(True, (listed,)), "e")
    stale, _ = read_listing(200, body(stale_since="2026-01-01T00:00:00Z"))
    assert isinstance(stale, Listing)
    assert stale.pools[0].stale_since == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize("found", [(503, body()), (200, b""), (200, b"{}"), (200, body(cluster=3)), (200, b"\xff")])
def test_what_is_no_list_is_unknown(found: tuple[int, bytes]) -> None:
    assert isinstance(read_listing(*found)[0], Unknown)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_listing_or_unknown(found: bytes) -> None:
    assert isinstance(read_listing(200, found)[0], Listing | Unknown)


def test_equal_complete_readings_are_stable() -> None:
    assert stable(task(), readings(task(), FULL)) == FULL.pools


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda r: r[:-1], "tokyo: 2 of 3 readings"),
        (lambda r: (*r[:-1], replace(r[-1], seen=Unknown("refused"))), "tokyo: unknown (refused)"),
        (lambda r: (*r[:-1], replace(r[-1], seen=replace(FULL, complete=False))), "tokyo: its list is incomplete"),
        (lambda r: (*r[:-1], replace(r[-1], seen=Listing(True, FULL.pools[1:]))), "tokyo: its list still changes"),
        (
            lambda r: tuple(replace(x, seen=Listing(True, FULL.pools[1:])) if x.discovery == "tokyo" else x for x in r),
            "tokyo lists other than ohio: ireland/dynamo/llama is missing",
        ),
        (lambda r: tuple(replace(x, seen=Listing(True, ())) for x in r), "no pool is listed"),
    ],
)
def test_what_is_not_stable_says_why(spoil, why: str) -> None:  # type: ignore[no-untyped-def]
    found: tuple[Reading, ...] = spoil(readings(task(), FULL))
    assert unsettled(task(), found) == why
    assert stable(task(), found) is None


def test_another_number_than_expected_is_not_stable() -> None:
    assert unsettled(replace(task(), expect_pools=5), readings(task(), FULL)) == "4 pools are listed, 5 expected"


def test_an_early_trouble_is_forgotten_after_n_equal_readings() -> None:
    before = [Reading(name, Unknown("starting"), 1.0, 0.0) for name, _ in task().discoveries]
    assert stable(task(), (*before, *readings(task(), FULL))) == FULL.pools


def test_differences_name_pool_and_address() -> None:
    old = replace(FULL.pools[0], frontends=("http://10.9.9.9:8000",), region="elsewhere")
    said = differences(FULL, Listing(True, (old, *FULL.pools[2:])))
    assert said == (
        "ireland/dynamo/llama has http://10.9.9.9:8000, which the others do not list and lacks http://10.0.0.2:8000 "
        "and is in region elsewhere, elsewhere region-2",
        "ohio/dynamo/llama is missing",
    )
