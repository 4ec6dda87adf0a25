"""What holds for any patch and any application."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery.testing.cluster.failures import ApiFailure
from discovery.testing.cluster.kinds import SERVICES, Object
from discovery.testing.cluster.ownership import Application, apply, drop_managed_times, entries, record_update
from discovery.testing.cluster.patches import json_patch, merge_patch
from discovery.testing.cluster.selectors import parse_labels

STAMP = "2026-01-01T00:00:00Z"
scalars = st.integers(0, 3) | st.sampled_from(["x", "y"])
values = st.recursive(scalars, lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3), max_leaves=6)
objects = st.dictionaries(st.sampled_from("abc"), values, max_size=3)
labels = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"), max_size=3)
ports = st.lists(st.sampled_from([80, 81, 82]), unique=True, max_size=3)


@given(objects, objects)
def test_a_merge_patch_twice_is_once_and_changes_nothing_it_was_given(thing: Object, patch: Object) -> None:
    before = copy.deepcopy(thing)
    once = merge_patch(thing, patch)
    assert merge_patch(once, patch) == once
    assert thing == before


@given(objects, values)
def test_what_a_json_patch_adds_it_removes(thing: Object, value: Any) -> None:
    added = json_patch(thing, [{"op": "add", "path": "/new", "value": value}])
    assert added == thing | {"new": value}
    assert json_patch(added, [{"op": "remove", "path": "/new"}]) == thing


@given(st.recursive(st.none() | scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_any_json_is_a_patch_or_an_api_failure(operations: Any) -> None:
    try:
        json_patch({"a": [1]}, operations)
    except ApiFailure as failure:
        code = failure.code
    else:
        return
    assert code in {400, 422}


@given(st.text())
def test_any_text_is_a_selector_or_a_400(text: str) -> None:
    try:
        parse_labels(text)
    except ApiFailure as failure:
        code = failure.code
    else:
        return
    assert code == 400


def wish(manager: str, labelled: dict[str, str], numbers: list[int], *, force: bool = True) -> Application:
    listed = [{"port": number, "name": f"p{number}"} for number in numbers]
    body = {"metadata": {"name": "a", "labels": labelled}, "spec": {"ports": listed}}
    return Application(SERVICES, "v1", manager, "", body, force, STAMP)


def blank() -> Object:
    return {"metadata": {"name": "a", "resourceVersion": "1"}}


def content(thing: Object) -> tuple[dict[str, str], list[int]]:
    listed = thing.get("spec", {}).get("ports", [])
    return thing["metadata"].get("labels", {}), sorted(port["port"] for port in listed)


@given(labels, ports)
def test_the_same_application_twice_is_once(labelled: dict[str, str], numbers: list[int]) -> None:
    once = apply(blank(), wish("me", labelled, numbers))
    twice = apply(once, wish("me", labelled, numbers, force=False))
    assert drop_managed_times(twice) == drop_managed_times(once)
    assert content(once) == (labelled, sorted(numbers))


@given(labels, ports, labels, ports)
def test_a_manager_has_what_it_last_applied_and_nothing_of_before(
    first: dict[str, str], some: list[int], second: dict[str, str], others: list[int]
) -> None:
    thing = apply(apply(blank(), wish("me", first, some)), wish("me", second, others))
    assert content(thing) == (second, sorted(others))


@given(labels, ports, labels, ports)
def test_forced_applications_of_two_managers_are_both_there_and_the_later_wins(
    first: dict[str, str], some: list[int], second: dict[str, str], others: list[int]
) -> None:
    thing = apply(apply(blank(), wish("one", first, some)), wish("two", second, others))
    assert content(thing) == (first | second, sorted({*some, *others}))
    gone = apply(thing, wish("two", {}, []))
    # What the second had taken from the first goes with it; what both had said stays the first's.
    kept = {key: value for key, value in first.items() if second.get(key, value) == value}
    assert content(gone) == (kept, sorted(some))


@given(labels, labels)
def test_a_conflict_is_exactly_a_field_of_another_with_another_value(
    first: dict[str, str], second: dict[str, str]
) -> None:
    thing = apply(blank(), wish("one", first, []))
    disputed = {key for key in first.keys() & second.keys() if first[key] != second[key]}
    if not disputed:
        apply(thing, wish("two", second, [], force=False))
        return
    with pytest.raises(ApiFailure, match="conflict") as refused:
        apply(thing, wish("two", second, [], force=False))
    assert {cause["field"] for cause in refused.value.details["causes"]} == {f".metadata.labels.{k}" for k in disputed}


@given(labels, labels)
def test_a_plain_write_owns_what_it_changed(before: dict[str, str], after: dict[str, str]) -> None:
    old = apply(blank(), wish("one", before, []))
    new = copy.deepcopy(old)
    new["metadata"]["labels"] = after
    record_update(SERVICES, "v1", "editor", "", old, new, STAMP)
    changed = {("f:metadata", "f:labels", f"f:{key}") for key, value in after.items() if before.get(key) != value}
    mine = {path for entry in entries(new) if entry.manager == "editor" for path in entry.fields}
    theirs = {path for entry in entries(new) if entry.manager == "one" for path in entry.fields}
    assert {path for path in mine if len(path) == 3} == changed
    assert not theirs & changed
