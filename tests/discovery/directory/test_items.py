"""Items of the registration table."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery.directory.items import (
    WEEK_S,
    MalformedItem,
    decode_item,
    encode_item,
    read_all,
    size_of,
)
from discovery.directory.registrations import Held, Registration
from discovery.identity import PoolKey
from discovery.lease import Lease
from discovery.pool import Frontend, Pod, Relay

TEXTS = st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=1, max_size=20)
FRONTENDS = st.builds(
    Frontend,
    TEXTS,
    st.tuples(TEXTS) | st.just(()),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.none() | st.builds(Pod, TEXTS, TEXTS),
    st.none() | TEXTS,
)
HELD = st.builds(
    Held,
    st.builds(
        Registration,
        st.builds(PoolKey, TEXTS, TEXTS, TEXTS),
        TEXTS,
        st.builds(Relay, TEXTS, TEXTS),
        st.lists(FRONTENDS, max_size=3).map(tuple),
        st.integers(0, 2**53 - 1),
    ),
    st.builds(Lease, st.integers(0, 10**14), st.integers(1, 86_400_000)),
)
ONE = Held(Registration(PoolKey("c", "n", "p"), "r", Relay("i", "http://u")), Lease(1_000_000, 15_000))


@given(HELD)
def test_what_is_written_is_read(held: Held) -> None:
    item = encode_item(held)
    assert decode_item(item) == held
    assert int(item["expires_at"]["N"]) * 1000 > held.lease.expires_ms
    assert int(item["expires_at"]["N"]) == held.lease.renewed_ms // 1000 + WEEK_S
    assert all(isinstance(value, str) for one in item.values() for value in one.values())
    assert size_of(item) > 300


def test_attributes_of_newer_replicas_are_accepted() -> None:
    item = encode_item(ONE) | {"colour": {"S": "red"}}
    item["registration"]["S"] = item["registration"]["S"][:-1] + ',"more":[1]}'
    assert decode_item(item) == ONE


@given(
    st.sampled_from(sorted(encode_item(ONE))),
    st.none() | st.integers() | st.dictionaries(st.sampled_from(["S", "N", "B"]), st.text() | st.integers()),
)
def test_any_item_is_read_or_malformed(name: str, value: Any) -> None:
    item: dict[str, Any] = encode_item(ONE) | {name: value}
    with contextlib.suppress(MalformedItem):
        assert decode_item(item).lease.duration_ms > 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sk", {"S": "other"}),
        ("cluster", {"S": ""}),
        ("region", {"S": ""}),
        ("registration", {"S": "[" * 100_000}),
        ("lease_ms", {"N": "0"}),
        ("lease_ms", {"N": "86400001"}),
        ("renewed_at_ms", {"N": "-1"}),
        ("incarnation", {"N": "1e3"}),
    ],
)
def test_malformed_items(name: str, value: dict[str, str]) -> None:
    with pytest.raises(MalformedItem):
        decode_item(encode_item(ONE) | {name: value})


def test_a_malformed_item_counts_while_its_lease_may_be_live() -> None:
    bad = encode_item(ONE) | {"registration": {"S": "{"}}
    worse = {"pk": {"S": "POOLS"}, "sk": {"S": "x"}}
    before = {ONE.registration.key: ONE}
    found = read_all([encode_item(ONE), bad, worse], now_ms=ONE.lease.expires_ms - 1, before=before)
    assert found.held == before
    assert found.held[ONE.registration.key].registration is ONE.registration
    assert len(found.malformed) == 2
    assert len(read_all([bad, worse], now_ms=ONE.lease.expires_ms, before={}).malformed) == 1
