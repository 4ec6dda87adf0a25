"""What a fleet file may say: every key, its type, default and meaning, declared once.

A `Fleet` is made by `load`, which also checks what holds between keys. Reads no file: callers hand in text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from global_ingress.proxy.settings.faults import Finding
from global_ingress.proxy.settings.reading import declared
from global_ingress.proxy.settings.sections import Section
from global_ingress.proxy.settings.types import Network, OneOrMore, Optional, Several, Url
from global_ingress.render.fleet_types import (
    Annotations,
    Image,
    Label,
    Peer,
    PortName,
    Quantity,
    Region,
    ServicePattern,
)


class Cluster(Section):
    """One cluster, with one ingress and one discovery."""

    id: Label = Field(description="Its About-API id.")
    region: Region = Field(description="Where it runs.")
    pod_cidrs: Several[Network] = Field(
        default=(), description="Addresses of its pods; left out, rules towards it name the port alone."
    )
    api_server_cidr: Optional[Network] = Field(
        default=None, description="Address of its API server behind any Service; left out, rules name the port alone."
    )


class Amounts(Section):
    """CPU and memory, in Kubernetes' quantities."""

    cpu: Quantity = Field(description="CPU, such as 500m.")
    memory: Quantity = Field(description="Memory, such as 1Gi.")


class Resources(Section):
    """What a container asks for, and the most it gets."""

    requests: Amounts = Field(description="What is set aside.")
    limits: Amounts = Field(description="The most.")


def _resources(cpu: str, memory: str, most_cpu: str, most_memory: str) -> Any:
    default = Resources(requests=Amounts(cpu=cpu, memory=memory), limits=Amounts(cpu=most_cpu, memory=most_memory))
    return Field(default=default, description="What its container asks for and gets.")


class Autoscale(Section):
    """A HorizontalPodAutoscaler in place of a fixed number."""

    min: int = Field(default=2, ge=1, le=1000, description="The fewest pods.")
    max: int = Field(ge=1, le=1000, description="The most pods.")
    cpu: int = Field(default=70, ge=1, le=100, description="Per cent of the requested CPU to aim at.")


class Ingress(Section):
    """The load balancer of each cluster."""

    replicas: int = Field(default=2, ge=1, le=1000, description="Pods, unless `autoscale` says how many.")
    autoscale: Optional[Autoscale] = None
    config: str = Field(default="ingress.yaml", min_length=1, description="Its settings file, beside the fleet file.")
    config_reload: bool = Field(
        default=False, description="A changed file is reloaded in place instead of rolled out as new pods."
    )
    pre_stop: int = Field(default=5, ge=1, le=300, description="Seconds between leaving the Service and SIGTERM.")
    grace: int = Field(
        default=330, ge=1, le=86400, description="Seconds until a pod is killed; more than `pre_stop` and `drain` take."
    )
    resources: Resources = _resources("500m", "512Mi", "2", "1536Mi")
    auth_secret: Optional[Label] = Field(
        default=None, description="Secret with the keys file, which `auth.keys_file` then calls `../auth/KEY`."
    )
    tls_secret: Optional[Label] = Field(
        default=None, description="Secret with certificate and key, which `tls` then calls `../tls/KEY`."
    )
    upstream_tls_secret: Optional[Label] = Field(
        default=None, description="Secret for frontends with https, which `upstream.tls` then calls `../upstream/KEY`."
    )
    allow_from: Several[Peer] = Field(default=(), description="Who may call: CIDRs, and labels of namespaces.")


class Monitoring(Section):
    """Who may read metrics and status."""

    namespace: Label = Field(description="Namespace of the monitoring.")
    service_monitor: bool = Field(default=False, description="Make ServiceMonitors too; their CRD must be there.")


class Egress(Section):
    """What pods may reach beside each other."""

    frontend_ports: OneOrMore[int] = Field(default=(8000,), description="Ports of the pools' frontends.")
    otlp: Optional[Url] = Field(default=None, description="Where traces go, by OTLP.")
    dynamodb: bool = Field(default=False, description="Registry and discovery may reach port 443 of any address.")


class Router(Section):
    """The Global Router's Service, which discovery lists."""

    namespace: Label = Field(description="Its namespace.")
    service: Label = Field(description="Its name.")
    port: PortName = Field(default="http", description="Its port's name or number.")


class Discovery(Section):
    """The directory of each cluster."""

    mode: Literal["mcs", "karmada", "registrations"] = Field(default="mcs", description="Where pools come from.")
    replicas: int = Field(default=2, ge=1, le=10, description="Pods; 1 where registrations are kept in memory.")
    watch_namespaces: Several[Label] = Field(default=(), description="Only these; left out, all, by a ClusterRole.")
    frontend_service: ServicePattern = Field(default="{name}-frontend", description="Names of frontend Services.")
    frontend_port: PortName = Field(default="http", description="The frontend port's name or number.")
    router: Optional[Router] = None
    tokens_secret: Optional[Label] = Field(
        default=None, description="Secret whose tokens.yaml says who may register which clusters."
    )
    table: Optional[Label] = Field(default=None, description="DynamoDB table of registrations; left out, memory.")
    table_region: Optional[Region] = Field(default=None, description="The table's AWS region.")
    allow_from: Several[Peer] = Field(default=(), description="Who may ask, beside the ingress and monitoring.")
    resources: Resources = _resources("100m", "256Mi", "1", "1280Mi")
    annotations: Annotations = Field(default={}, description="Of its ServiceAccount, for cloud identities.")


