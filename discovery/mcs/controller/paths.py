"""Where the objects of multi-cluster services stand on an API server. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from discovery.mcs import names
from discovery.mcs.controller.changes import Ref

_HOMES: Final[Mapping[str, str]] = {
    "services": "/api/v1",
    "namespaces": "/api/v1",
    "events": "/api/v1",
    "endpointslices": "/apis/discovery.k8s.io/v1",
}
MCS_HOME: Final = f"/apis/{names.GROUP}"
ABOUT_HOME: Final = f"/apis/{names.ABOUT_GROUP}"


def collection(resource: str, version: str, namespace: str | None = None) -> str:
    """Of one namespace, or of all. `version`: the served one of the multi-cluster API."""
    home = _HOMES.get(resource, f"{MCS_HOME}/{version}")
    return f"{home}/namespaces/{namespace}/{resource}" if namespace else f"{home}/{resource}"


def one(ref: Ref, version: str) -> str:
    return f"{collection(ref.resource, version, ref.namespace)}/{ref.name}"


def served_version(group: dict[str, Any]) -> str | None:
    """The version to speak, of those an APIGroup names; None when there is none that is known here."""
    listed = group.get("versions")
    found = {each.get("version") for each in listed if isinstance(each, dict)} if isinstance(listed, list) else set()
    return next((version for version in names.VERSIONS if version in found), None)
