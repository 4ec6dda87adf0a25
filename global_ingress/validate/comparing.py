"""A live object against the one that was rendered. Pure.

`wanted` is what the API server makes of the rendered object when it is told to create it under another name and to
change nothing (a server-side dry run): with all defaults, as of now. Every other difference is somebody's doing.
Labels and annotations that stand beside the rendered ones are overrides: they are told, and are no difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

_SERVERS = frozenset(
    {"name", "namespace", "uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink"}
)
_ALLOCATED = frozenset({"spec.clusterIP", "spec.clusterIPs", "secrets", "status"})
"""What each object gets for itself, whatever was rendered."""
_EXPECTED = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "deployment.kubernetes.io/revision",
        "kubernetes.io/metadata.name",
    }
)
_WORDS = ("labels", "annotations")
_LONGEST = 80


def differences(
    rendered: Mapping[str, Any], wanted: Mapping[str, Any], live: Mapping[str, Any]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What differs, and what stands beside it, a line each."""
    found, beside = list[str](), list[str]()
    spec = rendered.get("spec")
    scaled = not isinstance(spec, dict) or "replicas" not in spec  # by an autoscaler: how many is its business
    for path, one, other in _walk(_content(wanted), _content(live), ""):
        if path == "spec.replicas" and scaled:
            continue
        if one is _NOTHING and _is_word(path):
            if path.rpartition(" ")[2] not in _EXPECTED:
                beside.append(f"{path}: {_shown(other)}")
        elif path.rpartition(" ")[2] not in _EXPECTED:
            found.append(f"{path} is {_shown(other)}, rendered {_shown(one)}")
    return tuple(found), tuple(beside)


class _Nothing:
    pass


_NOTHING = _Nothing()


def _content(thing: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in (thing.get("metadata") or {}).items() if key not in _SERVERS}
    return {**thing, "metadata": metadata}


def _walk(wanted: Any, live: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Each place in which they differ, with both values. Absent, null and empty are alike, as in the API."""
    if path in _ALLOCATED and "None" not in (wanted, live):
        return
    if isinstance(wanted, dict) and isinstance(live, dict):
        between = " " if path.rpartition(".")[2] in _WORDS else "."
        for key in [*wanted, *(key for key in live if key not in wanted)]:
            below = f"{path}{between}{key}" if path else key
            yield from _walk(wanted.get(key, _NOTHING), live.get(key, _NOTHING), below)
    elif isinstance(wanted, list) and isinstance(live, list) and _keyed(wanted) and _keyed(live):
        yield from _walk_items(wanted, live, path)
    elif isinstance(wanted, dict) and live is _NOTHING:
        yield from _walk(wanted, {}, path)
    elif isinstance(live, dict) and wanted is _NOTHING and (path.rpartition(".")[2] in _WORDS or not live):
        yield from _walk({}, live, path)
    elif not (_is_empty(wanted) and _is_empty(live)) and wanted != live:
        yield path, wanted, live


def _walk_items(wanted: list[Any], live: list[Any], path: str) -> Iterator[tuple[str, Any, Any]]:
    ones, others = ({item["name"]: item for item in items} for items in (wanted, live))
    for name in [*ones, *(name for name in others if name not in ones)]:
        yield from _walk(ones.get(name, _NOTHING), others.get(name, _NOTHING), f"{path}[{name}]")


def _keyed(items: list[Any]) -> bool:
    names = [item.get("name") if isinstance(item, dict) else None for item in items]
    return all(isinstance(name, str) for name in names) and len(names) == len(set(names))


def _is_empty(value: Any) -> bool:
    return value is _NOTHING or value is None or value in ({}, [])


def _is_word(path: str) -> bool:
    return path.partition(" ")[0].rpartition(".")[2] in _WORDS


def _shown(value: Any) -> str:
    if value is _NOTHING:
        return "not there"
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
