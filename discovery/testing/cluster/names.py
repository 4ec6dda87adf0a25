"""Names, labels and annotations: what is a legal one, and how a name is generated."""

from __future__ import annotations

import re

from discovery.testing.cluster.failures import Cause, required, wrong
from discovery.testing.cluster.kinds import Object
from discovery.testing.cluster.selectors import is_label_key, is_label_value

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_BASE = 58
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_FINALIZER = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


def generated(base: str, uid: str) -> str:
    """`base` (cut to 58 characters) and five characters without vowels, taken from `uid`."""
    number = int(uid.replace("-", ""), 16)
    suffix = ""
    for _ in range(5):
        number, index = divmod(number, len(_LETTERS))
        suffix += _LETTERS[index]
    return base[:_LONGEST_BASE] + suffix


def causes(metadata: Object, *, path_names: bool = False) -> list[Cause]:
    """Why this metadata is refused. `path_names`: the name may be whatever a segment of a path may be."""
    return [*_name(metadata, path_names), *_labels(metadata), *_rest(metadata)]


def _name(metadata: Object, path_names: bool) -> list[Cause]:
    name = metadata.get("name", "")
    if not name:
        return [required("metadata.name", "name or generateName is required")]
    if path_names and isinstance(name, str) and name not in {".", ".."} and not {"/", "%"} & set(name):
        return []
    if not isinstance(name, str) or len(name) > 253 or _SUBDOMAIN.fullmatch(name) is None:
        return [wrong("metadata.name", name, "a lowercase RFC 1123 subdomain must consist of lower case characters")]
    return []


def _labels(metadata: Object) -> list[Cause]:
    found = []
    for key, value in (metadata.get("labels") or {}).items():
        if not is_label_key(key):
            found.append(wrong("metadata.labels", key, "name part must consist of alphanumeric characters"))
        if not isinstance(value, str) or len(value) > 63:
            found.append(wrong("metadata.labels", value, "must be no more than 63 characters"))
        elif not is_label_value(value):
            found.append(
                wrong(
                    "metadata.labels",
                    value,
                    "a valid label must be an empty string or consist of alphanumeric characters",
                )
            )
    return found


def _rest(metadata: Object) -> list[Cause]:
    found = [
        wrong("metadata.annotations", key, "annotation keys are names, their values strings")
        for key, value in (metadata.get("annotations") or {}).items()
        if not is_label_key(key.lower()) or not isinstance(value, str)
    ]
    for name in metadata.get("finalizers") or ():
        if not isinstance(name, str) or _FINALIZER.fullmatch(name) is None:
            found.append(wrong("metadata.finalizers", name, "name part must consist of alphanumeric characters"))
    for index, owner in enumerate(metadata.get("ownerReferences") or ()):
        missing = [key for key in ("apiVersion", "kind", "name", "uid") if not owner.get(key)]
        found += [required(f"metadata.ownerReferences[{index}].{key}", "must not be empty") for key in missing]
    return found
