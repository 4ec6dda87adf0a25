"""Which JSON type each field has, so that everything behind this may rely on it.

Owns the refusal of bodies that a real server could not decode (400). Fields that are not named here may be anything;
null is an absent field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discovery.testing.cluster.failures import bad_request
from discovery.testing.cluster.kinds import (
    CLUSTER_PROPERTIES,
    ENDPOINT_SLICES,
    EVENTS,
    LEASES,
    NAMESPACES,
    SERVICE_EXPORTS,
    SERVICE_IMPORTS,
    SERVICES,
    Kind,
)

Shape = type | list[Any] | dict[str, Any]
"""A type; `[shape]` a list of it; `{name: shape}` an object; `{"*": shape}` an object whose every field has it."""

_TEXTS: Shape = {"*": str}
_OWNER: Shape = {"apiVersion": str, "kind": str, "name": str, "uid": str, "controller": bool}
_METADATA: Shape = {
    **dict.fromkeys(("name", "generateName", "namespace", "uid", "resourceVersion"), str),
    "labels": _TEXTS,
    "annotations": _TEXTS,
    "finalizers": [str],
    "ownerReferences": [_OWNER],
    "managedFields": [dict],
}
_CONDITIONS: Shape = [{"type": str, "status": str, "reason": str, "message": str, "lastTransitionTime": str}]
_PORT: Shape = {"name": str, "port": int, "protocol": str, "appProtocol": str}
_AFFINITY: Shape = {"clientIP": {"timeoutSeconds": int}}
_PLAIN: Shape = {"spec": dict, "status": {"conditions": _CONDITIONS}}

_SHAPES: Mapping[str, Shape] = {
    ENDPOINT_SLICES.resource: {
        "addressType": str,
        "endpoints": [{"addresses": [str], "conditions": {"*": bool}, "hostname": str, "targetRef": dict, "zone": str}],
        "ports": [_PORT],
    },
    SERVICES.resource: {
        "spec": {
            **dict.fromkeys(("type", "clusterIP", "ipFamilyPolicy", "sessionAffinity", "externalName"), str),
            "clusterIPs": [str],
            "ipFamilies": [str],
            "ports": [_PORT],
            "selector": _TEXTS,
            "sessionAffinityConfig": _AFFINITY,
        },
        "status": {"loadBalancer": dict, "conditions": _CONDITIONS},
    },
    NAMESPACES.resource: {"spec": {"finalizers": [str]}, "status": {"phase": str, "conditions": _CONDITIONS}},
    EVENTS.resource: {"involvedObject": _TEXTS, "reason": str, "type": str},
    LEASES.resource: {
        "spec": {
            **dict.fromkeys(("holderIdentity", "acquireTime", "renewTime"), str),
            "leaseDurationSeconds": int,
            "leaseTransitions": int,
        }
    },
    SERVICE_EXPORTS.resource: {
        "spec": {"exportedLabels": _TEXTS, "exportedAnnotations": _TEXTS},
        "status": {"conditions": _CONDITIONS},
    },
    SERVICE_IMPORTS.resource: {
        "spec": {
            "type": str,
            "ips": [str],
            "ipFamilies": [str],
            "ports": [_PORT],
            "sessionAffinity": str,
            "sessionAffinityConfig": _AFFINITY,
        },
        "status": {"clusters": [{"cluster": str}], "conditions": _CONDITIONS},
    },
    CLUSTER_PROPERTIES.resource: {"spec": {"value": str}},
}
_CALLED = {str: "string", int: "integer", bool: "boolean", dict: "object", list: "array"}


def check_shape(kind: Kind, body: Any) -> None:
    """Raises ApiFailure 400 that names the first field of a wrong type."""
    if not isinstance(body, dict):
        raise bad_request(f"json: cannot unmarshal {_name(body)} into an object of kind {kind.kind}")
    _check(body.get("metadata"), _METADATA, "metadata")
    _check(body, _SHAPES.get(kind.resource, _PLAIN), "")


def _check(value: Any, shape: Shape, path: str) -> None:
    if value is None:
        return
    wanted: Any = shape if isinstance(shape, type) else type(shape)
    # bool is an int in Python, not in JSON.
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise bad_request(f"json: cannot unmarshal {_name(value)} into field {path} of type {_CALLED[wanted]}")
    if isinstance(shape, list):
        for index, item in enumerate(value):
            if item is None:
                raise bad_request(f"json: cannot unmarshal null into field {path}[{index}]")
            _check(item, shape[0], f"{path}[{index}]")
    elif isinstance(shape, dict):
        every = shape.get("*")
        for name, below in value.items():
            known = shape.get(name) if every is None else every
            if known is not None:
                _check(below, known, f"{path}.{name}" if path else name)


def _name(value: Any) -> str:
    return "number" if isinstance(value, float) else _CALLED.get(type(value), "null")
