"""Files of Kubernetes objects."""

from __future__ import annotations

import json

import orjson
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from discovery.documents import BrokenFile, objects_in


def values(text: str) -> list[object]:
    return [found.value for found in objects_in(text.encode(), is_json=False)]


def test_plain_scalars_are_yaml_1_2() -> None:
    text = "a: no\nb: 1:30\nc: 010\nd: ~\ne:\nf: 1.5e3\ng: true\nh: 2024-01-01T00:00:00Z\ni: '12'\nj: -3\n"
    expected = {
        "a": "no",
        "b": "1:30",
        "c": 10,
        "d": None,
        "e": None,
        "f": 1500.0,
        "g": True,
        "h": "2024-01-01T00:00:00Z",
        "i": "12",
        "j": -3,
    }
    assert values(text) == [expected]


def test_documents_and_lists_come_apart_with_their_lines() -> None:
    text = "# first\nkind: List\nitems:\n- a: 1\n- b: 2\n---\n---\nkind: X\n"
    found = objects_in(text.encode(), is_json=False)
    assert [one.value for one in found] == [{"a": 1}, {"b": 2}, {"kind": "X"}]
    assert [one.line for one in found] == [4, 5, 8]


def test_items_of_a_typed_list_get_its_kind() -> None:
    text = "apiVersion: discovery.k8s.io/v1\nkind: EndpointSliceList\nitems:\n- a: 1\n"
    assert values(text) == [{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "a": 1}]


@pytest.mark.parametrize("items", ["null", "[]"])
def test_an_empty_list_is_a_list(items: str) -> None:
    assert values(f"kind: List\nitems: {items}\n") == []


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", None, "holds no object"),
        ("# nothing\n---\n", None, "holds no object"),
        ("a: 1\n b: [\n", 2, "is not YAML"),
        ("a: 1\nb: [1\nc: 2\n", 3, "is not YAML"),
        ("a: 1\na: 2\n", 2, "twice"),
        ("a: &x 1\nb: *x\n", 1, "alias"),
        ("a: &x [*x]\n", 1, "alias"),
        ("a: !!binary aaaa\n", 1, "tag"),
        ("a: !!python/object/apply:os.getcwd []\nb: !x y\n", 2, "tag"),
        ("? [a]\n: b\n", 1, "key that is not text"),
        ("a: 1\nb: " + "9" * 5000, 2, "number"),
        ("[" * 70 + "]" * 70, 1, "nested"),
        ("[" * 5000, 1, "nesting"),
        ("a: 1\nb: \x01\n", 2, "is not YAML"),
        ("kind: List\nitems: 5\n", 1, "is not a list"),
    ],
)
def test_a_broken_file_says_where_and_why(text: str, line: int | None, reason: str) -> None:
    with pytest.raises(BrokenFile) as caught:
        values(text)
    assert reason in caught.value.reason
    assert caught.value.line == line


def test_broken_text_and_json_say_where() -> None:
    with pytest.raises(BrokenFile) as caught:
        objects_in(b"a: 1\nb: \xff\n", is_json=False)
    assert (caught.value.line, caught.value.reason) == (2, "is not UTF-8")
    with pytest.raises(BrokenFile, match="line 2: is not JSON"):
        objects_in(b'{"a": 1,\n "b": }', is_json=True)


# Beyond these, JSON writes pairs of escapes, which YAML does not know; nor are its keys longer than 1024 characters.
TEXT = st.text(st.characters(max_codepoint=0xD7FF), max_size=100)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXT, JSON, min_size=1).filter(lambda value: "kind" not in value))
def test_what_kubectl_writes_is_read_back_in_both_forms(value: dict[str, object]) -> None:
    assert objects_in(orjson.dumps(value), is_json=True)[0].value == value
    # A JSON document is a YAML document, once its text is plain ASCII.
    assert values(json.dumps(value).replace("\x7f", "\\u007f")) == [value]


@given(st.binary() | st.text().map(str.encode), st.booleans())
def test_any_bytes_are_objects_or_broken(data: bytes, is_json: bool) -> None:
    try:
        objects_in(data, is_json=is_json)
        reason = ""
    except BrokenFile as error:
        reason = error.reason
    assert reason.isprintable()


@given(st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), st.text("abc:-#'\"\n 01"), min_size=1))
def test_what_a_yaml_writer_quotes_stays_text(value: dict[str, str]) -> None:
    assert values(yaml.safe_dump(value)) == [value]
