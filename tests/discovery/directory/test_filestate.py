"""What is known of a directory of files, whatever happens to them."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from discovery.directory.filestate import Content, Directory, Fault, Same, after_failure, after_reading

OK = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4"}


def slices(*names: str, **more: object) -> bytes:
    items = [OK | {"metadata": {"namespace": "ns", "name": name}} | more for name in names]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()


def names(directory: Directory) -> list[str]:
    return [one.name for one in directory.slices()]


def test_a_broken_file_keeps_its_last_good_slices_and_costs_others_nothing() -> None:
    before = after_reading(Directory(), {"a.json": slices("a1", "a2"), "b.json": slices("b1")})
    broken = after_reading(before, {"a.json": b'{"kind":\n', "b.json": slices("b1", "b2")})
    assert names(broken) == ["a1", "a2", "b1", "b2"]
    assert broken.complete
    fault = broken.files["a.json"].fault
    assert fault is not None
    assert fault.line is not None
    fixed = after_reading(broken, {"a.json": slices("a2"), "b.json": slices("b1", "b2")})
    assert names(fixed) == ["a2", "b1", "b2"]
    assert fixed.files["a.json"].fault is None
    assert names(after_reading(broken, {"b.json": slices("b1")})) == ["b1"]


def test_the_same_content_after_a_fault_is_read_again() -> None:
    good = after_reading(Directory(), {"a.json": slices("a")})
    unreadable = after_reading(good, {"a.json": Fault("cannot be read: Permission denied", None)})
    assert names(unreadable) == ["a"]
    again = after_reading(unreadable, {"a.json": slices("a")})
    assert again.files["a.json"].fault is None


def test_a_file_that_was_never_good_makes_the_list_incomplete() -> None:
    assert not Directory().complete
    never = after_reading(Directory(), {"a.json": b"", "b.json": slices("b")})
    assert (names(never), never.complete) == (["b"], False)
    assert after_reading(never, {"b.json": slices("b")}).complete


def test_a_refused_slice_keeps_its_last_good_form() -> None:
    good = after_reading(Directory(), {"a.json": slices("a", "b")})
    bad = json.loads(slices("a", "b"))
    bad["items"][0]["ports"] = [{"port": 70000}]
    after = after_reading(good, {"a.json": json.dumps(bad).encode()})
    assert names(after) == ["a", "b"]
    assert [one.name for one in after.files["a.json"].refused] == ["a"]
    fresh = after_reading(Directory(), {"a.json": json.dumps(bad).encode()})
    assert names(fresh) == ["b"]


def test_nulls_and_other_kinds_are_no_fault() -> None:
    data = json.loads(slices("a", endpoints=None, ports=None))
    data["items"].append({"kind": "Service", "metadata": {"name": "x"}})
    after = after_reading(Directory(), {"a.json": json.dumps(data).encode()})
    assert names(after) == ["a"]
    assert after.files["a.json"].ignored == 1
    assert after.files["a.json"].refused == ()


def test_what_was_not_read_again_is_as_before_whether_good_or_broken() -> None:
    good = after_reading(Directory(), {"a.json": slices("a"), "b.json": b"{"})
    assert after_reading(good, {"a.json": Same.AS_BEFORE, "b.json": Same.AS_BEFORE}) is good
    assert names(after_reading(good, {"a.json": Same.AS_BEFORE})) == ["a"]


def test_a_directory_that_goes_keeps_everything_but_completeness() -> None:
    good = after_reading(Directory(), {"a.json": slices("a")})
    gone = after_failure(good, "No such file or directory")
    assert (names(gone), gone.complete) == (["a"], False)
    assert after_failure(gone, "No such file or directory") is gone
    assert after_reading(gone, {"a.json": slices("a")}).complete


CONTENT: st.SearchStrategy[Content] = st.sampled_from(
    [slices("x"), slices("y", "z"), slices(), b"", b"kind: [", Fault("cannot be read", None)]
)
STEPS = st.lists(st.dictionaries(st.sampled_from(["a.json", "b.yaml"]), CONTENT), max_size=6)


@given(STEPS)
def test_reading_the_same_again_changes_nothing(steps: list[dict[str, Content]]) -> None:
    state = Directory()
    for contents in steps:
        state = after_reading(state, contents)
        assert after_reading(state, contents) is state
        assert state.files.keys() == contents.keys()


@given(STEPS)
def test_trouble_never_makes_fewer_slices(steps: list[dict[str, Content]]) -> None:
    state = Directory()
    for contents in steps:
        before, state = state, after_reading(state, contents)
        for name, now in state.files.items():
            old = before.files.get(name)
            if now.fault is not None and old is not None:
                assert now.slices == old.slices
