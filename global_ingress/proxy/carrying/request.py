"""What we read of a request body: the top-level `model`, and whether `stream` is asked for. Nothing else is ours.

The body goes on byte for byte; only an alias is rewritten, and then only that value. Numbers like 1e400, lone bytes
inside strings and unknown fields are the frontend's business and pass.
"""

from __future__ import annotations

import re

import msgspec
import orjson

from global_ingress.proxy.carrying.peeked import Peek, decode_loosely, decode_peek
from global_ingress.proxy.carrying.toplevel import TopLevel
from global_ingress.proxy.shared.errors import Refusal

Buffer = bytes | bytearray
Span = tuple[int, int]

INLINE = 1 << 20  # bytes up to which a body is searched in one go
COUNTED = 16 * 1024  # bytes up to which its keys are counted in one go
STRIDE = 1 << 20  # bytes of a larger one that are searched in one go
TOKENS = 5_000  # strings and braces of it that are read in one go

_NAME = b'"model"'
_BACKSLASH = 0x5C  # as a number: looking for one byte given as bytes makes and drops an exception first
# An escape that could spell a letter of "model": the decoders read \u006dodel as model, so the count must see it.
_ESCAPED = re.compile(rb"\\u00(?:6[dfcDFC45])")


def peek(body: Buffer) -> Peek:
    """Read `model` and `stream`. Raises Refusal: invalid_json or missing_model (naming `model`).

    It does not ask whether `model` is named twice: `named_once` does.
    """
    try:
        asked = decode_peek(body)
    except msgspec.ValidationError:
        raise _wrong_kind(body) from None
    except msgspec.DecodeError as error:
        raise Refusal("invalid_json", f"the body is not valid JSON: {error}") from None
    except RecursionError:
        raise Refusal("invalid_json", "the body is nested too deeply") from None
    if not asked.model:
        raise _wrong_kind(body)
    return asked


def named_once(body: Buffer) -> bool:
    """Whether it is sure that the body, which has passed `peek`, names `model` once: for what is left, only `Recount`
    can tell without keeping everybody waiting. Raises Refusal when it names it twice."""
    if len(body) > INLINE:
        return False
    first = body.find(_NAME)
    if first >= 0 and body.find(_NAME, first + 7) < 0 and (_BACKSLASH not in body or _ESCAPED.search(body) is None):
        return True
    if len(body) > COUNTED:
        return False
    if TopLevel(body, "model").finish().count != 1:
        raise _twice()
    return True


class Recount:
    """Whether a large body names `model` once, found in steps of bounded length; with `place` also where it is."""

    __slots__ = ("_at", "_body", "_exact", "_seen")

    def __init__(self, body: Buffer, *, place: bool) -> None:
        self._body = body
        self._at = 0
        self._seen = 0
        self._exact = TopLevel(body, "model") if place else None

    def span(self) -> Span | None:
        """Where the value is, if that was asked for or had to be found."""
        return self._exact.spans[0] if self._exact is not None and self._exact.spans else None

    def step(self) -> bool:
        """Look on; True when it is sure that `model` is named once. Raises Refusal when it is not."""
        if self._exact is not None:
            if not self._exact.step(TOKENS):
                return False
            if self._exact.count != 1:
                raise _twice()
            return True
        body, at = self._body, self._at
        end = at + STRIDE
        # Each stride sees a little of the next one, so that nothing hides in between.
        self._seen += body.count(_NAME, at, end + len(_NAME) - 1)
        if self._seen > 1 or _ESCAPED.search(body, at, end + 5) is not None:
            self._exact = TopLevel(body, "model")
            return False
        self._at = end
        if end < len(body):
            return False
        if self._seen != 1:
            self._exact = TopLevel(body, "model")
            return False
        return True


def _twice() -> Refusal:
    return Refusal("invalid_json", "the body names `model` more than once", "model")


def _wrong_kind(body: Buffer) -> Refusal:
    """What is wrong with a body that is JSON: it is no object, or its model is missing, empty or no string."""
    try:
        model = bytes(decode_loosely(body).model)
    except msgspec.ValidationError:
        return Refusal("invalid_json", "the body must be a JSON object")
    except (msgspec.DecodeError, RecursionError) as error:
        return Refusal("invalid_json", f"the body is not valid JSON: {error}")
    if not model:
        return Refusal("missing_model", "the body has no `model`", "model")
    if model == b'""':
        return Refusal("missing_model", "`model` is empty", "model")
    if model[:1] == b'"':
        return _twice()  # the last one is fine, so another one was not
    return Refusal("missing_model", "`model` must be a string", "model")


def with_model(body: Buffer, model: str, span: Span | None = None) -> bytes:
    """The body with the value of its top-level `model` replaced; every other byte stays. The body has passed `peek`;
    `span` is where the value is, if that is known."""
    if span is None:
        found = TopLevel(body, "model").finish().spans
        if len(found) != 1:
            raise _twice()
        span = found[0]
    start, end = span
    return b"".join((body[:start], orjson.dumps(model), body[end:]))
