"""What each kind demands of its objects, and what it fills in.

Owns defaults and validation of the kinds in `kinds`, as far as a client of ours can run into them. A rule fills the
new object in and gives the causes for which it is refused; it never changes what is stored.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from discovery.testing.cluster.failures import (
    Cause,
    bad_request,
    duplicate,
    required,
    too_many,
    wrong,
)
from discovery.testing.cluster.kinds import (
    CLUSTER_PROPERTIES,
    ENDPOINT_SLICES,
    LEASES,
    NAMESPACES,
    SERVICE_EXPORTS,
    SERVICE_IMPORTS,
    SERVICES,
    Object,
)

MOST_ENDPOINTS = 1000
MOST_ADDRESSES = 100
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)")
_REASON = re.compile(r"([A-Za-z]([A-Za-z0-9_]*[A-Za-z0-9_])?)(,[A-Za-z]([A-Za-z0-9_]*[A-Za-z0-9_])?)*")


@dataclass
class Surroundings:
    """What rules know of the cluster. `loopback`: endpoints may be at 127.0.0.1 (a real server refuses them)."""

    ip_families: tuple[str, ...] = ("IPv4",)
    loopback: bool = True
    given_ips: int = 0

    def next_ip(self, family: str) -> str:
        self.given_ips += 1
        high, low = divmod(self.given_ips, 250)
        return f"10.96.{high}.{low + 1}" if family == "IPv4" else f"fd00:10:96::{self.given_ips:x}"


Rule = Callable[[Surroundings, Object, Object | None], list[Cause]]


def _listed(thing: Object, key: str) -> list[Any]:
    """A list that may be null or missing."""
    return thing.get(key) or []


def _part(thing: Object, key: str) -> Object:
    """An object within `thing`, made if it is null or missing."""
    if thing.get(key) is None:
        thing[key] = {}
    part: Object = thing[key]
    return part


def endpoint_slice(around: Surroundings, new: Object, before: Object | None) -> list[Cause]:
    new["addressType"] = new.get("addressType") or ""
    # Empty lists are written as null: Go's nil slice of a field without omitempty.
    new["endpoints"] = _listed(new, "endpoints") or None
    new["ports"] = _listed(new, "ports") or None
    causes = []
    if not new["addressType"]:
        causes.append(required("addressType"))
    elif new["addressType"] not in {"IPv4", "IPv6", "FQDN"}:
        causes.append(Cause("addressType", "FieldValueNotSupported", f'Unsupported value: "{new["addressType"]}"'))
    if before is not None and before["addressType"] != new["addressType"]:
        causes.append(wrong("addressType", new["addressType"], "field is immutable"))
    for port in new["ports"] or ():
        port |= {"name": port.get("name") or "", "protocol": port.get("protocol") or "TCP"}
    names = [port["name"] for port in new["ports"] or ()]
    causes += [duplicate(f"ports[{i}].name", n) for i, n in enumerate(names) if n in names[:i]]
    endpoints = new["endpoints"] or []
    if len(endpoints) > MOST_ENDPOINTS:
        causes.append(too_many("endpoints", len(endpoints), MOST_ENDPOINTS))
    for index, endpoint in enumerate(endpoints):
        _part(endpoint, "conditions")
        causes += _addresses(around, f"endpoints[{index}].addresses", new["addressType"], endpoint)
    return causes


def _addresses(around: Surroundings, path: str, family: str, endpoint: Object) -> Iterable[Cause]:
    addresses = _listed(endpoint, "addresses")
    if not addresses:
        yield required(path, "must contain at least 1 address")
    if len(addresses) > MOST_ADDRESSES:
        yield too_many(path, len(addresses), MOST_ADDRESSES)
    if family == "FQDN":
        return
    for index, address in enumerate(addresses):
        fault = _address_fault(family, str(address), around.loopback)
        if fault:
            yield wrong(f"{path}[{index}]", address, fault)


@lru_cache(maxsize=100_000)
def _address_fault(family: str, address: str, loopback: bool) -> str:
    """Why an endpoint cannot be there, "" if it can. Remembered: slices are written again with the same addresses."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
    if f"IPv{parsed.version}" != family:
        return f"must be an {family} address"
    if parsed.is_loopback:
        return "" if loopback else "may not be in the loopback range (127.0.0.0/8, ::1/128)"
    if parsed.is_unspecified or parsed.is_link_local or parsed.is_multicast:
        return "may not be unspecified, link-local or multicast"
    return ""


