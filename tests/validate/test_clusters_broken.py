"""The checks of clusters, checked: each way of breaking the example fleet fails and is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from discovery.testing.cluster import FakeCluster
from global_ingress.validate.asking import Rendered
from global_ingress.validate.bundle import Object
from global_ingress.validate.checks.verdicts import Verdict
from tests.validate.deployed import (
    BUNDLE,
    NAMESPACE,
    Break,
    changing,
    condition,
    deleting,
    deployed,
    judged,
)

CHECKS = (
    "inventory.platform",
    "compatibility.matrix",
    "provenance.digests",
    "materialization.diff",
    "conformance.access",
    "traffic.pods",
    "acceptance.bystanders",
    "rollback.bundle",
)
pytestmark = pytest.mark.outside  # the loop here is the client's alone
_RBAC = "rbac.authorization.k8s.io/v1"


def putting(*things: Object) -> Break:
    return lambda fake: fake.put_all(things)


def granting(name: str, account: str, home: str, resources: list[str], verbs: list[str], group: str = "") -> Break:
    """One more role for an account of ours: in one namespace, or everywhere."""
    kind = "Role" if home else "ClusterRole"
    metadata = {"name": name} | ({"namespace": home} if home else {})
    subject = {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
    rules = [{"apiGroups": [group], "resources": resources, "verbs": verbs}]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    return putting(
        {"kind": kind, "apiVersion": _RBAC, "metadata": metadata, "rules": rules},
        {"kind": f"{kind}Binding", "apiVersion": _RBAC, "metadata": metadata, "roleRef": reference}
        | {"subjects": [subject]},
    )


def container(thing: Object) -> Object:
    spec = thing["spec"]
    found: Object = spec.get("template", {}).get("spec", spec)["containers"][0]
    return found


def token(thing: Object) -> None:
    """As a pod gets one whose account is not told otherwise."""
    source = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}}
    thing["spec"]["volumes"].append({"name": "kube-api-access-x", "projected": {"sources": [source]}})


def ended(thing: Object) -> None:
    thing["status"]["containerStatuses"][0]["restartCount"] += 1


def other_image(thing: Object) -> None:
    container(thing)["image"] = "registry.example.com/global-ingress:dev"
    thing["status"]["containerStatuses"][0]["imageID"] = f"registry.example.com/global-ingress@sha256:{'0' * 64}"


def moved(fake: FakeCluster) -> None:
    """The same name, another pod."""
    was = fake.get("pods", NAMESPACE, "global-discovery-0")
    assert was is not None
    fake.delete("pods", NAMESPACE, "global-discovery-0")
    metadata = {"name": "global-discovery-0", "namespace": NAMESPACE, "labels": was["metadata"]["labels"]}
    fake.put({**was, "kind": "Pod", "apiVersion": "v1", "metadata": metadata})


def unready(thing: Object) -> None:
    thing["status"]["conditions"] = [condition("Ready", "False")]


CONFIG = next(name for cluster, name, _ in BUNDLE.configs if cluster == "ohio")
INGRESS = ("deployments", NAMESPACE, "global-ingress")
INGRESS_POD = ("pods", NAMESPACE, "global-ingress-0")
DISCOVERY_POD = ("pods", NAMESPACE, "global-discovery-0")
WORKER = ("pods", "dynamo", "llama-worker-0")
FRONTEND = ("pods", "dynamo", "llama-frontend-0")

BEFORE: list[tuple[str, str, Break, str]] = [
    (
        "a frontend of an old version",
        "compatibility.matrix",
        changing(*FRONTEND, lambda t: container(t).update(image="nvcr.io/dynamo:0.9.0")),
        "ohio: frontend nvcr.io/dynamo:0.9.0: 0.9.0 is not supported; Dynamo 1.6 to 1.7 is",
    ),
    (
        "another image",
        "provenance.digests",
        changing(*INGRESS_POD, other_image),
        "global-ingress/global-ingress-0 runs registry.example.com/global-ingress:dev",
    ),
    (
        "settings that were edited",
        "provenance.digests",
        changing("configmaps", NAMESPACE, CONFIG, lambda t: t["data"].update({"ingress.yaml": "region: mars\n"})),
        f"ohio: settings {CONFIG} are not the rendered ones",
    ),
    (
        "settings of before the rollout",
        "provenance.digests",
        changing(*INGRESS_POD, lambda t: t["spec"]["volumes"][1]["configMap"].update(name="global-ingress-config-old")),
        "global-ingress/global-ingress-0 runs with other settings: global-ingress-config-old",
    ),
    (
        "fewer replicas",
        "materialization.diff",
        changing(*INGRESS, lambda t: t["spec"].update(replicas=1)),
        "ohio: Deployment global-ingress/global-ingress: spec.replicas is 1, rendered 2",
    ),
    (
        "one more variable",
        "materialization.diff",
        changing(*INGRESS, lambda t: container(t).update(env=[{"name": "HTTPS_PROXY", "value": "http://x"}])),
        "spec.template.spec.containers[global-ingress].env is",
    ),
    (
        "another argument",
        "materialization.diff",
        changing(*INGRESS, lambda t: container(t)["args"].append("--workers=9")),
        "spec.template.spec.containers[global-ingress].args is",
    ),
    (
        "one more container",
        "materialization.diff",
        changing(
            *INGRESS, lambda t: t["spec"]["template"]["spec"]["containers"].append({"name": "shell", "image": "sh"})
        ),
        "spec.template.spec.containers[shell] is",
    ),
    (
        "a policy that is gone",
        "materialization.diff",
        deleting("networkpolicies", NAMESPACE, "default-deny"),
        "ohio: NetworkPolicy global-ingress/default-deny: is not there",
    ),
    (
        "a wider role",
        "materialization.diff",
        changing("roles", "dynamo", "global-discovery", lambda t: t["rules"][0]["resources"].append("secrets")),
        "ohio: Role dynamo/global-discovery: rules is",
    ),
    (
        "a namespace that lets everything in",
        "materialization.diff",
        changing(
            "namespaces",
            "",
            NAMESPACE,
            lambda t: t["metadata"]["labels"].update({"pod-security.kubernetes.io/enforce": "privileged"}),
        ),
        "pod-security.kubernetes.io/enforce is privileged, rendered restricted",
    ),
    (
        "a discovery that can read secrets",
        "conformance.access",
        granting("extra", "global-discovery", "", ["secrets"], ["get"]),
        'global-discovery may get secrets in all namespaces (RBAC: allowed by ClusterRoleBinding "extra")',
    ),
    (
        "a discovery that can write slices",
        "conformance.access",
        granting("extra", "global-discovery", "dynamo", ["endpointslices"], ["patch"], "discovery.k8s.io"),
        "global-discovery may patch endpointslices.discovery.k8s.io in dynamo",
    ),
    (
        "a discovery that can do everything",
        "conformance.access",
        granting("admin", "global-discovery", "", ["*"], ["*"], "*"),
        "global-discovery may * *.* in all namespaces",
    ),
    (
        "a discovery that cannot read slices",
        "conformance.access",
        deleting("rolebindings", "dynamo", "global-discovery"),
        "global-discovery may not watch endpointslices.discovery.k8s.io in dynamo",
    ),
    (
        "an ingress with a right",
        "conformance.access",
        granting("extra", "global-ingress", NAMESPACE, ["configmaps"], ["list"]),
        "global-ingress may list configmaps in global-ingress",
    ),
    (
        "an ingress with a token",
        "conformance.access",
        changing(*INGRESS_POD, token),
        "global-ingress/global-ingress-0 has a token of the API server",
    ),
    (
        "an ingress that may write to its root",
        "conformance.access",
        changing(*INGRESS_POD, lambda t: container(t)["securityContext"].update(readOnlyRootFilesystem=False)),
        "global-ingress-0: global-ingress may write to its root",
    ),
    (
        "a discovery that runs as root",
        "conformance.access",
        changing(*DISCOVERY_POD, lambda t: t["spec"]["securityContext"].pop("runAsNonRoot")),
        "global-discovery-0: global-discovery may run as root",
    ),
]


@pytest.mark.parametrize(("identity", "broken", "named"), [one[1:] for one in BEFORE], ids=[one[0] for one in BEFORE])
async def test_a_broken_deployment_fails_and_is_named(identity: str, broken: Break, named: str, tmp_path: Path) -> None:
    async with deployed() as fake:
        broken(fake)
        found = (await judged(fake, tmp_path)).checks[identity]
    assert found.verdict is Verdict.FAILED
    assert any(named in line for line in found.findings), found.findings


MEANWHILE: list[tuple[str, str, Break, str]] = [
    (
        "a restarted pod",
        "traffic.pods",
        changing(*INGRESS_POD, ended),
        "ohio: global-ingress/global-ingress-0 was restarted: 0 restarts became 1",
    ),
    ("a pod that is gone", "traffic.pods", deleting(*INGRESS_POD), "ohio: global-ingress/global-ingress-0 is gone"),
    ("another pod", "traffic.pods", moved, "ohio: global-ingress/global-discovery-0 is another pod"),
    ("an ill pod", "traffic.pods", changing(*DISCOVERY_POD, unready), "global-discovery-0 is no longer ready"),
    (
        "a restarted bystander",
        "acceptance.bystanders",
        changing(*WORKER, ended),
        "ohio: dynamo/llama-worker-0 was restarted",
    ),
    ("a bystander that is gone", "acceptance.bystanders", deleting(*WORKER), "ohio: dynamo/llama-worker-0 is gone"),
    (
        "a node that fails",
        "acceptance.bystanders",
        changing("nodes", "", "gpu-1", unready),
        "ohio: node gpu-1 is no longer ready",
    ),
    (
        "a GPU that is lost",
        "acceptance.bystanders",
        changing("nodes", "", "gpu-1", lambda t: t["status"]["allocatable"].update({"nvidia.com/gpu": "7"})),
        "ohio: node gpu-1 offers 7 GPUs, 8 before",
    ),
]


@pytest.mark.parametrize(
    ("identity", "broken", "named"), [one[1:] for one in MEANWHILE], ids=[one[0] for one in MEANWHILE]
)
async def test_what_changes_meanwhile_fails_and_is_named(
    identity: str, broken: Break, named: str, tmp_path: Path
) -> None:
    async with deployed() as fake:
        found = (await judged(fake, tmp_path, meanwhile=broken, rendered=Rendered())).checks[identity]
    assert found.verdict is Verdict.FAILED
    assert any(named in line for line in found.findings), found.findings
