"""Which pods stand behind a pool's addresses, and what keeps them. Pure.

Owns the way from a frontend's URL to its pod and on to the workload that makes it anew. Refuses to guess: an address at
which no pod is seen, or a pod that nothing keeps, is `None`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from global_ingress.validate.cluster_reading import pod_of

SCALED = {"Deployment": "deployments", "ReplicaSet": "replicasets", "StatefulSet": "statefulsets"}
"""Kinds that have a scale, and their names in a path."""
Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Owner:
    """What made an object, and would make it again."""

    kind: str
    name: str


def pods_at(pods: Sequence[Object], frontends: Sequence[str]) -> list[Object]:
    """The pods at these URLs, sorted by name. Pods may share an address (a node's): the ports that they declare tell
    them apart, and one that declares none must be alone there."""
    wanted = {(parts.hostname, parts.port) for parts in map(urlsplit, frontends)}
    found = []
    for one in pods:
        pod = pod_of(one)
        same = [port for host, port in wanted if host == pod.ip]
        alone = sum(pod_of(other).ip == pod.ip for other in pods) == 1
        if same and not _ending(one) and (set(same) & set(pod.ports) if pod.ports else alone):
            found.append(one)
    return sorted(found, key=lambda one: pod_of(one).name)


def _ending(thing: Object) -> bool:
    return "deletionTimestamp" in thing["metadata"]


def owner_of(thing: Object) -> Owner | None:
    """The controller of an object."""
    for one in thing["metadata"].get("ownerReferences") or ():
        if one.get("controller") is True:
            return Owner(one["kind"], one["name"])
    return None


def by_hand(namespace: str, owner: Owner, replicas: int) -> str:
    """The command that brings it back."""
    return f"kubectl -n {namespace} scale {owner.kind.lower()}/{owner.name} --replicas={replicas}"