def service(around: Surroundings, new: Object, before: Object | None) -> list[Cause]:
    spec = _part(new, "spec")
    kind = spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    _part(_part(new, "status"), "loadBalancer")
    if kind == "ExternalName":
        return [] if spec.get("externalName") else [required("spec.externalName")]
    spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["sessionAffinity"] == "ClientIP":
        _part(_part(spec, "sessionAffinityConfig"), "clientIP").setdefault("timeoutSeconds", 10800)
    return [*_service_ports(spec), *_service_ips(around, spec, (before or {}).get("spec"))]


def _service_ports(spec: Object) -> Iterable[Cause]:
    ports = _listed(spec, "ports")
    if not ports and spec.get("clusterIP") != "None":
        yield required("spec.ports")
    seen: set[object] = set()
    for index, port in enumerate(ports):
        port.setdefault("protocol", "TCP")
        if not 0 < (port.get("port") or 0) < 65536:
            yield wrong(f"spec.ports[{index}].port", port.get("port") or 0, "must be between 1 and 65535, inclusive")
        port.setdefault("targetPort", port.get("port"))
        name = port.get("name", "")
        if not name and len(ports) > 1:
            yield required(f"spec.ports[{index}].name")
        for path, value in ((f"spec.ports[{index}].name", name), (f"spec.ports[{index}]", _number(port))):
            if value and value in seen:
                yield duplicate(path, value)
            seen.add(value)


def _number(port: Object) -> tuple[object, object]:
    return port["protocol"], port.get("port")


