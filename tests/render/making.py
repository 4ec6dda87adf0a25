"""Fleets to render in tests: the example, the least one, and one that asks for everything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from global_ingress.render import manifests
from global_ingress.render.fleet import Fleet, load

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "fleet.yaml"
CONFIG = (ROOT / "examples" / "ingress-minimal.yaml").read_text()

LEAST = """
name: small
image: registry.example.com/global-ingress:0.1.0
clusters:
  - {id: only, region: eu-west-1}
"""

FULL = """
name: full
image: registry.example.com/global-ingress:0.1.0
namespace: inference
clusters:
  - {id: ohio, region: us-east-2, pod_cidrs: [10.1.0.0/16, "fd00:1::/64"], api_server_cidr: 10.0.0.1/32}
  - {id: oregon, region: us-west-2, pod_cidrs: [10.2.0.0/16]}
  - {id: tokyo, region: ap-northeast-1, pod_cidrs: [10.3.0.0/16]}
ingress:
  autoscale: {min: 3, max: 9, cpu: 60}
  config_reload: true
  pre_stop: 8
  grace: 400
  auth_secret: keys
  tls_secret: certificate
  upstream_tls_secret: upstream
  resources: {requests: {cpu: "1", memory: 1Gi}, limits: {cpu: "4", memory: 3Gi}}
  allow_from: [10.9.0.0/24, {team: chat}]
monitoring: {namespace: watching, service_monitor: true}
egress: {frontend_ports: [8000, 8443], otlp: "http://collector.watching:4317", dynamodb: true}
discovery:
  mode: karmada
  replicas: 3
  frontend_service: "{name}-web"
  frontend_port: 8000
  relay_port: 9000
  router: {namespace: routing, service: global-router}
  tokens_secret: relays
  table: registrations
  table_region: us-east-2
  allow_from: [{kubernetes.io/metadata.name: routing}]
  annotations: {example.com/role: directory}
mcs:
  registry:
    cluster: tokyo
    url: http://mcs.example.com:8080
    annotations: {example.com/role: registry}
""".replace("  relay_port: 9000\n", "")

REGISTRATIONS = """
name: relays
image: registry.example.com/global-ingress:0.1.0
clusters: [{id: ohio, region: us-east-2, pod_cidrs: [10.1.0.0/16]}]
discovery: {mode: registrations, replicas: 1, tokens_secret: relays}
"""

FLEETS = {"example": EXAMPLE.read_text(), "least": LEAST, "full": FULL, "registrations": REGISTRATIONS}


def fleet(name: str) -> Fleet:
    return load(FLEETS[name], name=f"{name}.yaml")


def objects(declared: Fleet, index: int = 0, config: str = CONFIG) -> list[dict[str, Any]]:
    """All objects of one of its clusters, as an API server would read them."""
    files = manifests.files(declared, declared.clusters[index], config)
    return [yaml.safe_load(yaml.safe_dump(one)) for found in files.values() for one in found]


def everything() -> list[dict[str, Any]]:
    fleets = [fleet(name) for name in FLEETS]
    return [one for found in fleets for index in range(len(found.clusters)) for one in objects(found, index)]
