"""Which slice is whose: from labels, annotations and names to a pool key, or a reason why not.

Owns the naming rules of multi-cluster services and of Karmada. Refuses what it cannot tell apart: no cluster, service
or pool name is ever guessed. The rule it keeps: the name made is the name read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal

from discovery.errors import MalformedKey
from discovery.identity import PoolKey, checked_key
from discovery.kube import labels as names
from discovery.slices import IPV4, IPV6, Slice, is_dns_label

_KARMADA_EXECUTION: Final = "karmada-es-"
_KARMADA_DERIVED: Final = "derived-"
_KARMADA_IMPORTED: Final = "imported-"


class Role(StrEnum):
    """What the endpoints of a slice are."""

    FRONTEND = "frontend"
    RELAY = "relay"
    ROUTER = "router"


class Reason(StrEnum):
    """Why a slice, or all of it, gives nothing to the table. A closed set: it is counted and explained by."""

    DELETING = "deleting"
    KUBERNETES_MANAGED = "kubernetes_managed"
    NOT_AN_IMPORT = "not_an_import"
    EMPTY_LABEL = "empty_label"
    BAD_CLUSTER = "bad_cluster"
    OTHER_NAMESPACE = "other_namespace"
    KARMADA_SERVICE = "karmada_service"
    KARMADA_CLUSTER = "karmada_cluster"
    OWN_CLUSTER_UNKNOWN = "own_cluster_unknown"
    NOT_A_POOL = "not_a_pool"
    AMBIGUOUS_NAME = "ambiguous_name"
    ADDRESS_TYPE = "address_type"
    NO_ENDPOINTS = "no_endpoints"
    NO_PORT = "no_port"
    PORT_NOT_FOUND = "port_not_found"
    NOTHING_LISTED = "nothing_listed"
    MALFORMED = "malformed"

    @property
    def is_fault(self) -> bool:
        """Whether somebody should mend something; else the slice is no business of ours, or has nothing to give yet."""
        return self in _FAULTS


_FAULTS: Final = frozenset(
    {
        Reason.KUBERNETES_MANAGED,
        Reason.EMPTY_LABEL,
        Reason.BAD_CLUSTER,
        Reason.KARMADA_SERVICE,
        Reason.KARMADA_CLUSTER,
        Reason.OWN_CLUSTER_UNKNOWN,
        Reason.AMBIGUOUS_NAME,
        Reason.ADDRESS_TYPE,
        Reason.NO_PORT,
        Reason.PORT_NOT_FOUND,
        Reason.MALFORMED,
    }
)


@dataclass(frozen=True, slots=True)
class NamingRules:
    """What the operator said about names, ports and clusters.

    `relay_service` and `frontend_service` are patterns with one `{name}`. `*_port` is a port's name or number.
    `pool_port` is used for slices that name no port number; a numeric `*_port` is, too. `accept_kubernetes_managed`
    takes slices that Kubernetes' own controllers manage as imports: whoever may label a Service can then forge a
    pool. `require_serving` reads an endpoint that is ready but not serving as not ready.
    Raises ValueError for a pattern or port that cannot work.
    """

    relay_service: str = "{name}-pool-relay"
    frontend_service: str = "{name}-frontend"
    relay_port: str = "grpc"
    frontend_port: str = "http"
    relay_scheme: Literal["http", "https"] = "http"
    frontend_scheme: Literal["http", "https"] = "http"
    pool_port: int | None = None
    router_namespace: str | None = None
    router_service: str | None = None
    router_port: str = "http"
    router_scheme: Literal["http", "https"] = "http"
    cluster_id: str | None = None
    cluster_regions: Mapping[str, str] = field(default_factory=dict)
    karmada_clusters: tuple[str, ...] = ()
    address_family: Literal["ipv4", "ipv6"] = "ipv4"
    accept_kubernetes_managed: bool = False
    require_serving: bool = False

    def __post_init__(self) -> None:
        for pattern in (self.relay_service, self.frontend_service):
            prefix, found, suffix = pattern.partition("{name}")
            if not found or "{" in prefix + suffix or not re.fullmatch(r"[a-z0-9-]*", prefix + suffix):
                raise ValueError(f"{pattern!r} is no name of a Service with one {{name}} in it")
        if self.relay_service == self.frontend_service:
            raise ValueError(f"relays and frontends cannot both be called {self.relay_service!r}")
        for port in (self.relay_port, self.frontend_port, self.router_port, str(self.pool_port or 1)):
            if not port or (port.isdecimal() and not 1 <= int(port) <= 65535):
                raise ValueError(f"{port!r} is neither the name of a port nor a number from 1 to 65535")

    def port_of(self, role: Role) -> str:
        return {Role.RELAY: self.relay_port, Role.FRONTEND: self.frontend_port, Role.ROUTER: self.router_port}[role]

    def scheme_of(self, role: Role) -> str:
        schemes = {Role.RELAY: self.relay_scheme, Role.FRONTEND: self.frontend_scheme, Role.ROUTER: self.router_scheme}
        return schemes[role]

    def service_name(self, role: Role, name: str) -> str:
        """The Service of the pool called `name`; what `read_service` reads back."""
        return (self.relay_service if role is Role.RELAY else self.frontend_service).replace("{name}", name)


@dataclass(frozen=True, slots=True)
class Attributed:
    """A slice of ours. `key.name` is the pool's, or the Service's for a router's slice."""

    key: PoolKey
    role: Role
    service: str


