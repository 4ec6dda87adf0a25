"""The operator's file `ingress.yaml`: text in, frozen `Settings` or all its faults out.

Owns loading, overriding and writing back; the keys are declared in `settings_sections`, and how any declared file is
read in `settings_reading`. Reads no file, no flag and no
environment: callers hand in text. Keeps the rule that any text gives `Settings` or `SettingsFault`, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from global_ingress.proxy.settings import values
from global_ingress.proxy.settings.checks import cross_findings, same_port
from global_ingress.proxy.settings.faults import Fault, SettingsFault, found
from global_ingress.proxy.settings.not_yet import NOT_YET
from global_ingress.proxy.settings.reading import declared, decoded
from global_ingress.proxy.settings.sections import Settings
from global_ingress.proxy.settings.values import Address

__all__ = ["Address", "Fault", "Settings", "SettingsFault", "as_written", "decoded", "load", "with_overrides"]


def load(text: str, *, name: str, directory: str, not_yet: Iterable[str] = NOT_YET) -> Settings:
    """The settings that `text` declares; faults call the file `name`, relative paths in it start at `directory`.

    Raises SettingsFault, which holds all faults; of a text that is no YAML only the first.
    """
    return declared(
        Settings,
        text,
        name=name,
        context={"directory": directory},
        needs="at least discovery is needed",
        cross=lambda data: cross_findings(data, not_yet),
    )


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
