"""What must hold between the keys of a settings file, and which keys this version cannot serve.

Works on the plain data of the file, not on `Settings`, so that these faults are told together with all others. Skips
whatever is malformed by itself: that is told by the declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, TypeVar

from global_ingress.proxy.settings import values
from global_ingress.proxy.settings.faults import Finding, path_text, shortened
from global_ingress.proxy.settings.sections import Ejection, Limits, Section, Settings
from global_ingress.proxy.settings.values import Address
from global_ingress.proxy.settings.yaml_places import Path

N = TypeVar("N", int, float)


def cross_findings(data: dict[str, Any], not_yet: Iterable[str]) -> Iterator[Finding]:
    yield from _unavailable(data, not_yet)
    yield from _discovery(data)
    yield from _models(data)
    yield from _amounts(data)
    yield from _upstream_tls(data)
    yield from _listeners(data)
    yield from _repeats(_items(data, "retries", "statuses"), "the status")
    probe_headers = _at(data, "probe", "headers")
    if isinstance(probe_headers, dict):
        yield from _repeats(((("probe", "headers", key), key.lower()) for key in probe_headers), "the header")


def same_port(listen: Address, admin: Address | None) -> bool:
    """Whether the two cannot be bound together."""
    if admin is None or listen.port == 0 or listen.port != admin.port:
        return False
    return listen.host == admin.host or not {listen.host, admin.host}.isdisjoint({"0.0.0.0", "::"})


def _at(data: object, *path: str | int) -> Any:
    for part in path:
        if isinstance(part, str) and isinstance(data, dict):
            data = data.get(part)
        elif isinstance(part, int) and isinstance(data, list) and part < len(data):
            data = data[part]
        else:
            return None
    return data


def _items(data: object, *path: str | int) -> Iterator[tuple[Path, Any]]:
    found = _at(data, *path)
    for index, item in enumerate(found if isinstance(found, list) else ()):
        yield (*path, index), item


def _repeats(items: Iterable[tuple[Path, Hashable]], what: str) -> Iterator[Finding]:
    first: dict[Hashable, Path] = {}
    for path, item in items:
        if not isinstance(item, str | int | tuple):
            continue
        if item in first:
            shown = shortened("/".join(map(str, item)) if isinstance(item, tuple) else str(item))
            yield Finding(path, f"{what} {shown} is given twice, first at {path_text(first[item])}")
        else:
            first[item] = path


def _unavailable(data: dict[str, Any], not_yet: Iterable[str]) -> Iterator[Finding]:
    for name in not_yet:
        path: Path = tuple(name.split("."))
        value = _at(data, *path)
        if value is not None and value is not False and value != "off":
            yield Finding(path, "is not available in this version; write off or leave it out", at_key=True)


def _frontends(data: object) -> Iterator[tuple[Path, str]]:
    for path, _ in _items(data, "discovery", "pools"):
        yield from _urls(data, *path, "frontends")


def _urls(data: object, *path: str | int) -> Iterator[tuple[Path, str]]:
    for at, text in _items(data, *path):
        try:
            yield at, values.url(text)
        except values.NotAllowed:
            continue


def _discovery(data: dict[str, Any]) -> Iterator[Finding]:
    section = data.get("discovery")
    if not isinstance(section, dict):
        return
    if "urls" in section and "pools" in section:
        yield Finding(("discovery", "pools"), "cannot stand beside discovery.urls; exactly one is allowed", at_key=True)
    if "urls" not in section and "pools" not in section:
        yield Finding(("discovery",), "needs urls or pools")
    yield from _repeats(_urls(data, "discovery", "urls"), "the URL")
    yield from _repeats(_frontends(data), "the frontend")
    yield from _repeats(_pool_keys(data), "the pool")


def _pool_keys(data: object) -> Iterator[tuple[Path, tuple[str, ...]]]:
    for path, pool in _items(data, "discovery", "pools"):
        key = tuple(_at(pool, part) for part in ("cluster", "namespace", "name"))
        if all(isinstance(part, str) for part in key):
            yield path, key


def _models(data: dict[str, Any]) -> Iterator[Finding]:
    yield from _repeats(_model_names(data), "the model name")
    for path, _ in _items(data, "models"):
        for at, selector in _items(data, *path, "pools"):
            if selector == {}:
                yield Finding(at, "must name at least one of cluster, region, namespace and name")


def _model_names(data: object) -> Iterator[tuple[Path, Hashable]]:
    """Ids first: an alias that is somebody's id is the one to change."""
    for path, _ in _items(data, "models"):
        yield (*path, "id"), _at(data, *path, "id")
    for path, _ in _items(data, "models"):
        yield from _items(data, *path, "aliases")


def _amounts(data: dict[str, Any]) -> Iterator[Finding]:
    yield from _ordered(data, ("limits", "body", "buffered"), values.size, values.show_size, Limits())
    yield from _ordered(data, ("ejection", "base", "max"), values.duration, values.show_duration, Ejection())


def _ordered(
    data: dict[str, Any],
    names: tuple[str, str, str],
    read: Callable[[object], N],
    show: Callable[[N], object],
    defaults: Section,
) -> Iterator[Finding]:
    """The first amount of a section may not be above the second. The fault stands at one that is written."""
    section, small, large = names
    written = _at(data, section)
    if not isinstance(written, dict):
        return
    try:
        low, high = (read(written[key]) if key in written else getattr(defaults, key) for key in (small, large))
    except values.NotAllowed:
        return
    if low <= high:
        return
    if small in written:
        message = f"must be at most {section}.{large}, which is {show(high)}, got {written[small]!r}"
        yield Finding((section, small), message)
    else:
        message = f"must be at least {section}.{small}, which is {show(low)}, got {written[large]!r}"
        yield Finding((section, large), message)


def _upstream_tls(data: dict[str, Any]) -> Iterator[Finding]:
    section = _at(data, "upstream", "tls")
    if isinstance(section, dict):
        for one, other in (("certificate", "key"), ("key", "certificate")):
            if one in section and other not in section:
                yield Finding(("upstream", "tls", one), f"needs {other} beside it")


def _listeners(data: dict[str, Any]) -> Iterator[Finding]:
    default = Settings.model_fields
    try:
        listen = values.address(data.get("listen", default["listen"].default))
        admin = data.get("admin", default["admin"].default)
        if admin in ("off", False) or not same_port(listen, values.address(admin)):
            return
    except values.NotAllowed:
        return
    key, other = ("admin", "listen") if "admin" in data else ("listen", "admin")
    yield Finding((key,), f"must be another port than that of {other}, got {data[key]!r}")
