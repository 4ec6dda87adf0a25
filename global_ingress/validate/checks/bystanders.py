"""The check of bystanders: who has nothing to do with it keeps identity and health. Pure.

Protected are the nodes with GPUs, the pods on them, and the pods of the namespaces that the operator names; but not the
pods of the pools that were disturbed by leave, nor ours, which have checks of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

from global_ingress.validate.checks.clusters import Seen, changed, in_every_cluster
from global_ingress.validate.checks.verdicts import Check, open_check
from global_ingress.validate.evidence import Evidence
from global_ingress.validate.platform import ClusterEvidence, Node, Pod, Unknown


def check_bystanders(evidence: Evidence) -> Check:
    clause = "protected pods, and nodes with GPUs and the pods on them, keep identity and health"
    blank = open_check("acceptance.bystanders", 7, clause, "")

    def look(seen: Seen, one: ClusterEvidence) -> None:
        before, after = one.before, one.after
        for value in (before.pods, after.pods, before.nodes, after.nodes):
            if isinstance(value, Unknown):
                seen.lacks(one, value)
                break
        nodes = () if isinstance(before.nodes, Unknown) else tuple(node for node in before.nodes if node.gpus)
        if not isinstance(after.nodes, Unknown):
            seen.asked += len(nodes)
            seen.wrong += [f"{one.cluster}: {line}" for line in _changed_nodes(nodes, after.nodes)]
        if isinstance(before.pods, Unknown) or isinstance(after.pods, Unknown):
            return
        pods = list(_protected(evidence, one, before.pods, {node.name for node in nodes}))
        seen.asked += len(pods)
        seen.wrong += [f"{one.cluster}: {line}" for line in changed(pods, after.pods)]
        if not pods and not nodes:
            seen.unknown.append(f"{one.cluster}: no node with GPUs is seen, and --protect names nobody here")

    return in_every_cluster(blank, evidence, look, "{seen.asked} bystanders kept identity and health")


def _protected(evidence: Evidence, one: ClusterEvidence, pods: tuple[Pod, ...], nodes: set[str]) -> Iterator[Pod]:
    spared = {
        (pool.key.split("/")[1], url.rpartition("//")[2].rpartition(":")[0].strip("[]"))
        for pool in (seen.before for seen in evidence.disturbances)
        if pool.key.startswith(f"{one.cluster}/")
        for url in pool.frontends
    }
    bundle = evidence.task.bundle
    for pod in pods:
        ours = bundle is not None and pod.namespace == bundle.namespace
        wanted = pod.namespace in evidence.task.protect or pod.node in nodes
        if wanted and not ours and pod.phase == "Running" and (pod.namespace, pod.ip) not in spared:
            yield pod


def _changed_nodes(nodes: tuple[Node, ...], after: tuple[Node, ...]) -> Iterator[str]:
    now = {node.name: node for node in after}
    for node in nodes:
        later = now.get(node.name)
        if later is None:
            yield f"node {node.name} is gone"
        elif later.uid != node.uid:
            yield f"node {node.name} is another node: uid {node.uid} became {later.uid}"
        elif node.ready and not later.ready:
            yield f"node {node.name} is no longer ready"
        elif later.gpus < node.gpus:
            yield f"node {node.name} offers {later.gpus} GPUs, {node.gpus} before"
