"""All objects of one cluster, by file, from the fleet and the settings file of its ingress."""

from __future__ import annotations

import hashlib

from global_ingress.render import network as net
from global_ingress.render import rbac
from global_ingress.render.fleet import Cluster, Fleet, Mcs
from global_ingress.render.ingress_config import CONFIG, FOLDER, for_cluster
from global_ingress.render.objects import (
    Object,
    Volume,
    Workload,
    account,
    budget,
    deployment,
    made,
    secret_volume,
    service,
    service_monitor,
)

INGRESS, DISCOVERY, REGISTRY, CONTROLLER = "global-ingress", "global-discovery", "mcs-registry", "mcs-controller"


def files(fleet: Fleet, cluster: Cluster, config: str) -> dict[str, list[Object]]:
    """Objects by the name of their file, in the order in which they are applied."""
    found = {
        "namespace.yaml": [_namespace(fleet), *net.closed(fleet)],
        "ingress.yaml": _ingress(fleet, cluster, config),
        "discovery.yaml": _discovery(fleet, cluster),
    }
    if fleet.mcs is not None:
        if fleet.mcs.registry.cluster == cluster.id:
            found["mcs-registry.yaml"] = _registry(fleet, fleet.mcs)
        found["mcs-controller.yaml"] = _controller(fleet, cluster, fleet.mcs)
    return found


def _namespace(fleet: Fleet) -> Object:
    made_one = made(fleet, "v1", "Namespace", fleet.namespace, INGRESS, namespace=None)
    levels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
    made_one["metadata"]["labels"] |= levels
    return made_one


def _ingress(fleet: Fleet, cluster: Cluster, config: str) -> list[Object]:
    given = fleet.ingress
    text = for_cluster(cluster, config)
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    config_map = f"{INGRESS}-config" if given.config_reload else f"{INGRESS}-config-{digest}"
    secrets = [("auth", given.auth_secret), ("tls", given.tls_secret), ("upstream", given.upstream_tls_secret)]
    work = Workload(
        INGRESS,
        None if given.autoscale else given.replicas,
        [INGRESS, "serve", "--config", f"{CONFIG}/ingress.yaml", "--listen", "0.0.0.0:8000", "--admin", "0.0.0.0:9090"],
        {"http": net.DATA, "admin": net.ADMIN},
        "admin",
        given.resources,
        [
            Volume("config", CONFIG, {"configMap": {"name": config_map, "defaultMode": 0o444}}),
            *(secret_volume(word, f"{FOLDER}/{word}", secret) for word, secret in secrets if secret is not None),
        ],
        pre_stop=given.pre_stop,
        grace=given.grace,
        environment={} if fleet.egress.otlp is None else {"OTEL_EXPORTER_OTLP_ENDPOINT": fleet.egress.otlp},
    )
    inbound = [net.rule("from", net.peers(given.allow_from), [net.DATA])] if given.allow_from else []
    outbound = [net.rule("to", [net.pods(fleet, DISCOVERY)], [net.HTTP]), net.frontends(fleet)]
    outbound += [] if fleet.egress.otlp is None else [net.url_rule(fleet.egress.otlp)]
    return [
        account(fleet, INGRESS),
        made(fleet, "v1", "ConfigMap", config_map, INGRESS, data={"ingress.yaml": text}),
        deployment(fleet, work),
        service(fleet, INGRESS, {"http": net.DATA}),
        service(fleet, INGRESS, {"admin": net.ADMIN}, name=f"{INGRESS}-admin", headless=True),
        budget(fleet, INGRESS),
        *_autoscaler(fleet),
        net.policy(fleet, INGRESS, [*inbound, *net.monitoring(fleet, net.ADMIN)], outbound),
        *_monitored(fleet, INGRESS, "admin"),
    ]


def _autoscaler(fleet: Fleet) -> list[Object]:
    scale = fleet.ingress.autoscale
    if scale is None:
        return []
    target = {"type": "Utilization", "averageUtilization": scale.cpu}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": INGRESS},
        "minReplicas": scale.min,
        "maxReplicas": scale.max,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    }
    return [made(fleet, "autoscaling/v2", "HorizontalPodAutoscaler", INGRESS, INGRESS, spec=spec)]


def _monitored(fleet: Fleet, part: str, port: str) -> list[Object]:
    wanted = fleet.monitoring is not None and fleet.monitoring.service_monitor
    return [service_monitor(fleet, part, port)] if wanted else []


