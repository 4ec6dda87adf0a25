"""EndpointSlices as the API server writes them, for tests; every part can be said or left out."""

from __future__ import annotations

from typing import Any

from discovery.slices import Slice, parse_slice

Json = dict[str, Any]

SERVICE = "multicluster.kubernetes.io/service-name"
CLUSTER = "multicluster.kubernetes.io/source-cluster"
MANAGED = "endpointslice.kubernetes.io/managed-by"
REGION = "topology.kubernetes.io/region"
LOCAL = "kubernetes.io/service-name"
KARMADA = "endpointslice-controller.karmada.io"
DISPATCH = "endpointslice-dispatch-controller.karmada.io"
UNSAID: Any = object()


def endpoint(address: str = "10.0.0.1", pod: str | None = None, **more: Any) -> Json:
    """`ready`, `serving`, `terminating` are conditions; `uid` the pod's; all else stands as it is."""
    said: Json = {"addresses": [address]}
    conditions = {name: more.pop(name) for name in ("ready", "serving", "terminating") if name in more}
    if conditions:
        said["conditions"] = conditions
    uid = more.pop("uid", None)
    if pod is not None or uid is not None:
        ref = {"kind": "Pod", "namespace": "dynamo", "name": pod, "uid": uid}
        said["targetRef"] = {name: value for name, value in ref.items() if value is not None}
    return said | more


def port(number: int | None = 8000, name: str | None = "http", **more: Any) -> Json:
    said = {"name": name, "port": number, "protocol": "TCP"}
    return {key: value for key, value in said.items() if value is not None} | more


def slice_json(
    service: str | None = "llama-frontend",
    cluster: str | None = "ohio",
    *,
    name: str = "slice-1",
    namespace: str = "dynamo",
    region: str | None = None,
    managed_by: str | None = "mcs.example.org",
    labels: Json | None = None,
    annotations: Json | None = None,
    endpoints: Any = UNSAID,
    ports: Any = UNSAID,
    address_type: str = "IPv4",
    **metadata: Any,
) -> Json:
    said = {SERVICE: service, CLUSTER: cluster, REGION: region, MANAGED: managed_by} | (labels or {})
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{namespace}-{name}",
            "resourceVersion": "7",
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {key: value for key, value in said.items() if value is not None},
            "annotations": annotations or {},
        }
        | metadata,
        "addressType": address_type,
        "endpoints": [endpoint()] if endpoints is UNSAID else endpoints,
        "ports": [port()] if ports is UNSAID else ports,
    }


def make_slice(service: str | None = "llama-frontend", cluster: str | None = "ohio", **more: Any) -> Slice:
    return parse_slice(slice_json(service, cluster, **more))


def karmada(name: str, service: str, noted: str | None = None, **more: Any) -> Slice:
    """A slice that Karmada collected for a ServiceImport; `noted` is its execution-namespace annotation."""
    annotations = {} if noted is None else {"work.karmada.io/namespace": noted}
    return make_slice(
        None, None, name=name, managed_by=KARMADA, labels={LOCAL: service}, annotations=annotations, **more
    )
