"""Any text and any mapping is settings or a fault; settings written are settings read."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from global_ingress.proxy.settings.docs import json_schema
from global_ingress.proxy.settings.file import Settings, SettingsFault, as_written, load

SCHEMA = json_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
KEYS = sorted({key for part in (SCHEMA, *SCHEMA["$defs"].values()) for key in part["properties"]})
WORDS = [
    "off",
    "5s",
    "32MiB",
    "http://a:1",
    "round_robin",
    "10.0.0.0/8",
    "h:1",
    "*",
    "info",
    "json",
    "stdout",
    "./a",
    "",
]


def outcome(text: str) -> Settings | SettingsFault:
    try:
        return load(text, name="x.yaml", directory="/etc", not_yet=())
    except SettingsFault as fault:
        return fault


def in_order(result: Settings | SettingsFault) -> bool:
    """A fault holds at least one place, sorted, each one a line of text."""
    if isinstance(result, Settings):
        return True
    faults = result.faults
    lines = all(f.line >= 1 and f.column >= 1 and f.message and "\n" not in str(f) for f in faults)
    return bool(faults) and lines and list(faults) == sorted(faults)


@given(st.text() | st.text(alphabet="disc:ovry-{}[]&*!#|>'\"%@\\ \n\t09.~", max_size=80))
@settings(deadline=None)
def test_any_text(text: str) -> None:
    assert in_order(outcome(text))


scalars = (
    st.sampled_from(WORDS)
    | st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**380, 10**385)
    # JSON has no word for infinity or no number, and what is written for them is a text in YAML.
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
nearly = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=4), nearly, max_size=6))
@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
def test_any_mapping(data: dict[str, Any]) -> None:
    assert in_order(outcome(json.dumps(data)))


def value_for(field: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values the published schema allows at a key, and now and then others."""
    if "anyOf" in field:
        return st.one_of([value_for(choice) for choice in field["anyOf"]])
    if "$ref" in field:
        return section_for(SCHEMA["$defs"][field["$ref"].rpartition("/")[2]])
    if "enum" in field:
        return st.sampled_from([*field["enum"], "x"])
    types = field["type"] if isinstance(field["type"], list) else [field["type"]]
    return st.one_of([typed(kind, field) for kind in types])


def typed(kind: str, field: dict[str, Any]) -> st.SearchStrategy[Any]:
    if kind == "array":
        return st.lists(value_for(field["items"]), max_size=2)
    if kind == "object":
        ((pattern, inner),) = field["patternProperties"].items()
        keys = st.from_regex(pattern, fullmatch=True) | st.text(max_size=3)
        return st.dictionaries(keys, value_for(inner), max_size=2)
    if kind == "integer":
        return st.integers(field["minimum"] - 1, field["maximum"] + 1)
    if kind == "number":
        return st.floats(field["minimum"], field["maximum"]) | st.integers(-1, 10)
    if kind == "string":
        return st.sampled_from(WORDS) | st.from_regex(field["pattern"], fullmatch=True) | scalars
    return st.booleans() if kind == "boolean" else st.none()


def section_for(part: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    strategies = {key: value_for(field) for key, field in part["properties"].items()}
    required = part.get("required", [])
    return st.fixed_dictionaries(
        {key: strategies[key] for key in required},
        optional={key: strategy for key, strategy in strategies.items() if key not in required},
    )


FIELDS = {key: value_for(field) for key, field in SCHEMA["properties"].items()}
seen = {"good": 0, "bad": 0}


@given(st.data(), st.sampled_from(list(FIELDS)))
@settings(deadline=None, max_examples=400, suppress_health_check=[HealthCheck.too_slow])
def check_one_key(data: st.DataObject, key: str) -> None:
    content = {"discovery": {"urls": ["http://d"]}, key: data.draw(FIELDS[key])}
    result = outcome(json.dumps(content))
    assert in_order(result)
    seen["good" if isinstance(result, Settings) else "bad"] += 1
    if isinstance(result, Settings):
        assert VALIDATOR.is_valid(content), "an editor would mark a good file"
        again = as_written(result)
        assert outcome(json.dumps(again)) == result
        assert VALIDATOR.is_valid(again)


def test_what_loads_is_valid_and_is_written_as_it_is_read() -> None:
    check_one_key()
    assert min(seen.values()) > 20, f"both good and bad files were tried: {seen}"