@dataclass(frozen=True, slots=True)
class Ignored:
    """A slice that gives nothing; `detail` is for people."""

    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class _Import:
    cluster: str
    service: str


def attribute(slice_: Slice, rules: NamingRules) -> Attributed | Ignored:
    """Whose this slice is, from what stands on it alone; MCS labels win over Karmada's marks."""
    if slice_.deleting:
        return Ignored(Reason.DELETING, "deletionTimestamp is set")
    found = _import_of(slice_, rules)
    if isinstance(found, Ignored):
        return found
    if slice_.address_type not in (IPV4, IPV6):
        return Ignored(Reason.ADDRESS_TYPE, f"addressType {slice_.address_type} cannot be connected to")
    if _is_router(slice_.namespace, found.service, rules):
        return _attributed(found, slice_.namespace, Role.ROUTER, found.service)
    read = read_service(found.service, rules)
    if isinstance(read, Ignored):
        return read
    role, name = read
    return _attributed(found, slice_.namespace, role, name)


def read_service(service: str, rules: NamingRules) -> tuple[Role, str] | Ignored:
    """The role and pool name in a Service's name, or why there is none."""
    found = [
        (role, name)
        for role, pattern in ((Role.RELAY, rules.relay_service), (Role.FRONTEND, rules.frontend_service))
        if (name := _unfill(pattern, service)) is not None
    ]
    match found:
        case [one]:
            return one
        case []:
            wanted = f"{rules.frontend_service} or {rules.relay_service}"
            return Ignored(Reason.NOT_A_POOL, f"service {service!r} is not called {wanted}")
    both = " or ".join(f"the {role} of {name}" for role, name in found)
    return Ignored(Reason.AMBIGUOUS_NAME, f"service {service!r} may be {both}")


def region_of(slice_: Slice) -> str | None:
    """The region that the slice itself states."""
    return slice_.labels.get(names.REGION, "").strip() or None


def default_region(cluster: str, rules: NamingRules) -> str:
    """The region of a cluster whose slices state none."""
    return rules.cluster_regions.get(cluster) or cluster


def _import_of(slice_: Slice, rules: NamingRules) -> _Import | Ignored:
    managed_by = slice_.managed_by
    if managed_by in names.KUBERNETES_CONTROLLERS and not rules.accept_kubernetes_managed:
        return _own_router(slice_, rules)
    service = slice_.labels.get(names.MCS_SERVICE_NAME)
    cluster = slice_.labels.get(names.MCS_SOURCE_CLUSTER)
    if service is not None and cluster is not None:
        return _mcs(slice_, service, cluster)
    if managed_by == names.KARMADA_IMPORTER:
        return _karmada_import(slice_, rules)
    if managed_by == names.KARMADA_DISPATCHER:
        return _karmada_dispatch(slice_)
    if managed_by in names.KUBERNETES_CONTROLLERS:
        return _own_router(slice_, rules)
    missing = names.MCS_SOURCE_CLUSTER if service is not None else names.MCS_SERVICE_NAME
    return Ignored(Reason.NOT_AN_IMPORT, f"label {missing} is missing, and Karmada does not manage it")


def _own_router(slice_: Slice, rules: NamingRules) -> _Import | Ignored:
    """A local slice: of use only as the Global Router's in its own cluster, where nothing is imported."""
    service = slice_.labels.get(names.SERVICE_NAME, "")
    if _is_router(slice_.namespace, service, rules):
        if not rules.cluster_id:
            return Ignored(Reason.OWN_CLUSTER_UNKNOWN, "the routers run here, and no cluster id is set")
        return _Import(rules.cluster_id, service)
    if names.MCS_SERVICE_NAME in slice_.labels and names.MCS_SOURCE_CLUSTER in slice_.labels:
        # Kubernetes copies every label of a Service to its slices: these may be anybody's word.
        return Ignored(Reason.KUBERNETES_MANAGED, f"{slice_.managed_by} made it from a local Service's labels")
    return Ignored(Reason.NOT_AN_IMPORT, "it belongs to a Service of this cluster")


