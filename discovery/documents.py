"""Files of Kubernetes objects, as `kubectl get … -o yaml` and `-o json` write them, as plain data with line numbers.

Pure. Owns reading YAML by the rules of YAML 1.2 (`no`, `on` and `1:30` are text), splitting documents and Lists, and
saying where a file breaks. Refuses whole files only: what does not parse, aliases, tags, duplicate keys, absurd depth,
and a file without any document, since an empty file is more often a write that is not finished than a wish to remove.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson
import yaml

_MAX_DEPTH = 64
_MAX_BYTES = 64 * 1024 * 1024
_TAG = "tag:yaml.org,2002:"


class BrokenFile(Exception):
    """A file that cannot be used at all; `line` counts from 1, None when no line is to blame."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(f"line {line}: {reason}" if line else reason)
        self.reason = reason
        self.line = line


@dataclass(frozen=True, slots=True)
class FoundObject:
    """One object and the line it starts at (None in JSON, which keeps no lines)."""

    value: object
    line: int | None


def objects_in(data: bytes, *, is_json: bool) -> list[FoundObject]:
    """Every object of a file, Lists taken apart. Raises BrokenFile."""
    if len(data) > _MAX_BYTES:
        raise BrokenFile(f"has {len(data)} bytes; at most {_MAX_BYTES} are read")
    text = _text(data)
    documents = _json_documents(text) if is_json else list(_yaml_documents(text))
    if not documents:
        raise BrokenFile("holds no object; an empty list is written `kind: List` with `items: []`")
    return [found for document in documents for found in _taken_apart(document)]


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BrokenFile("is not UTF-8", data.count(b"\n", 0, error.start) + 1) from error


def _json_documents(text: str) -> list[_Tree]:
    if not text.strip():
        return []
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BrokenFile(f"is not JSON: {error.msg}", error.lineno) from error
    return [] if value is None else [_Tree(value, None, {})]


@dataclass(frozen=True, slots=True)
class _Tree:
    value: Any
    line: int | None
    item_lines: dict[int, int]
    """For a List: the line of each item, by its index."""


def _taken_apart(document: _Tree) -> Iterator[FoundObject]:
    value = document.value
    if isinstance(value, dict) and str(value.get("kind", "")).endswith("List") and "items" in value:
        items = value["items"] or []
        if not isinstance(items, list):
            raise BrokenFile("items: is not a list", document.line)
        # Items of an API server's own list carry no kind: the list's name says what they are.
        kind = str(value["kind"]).removesuffix("List")
        for index, item in enumerate(items):
            if kind and isinstance(item, dict) and "kind" not in item:
                item = {"apiVersion": value.get("apiVersion"), "kind": kind, **item}
            yield FoundObject(item, document.item_lines.get(index, document.line))
    else:
        yield FoundObject(value, document.line)


_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """Composes nodes and resolves plain scalars as YAML 1.2's JSON-like schema does."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}


for _name, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
):
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(rf"^(?:{_pattern})$"), list(_first))


def _yaml_documents(text: str) -> Iterator[_Tree]:
    try:
        loader = _Loader(text)
        try:
            while loader.check_node():
                tree = _tree(loader.get_node())
                if tree.value is not None:
                    yield tree
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise BrokenFile(f"is not YAML: {error.problem or error.context}", mark.line + 1 if mark else None) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise BrokenFile(f"is not YAML: {error.reason}", line) from error
    except RecursionError as error:
        raise BrokenFile(f"is nested more than {_MAX_DEPTH} deep") from error


def _tree(node: yaml.Node) -> _Tree:
    seen: set[int] = set()
    value = _plain(node, 0, seen)
    lines: dict[int, int] = {}
    if isinstance(node, yaml.MappingNode):
        for key, child in node.value:
            if key.value == "items" and isinstance(child, yaml.SequenceNode):
                lines = {index: item.start_mark.line + 1 for index, item in enumerate(child.value)}
    return _Tree(value, node.start_mark.line + 1, lines)


def _plain(node: yaml.Node, depth: int, seen: set[int]) -> Any:
    line = node.start_mark.line + 1
    if id(node) in seen:
        raise BrokenFile("uses an alias (`*name`); write the value itself", line)
    if depth > _MAX_DEPTH:
        raise BrokenFile(f"is nested more than {_MAX_DEPTH} deep", line)
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, depth + 1, seen) for item in node.value]
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, depth, seen)
    return _scalar(node, line)


def _mapping(node: yaml.MappingNode, depth: int, seen: set[int]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            raise BrokenFile("has a key that is not text", line)
        # The text as it is written: Kubernetes' keys are text, also those that look like numbers.
        key = str(key_node.value)
        if key in made:
            raise BrokenFile(f"has the key {key!r} twice", line)
        made[key] = _plain(value_node, depth + 1, seen)
    return made


def _scalar(node: yaml.Node, line: int) -> Any:
    text = str(node.value)
    match node.tag.removeprefix(_TAG):
        case "str":
            return text
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int" | "float" as kind:
            try:
                return int(text) if kind == "int" else float(text)
            except ValueError as error:
                raise BrokenFile(f"has a number that cannot be read: {text[:40]}", line) from error
        case tag:
            raise BrokenFile(f"has the tag {tag!r}; only plain data is read", line)