def _service_ips(around: Surroundings, spec: Object, before: Object | None) -> Iterable[Cause]:
    if before is not None and before.get("clusterIP"):
        for name in ("clusterIP", "clusterIPs", "ipFamilies"):
            spec.setdefault(name, before.get(name))
        if spec["clusterIP"] != before["clusterIP"]:
            yield wrong("spec.clusterIPs[0]", spec["clusterIP"], "may not change once set")
    policy = spec.setdefault("ipFamilyPolicy", "SingleStack")
    configured = around.ip_families if policy != "SingleStack" else around.ip_families[:1]
    families = spec["ipFamilies"] = spec.get("ipFamilies") or list(configured)
    if policy == "RequireDualStack" and len(around.ip_families) < 2:
        yield wrong("spec.ipFamilyPolicy", policy, "this cluster is not configured for dual-stack services")
    for index, family in enumerate(families):
        if family not in around.ip_families:
            yield wrong(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")
    if not spec.get("clusterIP"):
        spec["clusterIP"] = around.next_ip(families[0])
        spec["clusterIPs"] = [spec["clusterIP"], *(around.next_ip(family) for family in families[1:])]
    spec.setdefault("clusterIPs", [spec["clusterIP"]])


def namespace(around: Surroundings, new: Object, before: Object | None) -> list[Cause]:
    _part(new["metadata"], "labels")["kubernetes.io/metadata.name"] = new["metadata"].get("name", "")
    _part(new, "spec").setdefault("finalizers", ["kubernetes"])
    phase = "Terminating" if "deletionTimestamp" in new["metadata"] else "Active"
    _part(new, "status")["phase"] = phase
    return []


def lease(around: Surroundings, new: Object, before: Object | None) -> list[Cause]:
    spec = _part(new, "spec")
    for name in ("acquireTime", "renewTime"):
        value = spec.get(name)
        if value is not None and _MICRO_TIME.fullmatch(value) is None:
            raise bad_request(
                f'Lease in version "v1" cannot be handled as a Lease: spec.{name}: parsing time "{value}" as '
                '"2006-01-02T15:04:05.000000Z07:00": cannot parse'
            )
    causes = []
    for name in ("leaseDurationSeconds", "leaseTransitions"):
        lowest = 1 if name == "leaseDurationSeconds" else 0
        if spec.get(name) is not None and spec[name] < lowest:
            causes.append(wrong(f"spec.{name}", spec[name], f"must be greater than or equal to {lowest}"))
    return causes


@dataclass(frozen=True, slots=True)
class Shape:
    """The fields a custom kind knows below spec and status; others are pruned."""

    spec: frozenset[str]
    status: frozenset[str] = field(default_factory=frozenset)

    def prune(self, new: Object) -> None:
        for part, known in (("spec", self.spec), ("status", self.status)):
            if isinstance(new.get(part), dict):
                new[part] = {key: value for key, value in new[part].items() if key in known}


_EXPORT = Shape(frozenset({"exportedLabels", "exportedAnnotations"}), frozenset({"conditions"}))
_IMPORT = Shape(
    frozenset(
        {"ports", "ips", "type", "ipFamilies"}
        | {"sessionAffinity", "sessionAffinityConfig", "internalTrafficPolicy", "trafficDistribution"}
    ),
    frozenset({"conditions", "clusters"}),
)
_PROPERTY = Shape(frozenset({"value"}))


def service_export(around: Surroundings, new: Object, before: Object | None) -> list[Cause]:
    _EXPORT.prune(new)
    return _conditions(new)


def service_import(around: Surroundings, new: Object, before: Object | None) -> list[Cause]:
    _IMPORT.prune(new)
    causes = _conditions(new)
    spec = new.get("spec") or {}
    if len(_listed(spec, "ips")) > 2:
        causes.append(too_many("spec.ips", len(spec["ips"]), 2))
    if spec.get("type", "ClusterSetIP") not in {"ClusterSetIP", "Headless"}:
        causes.append(Cause("spec.type", "FieldValueNotSupported", f'Unsupported value: "{spec["type"]}"'))
    clusters = [item.get("cluster") for item in _listed(new.get("status") or {}, "clusters")]
    causes += [duplicate(f"status.clusters[{i}]", name) for i, name in enumerate(clusters) if name in clusters[:i]]
    return causes


def cluster_property(around: Surroundings, new: Object, before: Object | None) -> list[Cause]:
    _PROPERTY.prune(new)
    return [] if (new.get("spec") or {}).get("value") else [required("spec.value")]


def _conditions(new: Object) -> list[Cause]:
    causes = []
    conditions = _listed(new.get("status") or {}, "conditions")
    kinds = [condition.get("type") for condition in conditions]
    for index, condition in enumerate(conditions):
        path = f"status.conditions[{index}]"
        causes += [
            required(f"{path}.{name}")
            for name in ("type", "status", "lastTransitionTime", "reason", "message")
            if name not in condition
        ]
        reason = condition.get("reason")
        if reason is not None and _REASON.fullmatch(reason) is None:
            causes.append(wrong(f"{path}.reason", reason, f"should match '^{_REASON.pattern}$'"))
        if kinds[index] in kinds[:index]:
            causes.append(duplicate(path, kinds[index]))
    return causes


RULES: Mapping[str, Rule] = {
    ENDPOINT_SLICES.resource: endpoint_slice,
    SERVICES.resource: service,
    NAMESPACES.resource: namespace,
    LEASES.resource: lease,
    SERVICE_EXPORTS.resource: service_export,
    SERVICE_IMPORTS.resource: service_import,
    CLUSTER_PROPERTIES.resource: cluster_property,
}
