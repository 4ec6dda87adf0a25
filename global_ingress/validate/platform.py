"""Evidence of clusters: what an API server says of its version, nodes, pods, objects and access rights. Pure.

Owns the frozen values of what was read there, and of the rendered bundle it is held against. Refuses to judge, and to
guess: what could not be read is `Unknown` with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unknown:
    """It could not be had; `reason` says why."""

    reason: str


@dataclass(frozen=True, slots=True, order=True)
class Container:
    """`image` as the pod asks for it, `image_id` as the kubelet resolved it, "" while it has not."""

    name: str
    image: str
    image_id: str
    restarts: int
    ready: bool


@dataclass(frozen=True, slots=True, order=True)
class Pod:
    """One pod. `part` is its `app.kubernetes.io/name`, `instance` its `app.kubernetes.io/instance`, "" without;
    `ports` what its containers declare; `token`: a token of the API server is mounted; `config` the ConfigMaps that it
    mounts; `lax` how its security context falls short of restricted, in words."""

    namespace: str
    name: str
    uid: str
    phase: str
    ready: bool
    node: str
    ip: str
    part: str
    instance: str
    containers: tuple[Container, ...]
    ports: tuple[int, ...] = ()
    token: bool = False
    account: str = ""
    config: tuple[str, ...] = ()
    lax: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def restarts(self) -> int:
        return sum(one.restarts for one in self.containers)


@dataclass(frozen=True, slots=True, order=True)
class Node:
    """One node; `gpus` is how many it offers."""

    name: str
    uid: str
    ready: bool
    gpus: int
    kubelet: str


@dataclass(frozen=True, slots=True)
class Look:
    """What runs in a cluster at one moment. `namespaces` are those that were read; None = all."""

    at: float
    pods: tuple[Pod, ...] | Unknown
    nodes: tuple[Node, ...] | Unknown
    namespaces: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, order=True)
class Compared:
    """A rendered object held against an API server: `differs` names what is otherwise there, `beside` the labels and
    annotations that others have added, a line each. `unknown`: why it could not be looked at, "" when it was."""

    name: str
    differs: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    unknown: str = ""


@dataclass(frozen=True, slots=True, order=True)
class Question:
    """May `account` of `namespace` do this? `home` is where it would, "" = everywhere; `wanted` what is to be so."""

    account: str
    verb: str
    group: str
    resource: str
    subresource: str
    home: str
    wanted: bool

    def __str__(self) -> str:
        what = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        kind = f"{what}.{self.group}" if self.group else what
        return f"{self.verb} {kind} {'in ' + self.home if self.home else 'in all namespaces'}"


@dataclass(frozen=True, slots=True)
class Access:
    """The API server's answer to a question."""

    question: Question
    allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ClusterEvidence:
    """Everything that was read of one cluster. `version` is Kubernetes' own (v1.34.0); `served` are
    `group/version kind` of all API resources; `live_config` the sha256 of each ingress settings file that is deployed,
    by ConfigMap."""

    cluster: str
    version: str | Unknown
    served: tuple[str, ...] | Unknown
    before: Look
    after: Look
    access: tuple[Access, ...] | Unknown
    objects: tuple[Compared, ...] | Unknown
    live_config: tuple[tuple[str, str], ...] | Unknown
    rollback: tuple[Compared, ...] | Unknown


@dataclass(frozen=True, slots=True)
class Bundle:
    """A rendered folder: what bundle.json says, and in what the folder is otherwise (`faults`, a line each).

    `sha256` is bundle.json's own; `images` are (image, digest or ""); `kinds` are (cluster, `group/version kind`)
    pairs; `configs` are (cluster, ConfigMap, sha256 of its settings).
    """

    folder: str
    sha256: str
    fleet: str
    fleet_sha256: str
    rendered_by: str
    namespace: str
    images: tuple[tuple[str, str], ...]
    configs: tuple[tuple[str, str, str], ...]
    kinds: tuple[tuple[str, str], ...]
    watched: tuple[tuple[str, str], ...]
    """(cluster, namespace) pairs in which discovery reads slices; the namespace "" = all."""
    faults: tuple[str, ...] = ()
