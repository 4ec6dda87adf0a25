"""Who owns which field: metadata.managedFields, and server-side apply on top of it.

Owns field sets (FieldsV1, both ways), what a plain write does to them, and the merge of an applied configuration:
conflicts, forced take-over, removal of what its manager no longer names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from discovery.testing.cluster.failures import ApiFailure, internal
from discovery.testing.cluster.kinds import Kind, Object, copied

Path = tuple[str, ...]
"""Elements as FieldsV1 writes them: `f:spec`, `k:{"type":"Valid"}`, `v:"a-finalizer"`."""

_METADATA_LISTS: Mapping[str, tuple[str, ...]] = {"metadata.ownerReferences": ("uid",), "metadata.finalizers": ()}
_METADATA_OWNED = frozenset({"labels", "annotations", "ownerReferences", "finalizers"})
_NOTHING = object()
_KUBECTL_FROM_CLIENT = "kubectl-client-side-apply"


@dataclass
class Entry:
    """One entry of managedFields."""

    manager: str
    operation: str
    api_version: str
    subresource: str
    time: str
    fields: set[Path] = field(default_factory=set)

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.manager, self.operation, self.api_version, self.subresource

    def encoded(self) -> Object:
        entry = {
            "manager": self.manager,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": _encode(self.fields),
        }
        return entry | ({"subresource": self.subresource} if self.subresource else {})


def _encode(paths: Iterable[Path]) -> Object:
    tree: Object = {}
    for path in sorted(paths):
        at = tree
        for element in path:
            at = at.setdefault(element, {})
        if path[-1].startswith("k:"):
            at["."] = {}
    return tree


def _decode(tree: Object, path: Path = ()) -> Iterator[Path]:
    for element, below in tree.items():
        here = path if element == "." else (*path, element)
        if not below:
            yield here
        else:
            yield from _decode(below, here)


def entries(thing: Object) -> list[Entry]:
    return [
        Entry(
            raw["manager"],
            raw["operation"],
            raw["apiVersion"],
            raw.get("subresource", ""),
            raw["time"],
            set(_decode(raw["fieldsV1"])),
        )
        for raw in thing["metadata"].get("managedFields") or ()
    ]


def drop_managed_times(thing: Object) -> Object:
    """The object without what a write of the same content would change: its version and the times of its managers."""
    metadata = {key: value for key, value in thing["metadata"].items() if key != "resourceVersion"}
    timeless = [{k: v for k, v in entry.items() if k != "time"} for entry in metadata.get("managedFields") or ()]
    return {**thing, "metadata": {**metadata, "managedFields": timeless}}


def _list_keys(kind: Kind, dotted: str) -> tuple[str, ...] | None:
    found = kind.lists.get(dotted)
    return _METADATA_LISTS.get(dotted) if found is None else found


def _names(kind: Kind, keys: tuple[str, ...], item: Object) -> Object:
    """What tells this item from the others: its keys, with their defaults."""
    return {key: item.get(key, kind.key_defaults.get(key)) for key in sorted(keys)}


def _element(kind: Kind, keys: tuple[str, ...], item: Any) -> str:
    return "k:" + orjson.dumps(_names(kind, keys, item)).decode() if keys else "v:" + orjson.dumps(item).decode()


def leaves(kind: Kind, value: Any, path: Path = (), dotted: str = "") -> Iterator[tuple[Path, Any]]:
    """Every field that somebody can own, with its value."""
    if isinstance(value, dict) and dotted not in kind.atoms:
        if not value and path:
            yield path, value
        for key, below in value.items():
            yield from leaves(kind, below, (*path, f"f:{key}"), f"{dotted}.{key}" if dotted else key)
        return
    keys = _list_keys(kind, dotted) if isinstance(value, list) else None
    if keys is None:
        yield path, value
        return
    for item in value:
        here = (*path, _element(kind, keys, item))
        yield here, _names(kind, keys, item) if keys else item
        if keys:
            yield from leaves(kind, item, here, dotted)


def _owned(kind: Kind, thing: Object | None, subresource: str) -> dict[Path, Any]:
    if thing is None:
        return {}
    if subresource:
        part: Object = {"status": thing["status"]} if "status" in thing else {}
    else:
        part = {key: value for key, value in thing.items() if key not in {"metadata", "kind", "apiVersion"}}
        if kind.status:
            part.pop("status", None)
        metadata = {key: value for key, value in thing["metadata"].items() if key in _METADATA_OWNED}
        part |= {"metadata": metadata} if metadata else {}
    return dict(leaves(kind, part))


def record_update(
    kind: Kind, version: str, manager: str, subresource: str, before: Object | None, new: Object, stamp: str
) -> None:
    """Give the fields that a plain write has changed to its manager, in the managedFields of `new`."""
    old, now = _owned(kind, before, subresource), _owned(kind, new, subresource)
    changed = {path for path, value in now.items() if old.get(path, _NOTHING) != value}
    gone = old.keys() - now.keys()
    if not changed and not gone:
        return
    mine = Entry(manager, "Update", kind.api_version(version), subresource, stamp)
    kept = []
    for entry in entries(new):
        if entry.key == mine.key:
            mine.fields = entry.fields - gone
            continue
        entry.fields -= changed | gone
        kept.append(entry)
    mine.fields |= changed
    _write(new, [*kept, mine])


def _write(thing: Object, managers: Iterable[Entry]) -> None:
    thing["metadata"]["managedFields"] = [entry.encoded() for entry in managers if entry.fields]


@dataclass(frozen=True, slots=True)
class Application:
    """An apply request: `body` is the whole wish of `manager`."""

    kind: Kind
    version: str
    manager: str
    subresource: str
    body: Object
    force: bool
    stamp: str


def apply(live: Object, wish: Application) -> Object:
    """`live` as the application wants it. Raises 409 naming the fields that others own with other values."""
    kind = wish.kind
    mine = Entry(wish.manager, "Apply", kind.api_version(wish.version), wish.subresource, wish.stamp)
    wanted = _owned(kind, wish.body, wish.subresource)
    _no_twins(kind, wish.body)
    now = _owned(kind, live, wish.subresource)
    others = [entry for entry in entries(live) if entry.key != mine.key]
    had = {path for entry in entries(live) if entry.key == mine.key for path in entry.fields}
    taken = {path for path, value in wanted.items() if now.get(path, _NOTHING) != value}
    if not wish.force:
        _no_conflicts(kind, wish, taken, others)
    for entry in others:
        entry.fields -= taken
    mine.fields = set(wanted)
    part: Object = {"status": wish.body.get("status", {})} if wish.subresource else _appliable(kind, wish.body)
    new: Object = _merged(kind, copied(live), part, "")
    shared = {path for entry in others for path in entry.fields}
    for path in sorted(had - mine.fields - shared, key=len):
        if not any(other[: len(path)] == path for other in mine.fields | shared):
            _remove(kind, new, path)
    _write(new, [*others, mine])
    return new


def _appliable(kind: Kind, body: Object) -> Object:
    part = {key: value for key, value in body.items() if key not in {"metadata", "kind", "apiVersion"}}
    if kind.status:
        part.pop("status", None)
    metadata = {key: value for key, value in body["metadata"].items() if key in _METADATA_OWNED}
    return part | ({"metadata": metadata} if metadata else {})


def _no_twins(kind: Kind, body: Object) -> None:
    for dotted, keys in kind.lists.items():
        value: Any = body
        for key in dotted.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        names = [_element(kind, keys, item) for item in value or ()]
        if len(names) != len(set(names)):
            raise internal(f"failed to create typed patch object: .{dotted}: duplicate entries for key")


def _no_conflicts(kind: Kind, wish: Application, taken: set[Path], others: list[Entry]) -> None:
    # kubectl may take over, by its server-side apply, what it has applied from the client's side before.
    spared = _KUBECTL_FROM_CLIENT if wish.manager == "kubectl" else ""
    found = [(e, path) for e in others if e.manager != spared for path in sorted(e.fields & taken)]
    if not found:
        return
    causes = [
        {"reason": "FieldManagerConflict", "message": f'conflict with "{entry.manager}"', "field": _shown(path)}
        for entry, path in found
    ]
    fields = ", ".join(_shown(path) for _, path in found)
    message = f"Apply failed with {len(found)} conflict{'s' * (len(found) > 1)}: {causes[0]['message']}: {fields}"
    details = {"name": wish.body["metadata"].get("name", ""), "group": kind.group, "kind": kind.plural}
    raise ApiFailure(409, "Conflict", message, details=details | {"causes": causes})


def _shown(path: Path) -> str:
    return "".join(f".{part[2:]}" if part.startswith("f:") else f"[{part[2:]}]" for part in path)


def _merged(kind: Kind, live: Any, wish: Any, dotted: str) -> Any:
    if isinstance(wish, dict) and isinstance(live, dict) and dotted not in kind.atoms:
        for key, value in wish.items():
            below = f"{dotted}.{key}" if dotted else key
            live[key] = _merged(kind, live[key], value, below) if key in live else copied(value)
        return live
    keys = _list_keys(kind, dotted) if isinstance(wish, list) else None
    if keys is None or not isinstance(live, list):
        return copied(wish)
    places = {_element(kind, keys, item): index for index, item in enumerate(live)}
    for item in wish:
        index = places.get(_element(kind, keys, item))
        if index is None:
            live.append(copied(item))
        elif keys:
            live[index] = _merged(kind, live[index], item, dotted)
    return live


def _remove(kind: Kind, thing: Object, path: Path) -> None:
    at: Any = thing
    dotted: list[str] = []
    for element in path[:-1]:
        at = at.get(element[2:]) if element.startswith("f:") else _item(kind, at, ".".join(dotted), element)
        if at is None:
            return
        if element.startswith("f:"):
            dotted.append(element[2:])
    last = path[-1]
    if last.startswith("f:"):
        at.pop(last[2:], None)
        return
    item = _item(kind, at, ".".join(dotted), last)
    if item is not None:
        at.remove(item)


def _item(kind: Kind, items: list[Any], dotted: str, element: str) -> Any:
    keys = _list_keys(kind, dotted) or ()
    return next((item for item in items if _element(kind, keys, item) == element), None)
