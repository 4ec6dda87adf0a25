"""What the programs may ask of the API server: the least that each needs, and nothing for the ingress."""

from __future__ import annotations

from collections.abc import Sequence

from global_ingress.render.fleet import Fleet
from global_ingress.render.objects import Object, made

READ = ("get", "list", "watch")
WRITE = (*READ, "create", "update", "patch", "delete")
_API = "rbac.authorization.k8s.io"
_MCS = "multicluster.x-k8s.io"


def allow(group: str, resources: Sequence[str], verbs: Sequence[str]) -> Object:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


DISCOVERY = [allow("discovery.k8s.io", ["endpointslices"], READ)]
CONTROLLER = [
    allow("", ["services"], WRITE),
    allow("discovery.k8s.io", ["endpointslices"], WRITE),
    allow(_MCS, ["serviceexports", "serviceimports"], WRITE),
    allow(_MCS, ["serviceexports/status", "serviceimports/status"], ["patch"]),
    allow(_MCS, ["serviceexports/finalizers", "serviceimports/finalizers"], ["update"]),
    allow("", ["namespaces"], READ),
    allow("", ["events"], ["create", "patch"]),
    allow("events.k8s.io", ["events"], ["create", "patch"]),
    allow("about.k8s.io", ["clusterproperties"], READ),
    allow("apiextensions.k8s.io", ["customresourcedefinitions"], ["get"]),
]
LEASES = [allow("coordination.k8s.io", ["leases"], ["get", "create", "update"])]


def discovery(fleet: Fleet) -> list[Object]:
    """A Role in each namespace that is named, the router's among them; a ClusterRole when none is."""
    if fleet.discovery.mode == "registrations":
        return []
    named = watched(fleet)
    if not named:
        return cluster_wide(fleet, "global-discovery", DISCOVERY)
    return [found for name in named for found in within(fleet, "global-discovery", name, DISCOVERY)]


def watched(fleet: Fleet) -> list[str]:
    """The namespaces that discovery watches; none = all."""
    named = list(fleet.discovery.watch_namespaces)
    if named and fleet.discovery.router is not None:
        named.append(fleet.discovery.router.namespace)
    return list(dict.fromkeys(named))


def controller(fleet: Fleet) -> list[Object]:
    part = "mcs-controller"
    return [*cluster_wide(fleet, part, CONTROLLER), *within(fleet, part, fleet.namespace, LEASES)]


def cluster_wide(fleet: Fleet, part: str, rules: Sequence[Object]) -> list[Object]:
    name = f"{fleet.namespace}:{part}"
    return [
        made(fleet, f"{_API}/v1", "ClusterRole", name, part, namespace=None, rules=list(rules)),
        _binding(fleet, "ClusterRole", name, part, None),
    ]


def within(fleet: Fleet, part: str, namespace: str, rules: Sequence[Object]) -> list[Object]:
    return [
        made(fleet, f"{_API}/v1", "Role", part, part, namespace=namespace, rules=list(rules)),
        _binding(fleet, "Role", part, part, namespace),
    ]


def _binding(fleet: Fleet, kind: str, name: str, part: str, namespace: str | None) -> Object:
    return made(
        fleet,
        f"{_API}/v1",
        f"{kind}Binding",
        name,
        part,
        namespace=namespace,
        roleRef={"apiGroup": _API, "kind": kind, "name": name},
        subjects=[{"kind": "ServiceAccount", "name": part, "namespace": fleet.namespace}],
    )
