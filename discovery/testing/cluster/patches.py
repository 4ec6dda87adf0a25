"""Patches: merge (RFC 7386), JSON (RFC 6902) and strategic merge, as functions from old to new."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from discovery.testing.cluster.failures import ApiFailure, bad_request
from discovery.testing.cluster.kinds import Object

METADATA_MERGED: Mapping[str, str] = {"metadata.ownerReferences": "uid", "metadata.finalizers": ""}


def merge_patch(thing: Any, patch: Any) -> Any:
    """null removes, objects are merged, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(thing) if isinstance(thing, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def json_patch(thing: Object, operations: Any) -> Object:
    """Raises ApiFailure 400 for what is no patch, 422 when it does not fit the object (a failed test included)."""
    if not isinstance(operations, list):
        raise bad_request("error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    document: Any = copy.deepcopy(thing)
    for operation in operations:
        try:
            document = _operate(document, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            message = f"the server rejected our request due to an error in our request: {operation!r}: {error}"
            raise ApiFailure(422, "Invalid", message) from error
    if not isinstance(document, dict):
        raise bad_request("the patched document is no object")
    return document


def _operate(document: Any, operation: Object) -> Any:
    name, path = operation["op"], _pointer(operation["path"])
    if name in {"move", "copy"}:
        source = _pointer(operation["from"])
        value = copy.deepcopy(_at(document, source))
        if name == "move":
            document = _removed(document, source)
        return _added(document, path, value)
    if name == "remove":
        return _removed(document, path)
    value = copy.deepcopy(operation["value"])
    if name == "add":
        return _added(document, path, value)
    if name == "replace":
        _at(document, path)
        return _added(_removed(document, path), path, value)
    if name == "test":
        if _at(document, path) != value:
            raise ValueError("testing value failed")
        return document
    raise ValueError(f"unknown operation {name!r}")


def _pointer(text: str) -> list[str]:
    if text and not text.startswith("/"):
        raise ValueError(f"{text!r} is no JSON pointer")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _at(document: Any, path: Sequence[str]) -> Any:
    for part in path:
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document


def _added(document: Any, path: Sequence[str], value: Any) -> Any:
    if not path:
        return value
    home = _at(document, path[:-1])
    if isinstance(home, list):
        index = len(home) if path[-1] == "-" else int(path[-1])
        if not 0 <= index <= len(home):
            raise IndexError(f"index {index} is out of bounds")
        home.insert(index, value)
    else:
        home[path[-1]] = value
    return document


def _removed(document: Any, path: Sequence[str]) -> Any:
    if not path:
        return None
    home = _at(document, path[:-1])
    del home[int(path[-1]) if isinstance(home, list) else path[-1]]
    return document


def strategic_patch(thing: Any, patch: Any, merged: Mapping[str, str], dotted: str = "") -> Any:
    """What kubectl sends for kinds it knows. `merged` names the lists that are merged, and by which key; "" are
    lists of plain values; other lists are replaced."""
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    new = dict(thing) if isinstance(thing, dict) else {}
    if "$retainKeys" in patch:
        new = {key: value for key, value in new.items() if key in patch["$retainKeys"]}
    for key, value in patch.items():
        below = f"{dotted}.{key}" if dotted else key
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            new[name] = [item for item in new.get(name) or () if item not in value]
        elif key.startswith("$"):
            # The order of elements of a merged list: no kind here gives it a meaning.
            continue
        elif value is None:
            new.pop(key, None)
        elif isinstance(value, list) and below in merged:
            new[key] = _merged_list(new.get(key) or [], value, merged, below)
        elif isinstance(value, list):
            new[key] = value
        else:
            new[key] = strategic_patch(new.get(key), value, merged, below)
    return new


def _merged_list(items: list[Any], patch: list[Any], merged: Mapping[str, str], dotted: str) -> list[Any]:
    key = merged[dotted]
    if not key:
        return [*items, *(item for item in patch if item not in items)]
    if {"$patch": "replace"} in patch:
        return [item for item in patch if item != {"$patch": "replace"}]
    new = list(items)
    for change in patch:
        if key not in change:
            raise bad_request(f"map: {change!r} does not contain declared merge key: {key}")
        index = next((i for i, item in enumerate(new) if item.get(key) == change[key]), None)
        if change.get("$patch") == "delete":
            new = [item for item in new if item.get(key) != change[key]]
        elif index is None:
            new.append(strategic_patch({}, change, merged, dotted))
        else:
            new[index] = strategic_patch(new[index], change, merged, dotted)
    return new
