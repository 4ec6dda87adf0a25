"""What we read of a request body: the top-level `model`, and whether `stream` is asked for. Nothing else is ours.

The body goes on byte for byte; only an alias is rewritten, and then only that value. Numbers like 1e400, lone bytes
inside strings and unknown fields are the frontend's business and pass.
"""

from __future__ import annotations

import json
import re

import msgspec
import orjson

from global_ingress.proxy.errors import Refusal

Buffer = bytes | bytearray

_NAME = b'"model"'
# An escape that could spell a letter of "model": the decoders read \u006dodel as model, so the count must see it.
_ESCAPED = re.compile(rb"\\u00(?:6[dfcDFC45])")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NEXT = re.compile(rb'["{}\[\]]')


class Peek(msgspec.Struct, gc=False):
    """`model` as the client wrote it; `stream` is True if it asked for a stream (what is SSE, the answer says)."""

    model: str = ""
    stream: object = False


class _Loose(msgspec.Struct):
    model: object = msgspec.UNSET


_decode = msgspec.json.Decoder(Peek).decode
_decode_loosely = msgspec.json.Decoder(_Loose).decode


def peek(body: Buffer) -> Peek:
    """Read `model` and `stream`. Raises Refusal: invalid_json or missing_model (naming `model`)."""
    try:
        asked = _decode(body)
    except msgspec.ValidationError:
        raise _wrong_kind(body) from None
    except msgspec.DecodeError as error:
        raise Refusal("invalid_json", f"the body is not valid JSON: {error}") from None
    except RecursionError:
        raise Refusal("invalid_json", "the body is nested too deeply") from None
    if not asked.model:
        raise _wrong_kind(body)
    first = body.find(_NAME)
    doubtful = first < 0 or body.find(_NAME, first + 7) >= 0
    if (doubtful or (b"\\" in body and _ESCAPED.search(body) is not None)) and _names(body) != 1:
        raise Refusal("invalid_json", "the body names `model` more than once", "model")
    return asked


def _wrong_kind(body: Buffer) -> Refusal:
    """What is wrong with a body that is JSON: it is no object, or its model is missing, empty or no string."""
    try:
        model = _decode_loosely(body).model
    except msgspec.ValidationError:
        return Refusal("invalid_json", "the body must be a JSON object")
    if model is msgspec.UNSET:
        return Refusal("missing_model", "the body has no `model`", "model")
    if model == "":
        return Refusal("missing_model", "`model` is empty", "model")
    return Refusal("missing_model", "`model` must be a string", "model")


def _names(body: Buffer) -> int:
    """How often the top-level object holds the key `model`; exact, and only worth its time when that is in doubt."""
    last: list[tuple[str, object]] = []

    def keep(pairs: list[tuple[str, object]]) -> None:
        nonlocal last
        last = pairs  # the top-level object is the one that closes last

    try:
        json.loads(bytes(body).decode("utf-8", "replace"), object_pairs_hook=keep)
    except RecursionError:
        raise Refusal("invalid_json", "the body is nested too deeply") from None
    except ValueError as error:
        raise Refusal("invalid_json", f"the body is not valid JSON: {error}") from None
    return sum(key == "model" for key, _ in last)


def with_model(body: Buffer, model: str) -> bytes:
    """The body with the value of its top-level `model` replaced; every other byte stays. The body has passed `peek`."""
    start, end = _model_span(body)
    return b"".join((body[:start], orjson.dumps(model), body[end:]))


def _model_span(body: Buffer) -> tuple[int, int]:
    """Where the value of the top-level `model` stands; it is a string, and the body is valid JSON with one such key."""
    depth = 0
    at = 0
    while (found := _NEXT.search(body, at)) is not None:
        if found[0] != b'"':
            depth += 1 if found[0] in b"{[" else -1
            at = found.end()
            continue
        name = _STRING.match(body, found.start())
        if name is None:
            break
        at = name.end()
        if depth != 1 or orjson.loads(name[0]) != "model":
            continue
        colon = re.compile(rb"\s*:\s*").match(body, at)
        if colon is None:
            continue  # a value of that name, not the key
        value = _STRING.match(body, colon.end())
        if value is not None:
            return value.span()
    raise Refusal("invalid_json", "the body has no `model` to rewrite", "model")
