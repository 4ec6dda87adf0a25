"""What a body says: the text of an OpenAI answer, its finish reasons, and what is wrong with it.

Owns the reading of unary JSON bodies and of SSE bodies (LF, CR or CRLF). Refuses nothing: any bytes give a `Told`
whose faults say what was found instead. `[DONE]` alone proves nothing; an error event is a fault although the status
was 200.
"""

from __future__ import annotations

import json
import re
from typing import Any

from global_ingress.validate.evidence import Kind, Told

_LINE_END = re.compile(r"\r\n|\r|\n")
_UNARY_OBJECT = {"chat": "chat.completion", "completions": "text_completion"}


def read_body(kind: Kind, body: bytes) -> Told:
    """What the body of a 200 answer to a request of this kind says."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        return Told(faults=(f"not UTF-8 at byte {error.start}",))
    return _read_stream(kind, text) if kind.stream else _read_unary(kind, text)


def _read_unary(kind: Kind, text: str) -> Told:
    answer = _object(text)
    if answer is None:
        return Told(faults=(f"no JSON object: {_short(text)}",))
    faults = []
    if "error" in answer:
        faults.append(f"an error in a 200 answer: {_short(answer['error'])}")
    if answer.get("object") != _UNARY_OBJECT[kind.surface]:
        faults.append(f"object is {_short(answer.get('object'))}")
    said, finish = _choices(kind, answer, "message")
    return Told(said, finish, (*faults, *_lacks(said, finish)))


def _read_stream(kind: Kind, text: str) -> Told:
    events, rest = _events(text)
    faults: list[str] = []
    finish: list[str] = []
    said, done = "", False
    for name, data in events:
        if done:
            faults.append(f"an event after [DONE]: {_short(data)}")
            break
        if data == "[DONE]":
            done = True
            continue
        chunk = _object(data)
        if chunk is None:
            faults.append(f"an event that is no JSON object: {_short(data)}")
        elif name == "error" or "error" in chunk:
            faults.append(f"an error event: {_short(chunk.get('error', chunk))}")
        else:
            piece, ends = _choices(kind, chunk, "delta")
            said += piece
            finish.extend(ends)
    if rest:
        faults.append(f"it ends inside an event: {_short(rest)}")
    if not done:
        faults.append("no [DONE] at the end")
    return Told(said, tuple(finish), (*faults, *_lacks(said, tuple(finish))))


def _events(text: str) -> tuple[list[tuple[str, str]], str]:
    """The dispatched events (name, data), and what stands behind the last blank line. Comments are no events."""
    events: list[tuple[str, str]] = []
    data: list[str] = []
    pending: list[str] = []
    name = ""
    lines = _LINE_END.split(text)
    last = lines.pop()  # behind the last line end; not a line yet
    for line in lines:
        if not line:
            if data:
                events.append((name, "\n".join(data)))
            name, data, pending = "", [], []
            continue
        if line.startswith(":"):
            continue
        pending.append(line)
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            name = value
    return events, "\n".join([*pending, last]).strip("\n")


def _choices(kind: Kind, answer: dict[str, Any], part: str) -> tuple[str, tuple[str, ...]]:
    """Text and finish reasons of the choices of a body or a chunk."""
    said, finish = "", []
    choices = answer.get("choices")
    for choice in choices if isinstance(choices, list) else []:
        if not isinstance(choice, dict):
            continue
        holder = choice.get(part) if kind.surface == "chat" else choice
        piece = holder.get("content" if kind.surface == "chat" else "text") if isinstance(holder, dict) else None
        if isinstance(piece, str):
            said += piece
        if isinstance(reason := choice.get("finish_reason"), str):
            finish.append(reason)
    return said, tuple(finish)


def _lacks(said: str, finish: tuple[str, ...]) -> tuple[str, ...]:
    faults = []
    if not said:
        faults.append("no text")
    if not finish:
        faults.append("no finish_reason")
    return tuple(faults)


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _short(value: object) -> str:
    words = repr(value)
    return words if len(words) <= 80 else words[:77] + "..."