class Registry(Section):
    """The hub of multi-cluster services."""

    cluster: Label = Field(description="The cluster that it runs in.")
    url: Url = Field(description="Where all clusters reach it.")
    store: Literal["memory", "dynamodb"] = Field(default="memory", description="Where exports are kept.")
    table: Optional[Label] = Field(default=None, description="The DynamoDB table.")
    region: Optional[Region] = Field(default=None, description="The table's AWS region.")
    replicas: int = Field(default=1, ge=1, le=10, description="Pods; 1 with the store in memory.")
    tokens_secret: Label = Field(default="mcs-registry-tokens", description="Secret with tokens.yaml.")
    resources: Resources = _resources("250m", "512Mi", "1", "2Gi")
    annotations: Annotations = Field(default={}, description="Of its ServiceAccount, for cloud identities.")


class Controller(Section):
    """Exporter and importer of each cluster."""

    replicas: int = Field(default=2, ge=1, le=5, description="Pods; one leads.")
    token_secret: Label = Field(default="mcs-controller-token", description="Secret whose `token` the registry knows.")
    resources: Resources = _resources("100m", "256Mi", "1", "1Gi")


class Mcs(Section):
    """Multi-cluster services, where nobody else provides them."""

    registry: Registry
    controller: Controller = Controller()


class Fleet(Section):
    """All clusters that serve together."""

    name: Label = Field(description="The fleet's name, a label of everything.")
    image: Image = Field(description="The image of all commands, best by digest.")
    clusters: OneOrMore[Cluster]
    namespace: Label = Field(default="global-ingress", description="Where everything is put, in each cluster.")
    ingress: Ingress = Ingress()
    monitoring: Optional[Monitoring] = None
    egress: Egress = Egress()
    discovery: Discovery = Discovery()
    mcs: Optional[Mcs] = None


def load(text: str, *, name: str) -> Fleet:
    """The fleet that `text` declares; faults call the file `name`. Raises SettingsFault with all faults."""
    return declared(
        Fleet, text, name=name, needs="name, image and clusters are needed", context={}, cross=_cross_findings
    )


def _cross_findings(data: dict[str, Any]) -> Iterator[Finding]:
    """What is wrong between keys, as far as their own values can be read at all."""
    clusters = [c.get("id") for c in _list(data.get("clusters")) if isinstance(c, dict)]
    for index, cluster in enumerate(clusters):
        if cluster in clusters[:index]:
            yield Finding(("clusters", index, "id"), f"is another cluster's too, got {cluster!r}")
    yield from _discovery_findings(_mapping(data.get("discovery")))
    registry = _mapping(_mapping(data.get("mcs")).get("registry"))
    tables = registry.get("store") == "dynamodb" or "table" in _mapping(data.get("discovery"))
    if tables and _mapping(data.get("egress")).get("dynamodb") is not True:
        yield Finding(("egress", "dynamodb"), "must be true: a DynamoDB table is to be reached")
    if registry and registry.get("cluster") not in [*clusters, None]:
        yield Finding(("mcs", "registry", "cluster"), f"is no cluster of this fleet, got {registry['cluster']!r}")
    yield from _store_findings(("mcs", "registry"), registry, registry.get("store") == "dynamodb", replicas=1)
    autoscale = _mapping(_mapping(data.get("ingress")).get("autoscale"))
    if _number(autoscale.get("min"), 2) > _number(autoscale.get("max"), 1000):
        yield Finding(("ingress", "autoscale", "max"), "must be at least `min`")


def _discovery_findings(discovery: dict[str, Any]) -> Iterator[Finding]:
    if discovery.get("mode") == "registrations":
        yield from _store_findings(("discovery",), discovery, "table" in discovery, replicas=2)
        if "router" in discovery:
            yield Finding(("discovery", "router"), "is read from slices; registrations have none", at_key=True)
        if "tokens_secret" not in discovery:
            yield Finding(("discovery", "mode"), "needs tokens_secret: without it nobody may register")
    elif "table_region" in discovery and "table" not in discovery:
        yield Finding(("discovery", "table_region"), "needs table", at_key=True)


def _store_findings(
    path: tuple[str, ...], section: dict[str, Any], durable: bool, *, replicas: int
) -> Iterator[Finding]:
    if section and durable and "table" not in section:
        yield Finding((*path, "store"), "needs table")
    if section and not durable and _number(section.get("replicas"), replicas) > 1:
        message = "must be 1 where each pod keeps its own memory; a DynamoDB table is shared"
        at = (*path, "replicas") if "replicas" in section else path
        yield Finding(at, message)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any, default: int) -> int:
    return value if isinstance(value, int) else default