def discovery_command(fleet: Fleet, cluster: Cluster) -> list[str]:
    given = fleet.discovery
    command = ["global-discovery-service", "--listen", "0.0.0.0:8080", "--pool-discovery", given.mode]
    if given.mode != "registrations":
        command += ["--cluster-id", cluster.id]
        command += [f"--cluster-region={each.id}={each.region}" for each in fleet.clusters]
        command += ["--frontend-service", given.frontend_service, "--frontend-port", str(given.frontend_port)]
        command += [f"--namespace={name}" for name in rbac.watched(fleet)]
        if given.router is not None:
            command += ["--router-namespace", given.router.namespace, "--router-service", given.router.service]
            command += ["--router-port", str(given.router.port)]
    if given.mode == "karmada":
        command += [f"--karmada-cluster={each.id}" for each in fleet.clusters]
    if given.tokens_secret is not None:
        command += ["--registration-tokens-file", "/etc/global-discovery/tokens/tokens.yaml"]
        command += [f"--allow-cidr={cidr}" for each in fleet.clusters for cidr in each.pod_cidrs]
    if given.table is not None:
        command += ["--registration-storage", "dynamodb", "--dynamodb-table", given.table]
        command += [] if given.table_region is None else ["--dynamodb-region", given.table_region]
    return command


def _discovery(fleet: Fleet, cluster: Cluster) -> list[Object]:
    given = fleet.discovery
    tokens = given.tokens_secret
    reads = given.mode != "registrations"
    work = Workload(
        DISCOVERY,
        given.replicas,
        discovery_command(fleet, cluster),
        {"http": net.HTTP},
        "http",
        given.resources,
        [] if tokens is None else [secret_volume("tokens", "/etc/global-discovery/tokens", tokens)],
        api_token=reads,
    )
    inbound = [net.rule("from", [net.pods(fleet, INGRESS), *net.peers(given.allow_from)], [net.HTTP])]
    outbound = [net.api_server(cluster)] if reads else []
    outbound += [] if given.table is None else [net.rule("to", None, [443])]
    return [
        account(fleet, DISCOVERY, given.annotations),
        *rbac.discovery(fleet),
        deployment(fleet, work),
        service(fleet, DISCOVERY, {"http": net.HTTP}),
        budget(fleet, DISCOVERY),
        net.policy(fleet, DISCOVERY, [*inbound, *net.monitoring(fleet, net.HTTP)], outbound),
        *_monitored(fleet, DISCOVERY, "http"),
    ]


def _registry(fleet: Fleet, mcs: Mcs) -> list[Object]:
    given = mcs.registry
    command = [REGISTRY, "--http-listen", "0.0.0.0:8080", "--store", given.store]
    command += ["--tokens-file", "/etc/mcs/tokens/tokens.yaml"]
    if given.store == "dynamodb" and given.table is not None:
        command += ["--dynamodb-table", given.table]
        command += [] if given.region is None else ["--dynamodb-region", given.region]
    ports = {"http": net.HTTP}
    tokens = secret_volume("tokens", "/etc/mcs/tokens", given.tokens_secret)
    work = Workload(REGISTRY, given.replicas, command, ports, "http", given.resources, [tokens])
    addresses = net.everywhere(fleet)
    whom = None if addresses is None else [net.pods(fleet, CONTROLLER), *addresses]
    inbound = [net.rule("from", whom, ports.values())]
    outbound = [net.rule("to", None, [443])] if given.store == "dynamodb" else []
    return [
        account(fleet, REGISTRY, given.annotations),
        deployment(fleet, work),
        service(fleet, REGISTRY, ports),
        budget(fleet, REGISTRY),
        net.policy(fleet, REGISTRY, [*inbound, *net.monitoring(fleet, net.HTTP)], outbound),
        *_monitored(fleet, REGISTRY, "http"),
    ]


def _controller(fleet: Fleet, cluster: Cluster, mcs: Mcs) -> list[Object]:
    given = mcs.controller
    command = [CONTROLLER, "--registry", mcs.registry.url, "--cluster-id", cluster.id, "--region", cluster.region]
    command += ["--clusterset", fleet.name, "--stale-endpoints", "keep", "--leader-elect"]
    command += ["--registry-token-file", "/etc/mcs/token/token", "--listen", "0.0.0.0:8080"]
    token = secret_volume("token", "/etc/mcs/token", given.token_secret)
    ports = {"http": net.HTTP}
    work = Workload(CONTROLLER, given.replicas, command, ports, "http", given.resources, [token], api_token=True)
    outbound = [net.api_server(cluster), net.url_rule(mcs.registry.url)]
    if mcs.registry.cluster == cluster.id:
        outbound.append(net.rule("to", [net.pods(fleet, REGISTRY)], [net.HTTP]))
    return [
        account(fleet, CONTROLLER),
        *rbac.controller(fleet),
        deployment(fleet, work),
        service(fleet, CONTROLLER, ports),
        budget(fleet, CONTROLLER),
        net.policy(fleet, CONTROLLER, net.monitoring(fleet, net.HTTP), outbound),
        *_monitored(fleet, CONTROLLER, "http"),
    ]
