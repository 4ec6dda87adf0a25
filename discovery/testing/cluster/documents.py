"""What the server says of itself: API groups and resources, its version, and as much OpenAPI as kubectl asks for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from discovery.testing.cluster.kinds import Kind

_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]

VERSION: dict[str, Any] = {
    "major": "1",
    "minor": "34",
    "gitVersion": "v1.34.0+fake",
    "gitCommit": "0" * 40,
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "linux/amd64",
}


def document(path: str, kinds: Sequence[Kind]) -> dict[str, Any] | None:
    """The document at `path`, or None."""
    path = path.rstrip("/")
    fixed: dict[str, dict[str, Any]] = {
        "/version": VERSION,
        "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(g, kinds) for g in _groups(kinds)]},
        "/openapi/v2": _openapi_v2(kinds),
        "/openapi/v3": {"paths": {p: {"serverRelativeURL": f"/openapi/v3/{p}?hash=1"} for p in _places(kinds)}},
    }
    if path in fixed:
        return fixed[path]
    parts = path.split("/")[1:]
    if parts[0] == "openapi" and "/".join(parts[2:]) in _places(kinds):
        return _openapi_v3([(k, v) for k, v in _served(kinds) if _place(k, v) == "/".join(parts[2:])])
    if parts[0] == "apis" and len(parts) == 2 and parts[1] in _groups(kinds):
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(parts[1], kinds)}
    found = [(k, v) for k, v in _served(kinds) if _place(k, v) == "/".join(parts)]
    if not found:
        return None
    resources = [one for kind, version in found for one in _resources(kind, version)]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": found[0][0].api_version(found[0][1]),
        "resources": resources,
    }


def _served(kinds: Iterable[Kind]) -> list[tuple[Kind, str]]:
    return [(kind, version) for kind in kinds for version in kind.versions]


def _place(kind: Kind, version: str) -> str:
    return f"apis/{kind.group}/{version}" if kind.group else f"api/{version}"


def _places(kinds: Iterable[Kind]) -> list[str]:
    return list(dict.fromkeys(_place(kind, version) for kind, version in _served(kinds)))


def _groups(kinds: Iterable[Kind]) -> list[str]:
    return list(dict.fromkeys(kind.group for kind in kinds if kind.group))


def _group(group: str, kinds: Iterable[Kind]) -> dict[str, Any]:
    versions = list(dict.fromkeys(v for kind, v in _served(kinds) if kind.group == group))
    said = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": said, "preferredVersion": said[0]}


def _resources(kind: Kind, version: str) -> Iterable[dict[str, Any]]:
    base = {"singularName": kind.kind.lower(), "namespaced": kind.namespaced, "kind": kind.kind}
    yield {"name": kind.plural, **base, "verbs": _VERBS} | ({"shortNames": list(kind.short)} if kind.short else {})
    if kind.status:
        yield {"name": f"{kind.plural}/status", **base, "singularName": "", "verbs": ["get", "patch", "update"]}
    if kind.scale:
        of = {"group": "autoscaling", "version": "v1", "kind": "Scale", "singularName": ""}
        yield {"name": f"{kind.plural}/scale", **base, **of, "verbs": ["get", "patch", "update"]}


def _gvk(kind: Kind, version: str) -> dict[str, str]:
    return {"group": kind.group, "version": version, "kind": kind.kind}


def _openapi_v2(kinds: Sequence[Kind]) -> dict[str, Any]:
    info = {"title": "Kubernetes", "version": VERSION["gitVersion"]}
    return {"swagger": "2.0", "info": info, "paths": {}, "definitions": {}}


def _openapi_v3(served: Iterable[tuple[Kind, str]]) -> dict[str, Any]:
    """Kinds without fields: enough for a client that asks whether a patch may name a field validation."""
    paths, schemas = {}, {}
    for kind, version in served:
        home = "/namespaces/{namespace}" if kind.namespaced else ""
        validation = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
        patch = {"parameters": [validation], "x-kubernetes-group-version-kind": _gvk(kind, version), "responses": {}}
        paths[f"/{_place(kind, version)}{home}/{kind.plural}/{{name}}"] = {"patch": patch}
        name = ".".join([*reversed(kind.group.split(".")), version, kind.kind]).lstrip(".")
        schemas[name] = {"type": "object", "x-kubernetes-group-version-kind": [_gvk(kind, version)]}
    info = {"title": "Kubernetes", "version": VERSION["gitVersion"]}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}
