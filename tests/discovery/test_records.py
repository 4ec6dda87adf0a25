"""What lists and watches have told: whole lists replace, events change, nothing else removes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery.directory.assemble import assemble
from discovery.directory.naming import NamingRules
from discovery.directory.records import Records
from discovery.slices import Slice
from tests.discovery.making import endpoint, make_slice


def held(records: Records) -> dict[tuple[str, str], Slice]:
    return {(source, f"{slice_.namespace}/{slice_.name}"): slice_ for source, slice_ in records}


def test_a_list_replaces_its_source_whole_and_no_other() -> None:
    records = Records()
    a, b, c = (make_slice(name=name) for name in "abc")
    records.replace_all("mcs", [a, b])
    records.replace_all("karmada", [a])
    records.replace_all("mcs", [c])
    assert held(records) == {("mcs", "dynamo/c"): c, ("karmada", "dynamo/a"): a}
    assert len(records) == 2
    assert repr(records) == "<Records karmada=1, mcs=1>"


def test_a_list_of_one_namespace_leaves_the_others() -> None:
    records = Records()
    a, b = make_slice(name="a", namespace="one"), make_slice(name="b", namespace="two")
    records.replace_all("mcs", [a, b])
    records.replace_all("mcs", [], namespace="one")
    assert held(records) == {("mcs", "two/b"): b}
    with pytest.raises(ValueError, match="one/a is in a list of namespace two"):
        records.replace_all("mcs", [a], namespace="two")
    assert held(records) == {("mcs", "two/b"): b}


def test_a_list_that_fails_changes_nothing() -> None:
    records = Records()
    records.replace_all("mcs", [make_slice(name="a")])
    before = held(records)

    def failing() -> Iterator[Slice]:
        yield make_slice(name="b")
        raise ConnectionError("410 on the second page")

    with pytest.raises(ConnectionError):
        records.replace_all("mcs", failing())
    assert held(records) == before


def test_events_replace_whole_and_say_whether_anything_changed() -> None:
    records = Records()
    one = make_slice(resourceVersion="1")
    assert records.upsert("mcs", one)
    assert not records.upsert("mcs", make_slice(resourceVersion="1"))
    assert held(records)[("mcs", "dynamo/slice-1")] is one
    two = make_slice(resourceVersion="2", endpoints=[])
    assert records.upsert("mcs", two)
    assert held(records)[("mcs", "dynamo/slice-1")] is two


def test_a_file_edited_under_its_old_version_counts() -> None:
    records = Records()
    records.replace_all("file", [make_slice()])
    records.replace_all("file", [make_slice(endpoints=[endpoint("10.0.0.2")])])
    assert held(records)[("file", "dynamo/slice-1")].endpoints[0].address == "10.0.0.2"


def test_an_equal_list_keeps_the_objects() -> None:
    records = Records()
    records.replace_all("mcs", [one := make_slice()])
    records.replace_all("mcs", [make_slice()])
    assert held(records)[("mcs", "dynamo/slice-1")] is one


def test_the_end_of_an_older_object_does_not_touch_the_newer() -> None:
    records = Records()
    records.upsert("mcs", make_slice(uid="old"))
    assert records.upsert("mcs", new := make_slice(uid="new"))
    assert not records.delete("mcs", make_slice(uid="old"))
    assert not records.upsert("mcs", make_slice(uid="old", deletionTimestamp="2026-01-01T00:00:00Z"))
    assert held(records) == {("mcs", "dynamo/slice-1"): new}
    assert records.delete("mcs", make_slice(uid="new"))
    assert not records.delete("mcs", make_slice(uid="new"))
    assert not records.delete("unheard", make_slice())


def test_a_deletion_time_removes_in_lists_and_events() -> None:
    records = Records()
    going = make_slice(deletionTimestamp="2026-01-01T00:00:00Z")
    records.replace_all("mcs", [going])
    assert len(records) == 0
    records.upsert("mcs", make_slice())
    assert records.upsert("mcs", going)
    assert len(records) == 0


versions = st.builds(
    lambda name, uid, last: make_slice(
        f"{name}-frontend", name=name, uid=f"{name}{uid}", endpoints=[endpoint(f"10.0.0.{last}")] if last else []
    ),
    st.sampled_from("abc"),
    st.integers(0, 1),
    st.integers(0, 2),
)


@given(st.lists(st.tuples(st.booleans(), versions), max_size=12), st.lists(versions, max_size=3))
def test_any_events_that_end_in_the_same_slices_end_in_the_same_table(
    events: list[tuple[bool, Slice]], last: list[Slice]
) -> None:
    """Whatever was seen on the way: the state after the events is the state of a fresh list of what is there."""
    by_events, by_list = Records(), Records()
    there: dict[str, Slice] = {}
    for upserted, slice_ in events + [(True, slice_) for slice_ in last]:
        known = there.get(slice_.name)
        if upserted:
            by_events.upsert("mcs", slice_)
            there[slice_.name] = slice_
        elif known is not None:
            by_events.delete("mcs", known)
            del there[slice_.name]
    by_list.replace_all("mcs", there.values())
    assert held(by_events) == held(by_list)
    rules = NamingRules()
    assert assemble(by_events, rules) == assemble(by_list, rules)
