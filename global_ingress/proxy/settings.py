"""The operator's file `ingress.yaml`: text in, frozen `Settings` or all its faults out.

Owns loading, overriding and writing back; the keys are declared in `settings_sections`. Reads no file, no flag and no
environment: callers hand in text. Keeps the rule that any text gives `Settings` or `SettingsFault`, nothing else.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from global_ingress.proxy import settings_values as values
from global_ingress.proxy import yaml_places
from global_ingress.proxy.not_yet import NOT_YET
from global_ingress.proxy.settings_checks import cross_findings, same_port
from global_ingress.proxy.settings_faults import Fault, Finding, SettingsFault, findings, found, path_text
from global_ingress.proxy.settings_sections import Settings
from global_ingress.proxy.settings_values import Address
from global_ingress.proxy.yaml_places import Document, Place

__all__ = ["Address", "Fault", "Settings", "SettingsFault", "as_written", "decoded", "load", "with_overrides"]


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


def load(text: str, *, name: str, directory: str, not_yet: Iterable[str] = NOT_YET) -> Settings:
    """The settings that `text` declares; faults call the file `name`, relative paths in it start at `directory`.

    Raises SettingsFault, which holds all faults; of a text that is no YAML only the first.
    """
    try:
        document = yaml_places.read(text)
    except yaml_places.UnreadableYaml as error:
        raise SettingsFault([_fault(name, error.place, "", error.message)]) from None
    if not isinstance(document.data, dict):
        what = "is empty" if document.data is None else f"must be a mapping, got {found(document.data)}"
        raise SettingsFault([_fault(name, document.place(()), "", f"{what}; at least discovery is needed")])
    settings, problems = _validated(document.data, directory)
    problems += cross_findings(document.data, not_yet)
    faults = [_fault(name, flaw.place, path_text(flaw.path), flaw.message) for flaw in document.flaws]
    faults += [_placed(name, document, problem) for problem in problems if not _under_unknown(document, problem)]
    if faults or settings is None:
        raise SettingsFault(faults)
    return settings


def _validated(data: dict[str, Any], directory: str) -> tuple[Settings | None, list[Finding]]:
    try:
        return Settings.model_validate(data, context={"directory": directory}), []
    except ValidationError as error:
        return None, list(findings(Settings, error))


def _under_unknown(document: Document, problem: Finding) -> bool:
    """What stands where an alias was is not the operator's word; the alias itself is told."""
    return any(problem.path[:n] in document.unknown for n in range(len(problem.path) + 1))


def _placed(name: str, document: Document, problem: Finding) -> Fault:
    place = document.key_place(problem.path) if problem.at_key else document.place(problem.path)
    return _fault(name, place, path_text(problem.path), problem.message)


def _fault(name: str, place: Place, path: str, message: str) -> Fault:
    return Fault(name, place.line, place.column, path, message)


def with_overrides(
    settings: Settings,
    *,
    listen: str | None = None,
    admin: str | None = None,
    workers: str | int | None = None,
    origins: Mapping[str, str] | None = None,
) -> Settings:
    """The settings with what flags or variables say instead; None leaves a value alone.

    `origins` says where a value came from, for faults: `{"listen": "GLOBAL_INGRESS_LISTEN"}`; else it is `--listen`.
    Raises SettingsFault with all faults.
    """
    readers: dict[str, tuple[object, Callable[[Any], object]]] = {
        "listen": (listen, values.address),
        "admin": (admin, lambda text: None if text == "off" else values.address(text)),
        "workers": (workers, _workers),
    }
    origin = {key: (origins or {}).get(key, f"--{key}") for key in readers}
    update: dict[str, object] = {}
    faults = []
    for key, (given, read) in readers.items():
        if given is None:
            continue
        try:
            update[key] = read(given)
        except values.NotAllowed as error:
            faults.append(Fault(origin[key], 0, 0, "", f"{error}, got {found(given)}"))
    changed = settings.model_copy(update=update)
    if not faults and update and same_port(changed.listen, changed.admin):
        key = "admin" if "admin" in update else "listen"
        if key in update:
            faults.append(
                Fault(origin[key], 0, 0, "", f"listen and admin must be two ports, got {update[key]} for both")
            )
    if faults:
        raise SettingsFault(faults)
    return changed


def _workers(given: str | int) -> int:
    count = int(given) if isinstance(given, int) or (given.isascii() and given.isdigit() and len(given) < 10) else 0
    if not 1 <= count <= values.MAX_WORKERS:
        raise values.NotAllowed(f"must be a whole number from 1 to {values.MAX_WORKERS}")
    return count


def as_written(settings: Settings, *, masked: bool = False) -> dict[str, Any]:
    """The settings as a file would spell them, every key given; `load` of it as JSON gives them again.

    `masked` puts `***` in place of values that may be secrets.
    """
    written: dict[str, Any] = _without_nulls(settings.model_dump(mode="json", context={"masked": masked}))
    return written


def _without_nulls(value: Any) -> Any:
    """A key that was left out is None in the model, and `off` is not."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value
