"""Pods, nodes and API resources as an API server writes them. Pure.

Owns what is taken from them. What is missing or of another type is read as not said; nothing here raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from global_ingress.validate.platform import Container, Node, Pod

_GPUS = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
_NAME, _INSTANCE = "app.kubernetes.io/name", "app.kubernetes.io/instance"


def _part(thing: object, key: str) -> Mapping[str, Any]:
    found = thing.get(key) if isinstance(thing, dict) else None
    return found if isinstance(found, dict) else {}


def _list(thing: object, key: str) -> list[Mapping[str, Any]]:
    found = thing.get(key) if isinstance(thing, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _text(thing: Mapping[str, Any], key: str) -> str:
    found = thing.get(key)
    return found if isinstance(found, str) else ""


def _number(thing: Mapping[str, Any], key: str) -> int:
    """A number, or a quantity that is a plain one."""
    found = thing.get(key)
    if isinstance(found, str) and found.isascii() and found.isdecimal():
        return int(found)
    return found if type(found) is int else 0


def pod_of(thing: Mapping[str, Any]) -> Pod:
    metadata, spec, status = _part(thing, "metadata"), _part(thing, "spec"), _part(thing, "status")
    labels = _part(metadata, "labels")
    seen = {_text(one, "name"): one for one in _list(status, "containerStatuses")}
    containers = _list(spec, "containers")
    return Pod(
        namespace=_text(metadata, "namespace"),
        name=_text(metadata, "name"),
        uid=_text(metadata, "uid"),
        phase=_text(status, "phase"),
        ready=_condition(status, "Ready"),
        node=_text(spec, "nodeName"),
        ip=_text(status, "podIP"),
        part=_text(labels, _NAME),
        instance=_text(labels, _INSTANCE),
        containers=tuple(_container(one, seen.get(_text(one, "name"), {})) for one in containers),
        ports=tuple(_number(port, "containerPort") for one in containers for port in _list(one, "ports")),
        token=any(_part(source, "serviceAccountToken") for source in _sources(spec)),
        account=_text(spec, "serviceAccountName") or "default",
        config=tuple(sorted(_text(_part(one, "configMap"), "name") for one in _list(spec, "volumes") if _config(one))),
        lax=tuple(_lax(spec)),
    )


def _container(spec: Mapping[str, Any], status: Mapping[str, Any]) -> Container:
    return Container(
        _text(spec, "name"),
        _text(spec, "image"),
        _text(status, "imageID"),
        _number(status, "restartCount"),
        status.get("ready") is True,
    )


def _condition(status: Mapping[str, Any], kind: str) -> bool:
    return any(one.get("type") == kind and one.get("status") == "True" for one in _list(status, "conditions"))


def _config(volume: Mapping[str, Any]) -> bool:
    return bool(_text(_part(volume, "configMap"), "name"))


def _sources(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for volume in _list(spec, "volumes"):
        yield from _list(_part(volume, "projected"), "sources")


def _lax(spec: Mapping[str, Any]) -> Iterator[str]:
    """Where a pod is less than restricted, or its root can be written to."""
    own = _part(spec, "securityContext")
    yield from (f"{name} is on" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name) is True)
    yield from (f"mounts {_text(one, 'name')} of the host" for one in _list(spec, "volumes") if "hostPath" in one)
    for container in [*_list(spec, "initContainers"), *_list(spec, "containers")]:
        mine, name = _part(container, "securityContext"), _text(container, "name")
        merged = {**own, **mine}
        capabilities = _part(mine, "capabilities")
        rules = {
            "may run as root": merged.get("runAsNonRoot") is not True,
            "may write to its root": mine.get("readOnlyRootFilesystem") is not True,
            "may gain privileges": mine.get("allowPrivilegeEscalation") is not False or mine.get("privileged") is True,
            "keeps capabilities": "ALL" not in (capabilities.get("drop") or ()) or bool(capabilities.get("add")),
            "has no seccomp profile": _text(_part(merged, "seccompProfile"), "type")
            not in {"RuntimeDefault", "Localhost"},
        }
        yield from (f"{name} {what}" for what, so in rules.items() if so)


def node_of(thing: Mapping[str, Any]) -> Node:
    metadata, status = _part(thing, "metadata"), _part(thing, "status")
    offered = _part(status, "allocatable")
    return Node(
        _text(metadata, "name"),
        _text(metadata, "uid"),
        _condition(status, "Ready"),
        sum(_number(offered, name) for name in _GPUS),
        _text(_part(status, "nodeInfo"), "kubeletVersion"),
    )


def served_of(place: str, document: Mapping[str, Any]) -> tuple[str, ...]:
    """`group/version kind` of each resource in an APIResourceList; subresources are left out."""
    kinds = {_text(one, "kind") for one in _list(document, "resources") if "/" not in _text(one, "name")}
    return tuple(sorted(f"{place} {kind}" for kind in kinds))


def plural_of(document: Mapping[str, Any], kind: str) -> tuple[str, bool] | None:
    """The resource's name in a path and whether it is in a namespace; None when the kind is not served."""
    for one in _list(document, "resources"):
        if one.get("kind") == kind and "/" not in _text(one, "name"):
            return _text(one, "name"), one.get("namespaced") is True
    return None
