"""Kubernetes objects as JSON, and whether a live one already is what we want.

Pure. Compares only what we would apply: what the server filled in and what others own is not ours to judge. What we
applied once and no longer want is found in `managedFields`, of which only our own entries are kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from discovery.kube import labels
from discovery.mcs import names
from discovery.mcs.model import ServiceKey

Object = dict[str, Any]

_OWNERS: Final = (names.FIELD_OWNER, names.STATUS_FIELD_OWNER)
_KEYED: Final[Mapping[str, tuple[str, ...]]] = {
    "metadata.ownerReferences": ("uid",),
    "status.conditions": ("type",),
    "status.clusters": ("cluster",),
    "Service.spec.ports": ("port", "protocol"),
}
"""Lists whose items are known by a key, of which others may have some; all other lists are one value."""


def metadata(thing: Object) -> Object:
    found = thing.get("metadata")
    return found if isinstance(found, dict) else {}


def key_of(thing: Object) -> ServiceKey:
    """Namespace and name of any object, as the key of a Service of that name."""
    return ServiceKey(str(metadata(thing).get("namespace", "")), str(metadata(thing).get("name", "")))


def uid_of(thing: Object) -> str:
    return str(metadata(thing).get("uid", ""))


def labels_of(thing: Object) -> Mapping[str, str]:
    return metadata(thing).get("labels") or {}


def annotations_of(thing: Object) -> Mapping[str, str]:
    return metadata(thing).get("annotations") or {}


def spec_of(thing: Object) -> Object:
    found = thing.get("spec")
    return found if isinstance(found, dict) else {}


def is_deleting(thing: Object) -> bool:
    return metadata(thing).get("deletionTimestamp") is not None


def is_ours(thing: Object) -> bool:
    """Whether we made it: all others are left alone."""
    return labels_of(thing).get(labels.MCS_OURS) == names.CONTROLLER


def conditions_of(thing: Object) -> dict[str, Object]:
    """By type; what is no condition is none."""
    status = thing.get("status")
    found = status.get("conditions") if isinstance(status, dict) else None
    return {str(one.get("type")): one for one in found or () if isinstance(one, dict)}


def kept(thing: object) -> Object:
    """The object without what others say of their fields. Raises ValueError for what has no name."""
    if not isinstance(thing, dict) or not metadata(thing).get("name"):
        raise ValueError("an object with a name was expected")
    managers = [one for one in metadata(thing).get("managedFields") or () if one.get("manager") in _OWNERS]
    return {**thing, "metadata": {**metadata(thing), "managedFields": managers}}


def fits(live: Object, wanted: Object, owner: str, subresource: str = "") -> bool:
    """Whether applying `wanted` as `owner` would change nothing in `live`."""
    # In a Service ports are known by their numbers; in all else they are one value.
    root = "Service" if wanted.get("kind") == "Service" else ""
    # Items of a list do not say their kind, and which version was asked for changes nothing.
    if not _covers(live, {key: part for key, part in wanted.items() if key not in ("kind", "apiVersion")}, root):
        return False
    for entry in metadata(live).get("managedFields") or ():
        if (entry.get("manager"), entry.get("operation"), entry.get("subresource", "")) == (
            owner,
            "Apply",
            subresource,
        ):
            return not any(_dropped(entry.get("fieldsV1") or {}, wanted))
    return False


def _covers(live: Any, wanted: Any, path: str) -> bool:
    if isinstance(wanted, dict):
        if not isinstance(live, dict):
            # The server leaves out what is empty.
            return not wanted and live is None
        return all(_covers(live.get(key), value, f"{path}.{key}" if path else key) for key, value in wanted.items())
    if isinstance(wanted, list):
        return _covers_list(live if isinstance(live, list) else [], wanted, path)
    return bool(live == wanted)


def _covers_list(live: list[Any], wanted: list[Any], path: str) -> bool:
    if path.endswith("metadata.finalizers"):
        return set(wanted) <= set(live)
    if (keys := _KEYED.get(path) or _KEYED.get(path.removeprefix("Service."))) is not None:
        found = {tuple(item.get(key) for key in keys): item for item in live}
        return all(_covers(found.get(tuple(item.get(key) for key in keys)), item, f"{path}[]") for item in wanted)
    return len(live) == len(wanted) and all(
        _covers(one, other, f"{path}[]") for one, other in zip(live, wanted, strict=True)
    )


def _dropped(tree: Object, wanted: Any) -> Iterator[str]:
    """The fields of this FieldsV1 that `wanted` does not name."""
    for element, below in tree.items():
        kind, _, text = element.partition(":")
        if kind == "f":
            if not isinstance(wanted, dict) or text not in wanted:
                yield element
            else:
                yield from _dropped(below, wanted[text])
        elif kind == "k":
            keys = json.loads(text)
            item = next((one for one in wanted or () if _named(one, keys)), None)
            if item is None:
                yield element
            else:
                yield from _dropped(below, item)
        elif kind == "v" and json.loads(text) not in (wanted or ()):
            yield element


def _named(item: Object, keys: Object) -> bool:
    # A key that an item leaves out is its default, which the server has written.
    return all(item.get(key, value) == value for key, value in keys.items())


def reference(thing: Object) -> Object:
    """An ownerReference to this object as it is now."""
    return {
        "apiVersion": thing["apiVersion"],
        "kind": thing["kind"],
        "name": metadata(thing)["name"],
        "uid": uid_of(thing),
    }
