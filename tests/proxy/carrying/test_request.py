"""The top-level `model` is read as JSON says, and only its value is ever rewritten (I10)."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from global_ingress.proxy.carrying.request import INLINE, Recount, named_once, peek, with_model
from global_ingress.proxy.shared.errors import Refusal

SPACE = st.text(" \t\r\n", max_size=3)


@st.composite
def string(draw: st.DrawFn, value: str | None = None) -> str:
    """A JSON string, each character plain or escaped in some way."""
    text = draw(st.text(max_size=6)) if value is None else value
    out = []
    for char in text:
        plain = json.dumps(char, ensure_ascii=False)[1:-1]
        escaped = json.dumps(char)[1:-1]
        if len(escaped) == 1:
            escaped = f"\\u{ord(char):04x}" if draw(st.booleans()) else f"\\u{ord(char):04X}"
        out.append(draw(st.sampled_from((plain, plain, escaped))))
    return '"' + "".join(out) + '"'


NAMES = ("model", "Model", "stream", 'mod"el', "model\\", '"model":', "{", "]", "x", "", "ключ")
SCALARS = st.sampled_from(
    ("1", "-0.5e3", "true", "false", "null", '"model"', '"model\\""', '"{["', "12345678901234567890")
)


@st.composite
def value(draw: st.DrawFn, depth: int = 2) -> str:
    kind = draw(st.integers(0, 3 if depth else 1))
    if kind == 0:
        return draw(SCALARS)
    if kind == 1:
        return draw(string())
    if kind == 2:
        items = draw(st.lists(value(depth - 1), max_size=3))
        return "[" + ",".join(draw(SPACE) + item + draw(SPACE) for item in items) + "]"
    return draw(thing(depth - 1))


@st.composite
def thing(draw: st.DrawFn, depth: int = 2, extra: tuple[tuple[str, str], ...] = ()) -> str:
    """A JSON object in some spelling, with these members among others."""
    members = [*extra]
    for name in draw(st.lists(st.sampled_from(NAMES), max_size=4)):
        if extra and name == "model":
            continue
        members.append((draw(string(name)), draw(value(depth - 1) if depth else SCALARS)))
    members = draw(st.permutations(members))
    inside = ",".join(f"{draw(SPACE)}{name}{draw(SPACE)}:{draw(SPACE)}{what}{draw(SPACE)}" for name, what in members)
    return "{" + (inside or draw(SPACE)) + "}"


@st.composite
def body_with_model(draw: st.DrawFn) -> tuple[bytes, str]:
    name = draw(st.text(min_size=1, max_size=8))
    member = (draw(string("model")), draw(string(name)))
    return (draw(SPACE) + draw(thing(extra=(member,))) + draw(SPACE)).encode("utf-8"), name


def top_pairs(body: bytes) -> list[tuple[str, Any]]:
    """The members of the top-level object, duplicates and all, by the standard library."""
    found: list[list[tuple[str, Any]]] = []

    def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found.append(pairs)
        return dict(pairs)

    value = json.loads(body, object_pairs_hook=keep)
    if not isinstance(value, dict):
        raise TypeError
    return found[-1]


def verdict(body: bytes) -> str:
    try:
        model = peek(body).model
        if not named_once(body):
            recount = Recount(body, place=False)
            while not recount.step():
                pass
        return f"model {model}"
    except Refusal as refusal:
        return refusal.fault.code if refusal.fault.status == 400 else "?"


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(body_with_model())
def test_one_model_is_read_as_the_standard_library_reads_it(given: tuple[bytes, str]) -> None:
    body, name = given
    pairs = top_pairs(body)
    assert peek(body).model == name == dict(pairs)["model"]
    assert (peek(body).streaming) == (dict(pairs).get("stream") is True)
    assert peek(bytearray(body)).model == name


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(value(3).map(str.encode))
def test_any_value_gives_the_verdict_of_the_standard_library(body: bytes) -> None:
    try:
        pairs = top_pairs(body)
    except TypeError:
        assert verdict(body) == "invalid_json"
        return
    models = [value for name, value in pairs if name == "model"]
    if not models or not isinstance(models[-1], str) or not models[-1]:
        assert verdict(body) == "missing_model"
    elif len(models) > 1:
        assert verdict(body) == "invalid_json" or not all(isinstance(model, str) for model in models)
    else:
        assert verdict(body) == f"model {models[0]}"


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(body_with_model(), st.integers(0, 400), st.sampled_from(b'{}[]",:\\\x00\x1fnN01.eE-+/ \xff\xc0'))
def test_a_spoilt_body_is_never_read_otherwise_than_by_the_standard_library(
    given: tuple[bytes, str], at: int, byte: int
) -> None:
    body = bytearray(given[0])
    body[at % len(body)] = byte
    try:
        model = peek(body).model
    except Refusal:
        return
    text = bytes(body).decode("utf-8", "replace")
    assert [value for name, value in top_pairs(text.encode()) if name == "model"] == [model]


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(body_with_model(), st.text(min_size=1, max_size=8))
def test_only_the_value_of_the_top_level_model_is_rewritten(given: tuple[bytes, str], other: str) -> None:
    body, name = given
    after = with_model(body, other)
    new = json.dumps(other, ensure_ascii=False).encode()
    assert json.loads(after) == json.loads(body) | {"model": other}
    assert [value for key, value in top_pairs(after) if key == "model"] == [other]
    # Taking the new value out again leaves the old body, but for one string.
    starts = [found.start() for found in re.finditer(re.escape(new), after)]
    rests = [(after[:at], after[at + len(new) :]) for at in starts]
    gone = [body[len(a) : len(body) - len(b)] for a, b in rests if body.startswith(a) and body.endswith(b)]
    assert any(piece[:1] == b'"' == piece[-1:] and json.loads(piece) == name for piece in gone if len(piece) > 1)
    assert peek(after).model == other


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(body_with_model(), st.text(min_size=1, max_size=8))
@example((b'{"x":{"model":"a"},"model":"a","y":["model",{"model":1}]}', "a"), "b")
@example((b'{"y":"model","model"\t:\n"a"}', "a"), "b")
@example((b'{"\\u006dodel":"\\u0061","z":"\\"model\\":\\"a\\""}', "a"), "b")
def test_rewriting_back_gives_the_meaning_back(given: tuple[bytes, str], other: str) -> None:
    body, name = given
    assert top_pairs(with_model(with_model(body, other), name)) == top_pairs(body)


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"a","model":"b"}',
        b'{"model":"a","\\u006dodel":"b"}',
        b'{"\\u006Dodel":"a","model":"b"}',
        b'{"mod\\u0065l":"a","x":1,"m\\u006fdel":"a"}',
        b'{"model":"a","x":{"model":1},"model":"a"}',
        b'{"model":"b","model":"b"}',
    ],
)
def test_a_model_named_twice_is_refused(body: bytes) -> None:
    assert verdict(body) == "invalid_json"


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"a","x":{"model":"b","model":"c"}}',
        b'{"x":[{"\\u006dodel":"b"}],"model":"a"}',
        b'{"x":"\\u006dodel","model":"a"}',
        b'{"y":"model","model":"a"}',
        b'{"y":"\\"model\\"","model":"a"}',
        b'{"\\u006dodel":"a"}',
        b'{"model":"a","x":1e400,"y":-0}',
        b'{"model":"a","x":"\xff\xfe"}',
        b'{"model":"a","\xff":1}',
        b'{"model":"a"} \r\n\t',
        b'{"model":"a","Model":"b"," model":"c"}',
        b'{"model":"a","n":' + b"1" * 5000 + b"}",
    ],
)
def test_what_passes(body: bytes) -> None:
    assert verdict(body) == "model a"


@pytest.mark.parametrize(
    ("body", "want"),
    [
        (b"", "invalid_json"),
        (b"null", "invalid_json"),
        (b'["model"]', "invalid_json"),
        (b'"model"', "invalid_json"),
        (b'\xef\xbb\xbf{"model":"a"}', "invalid_json"),
        (b'{"model":"a","x":NaN}', "invalid_json"),
        (b'{"model":"a","x":Infinity}', "invalid_json"),
        (b'{"model":"a","x":01}', "invalid_json"),
        (b'{"model":"a","x":1.}', "invalid_json"),
        (b'{"model":"a",}', "invalid_json"),
        (b"{'model':'a'}", "invalid_json"),
        (b'{"model":"a"}{"model":"a"}', "invalid_json"),
        (b'{"model":"a"}\x00', "invalid_json"),
        (b'{"model":"a","x":"\n"}', "invalid_json"),
        (b'{"model":"a","x":"\\q"}', "invalid_json"),
        (b'{"model":"a', "invalid_json"),
        (b'{"model":"\xff"}', "invalid_json"),
        (b'{"model":"a","x":' + b"[" * 200_000, "invalid_json"),
        (b'{"model":"a","x":' + b'{"x":' * 200_000, "invalid_json"),
        (b'{"model":"a","x":{"model":1},"y":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "invalid_json"),
        (b"{}", "missing_model"),
        (b'{"x":{"model":"a"}}', "missing_model"),
        (b'{"model":""}', "missing_model"),
        (b'{"model":null}', "missing_model"),
        (b'{"model":["a"]}', "missing_model"),
        (b'{"model":7}', "missing_model"),
    ],
)
def test_what_is_refused(body: bytes, want: str) -> None:
    assert verdict(body) == want


def test_the_words_name_the_field() -> None:
    for body, words in ((b"{}", "no `model`"), (b'{"model":""}', "empty"), (b'{"model":1}', "a string")):
        with pytest.raises(Refusal, match=words) as caught:
            peek(body)
        assert caught.value.param == "model"


@pytest.mark.parametrize(("stream", "want"), [(b"true", True), (b"false", False), (b"1", False), (b'"true"', False)])
def test_stream_is_asked_for_by_true_alone(stream: bytes, want: bool) -> None:
    assert (peek(b'{"model":"a","stream":%b}' % stream).streaming) == want


@pytest.mark.parametrize(
    ("body", "want"),
    [(b'{"model":"a","stream":1e400}', "model a"), (b'{"model":1e400}', "missing_model")],
)
def test_a_number_out_of_range_is_a_number_everywhere(body: bytes, want: str) -> None:
    assert verdict(body) == want


def test_a_long_number_passes_also_when_the_keys_are_counted() -> None:
    assert verdict(b'{"model":"a","x":{"model":1},"n":' + b"1" * 5000 + b"}") == "model a"


@pytest.mark.parametrize(
    "body",
    [
        b'{"x":"\xff","model":"a"}',
        b'{"x":["\xff"],"model":"a","y":{"\xff":1}}',
        pytest.param(b'{"\xff":1,"model":"a"}'),
    ],
)
def test_strange_bytes_beside_an_alias_pass(body: bytes) -> None:
    assert peek(body).model == "a"
    assert with_model(body, "b") == body.replace(b'"a"', b'"b"')


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":{"}',
        b'{"model":[1',
        b'{"model":7,}',
        b'{"model":null',
        b'{"model":' + b"[" * 200_000,
    ],
)
def test_a_broken_body_whose_model_is_no_string_is_refused(body: bytes) -> None:
    assert verdict(body) == "invalid_json"


def test_strange_bytes_are_passed_over_when_the_keys_are_counted() -> None:
    assert verdict(b'{"\xff":1,"model":"a","x":{"model":1}}') == "model a"


def test_a_large_body_is_rewritten() -> None:
    body = b'{"x":"%b","model":"a","y":"%b"}' % (b'\\"{' * 100_000, b"z" * 100_000)
    assert with_model(body, "b") == body.replace(b'"model":"a"', b'"model":"b"')


# Bodies too large to be read in one go.


def recounted(body: bytes, *, place: bool) -> tuple[str, tuple[int, int] | None, int]:
    recount, steps = Recount(body, place=place), 1
    try:
        while not recount.step():
            steps += 1
    except Refusal as refusal:
        return refusal.fault.code, None, steps
    return "once", recount.span(), steps


def large(inside: bytes, at: int) -> bytes:
    """`inside` at this place of a large body."""
    start = b'{"pad":"'
    return start + b"x" * (at - len(start)) + b'",' + inside + b',"more":"' + b"y" * (INLINE + 77) + b'"}'


MEMBERS = st.sampled_from((b'"model":"a"', b'"\\u006dodel":"a"', b'"mode\\u006C" : "a"'))


@settings(max_examples=30, deadline=None)
@given(
    st.integers(-40, 20), st.sampled_from((b'"model":"a"', b'"\\u006dodel":"a"', b'"mode\\u006C" : "a"')), st.booleans()
)
def test_a_large_body_is_counted_wherever_its_model_stands(offset: int, member: bytes, place: bool) -> None:
    one = large(member, INLINE + offset)
    found, span, _ = recounted(one, place=place)
    assert found == "once"
    if span is not None:
        assert one[span[0] : span[1]] == b'"a"'
    assert with_model(one, "b", span) == with_model(one, "b")
    assert recounted(large(member + b"," + member, INLINE + offset), place=place)[0] == "invalid_json"
    assert recounted(large(member + b',"x":{"model":1}', INLINE + offset), place=place)[0] == "once"


def test_each_step_of_a_large_body_is_bounded() -> None:
    body = b'{"model":"a","x":{"model":1},"messages":[' + b'{"role":"user","content":"{\\"x\\"}"},' * 60_000 + b"0]}"
    found, _, steps = recounted(body, place=False)
    assert (found, steps > 40) == ("once", True)
