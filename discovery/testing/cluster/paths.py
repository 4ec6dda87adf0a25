"""What a path and a method ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from discovery.testing.cluster.failures import method_not_allowed, no_such_path
from discovery.testing.cluster.kinds import Kind

_ON_ONE = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_ON_ALL = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}


@dataclass(frozen=True, slots=True)
class Asked:
    """`namespace` None: all of them (or the kind has none); `name` "": the collection."""

    verb: str
    kind: Kind
    version: str
    namespace: str | None
    name: str
    subresource: str

    @property
    def home(self) -> str:
        return self.namespace or ""


def parse(method: str, path: str, watch: bool, kinds: Sequence[Kind]) -> Asked | None:
    """None: not a resource's path. Raises ApiFailure 404 or 405."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace: str | None = None
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in {"status", "finalize"}:
        namespace, rest = rest[1], rest[2:]
    kind = next((k for k in kinds if (k.group, k.plural) == (group, rest[0]) and version in k.versions), None)
    if kind is None or len(rest) > 3 or (namespace is not None and not kind.namespaced):
        raise no_such_path()
    name, subresource = (*rest[1:], "", "")[:2]
    _known_subresource(kind, name, subresource, namespace)
    verb = (_ON_ONE if name else _ON_ALL).get(method)
    if verb is None or (subresource and verb == "delete") or (verb == "create" and kind.namespaced and not namespace):
        raise method_not_allowed()
    return Asked("watch" if verb == "list" and watch else verb, kind, version, namespace, name, subresource)


def _known_subresource(kind: Kind, name: str, subresource: str, namespace: str | None) -> None:
    if subresource and not ((subresource == "status" and kind.status) or (subresource == "scale" and kind.scale)):
        raise no_such_path()
    if name and kind.namespaced and namespace is None:
        raise no_such_path()
