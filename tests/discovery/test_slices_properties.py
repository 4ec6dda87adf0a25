"""Any JSON is a slice or is refused as malformed, never another error."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from discovery.errors import MalformedSlice
from discovery.slices import Slice, parse_slice, slice_objects
from tests.discovery.making import endpoint, port, slice_json

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=()), max_size=8)
)
anything: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8) | st.integers(), inner, max_size=3),
    max_leaves=8,
)
WHOLE = slice_json(
    endpoints=[
        endpoint("10.0.0.1", "p0", uid="u0", zone="z", hostname="h", ready=True, serving=True, terminating=False)
    ],
    ports=[port(8000, "http", appProtocol="http")],
    region="r",
    annotations={"a": "b"},
    deletionTimestamp=None,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    document = copy.deepcopy(document)
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return document


def read(value: object) -> Slice | None:
    try:
        return parse_slice(value)
    except MalformedSlice as found:
        reason = found.reason
    assert reason.isprintable()
    assert len(reason) < 300
    return None


@given(anything)
def test_any_json_is_a_slice_or_malformed(value: object) -> None:
    assert read(value) is None, "only an object with metadata is a slice"


@given(st.sampled_from(places(WHOLE)), anything)
def test_a_slice_with_anything_anywhere_is_a_slice_or_malformed(place: tuple[Any, ...], value: object) -> None:
    found = read(replaced(WHOLE, place, value))
    if found is not None:
        for text in (found.name, found.namespace, found.address_type, *found.labels.values()):
            text.encode()
        for one in found.endpoints:
            json.dumps([one.address, one.zone, one.hostname], ensure_ascii=False).encode()


@given(st.sampled_from([place for place in places(WHOLE) if place and isinstance(place[-1], str)]))
def test_null_and_missing_are_alike_everywhere(place: tuple[Any, ...]) -> None:
    missing = copy.deepcopy(WHOLE)
    inner: Any = missing
    for key in place[:-1]:
        inner = inner[key]
    del inner[place[-1]]
    null = replaced(WHOLE, place, None)
    if place[:2] in (("metadata", "labels"), ("metadata", "annotations")) and len(place) > 2:
        return  # the values of labels have no null
    assert read(missing) == read(null)


@given(anything)
def test_any_document_gives_a_list_or_is_refused(value: object) -> None:
    for document in (value, {"kind": "List", "apiVersion": "v1", "items": value}):
        try:
            assert isinstance(slice_objects(document), list)
        except MalformedSlice:
            pass


@given(st.lists(anything, max_size=4))
def test_faulty_endpoints_never_cost_the_good_one(others: list[object]) -> None:
    good = endpoint("10.1.2.3")
    found = read(slice_json(endpoints=[*others, good]))
    assert found is not None
    assert found.endpoints[-1].address == "10.1.2.3"
    assert len(found.endpoints) + len(found.skipped) == len(others) + 1
