"""What is wrong with a settings file, in words, each fault with its place.

Owns `Fault`, `SettingsFault` and the translation of pydantic's errors: what was found, what is allowed, and for an
unknown key the nearest one. Refuses nothing itself.
"""

from __future__ import annotations

import difflib
import re
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from global_ingress.proxy.settings.types import InPlaceOfNull
from global_ingress.proxy.settings.values import SecretNotAllowed
from global_ingress.proxy.settings.yaml_places import Path


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """`line` and `column` count from 1; 0 when the value stands in a flag or a variable, which `file` names."""

    file: str
    line: int
    column: int
    path: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{place}: {self.path}: {self.message}" if self.path else f"{place}: {self.message}"


class SettingsFault(Exception):
    """A file or a flag that cannot be used; `faults` are all of them, sorted by place, at least one."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(sorted(set(faults)))
        super().__init__("\n".join(map(str, self.faults)))


class Finding(NamedTuple):
    """A fault whose place is still to be looked up: at the value of `path`, or at its key."""

    path: Path
    message: str
    at_key: bool = False


def path_text(path: Path) -> str:
    """`models[0].weights.us-east-2`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            shown = part if re.fullmatch(r"[\w/-]+", part) else shortened(repr(part))
            text += f".{shown}" if text else shown
    return text


def shortened(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def found(value: object) -> str:
    """The value as people would name it."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and abs(value) >= 10**30:  # Python refuses to print integers of thousands of digits
        return "a number of more than 30 digits"
    return shortened(repr(value))


def findings(root: type[BaseModel], error: ValidationError) -> Iterator[Finding]:
    for detail in error.errors(include_url=False):
        yield _finding(root, detail)


def _finding(root: type[BaseModel], detail: ErrorDetails) -> Finding:
    path: Path = detail["loc"]
    kind, value = detail["type"], detail["input"]
    if path and path[-1] == "[key]":
        return Finding(path[:-1], f"as a key {_allowed(detail)}", at_key=True)
    if kind == "extra_forbidden":
        model = _model_at(root, path[:-1])
        return Finding(
            path, _unknown_key(str(path[-1]), path[:-1], list(model.model_fields) if model else []), at_key=True
        )
    if kind == "missing":
        return Finding(path, "is required")
    if value is None and kind in ("model_type", "dict_type", "tuple_type"):
        field = _field_at(root, path)
        advice = "" if field is None or field.is_required() else "; leave the key out for its default"
        return Finding(path, f"is empty{advice}")
    if kind == "too_short":
        return Finding(path, "must hold at least one")
    if kind == "value_error" and (value is None or isinstance(detail["ctx"]["error"], SecretNotAllowed)):
        return Finding(path, _allowed(detail))
    off = ", or off" if _may_be_off(root, path) else ""
    return Finding(path, f"{_allowed(detail)}{off}, got {found(value)}{_near(detail)}")


def _unknown_key(key: str, parent: Path, allowed: list[str]) -> str:
    where = path_text(parent) or "this file"
    return f"is no key of {where}{_meant(key, allowed)}; allowed: {', '.join(sorted(allowed))}"


def _meant(word: str, allowed: list[str]) -> str:
    near = difflib.get_close_matches(word.lower(), allowed, n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


def _near(detail: ErrorDetails) -> str:
    if detail["type"] != "literal_error" or not isinstance(detail["input"], str):
        return ""
    return _meant(detail["input"], _words(detail["ctx"]["expected"]))


def _words(expected: str) -> list[str]:
    """Of pydantic's `'a', 'b' or 'c'`."""
    return re.findall(r"'([^']*)'", expected)


def _allowed(detail: ErrorDetails) -> str:
    context: dict[str, Any] = detail.get("ctx", {})
    match detail["type"]:
        case "value_error":
            return str(context["error"])
        case "literal_error":
            return f"must be one of {', '.join(_words(context['expected']))}"
        case "bool_type":
            return "must be true or false"
        case "int_type":
            return "must be a whole number"
        case "float_type" | "finite_number":
            return "must be a number"
        case "tuple_type":
            return "must be a list"
        case "model_type" | "dict_type":
            return "must be a mapping"
        case "greater_than_equal":
            return f"must be at least {context['ge']:g}"
        case "less_than_equal":
            return f"must be at most {_plain(context['le'])}"
        case _:
            return detail["msg"]


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else str(number)


# The declarations, by path


def _model_at(root: type[BaseModel], path: Path) -> type[BaseModel] | None:
    model: type[BaseModel] | None = root
    for part in path:
        if isinstance(part, int):
            continue
        field = model.model_fields.get(part) if model else None
        model = _model_in(field.annotation) if field else None
    return model


def _model_in(annotation: object) -> type[BaseModel] | None:
    """The section a field holds, itself or in a list, or None for a scalar."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Annotated, Union, types.UnionType, tuple):
        return next((model for part in get_args(annotation) if (model := _model_in(part))), None)
    return None


def _field_at(root: type[BaseModel], path: Path) -> FieldInfo | None:
    if not path or isinstance(path[-1], int):
        return None
    model = _model_at(root, path[:-1])
    return model.model_fields.get(path[-1]) if model else None


def _may_be_off(root: type[BaseModel], path: Path) -> bool:
    field = _field_at(root, path)
    return field is not None and any(isinstance(mark, InPlaceOfNull) and mark.off for mark in field.metadata)
