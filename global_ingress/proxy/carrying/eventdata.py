"""What the data of one event, or the end of a unary answer, says: an error, and how many tokens were used.

Bounded by its callers. Not compiled: msgspec reads the types of its structs from their annotations, which mypyc loses.
"""

from __future__ import annotations

import re

import msgspec
import orjson


class ErrorEvent(msgspec.Struct, frozen=True):
    """An error that came inside a stream, as far as it could be read. `code` is an HTTP status or None."""

    message: str
    type: str
    code: int | None


def read_error(event: bytes, data: bytes) -> ErrorEvent | None:
    """The error of one event, or None when it is none: `event: error`, a top-level `error`, or `response.failed`."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        return ErrorEvent("the stream reported an error", "upstream_error", None) if event == b"error" else None
    inner = value.get("error")
    if inner is None and value.get("type") == "response.failed":
        reply = value.get("response")
        inner = reply.get("error") if isinstance(reply, dict) else None
        inner = inner or {"message": "the response failed"}
    if inner is None and event != b"error":
        return None
    if not isinstance(inner, dict):
        inner = {"message": inner} if isinstance(inner, str) else value
    message, kind, code = inner.get("message"), inner.get("type"), inner.get("code")
    return ErrorEvent(
        message if isinstance(message, str) and message else "the stream reported an error",
        kind if isinstance(kind, str) and kind else "upstream_error",
        _status(code),
    )


def _status(code: object) -> int | None:
    if isinstance(code, str) and code.isascii() and code.isdigit() and len(code) == 3:
        code = int(code)
    return code if isinstance(code, int) and 400 <= code <= 599 else None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


class _Reply(msgspec.Struct, gc=False):
    usage: _Usage | None = None


_decode_reply = msgspec.json.Decoder(_Reply).decode
_decode_usage = msgspec.json.Decoder(_Usage).decode
USAGE = re.compile(rb'"usage"\s*:\s*\{')
_FLAT = re.compile(rb'"usage"\s*:\s*(\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})')


def read_usage(data: bytes) -> tuple[int, int] | None:
    """(input, output) tokens of a JSON object's `usage`, or of the last one in the end of some JSON; None without. Two
    spellings are known."""
    try:
        usage = _decode_reply(data).usage
    except (msgspec.DecodeError, RecursionError):
        usage = None
    if usage is None:
        usage = _usage_in(data)
    if usage is None:
        return None
    tokens_in = usage.prompt_tokens if usage.prompt_tokens is not None else usage.input_tokens
    tokens_out = usage.completion_tokens if usage.completion_tokens is not None else usage.output_tokens
    if tokens_in is None and tokens_out is None:
        return None
    return tokens_in or 0, tokens_out or 0


def _usage_in(data: bytes) -> _Usage | None:
    last = data.rfind(b'"usage"')
    found = _FLAT.match(data, last) if last >= 0 else None
    if found is None:
        return None
    try:
        return _decode_usage(found[1])
    except msgspec.DecodeError:
        return None
