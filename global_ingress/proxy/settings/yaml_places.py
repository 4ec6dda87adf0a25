"""YAML text to plain data, with the place of every key and value.

Owns how the operator's YAML is read: YAML 1.2 scalars (only true and false are booleans, numbers are decimal, `off` is
a word), keys are text. JSON is YAML. Refuses aliases, anchors, tags, keys given twice, a second document, tabs as
indentation; each with its place. Keeps the rule that any text gives a `Document` or `UnreadableYaml`, nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml
from yaml import events

Path = tuple[str | int, ...]

MAX_DEPTH = 24  # the settings need 6; a bound keeps every later recursion over the data short
_INT = re.compile(
    r"[-+]?[0-9]{1,400}"
)  # more digits are no number anybody means, and Python refuses to read 4301 of them
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}


class Place(NamedTuple):
    """Both count from 1, as editors do."""

    line: int
    column: int


class Flaw(NamedTuple):
    """Something that is not allowed, in a text that can be read to its end."""

    place: Place
    path: Path
    message: str


class UnreadableYaml(Exception):
    """The text cannot be read past `place`."""

    def __init__(self, place: Place, message: str) -> None:
        super().__init__(f"{place.line}:{place.column}: {message}")
        self.place = place
        self.message = message


@dataclass(slots=True)
class Document:
    """`data` is dicts, lists, str, int, float, bool and None. `unknown` are the paths whose value could not be told
    (an alias, a tag): what stands there in `data` means nothing."""

    data: Any = None
    empty: bool = True
    values: dict[Path, Place] = field(default_factory=dict)
    keys: dict[Path, Place] = field(default_factory=dict)
    flaws: list[Flaw] = field(default_factory=list)
    unknown: set[Path] = field(default_factory=set)

    def place(self, path: Path) -> Place:
        """Where the value at `path` stands, or what is nearest around it."""
        while path not in self.values and path:
            path = path[:-1]
        return self.values.get(path, Place(1, 1))

    def key_place(self, path: Path) -> Place:
        return self.keys.get(path) or self.place(path)


def scalar(text: str) -> str | int | float | bool | None:
    """What an unquoted scalar means in YAML 1.2's core schema, without its octal and hexadecimal numbers."""
    if text in _SPECIAL:
        value: bool | float | None = _SPECIAL[text]
        return value
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text


def read(text: str) -> Document:
    """The one document of `text`. Raises UnreadableYaml."""
    builder = _Builder()
    for event in _events(text):
        builder.take(event)
    return builder.document


def _events(text: str) -> Iterator[yaml.Event]:
    try:
        loader = yaml.SafeLoader(text)
    except yaml.reader.ReaderError as error:
        raise UnreadableYaml(_place_at(text, error.position), _unprintable(text, error.position)) from None
    try:
        while loader.check_event():
            yield loader.get_event()  # type: ignore[no-untyped-call]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise UnreadableYaml(_place(mark) if mark else Place(1, 1), _syntax(error, text)) from None
    except (ValueError, OverflowError):
        # PyYAML does not guard chr() of an escape nor int() of a version
        raise UnreadableYaml(_place(loader.get_mark()), "a number or an escape that is out of range") from None
    finally:
        loader.dispose()


def _place(mark: Any) -> Place:
    return Place(mark.line + 1, mark.column + 1)


def _place_at(text: str, position: int) -> Place:
    before = text[:position]
    return Place(before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1)


def _unprintable(text: str, position: int) -> str:
    return f"the character U+{ord(text[position]):04X} is not allowed in YAML"


def _syntax(error: yaml.MarkedYAMLError, text: str) -> str:
    mark = error.problem_mark
    if mark is not None and text[mark.index : mark.index + 1] == "\t":
        return "a tab is not allowed here; use spaces"
    words = " ".join(part for part in (error.context, error.problem) if part)
    return f"is no YAML: {words}"


def _whole(text: str, place: Place) -> str:
    """JSON writes a character beyond U+FFFF as two escapes, which PyYAML leaves apart; half of one is no text."""
    if not any("\ud800" <= c <= "\udfff" for c in text):
        return text
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise UnreadableYaml(place, "an escape stands for half a character (a lone surrogate)") from None


@dataclass(slots=True)
class _Open:
    """A mapping or list whose end has not come; `path` is None inside a value that is dropped (its key came before)."""

    value: dict[str, Any] | list[Any]
    path: Path | None
    key: str | None = None
    dropped: bool = False


class _Builder:
    def __init__(self) -> None:
        self.document = Document()
        self._open: list[_Open] = []
        self._documents = 0

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, events.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise UnreadableYaml(_place(event.start_mark), "a second document is not allowed")
        elif isinstance(event, events.CollectionEndEvent):
            self._open.pop()
        elif isinstance(event, events.NodeEvent):
            self._node(event)

    def _node(self, event: events.NodeEvent) -> None:
        parent = self._open[-1] if self._open else None
        if parent is not None and isinstance(parent.value, dict) and parent.key is None:
            self._key(parent, event)
            return
        path = self._path(parent)
        if path is not None:
            self.document.values[path] = _place(event.start_mark)
            self._refuse_references(event, path)
        value = self._value(event)
        self._put(parent, value)
        if isinstance(event, events.CollectionStartEvent):
            if len(self._open) >= MAX_DEPTH:
                raise UnreadableYaml(_place(event.start_mark), f"is nested more than {MAX_DEPTH} deep")
            self._open.append(_Open(value, path))

    def _path(self, parent: _Open | None) -> Path | None:
        if parent is None:
            return ()
        if parent.path is None or parent.dropped:
            return None
        return (*parent.path, len(parent.value) if parent.key is None else parent.key)

    def _key(self, parent: _Open, event: events.NodeEvent) -> None:
        place = _place(event.start_mark)
        if not isinstance(event, events.ScalarEvent):
            raise UnreadableYaml(place, "a key must be a word, not a list, a mapping or an alias")
        parent.key = _whole(event.value, place)
        parent.dropped = parent.key in parent.value
        if parent.path is None:
            return
        path = (*parent.path, parent.key)
        if parent.dropped:
            first = self.document.keys[path].line
            self.document.flaws.append(Flaw(place, path, f"is given twice, first in line {first}"))
        else:
            self.document.keys[path] = place
            self._refuse_references(event, path, known=True)

    def _value(self, event: events.NodeEvent) -> Any:
        if isinstance(event, events.MappingStartEvent):
            return {}
        if isinstance(event, events.SequenceStartEvent):
            return []
        if not isinstance(event, events.ScalarEvent):
            return None  # an alias, refused already
        if event.style is None:
            return scalar(event.value)
        return _whole(event.value, _place(event.start_mark))

    def _put(self, parent: _Open | None, value: Any) -> None:
        if parent is None:
            self.document.data, self.document.empty = value, False
        elif isinstance(parent.value, list):
            parent.value.append(value)
        elif parent.key is not None:
            if not parent.dropped:
                parent.value[parent.key] = value
            parent.key, parent.dropped = None, False

    def _refuse_references(self, event: events.NodeEvent, path: Path, *, known: bool = False) -> None:
        tag = getattr(event, "tag", None)
        if isinstance(event, events.AliasEvent):
            message = f"the alias *{event.anchor} is not allowed; write the value out"
        elif event.anchor is not None:
            message, known = f"the anchor &{event.anchor} is not allowed", known or tag is None
        elif tag is not None:
            message = f"the tag {tag} is not allowed"
        else:
            return
        self.document.flaws.append(Flaw(_place(event.start_mark), path, message))
        if not known:
            self.document.unknown.add(path)
