"""Items of the registry's table: what is written is what is read, and what is not understood is left alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery.mcs.model import Endpoint, EndpointSet, ServiceKey
from discovery.mcs.store import ItemKey, Removed
from discovery.mcs.store_items import (
    COMPRESSED_ABOVE,
    LARGEST,
    TTL_ATTRIBUTE,
    WEEK_MS,
    Unreadable,
    cluster_of,
    decode_item,
    decode_record,
    encode_item,
    encode_record,
    key_of,
)
from tests.discovery.mcs.keeping import endpoints, export, gone, item, record

names = st.from_regex(r"[a-z]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
texts = st.text(max_size=20)
conditions = st.none() | st.booleans()
sets = st.builds(
    EndpointSet,
    names,
    st.builds(ServiceKey, names, names),
    names,
    st.sampled_from(["IPv4", "IPv6"]),
    st.just(()),
    st.lists(st.builds(Endpoint, st.tuples(texts), conditions, conditions, conditions, texts), max_size=5).map(tuple),
)


@given(sets, st.integers(1, 2**53), st.integers(1, 2**53))
def test_any_slice_comes_back(value: EndpointSet, incarnation: int, seq: int) -> None:
    written = item(value, seq, incarnation)
    assert decode_item(value.cluster, encode_item("set", written, 0)) == written


@given(names, names, names)
def test_places_never_collide(namespace: str, name: str, slice_: str) -> None:
    service = ServiceKey(namespace, name)
    places = [
        encode_item("set", item(value), 0)
        for value in (export(service=service), endpoints(service=service, slice_=slice_))
    ]
    assert places[0]["sk"] != places[1]["sk"]
    assert [key_of(place) for place in places] == [ItemKey(service), ItemKey(service, slice_)]


def test_an_export_comes_back_and_its_end_too() -> None:
    for written in (item(export()), gone(export(), 2), gone(endpoints(), 3)):
        assert decode_item("c1", encode_item("set", written, 5_000)) == written


def test_only_what_is_gone_may_be_collected() -> None:
    assert TTL_ATTRIBUTE not in encode_item("set", item(export()), 0)
    assert encode_item("set", gone(export(), 2), 9_000)[TTL_ATTRIBUTE] == {"N": str((9_000 + WEEK_MS) // 1000)}
    assert TTL_ATTRIBUTE not in encode_record("set", record())
    assert TTL_ATTRIBUTE in encode_record("set", record(removed=Removed.LEFT, removed_ms=9_000))


def test_large_slices_are_compressed_and_larger_ones_refused() -> None:
    large = item(endpoints(count=1_000, hostname="h" * 100))
    encoded = encode_item("set", large, 0)
    assert "value" not in encoded
    assert len(encoded["zlib"]["B"]) < COMPRESSED_ABOVE
    assert decode_item("c1", encoded) == large
    noise = "".join(chr(0x4E00 + (number * 7919) % 20_000) for number in range(200_000))
    with pytest.raises(ValueError, match=f"the store keeps {LARGEST}"):
        encode_item("set", item(endpoints(hostname=noise)), 0)


@pytest.mark.parametrize(
    "broken",
    [
        {"value": {"S": "{"}},
        {"value": {"S": '{"cluster":"c1"}'}},
        {"value": {"N": "1"}},
        {"inc": {"N": "x"}},
        {"sk": {"S": "Y#inference#llama"}},
        {"sk": {"S": "X#inference#another"}},
        {"zlib": {"B": b"x"}, "value": None},
        {"value": None},
    ],
)
def test_what_is_broken_is_named(broken: dict[str, Any]) -> None:
    encoded = encode_item("set", item(export()), 0) | broken
    with pytest.raises(Unreadable):
        decode_item("c1", {name: value for name, value in encoded.items() if value is not None})


def test_a_value_of_another_cluster_is_not_ours() -> None:
    with pytest.raises(Unreadable, match="it is about c1"):
        decode_item("c2", encode_item("set", item(export()), 0))


def test_newer_fields_are_ignored() -> None:
    encoded = encode_item("set", item(export()), 0)
    encoded["value"]["S"] = encoded["value"]["S"][:-1] + ',"later":{"a":1}}'
    assert decode_item("c1", encoded | {"more": {"S": "x"}}) == item(export())


def test_records_come_back_and_broken_ones_keep_their_name() -> None:
    written = record(removed=Removed.DELETED, removed_ms=3, version=9, rev=4, digest="ab")
    encoded = encode_record("set", written)
    assert decode_record(encoded) == written
    for broken in ({"record": {"S": "[]"}}, {"version": {"N": "8"}}, {"sk": {"S": "CL#c2"}}):
        with pytest.raises(Unreadable):
            decode_record(encoded | broken)
    assert cluster_of(encoded | {"record": {"S": "?"}}) == "c1"
