"""Field ownership of a server-side apply: what is merged, what goes because it is not said any more, who owns what.

Pure. Lists whose items have keys are merged by them, all other lists are one value.
"""

from __future__ import annotations

from typing import Any

import orjson

Object = dict[str, Any]

_KEYED = {
    "metadata.ownerReferences": ("uid",),
    "status.conditions": ("type",),
    "status.clusters": ("cluster",),
    "Service.spec.ports": ("port", "protocol"),
}
_FINALIZERS = "metadata.finalizers"


def _at(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _keys(path: str) -> tuple[str, ...] | None:
    return _KEYED.get(path) or _KEYED.get(path.removeprefix("Service."))


def _named(keys: tuple[str, ...], item: Object) -> tuple[Any, ...]:
    return tuple(item.get(key) for key in keys)


def merged(live: Any, said: Any, path: str) -> Any:
    """What is there after `said` was applied, or merged (null removes)."""
    if isinstance(said, dict) and isinstance(live, dict):
        for key, value in said.items():
            if value is None:
                live.pop(key, None)
            else:
                live[key] = merged(live.get(key), value, _at(path, key))
        return live
    if isinstance(said, list) and isinstance(live, list):
        if path.endswith(_FINALIZERS):
            return [*live, *(one for one in said if one not in live)]
        if (keys := _keys(path)) is not None:
            found = {_named(keys, item): item for item in live}
            told = [merged(found.pop(_named(keys, item), {}), item, f"{path}[]") for item in said]
            return [*told, *found.values()]
    return said


def without(live: Any, before: Any, said: Any, path: str) -> Any:
    """`live` without what was said before and is not said now."""
    if not isinstance(before, dict) or not isinstance(live, dict):
        return live
    for key, value in before.items():
        below, now = _at(path, key), said.get(key) if isinstance(said, dict) else None
        if isinstance(value, dict):
            if isinstance(live.get(key), dict):
                without(live[key], value, now or {}, below)
                if not live[key]:
                    del live[key]
        elif isinstance(value, list) and isinstance(live.get(key), list):
            keys = _keys(below)
            if below.endswith(_FINALIZERS):
                live[key] = [one for one in live[key] if one not in value or one in (now or ())]
            elif keys is not None:
                gone = {_named(keys, item) for item in value} - {_named(keys, item) for item in now or ()}
                live[key] = [item for item in live[key] if _named(keys, item) not in gone]
            elif now is None:
                live.pop(key)
            if not live.get(key):
                live.pop(key, None)
        elif now is None:
            live.pop(key, None)
    return live


def fields_of(said: Any, path: str) -> Object:
    """FieldsV1."""
    found: Object = {}
    for key, value in said.items():
        below = _at(path, key)
        found[f"f:{key}"] = {}
        if isinstance(value, dict):
            found[f"f:{key}"] = fields_of(value, below)
        elif isinstance(value, list) and below.endswith(_FINALIZERS):
            found[f"f:{key}"] = {f"v:{orjson.dumps(one).decode()}": {} for one in value}
        elif isinstance(value, list) and (keys := _keys(below)) is not None:
            found[f"f:{key}"] = {
                f"k:{orjson.dumps({name: item.get(name) for name in keys}).decode()}": fields_of(item, f"{below}[]")
                for item in value
            }
    return found