def _mcs(slice_: Slice, service: str, cluster: str) -> _Import | Ignored:
    for label, value in ((names.MCS_SERVICE_NAME, service), (names.MCS_SOURCE_CLUSTER, cluster)):
        if not value:
            return Ignored(Reason.EMPTY_LABEL, f"label {label} is empty")
    if not is_cluster_id(cluster):
        return Ignored(Reason.BAD_CLUSTER, f"label {names.MCS_SOURCE_CLUSTER} is no cluster id: {cluster!r}")
    origin = slice_.labels.get(names.SUBMARINER_SOURCE_NAMESPACE, slice_.namespace)
    if origin != slice_.namespace:
        return Ignored(Reason.OTHER_NAMESPACE, f"a broker's copy of a slice of namespace {origin!r}")
    return _Import(cluster, service)


def is_cluster_id(text: str) -> bool:
    """One or two DNS labels joined by a dot, 63 characters in all: what a label value can hold. Never split."""
    return len(text) <= 63 and text.count(".") <= 1 and all(is_dns_label(part) for part in text.split("."))


def _karmada_import(slice_: Slice, rules: NamingRules) -> _Import | Ignored:
    derived = slice_.labels.get(names.SERVICE_NAME, "")
    service = derived.removeprefix(_KARMADA_DERIVED)
    if service == derived or not is_dns_label(service):
        found = f"label {names.SERVICE_NAME} is no {_KARMADA_DERIVED}<service>: {derived!r}"
        return Ignored(Reason.KARMADA_SERVICE, found)
    cluster = _karmada_cluster(slice_, service, rules)
    if cluster is None or not is_cluster_id(cluster):
        return Ignored(Reason.KARMADA_CLUSTER, f"name and annotation say no one cluster for service {service!r}")
    return _Import(cluster, service)


def _karmada_cluster(slice_: Slice, service: str, rules: NamingRules) -> str | None:
    name = slice_.name
    # The generated suffix has no dash, so the last -service- is the separator: the cluster takes all before it.
    generated = re.fullmatch(rf"{_KARMADA_IMPORTED}(.+)-{re.escape(service)}-[a-z0-9]{{5}}", name)
    by_grammar = generated[1] if generated else None
    noted = slice_.annotations.get(names.KARMADA_WORK_NAMESPACE, "")
    by_note = noted.removeprefix(_KARMADA_EXECUTION) if noted.startswith(_KARMADA_EXECUTION) else ""
    # In a member cluster Karmada overwrites the note with the member's own: only the name can confirm it.
    confirmed = bool(by_note) and name.startswith(f"{_KARMADA_IMPORTED}{by_note}-{service}-")
    if confirmed and by_grammar in (None, by_note):
        return by_note
    known = sorted(filter(None, rules.karmada_clusters), key=len, reverse=True)
    # With the service behind it a cluster is sure; without (slices named by hand) only its own name speaks for it.
    for end in (f"-{service}-", "-"):
        for cluster in known:
            if name.startswith(f"{_KARMADA_IMPORTED}{cluster}{end}"):
                return cluster
    # Note and grammar contradict each other, both fit the name, and nobody says which clusters there are.
    return None if confirmed else by_grammar


def _karmada_dispatch(slice_: Slice) -> _Import | Ignored:
    service = slice_.labels.get(names.SERVICE_NAME, "")
    if not is_dns_label(service):
        return Ignored(Reason.KARMADA_SERVICE, f"label {names.SERVICE_NAME} is no service: {service!r}")
    cluster = slice_.annotations.get(names.KARMADA_PROVISION_CLUSTER, "")
    if not is_cluster_id(cluster):
        found = f"annotation {names.KARMADA_PROVISION_CLUSTER} is no cluster: {cluster!a}"
        return Ignored(Reason.KARMADA_CLUSTER, found)
    return _Import(cluster, service)


def _is_router(namespace: str, service: str, rules: NamingRules) -> bool:
    return bool(service) and service == rules.router_service and namespace == rules.router_namespace


def _attributed(found: _Import, namespace: str, role: Role, name: str) -> Attributed | Ignored:
    try:
        return Attributed(checked_key(found.cluster, namespace, name), role, found.service)
    except MalformedKey as error:
        return Ignored(Reason.NOT_A_POOL, str(error))


def _unfill(pattern: str, service: str) -> str | None:
    prefix, _, suffix = pattern.partition("{name}")
    if len(service) <= len(prefix) + len(suffix) or not (service.startswith(prefix) and service.endswith(suffix)):
        return None
    name = service[len(prefix) : len(service) - len(suffix)]
    return name if is_dns_label(name) and is_dns_label(service) else None
