"""The parts that Kubernetes objects are made of, each once: metadata, a hardened Deployment, Service, budget, policy.

Everything is plain data with its keys in a fixed order, so that the same fleet gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from global_ingress.render.fleet import Fleet, Resources

Object = dict[str, Any]

UID = 65532
API_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"


def labels(fleet: Fleet, part: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": part,
        "app.kubernetes.io/instance": fleet.name,
        "app.kubernetes.io/part-of": "global-ingress",
    }


def selector(fleet: Fleet, part: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": part, "app.kubernetes.io/instance": fleet.name}


def made(fleet: Fleet, api: str, kind: str, name: str, part: str, *, namespace: str | None = "", **body: Any) -> Object:
    """An object in the fleet's namespace; None = it belongs to the cluster."""
    place = {} if namespace is None else {"namespace": namespace or fleet.namespace}
    metadata: Object = {"name": name, **place, "labels": labels(fleet, part)}
    if annotations := body.pop("annotations", None):
        metadata["annotations"] = annotations
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **body}


def account(fleet: Fleet, part: str, annotations: dict[str, str] | None = None) -> Object:
    """A ServiceAccount whose token nobody gets unasked."""
    body: Object = {"automountServiceAccountToken": False}
    return made(fleet, "v1", "ServiceAccount", part, part, annotations=annotations, **body)


@dataclass(frozen=True, slots=True)
class Volume:
    name: str
    path: str
    source: Object


@dataclass(frozen=True, slots=True)
class Workload:
    """What makes one Deployment differ from another. `probed` names the port that answers /livez and /readyz."""

    part: str
    replicas: int | None
    command: Sequence[str]
    ports: dict[str, int]
    probed: str
    resources: Resources
    volumes: Sequence[Volume] = ()
    api_token: bool = False
    pre_stop: int = 5
    grace: int = 30
    environment: dict[str, str] = field(default_factory=dict)


def secret_volume(name: str, path: str, secret: str) -> Volume:
    return Volume(name, path, {"secret": {"secretName": secret, "defaultMode": 0o440}})


_API_ACCESS = Volume(
    "api-access",
    API_TOKEN,
    {
        "projected": {
            "defaultMode": 0o440,
            "sources": [
                {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
            ],
        }
    },
)
_TMP = Volume("tmp", "/tmp", {"emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}})


def deployment(fleet: Fleet, work: Workload) -> Object:
    matching = selector(fleet, work.part)
    spec: Object = {} if work.replicas is None else {"replicas": work.replicas}
    spec |= {
        "revisionHistoryLimit": 5,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        "selector": {"matchLabels": matching},
        "template": {"metadata": {"labels": labels(fleet, work.part)}, "spec": _pod(fleet, work)},
    }
    return made(fleet, "apps/v1", "Deployment", work.part, work.part, spec=spec)


def _pod(fleet: Fleet, work: Workload) -> Object:
    volumes = [_TMP, *([_API_ACCESS] if work.api_token else []), *work.volumes]
    return {
        "serviceAccountName": work.part,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": work.grace,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": UID,
            "runAsGroup": UID,
            "fsGroup": UID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [_spread(fleet, work, key) for key in ("topology.kubernetes.io/zone", _HOST)],
        "containers": [_container(fleet, work, volumes)],
        "volumes": [{"name": volume.name, **volume.source} for volume in volumes],
    }


_HOST = "kubernetes.io/hostname"


def _spread(fleet: Fleet, work: Workload, key: str) -> Object:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": selector(fleet, work.part)},
        "matchLabelKeys": ["pod-template-hash"],
    }


def _container(fleet: Fleet, work: Workload, volumes: Iterable[Volume]) -> Object:
    environment = [{"name": key, "value": value} for key, value in work.environment.items()]
    resources = work.resources
    return {
        "name": work.part,
        "image": fleet.image,
        "imagePullPolicy": "IfNotPresent",
        "command": [work.command[0]],
        "args": list(work.command[1:]),
        **({"env": environment} if environment else {}),
        "ports": [{"name": name, "containerPort": port} for name, port in work.ports.items()],
        "startupProbe": _probe("/livez", work.probed, period=2, failures=30),
        "livenessProbe": _probe("/livez", work.probed, period=10, failures=3),
        "readinessProbe": _probe("/readyz", work.probed, period=3, failures=2),
        "lifecycle": {"preStop": {"sleep": {"seconds": work.pre_stop}}},
        "resources": {
            "requests": {"cpu": resources.requests.cpu, "memory": resources.requests.memory},
            "limits": {"cpu": resources.limits.cpu, "memory": resources.limits.memory},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [_mount(volume) for volume in volumes],
    }


def _mount(volume: Volume) -> Object:
    return {"name": volume.name, "mountPath": volume.path, **({} if volume is _TMP else {"readOnly": True})}


def _probe(path: str, port: str, *, period: int, failures: int) -> Object:
    asked = {"path": path, "port": port}
    return {"httpGet": asked, "periodSeconds": period, "timeoutSeconds": 3, "failureThreshold": failures}


def service(fleet: Fleet, part: str, ports: dict[str, int], *, name: str = "", headless: bool = False) -> Object:
    """A private Service: ClusterIP, nothing that another cluster or the world reaches."""
    spec: Object = {"type": "ClusterIP", **({"clusterIP": "None"} if headless else {})}
    spec |= {
        "selector": selector(fleet, part),
        "ports": [{"name": key, "port": port, "targetPort": key} for key, port in ports.items()],
    }
    return made(fleet, "v1", "Service", name or part, part, spec=spec)


def budget(fleet: Fleet, part: str) -> Object:
    spec = {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": selector(fleet, part)},
    }
    return made(fleet, "policy/v1", "PodDisruptionBudget", part, part, spec=spec)


def service_monitor(fleet: Fleet, part: str, port: str) -> Object:
    spec = {"selector": {"matchLabels": selector(fleet, part)}, "endpoints": [{"port": port, "path": "/metrics"}]}
    return made(fleet, "monitoring.coreos.com/v1", "ServiceMonitor", part, part, spec=spec)
