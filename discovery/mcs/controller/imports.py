"""What an import looks like in a cluster: ServiceImport, derived Service and slices, as they are to be applied.

Pure. Rules D1 to D5 and D22 to D28. Refuses nothing: what is told has been checked by the registry; keys that are
reserved are left out once more, because another cluster's controller may be older than ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from discovery.kube import labels
from discovery.mcs import names
from discovery.mcs.controller.objects import Object, reference, spec_of
from discovery.mcs.model import Endpoint, EndpointSet, Import, ServicePort, ServiceType, SlicePort

NAMELESS = ""


def port_name(value: Import, port: ServicePort) -> str:
    """What a port is called in the derived Service: one of several needs a name there (D23)."""
    if port.name or len(value.ports) <= 1:
        return port.name
    return f"p-{port.number}-{port.protocol.lower()}"


def has_derived(value: Import) -> bool:
    """A headless one has none, and a Service without ports cannot be made."""
    return value.type is ServiceType.CLUSTER_SET_IP and bool(value.ports)


def service_import(value: Import, version: str, sources: frozenset[str], derived: Object | None) -> Object:
    """Without addresses until the derived Service has some."""
    annotations = {key: text for key, text in value.annotations if not names.is_reserved(key)}
    annotations[labels.MCS_SOURCES] = ",".join(sorted(sources))
    if value.type is ServiceType.CLUSTER_SET_IP:
        annotations[names.DERIVED_SERVICE] = names.derived_service(value.service)
    spec: Object = {
        "type": str(value.type),
        "ports": [_import_port(port) for port in value.ports],
        "sessionAffinity": value.session_affinity,
        "internalTrafficPolicy": value.internal_traffic_policy,
    }
    if value.affinity_seconds is not None:
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": value.affinity_seconds}}
    if value.traffic_distribution:
        spec["trafficDistribution"] = value.traffic_distribution
    families = list(value.ip_families)[:2]
    if value.type is ServiceType.CLUSTER_SET_IP and derived is not None:
        families = list(spec_of(derived).get("ipFamilies") or ())
        spec["ips"] = list(spec_of(derived).get("clusterIPs") or ())
    if families:
        spec["ipFamilies"] = families
    return {
        "apiVersion": f"{names.GROUP}/{version}",
        "kind": "ServiceImport",
        "metadata": {
            "namespace": value.service.namespace,
            "name": value.service.name,
            "labels": {
                **{key: text for key, text in value.labels if not names.is_reserved(key)},
                labels.MCS_OURS: names.CONTROLLER,
            },
            "annotations": annotations,
        },
        "spec": spec,
    }


def derived_service(value: Import, owner: Object) -> Object:
    spec: Object = {
        "type": "ClusterIP",
        "ports": [_derived_port(value, port) for port in value.ports],
        "sessionAffinity": value.session_affinity,
        "internalTrafficPolicy": value.internal_traffic_policy,
        "ipFamilyPolicy": "PreferDualStack",
    }
    if value.affinity_seconds is not None:
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": value.affinity_seconds}}
    if value.traffic_distribution:
        spec["trafficDistribution"] = value.traffic_distribution
    if len(value.ip_families) == 1:
        # Only one family has endpoints anywhere; with both, or none known, the cluster gives what it has.
        spec["ipFamilies"] = list(value.ip_families)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "namespace": value.service.namespace,
            "name": names.derived_service(value.service),
            "labels": {labels.MCS_OURS: names.CONTROLLER},
            "ownerReferences": [reference(owner)],
        },
        "spec": spec,
    }


def endpoint_slice(value: Import, one: EndpointSet, region: str, owner: Object) -> Object:
    """The slice of one source slice."""
    service = value.service
    marks = {
        labels.MCS_SERVICE_NAME: service.name,
        labels.MCS_SOURCE_CLUSTER: one.cluster,
        labels.MANAGED_BY: names.CONTROLLER,
        labels.MCS_OURS: names.CONTROLLER,
    }
    if region:
        marks[labels.REGION] = region
    if value.type is ServiceType.HEADLESS:
        marks[names.HEADLESS] = ""
    else:
        marks[labels.SERVICE_NAME] = names.derived_service(service)
    metadata: Object = {
        "namespace": service.namespace,
        "name": names.imported_slice(service, one.cluster, one.slice),
        "labels": marks,
        "ownerReferences": [reference(owner)],
    }
    if one.stale_since_ms is not None:
        metadata["annotations"] = {labels.STALE_SINCE: _moment(one.stale_since_ms)}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": one.address_type,
        "endpoints": [_endpoint(each) for each in one.endpoints],
        "ports": [_slice_port(value, port) for port in one.ports],
    }


def is_worth_a_slice(value: Import, one: EndpointSet) -> bool:
    """A slice whose ports this import does not have can be asked for nothing."""
    return bool(one.ports) or not value.ports


def _import_port(port: ServicePort) -> Object:
    found: Object = {"name": port.name, "protocol": port.protocol, "port": port.number}
    return found | ({"appProtocol": port.app_protocol} if port.app_protocol else {})


def _derived_port(value: Import, port: ServicePort) -> Object:
    found: Object = {"protocol": port.protocol, "port": port.number}
    if name := port_name(value, port):
        found["name"] = name
    return found | ({"appProtocol": port.app_protocol} if port.app_protocol else {})


def _slice_port(value: Import, port: SlicePort) -> Object:
    name = port.name
    if name == NAMELESS:
        # By its name "" it is the one nameless port of the import.
        known = next((one for one in value.ports if one.name == NAMELESS), None)
        name = port_name(value, known) if known is not None else NAMELESS
    found: Object = {"name": name, "protocol": port.protocol}
    if port.number is not None:
        found["port"] = port.number
    return found | ({"appProtocol": port.app_protocol} if port.app_protocol else {})


def _endpoint(one: Endpoint) -> Object:
    """Without the node: it is one of another cluster, and ours may have one of that name."""
    said: Mapping[str, bool | None] = {
        "ready": one.ready,
        "serving": one.serving,
        "terminating": one.terminating,
    }
    found: dict[str, Any] = {
        "addresses": list(one.addresses),
        "conditions": {key: value for key, value in said.items() if value is not None},
    }
    if one.hostname:
        found["hostname"] = one.hostname
    if one.zone:
        found["zone"] = one.zone
    if one.target is not None:
        words = {"kind": one.target.kind, "namespace": one.target.namespace}
        words |= {"name": one.target.name, "uid": one.target.uid}
        found["targetRef"] = {key: text for key, text in words.items() if text}
    return found


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
