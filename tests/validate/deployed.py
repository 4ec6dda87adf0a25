"""A fake cluster in which the example fleet runs as it was rendered: the objects of k8s/rendered, pods of its
Deployments, frontends and GPU workers of a pool, nodes."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from discovery.kit.clock import SYSTEM_CLOCK
from discovery.testing.cluster import EVERYDAY, EVERYDAY_RULES, FakeCluster
from discovery.testing.cluster.kinds import copied
from global_ingress.validate.asking import Asking, Rendered
from global_ingress.validate.bundle import Object, read_bundle
from global_ingress.validate.checks.judge import judge
from global_ingress.validate.checks.verdicts import Check
from global_ingress.validate.clusters import opened
from global_ingress.validate.evidence import Evidence, Task
from tests.validate.evidences import good, task

FOLDER = Path(__file__).parents[2] / "k8s" / "rendered"
FILES = {path.relative_to(FOLDER).as_posix(): path.read_bytes() for path in FOLDER.rglob("*") if path.is_file()}
BUNDLE, OBJECTS = read_bundle("k8s/rendered", FILES)
NAMESPACE = BUNDLE.namespace
RENDERED = Rendered(OBJECTS, OBJECTS)
Break = Callable[[FakeCluster], None]


def nothing(fake: FakeCluster) -> None:
    """Leave it as it is."""


def changing(resource: str, namespace: str, name: str, change: Callable[[Object], object]) -> Break:
    """Spec and status alike, as from the inside of the cluster."""

    def broken(fake: FakeCluster) -> None:
        kind = fake.kind(resource)
        was = fake.get(resource, namespace, name)
        assert was is not None
        thing = {"kind": kind.kind, "apiVersion": kind.api_version(kind.versions[0]), **copied(was)}
        change(thing)
        fake.put(thing)

    return broken


def deleting(resource: str, namespace: str, name: str) -> Break:
    return lambda fake: fake.delete(resource, namespace, name)


def one_cluster(**changes: Any) -> Task:
    """The task of one region, ohio, with everything given."""
    return replace(task(1, ingresses=1), bundle=BUNDLE, rollback=BUNDLE, **changes)


@contextlib.asynccontextmanager
async def deployed() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(kinds=EVERYDAY, rules=EVERYDAY_RULES) as fake:
        fake.put({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "dynamo"}})
        fake.put_all(OBJECTS["ohio"])
        fake.put_all([_node("cpu-1", 0), _node("gpu-1", 8)])
        for workload in fake.objects("deployments", NAMESPACE):
            for turn in range(workload["spec"]["replicas"]):
                fake.put(pod_of_template(workload, turn))
        fake.put(pod("llama-frontend-0", "10.0.0.0", image="nvcr.io/dynamo:1.6.1", node="cpu-1"))
        fake.put(pod("llama-worker-0", "10.0.0.9", image="nvcr.io/dynamo:1.6.1", node="gpu-1"))
        yield fake


def _node(name: str, gpus: int) -> Object:
    status = {
        "conditions": [condition("Ready")],
        "allocatable": {"cpu": "8"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {}),
        "nodeInfo": {"kubeletVersion": "v1.34.0"},
    }
    return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}, "spec": {}, "status": status}


def condition(kind: str, status: str = "True") -> Object:
    return {"type": kind, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}


def pod_of_template(workload: Object, turn: int) -> Object:
    """A pod as the Deployment's controller and the kubelet make it."""
    template = workload["spec"]["template"]
    image = template["spec"]["containers"][0]["image"]
    return pod(
        f"{workload['metadata']['name']}-{turn}",
        f"10.1.0.{turn}",
        namespace=workload["metadata"]["namespace"],
        labels=template["metadata"]["labels"],
        spec=template["spec"],
        image=image,
        node="cpu-1",
    )


def pod(
    name: str,
    ip: str,
    *,
    image: str,
    node: str,
    namespace: str = "dynamo",
    labels: Object | None = None,
    spec: Object | None = None,
    port: int = 8000,
    owner: Object | None = None,
) -> Object:
    """A running pod with one container."""
    container = {"name": "main", "image": image, "ports": [{"containerPort": port}]}
    spec = spec or {"containers": [container]}
    status = {
        "phase": "Running",
        "podIP": ip,
        "conditions": [condition("Ready")],
        "containerStatuses": [
            {"name": one["name"], "image": image, "imageID": image, "restartCount": 0, "ready": True}
            for one in spec["containers"]
        ],
    }
    metadata: Object = {"name": name, "namespace": namespace, "labels": labels or {"app": name.rpartition("-")[0]}}
    metadata |= {"ownerReferences": [owner]} if owner else {}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": metadata,
        "spec": {**spec, "nodeName": node},
        "status": status,
    }


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of it."""

    evidence: Evidence
    checks: dict[str, Check]


async def judged(
    fake: FakeCluster,
    path: Path,
    *,
    of: Task | None = None,
    meanwhile: Break = nothing,
    rendered: Rendered = RENDERED,
    token: str = "",
    whole: Evidence | None = None,
) -> Judged:
    """Asks ohio's API server, lets `meanwhile` happen between the first look and the last, and judges."""
    of = of or one_cluster()
    of = replace(of, kubeconfigs=(("ohio", str(fake.kubeconfig(path / "kubeconfig", token=token)), ""),))
    whole = replace(whole or good(of, 1), task=of)
    async with opened(of, SYSTEM_CLOCK) as clusters:
        asking = Asking(clusters, of, rendered)
        await asking.first(whole.readings, lambda line: None)
        meanwhile(fake)
        evidence = replace(whole, clusters=await asking.last())
    return Judged(evidence, {check.id: check for check in judge(evidence)})
