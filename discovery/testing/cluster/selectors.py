"""Label and field selectors, in the API server's grammar.

Owns parsing (a bad selector is a 400) and matching. A selector of nothing matches all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from discovery.testing.cluster.failures import bad_request
from discovery.testing.cluster.kinds import Kind, Object

_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = rf"(?:[a-z0-9](?:[-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_NAME}"
_VALUE = rf"(?:{_NAME})?"
_SET = re.compile(rf"\s*({_KEY})\s+(in|notin)\s*\(([^()]*)\)\s*")
_EQUAL = re.compile(rf"\s*({_KEY})\s*(==|=|!=)\s*({_VALUE})\s*")
_EXISTS = re.compile(rf"\s*(!?)\s*({_KEY})\s*")
_KEY_ONLY = re.compile(_KEY)
_VALUE_ONLY = re.compile(_VALUE)
_COMMA_OUTSIDE_PARENTHESES = re.compile(r",(?![^(]*\))")


def is_label_key(text: str) -> bool:
    return _KEY_ONLY.fullmatch(text) is not None


def is_label_value(text: str) -> bool:
    """At most 63 characters; dots, dashes and underscores inside."""
    return _VALUE_ONLY.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Requirement:
    """`negated` turns it round; `values` None asks only whether the key is there."""

    key: str
    values: frozenset[str] | None
    negated: bool = False

    def admits(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if self.values is None:
            return (value is not None) != self.negated
        # A key that is missing is in no set, so it is "not in" every set.
        return (value in self.values) != self.negated


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """`a=b,c!=d,e in (f,g),h notin (i),j,!k`. Raises ApiFailure 400."""
    if not text.strip():
        return ()
    return tuple(_requirement(part, text) for part in _COMMA_OUTSIDE_PARENTHESES.split(text))


def _requirement(part: str, whole: str) -> Requirement:
    if found := _SET.fullmatch(part):
        values = [value.strip() for value in found[3].split(",")]
        if all(is_label_value(value) for value in values):
            return Requirement(found[1], frozenset(values), found[2] == "notin")
    elif found := _EQUAL.fullmatch(part):
        return Requirement(found[1], frozenset({found[3]}), found[2] == "!=")
    elif found := _EXISTS.fullmatch(part):
        return Requirement(found[2], None, bool(found[1]))
    raise bad_request(f"unable to parse requirement: found {part.strip()!r} in labelSelector {whole!r}")


@dataclass(frozen=True, slots=True)
class Selector:
    """What a list, watch or deletecollection is about. `namespace` None: all of them."""

    kind: Kind
    namespace: str | None = None
    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    @property
    def selective(self) -> bool:
        """Whether it asks for more than a namespace."""
        return bool(self.labels or self.fields)

    def admits(self, thing: Object | None) -> bool:
        if thing is None:
            return False
        metadata = thing["metadata"]
        if self.namespace is not None and metadata.get("namespace", "") != self.namespace:
            return False
        labels = metadata.get("labels") or {}
        if not all(requirement.admits(labels) for requirement in self.labels):
            return False
        if not self.fields:
            return True
        fields = self.kind.fields(thing)
        return all(requirement.admits(fields) for requirement in self.fields)


def parse_selector(kind: Kind, namespace: str | None, labels: str, fields: str) -> Selector:
    """Raises ApiFailure 400, also for a field that the kind cannot be selected by."""
    return Selector(kind, namespace, parse_labels(labels), parse_fields(kind.fields, fields))


def parse_fields(known: Callable[[Object], Mapping[str, str]], text: str) -> tuple[Requirement, ...]:
    names = known({"metadata": {}})
    found = []
    for part in text.split(",") if text else ():
        pieces = re.match(r"([^=!]+)(==|=|!=)(.*)$", part)
        if pieces is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        if pieces[1] not in names:
            raise bad_request(f'field label not supported: "{pieces[1]}"')
        found.append(Requirement(pieces[1], frozenset({pieces[3]}), pieces[2] == "!="))
    return tuple(found)
