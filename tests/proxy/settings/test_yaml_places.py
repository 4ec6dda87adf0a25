"""YAML with places: what scalars mean, what is refused and where, and that nothing else ever happens."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from global_ingress.proxy.settings.yaml_places import MAX_DEPTH, Document, Place, UnreadableYaml, read


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("off", "off"),
        ("on", "on"),
        ("yes", "yes"),
        ("no", "no"),
        ("y", "y"),
        ("1:30", "1:30"),
        ("010", 10),
        ("0x1f", "0x1f"),
        ("0o17", "0o17"),
        ("1_000", "1_000"),
        ("2027-01-01", "2027-01-01"),
        ("<<", "<<"),
        ("=", "="),
        ("true", True),
        ("False", False),
        ("'true'", "true"),
        ('"5"', "5"),
        ("-12", -12),
        ("+7", 7),
        ("0.2", 0.2),
        (".5", 0.5),
        ("1.", 1.0),
        ("1e3", 1000.0),
        (".inf", float("inf")),
        ("1e999", float("inf")),
        ("null", None),
        ("~", None),
        ("", None),
        ("1" * 400, int("1" * 400)),
        ("1" * 401, float("inf")),
        ("500ms", "500ms"),
        ("|\n  two\n  lines", "two\nlines\n"),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text: str, value: object) -> None:
    found = read(f"a: {text}\n").data["a"]
    assert (found, type(found)) == (value, type(value))


def test_keys_are_text() -> None:
    assert read("{1: a, off: b, true: c, ~: d, 1.50: e}").data == {
        "1": "a",
        "off": "b",
        "true": "c",
        "~": "d",
        "1.50": "e",
    }


def test_places() -> None:
    document = read("a: 1\nb:\n  - x\n  - {c: [yes, 2]}\n")
    assert document.data == {"a": 1, "b": ["x", {"c": ["yes", 2]}]}
    assert document.place(("a",)) == Place(1, 4)
    assert document.place(("b", 1, "c", 1)) == Place(4, 15)
    assert document.key_place(("b", 1, "c")) == Place(4, 6)
    assert document.key_place(("b", 1)) == Place(4, 5), "an item has no key: its own place"
    assert document.place(("b", 1, "missing", 0)) == Place(4, 5), "what is absent stands where its parent does"


def test_places_count_characters_and_carriage_returns_once() -> None:
    document = read("# Grüße 🎈\r\na: {ä: 'ö', b: x}\r\n")
    assert document.place(("a", "b")) == Place(2, 16)


def test_empty_texts_have_no_data() -> None:
    for text in ("", "\n", "# only a comment\n", "---\n", "\ufeff"):
        assert read(text).data is None, text


@pytest.mark.parametrize(
    ("text", "place", "word"),
    [
        ("a: 1\n---\nb: 2\n", (2, 1), "second document"),
        ("a:\n\tb: 1\n", (2, 1), "tab"),
        ("\ta: 1\n", (1, 1), "tab"),
        ("a: [1\n", (2, 1), "no YAML"),
        ("a: 1\n b: 2\n", (2, 3), "no YAML"),
        ("a: 'x\n", (2, 1), "no YAML"),
        ("a: \x07\n", (1, 4), "U+0007"),
        ("a: 1\nb: \ud800\n", (2, 4), "U+D800"),
        ("? [a]\n: 1\n", (1, 3), "key must be a word"),
        ("{a: 1}: 2\n", (1, 1), "key must be a word"),
        ("a: &x b\n*x : 2\n", (2, 1), "key must be a word"),
        ('a: "\\ud83d"\n', (1, 4), "surrogate"),
        ('"\\udc00": 1\n', (1, 1), "surrogate"),
        ('a: "\\UFFFFFFFF"\n', (1, 7), "out of range"),
        ("{'" + "k" * 1100 + "': 1}", (1, 1104), "no YAML"),
        ("%YAML 2.0\n---\na: 1\n", (1, 1), "no YAML"),
        ("%YAML 1." + "9" * 5000 + "\n---\na: 1\n", (1, 9), "out of range"),
        ("[" * (MAX_DEPTH + 1), (1, MAX_DEPTH + 1), "deep"),
        ("[" * 100_000, (1, MAX_DEPTH + 1), "deep"),
    ],
)
def test_what_ends_the_reading(text: str, place: tuple[int, int], word: str) -> None:
    with pytest.raises(UnreadableYaml) as caught:
        read(text)
    assert caught.value.place == place
    assert word in caught.value.message


def flaws(document: Document) -> list[tuple[int, int, str]]:
    return [(flaw.place.line, flaw.place.column, flaw.message) for flaw in document.flaws]


def test_a_key_given_twice_keeps_the_first_value() -> None:
    document = read("a: 1\nb: {c: 1, c: [x, {y: 1, y: 2}]}\na: {z: 3}\nd: 4\n")
    assert document.data == {"a": 1, "b": {"c": 1}, "d": 4}
    assert flaws(document) == [(2, 11, "is given twice, first in line 2"), (3, 1, "is given twice, first in line 1")]
    assert document.place(("a",)) == Place(1, 4)


def test_aliases_anchors_and_tags_are_flaws_and_their_values_unknown() -> None:
    document = read("a: &one [1]\nb: *one\nc: !!str 5\nd: ! x\n&k e: 1\nf: &self [*self]\n!t g: 2\n")
    assert flaws(document) == [
        (1, 4, "the anchor &one is not allowed"),
        (2, 4, "the alias *one is not allowed; write the value out"),
        (3, 4, "the tag tag:yaml.org,2002:str is not allowed"),
        (4, 4, "the tag ! is not allowed"),
        (5, 1, "the anchor &k is not allowed"),
        (6, 4, "the anchor &self is not allowed"),
        (6, 11, "the alias *self is not allowed; write the value out"),
        (7, 1, "the tag !t is not allowed"),
    ]
    assert document.unknown == {("b",), ("c",), ("d",), ("f", 0)}


def test_deep_but_allowed() -> None:
    document = read("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    assert document.place((0,) * (MAX_DEPTH - 1)) == Place(1, MAX_DEPTH)


def nested(value: Any, depth: int = 0) -> int:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return max((nested(item, depth + 1) for item in items), default=depth)


short = st.text(max_size=60)  # YAML wants a key's colon within 1024 characters, escapes counted
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(short, inner, max_size=4),
    max_leaves=20,
).filter(lambda value: nested(value) < MAX_DEPTH)


@given(json_values, st.booleans(), st.sampled_from([None, 1, 3]))
@settings(deadline=None)
def test_json_is_yaml(value: Any, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    if not ascii_only and re.search(r"[\x7f-\x84\x86-\x9f\ufffe\uffff]", text):
        with pytest.raises(UnreadableYaml, match="not allowed in YAML"):
            read(text)
        return  # unescaped, JSON allows them and YAML does not
    if not ascii_only and any(c in text for c in "\x85\u2028\u2029\ufeff"):
        return  # unescaped, they are line breaks to YAML, or nothing
    document = read(text)
    assert document.data == value
    assert not document.flaws


@given(st.text() | st.text(alphabet="ab:-?[]{},&*!|>'\"%#@\\ \n\t0x.~<=u", max_size=60))
@settings(deadline=None)
def test_any_text_is_a_document_or_unreadable(text: str) -> None:
    try:
        document = read(text)
    except UnreadableYaml as error:
        stopped = error.place
        document = Document()
    else:
        stopped = Place(1, 1)
    assert stopped >= (1, 1)
    assert nested(document.data) <= MAX_DEPTH
    assert all(place >= (1, 1) for place in document.values.values())
    assert set(document.keys) <= set(document.values)
