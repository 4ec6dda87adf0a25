"""Who may talk to whom: NetworkPolicies, closed by default, opened rule by rule.

A rule without peers means any address at these ports; it stands where the fleet does not say which addresses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from global_ingress.render.fleet import Cluster, Fleet
from global_ingress.render.objects import Object, made, selector

DATA, ADMIN, HTTP = 8000, 9090, 8080
API_SERVER_PORTS = (443, 6443)
NODE_LOCAL_DNS = "169.254.20.10/32"
_NAMESPACE = "kubernetes.io/metadata.name"


def block(cidr: object) -> Object:
    return {"ipBlock": {"cidr": str(cidr)}}


def namespace(name: str) -> Object:
    return {"namespaceSelector": {"matchLabels": {_NAMESPACE: name}}}


def pods(fleet: Fleet, part: str) -> Object:
    return {"podSelector": {"matchLabels": selector(fleet, part)}}


def peers(given: Iterable[str | dict[str, str]]) -> list[Object]:
    return [block(p) if isinstance(p, str) else {"namespaceSelector": {"matchLabels": p}} for p in given]


def rule(
    direction: str, whom: Sequence[Object] | None, ports: Iterable[int], protocols: Sequence[str] = ("TCP",)
) -> Object:
    """`whom` None is anybody."""
    towards = {} if whom is None else {direction: list(whom)}
    return {**towards, "ports": [{"protocol": protocol, "port": port} for port in ports for protocol in protocols]}


def policy(fleet: Fleet, part: str, inbound: Sequence[Object], outbound: Sequence[Object]) -> Object:
    spec = {
        "podSelector": {"matchLabels": selector(fleet, part)},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": list(inbound),
        "egress": list(outbound),
    }
    return made(fleet, "networking.k8s.io/v1", "NetworkPolicy", part, part, spec=spec)


def closed(fleet: Fleet) -> list[Object]:
    """Nothing in and nothing out for any pod of the namespace; then names may be asked for."""
    nothing = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    resolver = {**namespace("kube-system"), "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}
    names = rule("to", [resolver, block(NODE_LOCAL_DNS)], [53], ("UDP", "TCP"))
    asking = {"podSelector": {}, "policyTypes": ["Egress"], "egress": [names]}
    kind = ("networking.k8s.io/v1", "NetworkPolicy")
    return [
        made(fleet, *kind, "default-deny", "global-ingress", spec=nothing),
        made(fleet, *kind, "dns", "global-ingress", spec=asking),
    ]


def everywhere(fleet: Fleet) -> list[Object] | None:
    """The pods of all clusters by address; None when one cluster does not say its addresses."""
    if not all(cluster.pod_cidrs for cluster in fleet.clusters):
        return None
    return [block(cidr) for cluster in fleet.clusters for cidr in cluster.pod_cidrs]


def monitoring(fleet: Fleet, port: int) -> list[Object]:
    return [] if fleet.monitoring is None else [rule("from", [namespace(fleet.monitoring.namespace)], [port])]


def api_server(cluster: Cluster) -> Object:
    whom = None if cluster.api_server_cidr is None else [block(cluster.api_server_cidr)]
    return rule("to", whom, API_SERVER_PORTS)


def frontends(fleet: Fleet) -> Object:
    """By address in all clusters, and by namespace in the own one: some networks know own pods by name alone."""
    addresses = everywhere(fleet)
    own = [namespace(name) for name in fleet.discovery.watch_namespaces] or [{"namespaceSelector": {}}]
    return rule("to", None if addresses is None else [*addresses, *own], fleet.egress.frontend_ports)


def url_rule(url: str) -> Object:
    """Towards what a URL names: its address when it is one, else its port alone."""
    host, port = split(url)
    numbers = re.fullmatch(r"[0-9.]+", host)
    return rule("to", [block(f"{host}/32")] if numbers else None, [port])


def split(url: str) -> tuple[str, int]:
    """Host and port of a URL as the fleet holds it, the port always written."""
    host, _, port = url.partition("://")[2].rpartition(":")
    return host, int(port)
