"""What runs in a cluster and what it may do: kinds beside those that discovery meets, `FakeCluster(kinds=EVERYDAY)`.

Owns the table of these kinds and the defaults that the API server fills in. Nothing runs: pods are what is put there,
a Deployment makes none. Refuses nothing beyond what all kinds refuse.
"""

from __future__ import annotations

from collections.abc import Mapping

from discovery.testing.cluster.failures import Cause
from discovery.testing.cluster.kinds import KINDS, Kind, Object, fields_of_metadata
from discovery.testing.cluster.rules import RULES, Rule, Surroundings

_RBAC = "rbac.authorization.k8s.io"
_POD: Mapping[str, tuple[str, ...]] = {
    "containers": ("name",),
    "containers.env": ("name",),
    "containers.ports": ("containerPort", "protocol"),
    "containers.volumeMounts": ("mountPath",),
    "volumes": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
}


def _pod_lists(where: str) -> dict[str, tuple[str, ...]]:
    return {f"{where}.{path}": keys for path, keys in _POD.items()}


def _pod_fields(thing: Object) -> Mapping[str, str]:
    spec, status = thing.get("spec", {}), thing.get("status", {})
    mine = {"spec.nodeName": spec.get("nodeName", ""), "status.phase": status.get("phase", "")}
    return {**fields_of_metadata(thing), **mine, "status.podIP": status.get("podIP", "")}


def _template(kind: str, plural: str) -> Kind:
    return Kind(
        kind,
        plural,
        group="apps",
        status=True,
        generation=True,
        scale=True,
        lists=_pod_lists("spec.template.spec"),
        key_defaults={"protocol": "TCP"},
        atoms=frozenset({"spec.selector"}),
    )


PODS = Kind("Pod", "pods", short=("po",), status=True, fields=_pod_fields, lists=_pod_lists("spec"))
NODES = Kind("Node", "nodes", namespaced=False, short=("no",), status=True)
DEPLOYMENTS, REPLICA_SETS = _template("Deployment", "deployments"), _template("ReplicaSet", "replicasets")
STATEFUL_SETS = _template("StatefulSet", "statefulsets")
ROLES = Kind("Role", "roles", group=_RBAC, path_names=True)
CLUSTER_ROLES = Kind("ClusterRole", "clusterroles", group=_RBAC, namespaced=False, path_names=True)
ROLE_BINDINGS = Kind("RoleBinding", "rolebindings", group=_RBAC, path_names=True)
CLUSTER_ROLE_BINDINGS = Kind(
    "ClusterRoleBinding", "clusterrolebindings", group=_RBAC, namespaced=False, path_names=True
)
ACCESS_REVIEWS = Kind("SubjectAccessReview", "subjectaccessreviews", group="authorization.k8s.io", namespaced=False)

WORKLOADS: tuple[Kind, ...] = (
    PODS,
    NODES,
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Kind("ConfigMap", "configmaps", short=("cm",)),
    Kind("Secret", "secrets"),
    Kind("ServiceAccount", "serviceaccounts", short=("sa",)),
    ROLES,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    CLUSTER_ROLE_BINDINGS,
    ACCESS_REVIEWS,
    Kind("NetworkPolicy", "networkpolicies", group="networking.k8s.io", generation=True),
    Kind("PodDisruptionBudget", "poddisruptionbudgets", group="policy", status=True, generation=True),
    Kind("HorizontalPodAutoscaler", "horizontalpodautoscalers", ("v2",), group="autoscaling", status=True),
)
EVERYDAY: tuple[Kind, ...] = (*KINDS, *WORKLOADS)
"""All kinds there are here."""


def pod(around: Surroundings, new: Object, before: Object | None) -> list[Cause]:
    _pod_defaults(new.setdefault("spec", {}))
    new.setdefault("status", {}).setdefault("phase", "Pending")
    return []


def deployment(around: Surroundings, new: Object, before: Object | None) -> list[Cause]:
    spec = new.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    spec.setdefault("progressDeadlineSeconds", 600)
    _pod_defaults(spec.setdefault("template", {}).setdefault("spec", {}))
    return []


def _pod_defaults(spec: Object) -> None:
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    if "serviceAccountName" in spec:
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
    for container in spec.get("containers") or ():
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        container.setdefault("imagePullPolicy", "IfNotPresent")
        for port in container.get("ports") or ():
            port.setdefault("protocol", "TCP")
        for name in ("startupProbe", "livenessProbe", "readinessProbe"):
            if probe := container.get(name):
                probe.setdefault("successThreshold", 1)
                probe.get("httpGet", {}).setdefault("scheme", "HTTP")


EVERYDAY_RULES: Mapping[str, Rule] = {**RULES, PODS.resource: pod, DEPLOYMENTS.resource: deployment}
