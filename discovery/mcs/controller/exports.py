"""What this cluster exports: Services, ServiceExports and slices to the registry's words.

Pure. Owns which Service is exported and as what (rules D10 to D19). Refuses derived Services whatever their labels,
and slices that were imported: neither may come back from where it went.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from discovery.kube import labels
from discovery.mcs import names
from discovery.mcs.controller.objects import (
    Object,
    is_deleting,
    is_ours,
    key_of,
    labels_of,
    metadata,
    spec_of,
    uid_of,
)
from discovery.mcs.model import (
    Endpoint,
    EndpointSet,
    Export,
    Reference,
    ServiceKey,
    ServicePort,
    ServiceType,
    SlicePort,
)

_CLIENT_IP_SECONDS: Final = 10_800


@dataclass(frozen=True, slots=True)
class Invalid:
    """Why a ServiceExport exports nothing: the reason of `Valid=False`."""

    reason: str
    message: str


def is_derived(service: Object) -> bool:
    """Whether this Service was made for an import."""
    owners = metadata(service).get("ownerReferences") or ()
    return is_ours(service) or any(one.get("kind") == "ServiceImport" for one in owners)


def wants_export(service: Object | None, label: str) -> bool:
    """Whether the Service's label asks for a ServiceExport."""
    if service is None or is_deleting(service) or is_derived(service):
        return False
    return labels_of(service).get(label) == "true"


def is_source(slice_: Object) -> bool:
    """Whether this slice is of a local Service: not imported, not ours, not going."""
    return not (is_ours(slice_) or is_deleting(slice_) or labels.MCS_SOURCE_CLUSTER in labels_of(slice_)) and (
        labels_of(slice_).get(labels.MANAGED_BY) != names.CONTROLLER
    )


def check(service: Object | None) -> Invalid | None:
    """Whether a ServiceExport of this Service's name exports anything."""
    if service is None or is_deleting(service):
        return Invalid("NoService", "There is no Service of this name.")
    if is_derived(service):
        return Invalid("InvalidServiceType", "The Service was made for an import.")
    if spec_of(service).get("type") == "ExternalName":
        return Invalid("InvalidServiceType", "A Service of type ExternalName cannot be exported.")
    return None


def export_of(cluster: str, service: Object, export: Object) -> Export:
    """What the registry is told of a valid export."""
    spec = spec_of(service)
    affinity = str(spec.get("sessionAffinity") or "None")
    seconds = ((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}).get("timeoutSeconds")
    headless = spec.get("clusterIP") == "None"
    return Export(
        cluster=cluster,
        service=key_of(export),
        uid=uid_of(export),
        exported_ms=_milliseconds(metadata(export).get("creationTimestamp")),
        type=ServiceType.HEADLESS if headless else ServiceType.CLUSTER_SET_IP,
        ports=tuple(_service_port(one) for one in spec.get("ports") or ()),
        session_affinity=affinity,
        affinity_seconds=(seconds or _CLIENT_IP_SECONDS) if affinity == "ClientIP" else None,
        ip_families=tuple(spec.get("ipFamilies") or ()),
        internal_traffic_policy=str(spec.get("internalTrafficPolicy") or "Cluster"),
        traffic_distribution=str(spec.get("trafficDistribution") or ""),
        labels=names.exportable(spec_of(export).get("exportedLabels") or {}),
        annotations=names.exportable(spec_of(export).get("exportedAnnotations") or {}),
    )


def endpoint_sets(cluster: str, service: ServiceKey, slices: Iterable[Object]) -> dict[str, EndpointSet]:
    """One for each source slice, by its name."""
    found = {}
    for one in slices:
        if is_source(one) and one.get("addressType") in ("IPv4", "IPv6"):
            name = metadata(one)["name"]
            found[name] = EndpointSet(
                cluster=cluster,
                service=service,
                slice=name,
                address_type=one["addressType"],
                ports=tuple(_slice_port(port) for port in one.get("ports") or ()),
                endpoints=tuple(_endpoint(each, service.namespace) for each in one.get("endpoints") or ()),
            )
    return found


def _service_port(port: Object) -> ServicePort:
    return ServicePort(
        str(port.get("name") or ""),
        str(port.get("protocol") or "TCP"),
        port["port"],
        str(port.get("appProtocol") or ""),
    )


def _slice_port(port: Object) -> SlicePort:
    return SlicePort(
        str(port.get("name") or ""),
        str(port.get("protocol") or "TCP"),
        port.get("port"),
        str(port.get("appProtocol") or ""),
    )


def _endpoint(one: Object, namespace: str) -> Endpoint:
    said: dict[str, Any] = one.get("conditions") or {}
    target = one.get("targetRef")
    return Endpoint(
        addresses=tuple(one.get("addresses") or ()),
        ready=said.get("ready"),
        serving=said.get("serving"),
        terminating=said.get("terminating"),
        hostname=str(one.get("hostname") or ""),
        zone=str(one.get("zone") or ""),
        node=str(one.get("nodeName") or ""),
        target=_reference(target, namespace) if isinstance(target, dict) else None,
    )


def _reference(target: Object, namespace: str) -> Reference:
    return Reference(
        str(target.get("kind") or ""),
        str(target.get("namespace") or namespace),
        str(target.get("name") or ""),
        str(target.get("uid") or ""),
    )


def _milliseconds(moment: object) -> int:
    """An API server always writes one; an object without is as old as can be."""
    return int(datetime.fromisoformat(moment).timestamp() * 1000) if isinstance(moment, str) else 0
