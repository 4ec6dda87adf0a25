"""A declared file, whatever it declares: text in, the frozen model or all its faults out, each with its place.

Owns the way from YAML over pydantic to faults; the settings and the fleet are both read here. Reads no file, no flag
and no environment. Keeps the rule that any text gives the model or `SettingsFault`, nothing else.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from global_ingress.proxy.settings import yaml_places
from global_ingress.proxy.settings.faults import Fault, Finding, SettingsFault, findings, found, path_text
from global_ingress.proxy.settings.yaml_places import Document, Place

Model = TypeVar("Model", bound=BaseModel)


def decoded(content: bytes, *, name: str) -> str:
    """The text of a file. Raises SettingsFault at the first byte that is no UTF-8."""
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        before = content[: error.start].decode()
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise SettingsFault(
            [Fault(name, line, column, "", f"is no UTF-8: byte 0x{content[error.start]:02x}")]
        ) from None


def declared(
    model: type[Model],
    text: str,
    *,
    name: str,
    needs: str,
    context: Mapping[str, Any],
    cross: Callable[[dict[str, Any]], Iterable[Finding]],
) -> Model:
    """What `text` declares. `needs` is said of an empty file, `cross` finds what is wrong between keys.

    Raises SettingsFault, which holds all faults; of a text that is no YAML only the first.
    """
    try:
        document = yaml_places.read(text)
    except yaml_places.UnreadableYaml as error:
        raise SettingsFault([_fault(name, error.place, "", error.message)]) from None
    if not isinstance(document.data, dict):
        what = "is empty" if document.data is None else f"must be a mapping, got {found(document.data)}"
        raise SettingsFault([_fault(name, document.place(()), "", f"{what}; {needs}")])
    made, problems = _validated(model, document.data, context)
    problems += cross(document.data)
    faults = [_fault(name, flaw.place, path_text(flaw.path), flaw.message) for flaw in document.flaws]
    faults += [_placed(name, document, problem) for problem in problems if not _under_unknown(document, problem)]
    if faults or made is None:
        raise SettingsFault(faults)
    return made


def _validated(
    model: type[Model], data: dict[str, Any], context: Mapping[str, Any]
) -> tuple[Model | None, list[Finding]]:
    try:
        return model.model_validate(data, context=dict(context)), []
    except ValidationError as error:
        return None, list(findings(model, error))


def _under_unknown(document: Document, problem: Finding) -> bool:
    """What stands where an alias was is not the operator's word; the alias itself is told."""
    return any(problem.path[:n] in document.unknown for n in range(len(problem.path) + 1))


def _placed(name: str, document: Document, problem: Finding) -> Fault:
    place = document.key_place(problem.path) if problem.at_key else document.place(problem.path)
    return _fault(name, place, path_text(problem.path), problem.message)


def _fault(name: str, place: Place, path: str, message: str) -> Fault:
    return Fault(name, place.line, place.column, path, message)
