"""What stands in front of the regions: a discovery service over slice files, and ingresses.

Both are started by their public commands, as an operator starts them, and looked at only through their HTTP
interfaces. The slices are written as an implementation of Multi-Cluster Services writes imported ones.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import httpx
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.children import Child, Children, wait_until
from tests.e2e.regions import MODEL, Region, free_ports

NAMESPACE = "dynamo"
POOL = "llama"
READY_WITHIN_S = 30.0
SETTINGS: dict[str, Any] = {
    "models": [{"id": MODEL}],
    "timeouts": {"connect": "2s", "first_byte": "20s", "idle": "10s", "client_write": "10s"},
    "ejection": {"base": "1s", "max": "5s"},
    "probe": {"interval": "1s", "timeout": "1s"},
    "drain": {"delay": "100ms", "timeout": "5s"},
}


def pool_of(region: Region) -> str:
    """The pool's key as `x-dynamo-pool` and the metrics spell it."""
    return f"{region.cluster}/{NAMESPACE}/{POOL}"


class SliceFolder:
    """The folder the discovery service watches: one imported EndpointSlice a region."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def put(self, region: Region) -> None:
        """Write the region's slice; a reader sees the old file or the new one, never half of one."""
        path = self._path(region)
        half = path.with_suffix(".half")
        half.write_text(yaml.safe_dump(self._slice(region), sort_keys=False))
        half.rename(path)

    def remove(self, region: Region) -> None:
        self._path(region).unlink()

    def _path(self, region: Region) -> Path:
        return self.folder / f"{region.cluster}.yaml"

    @staticmethod
    def _slice(region: Region) -> dict[str, Any]:
        return {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": f"imported-{region.cluster}-{POOL}-frontend",
                "namespace": NAMESPACE,
                "labels": {
                    "multicluster.kubernetes.io/service-name": f"{POOL}-frontend",
                    "multicluster.kubernetes.io/source-cluster": region.cluster,
                    "topology.kubernetes.io/region": region.name,
                },
            },
            "addressType": "IPv4",
            "ports": [{"name": "http", "protocol": "TCP", "port": region.port}],
            "endpoints": [
                {"addresses": ["127.0.0.1"], "conditions": {"ready": True, "serving": True, "terminating": False}}
            ],
        }


def environment() -> dict[str, str]:
    """Ours without the variables that would configure the commands behind the tests' back."""
    ours = ("GLOBAL_INGRESS_", "GLOBAL_DISCOVERY_", "MCS_", "OTEL_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def answers(url: str, child: Child) -> bool:
    if not child.alive():
        raise RuntimeError(f"{child!r} ended while it was to start:\n{child.tail(40)}")
    try:
        return httpx.get(url, timeout=2).status_code == 200
    except httpx.TransportError:
        return False


class Directory:
    """The discovery service over a slice folder."""

    def __init__(self, slices: SliceFolder, children: Children) -> None:
        (self.port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}"
        self._slices = slices
        self._children = children
        self.child: Child | None = None

    def start(self) -> None:
        if self.child is not None:
            self._children.forget(self.child)
        argv = [sys.executable, "-m", "discovery", "directory", "--pool-discovery", "files"]
        argv += ["--files", str(self._slices.folder), "--listen", f"127.0.0.1:{self.port}"]
        child = self.child = self._children.start("discovery", argv, environment())
        wait_until(lambda: answers(f"{self.url}/readyz", child), "discovery ready", READY_WITHIN_S)

    def pools(self) -> dict[str, Any]:
        table = httpx.get(f"{self.url}/pools", timeout=5).json()
        return {f"{pool['cluster']}/{pool['namespace']}/{pool['name']}": pool for pool in table["pools"]}


class Ingress:
    """One ingress; what it knows is read from its admin listener."""

    def __init__(self, name: str, discovery: dict[str, Any], children: Children, **settings: Any) -> None:
        self.name = name
        self.port, self.admin_port = free_ports(2)
        self.url = f"http://127.0.0.1:{self.port}"
        self.admin = f"http://127.0.0.1:{self.admin_port}"
        self._children = children
        self._settings = {"discovery": discovery, **SETTINGS, **settings}
        self._config = children.folder / self.name / "ingress.yaml"
        self.child: Child | None = None

    def configure(self, **settings: Any) -> None:
        """Write the file (anew, at once as a whole), with these sections in place of their own."""
        self._config.parent.mkdir(exist_ok=True)
        half = self._config.with_suffix(".half")
        half.write_text(yaml.safe_dump({**self._settings, **settings}, sort_keys=False))
        half.rename(self._config)

    def start(self, *, pools: int, workers: int = 1) -> None:
        """Start it and return when `pools` pools are routable."""
        self.configure()
        argv = [sys.executable, "-m", "global_ingress", "serve", "--config", str(self._config)]
        argv += [
            "--workers",
            str(workers),
            "--listen",
            f"127.0.0.1:{self.port}",
            "--admin",
            f"127.0.0.1:{self.admin_port}",
        ]
        child = self.child = self._children.start(self.name, argv, environment())
        wait_until(lambda: answers(f"{self.url}/readyz", child), f"{self.name} ready", READY_WITHIN_S)
        self.wait_routable(pools)

    def metric(self, name: str) -> dict[tuple[str, ...], float]:
        """One metric's samples: label values in the order of the label names, to value."""
        text = httpx.get(f"{self.admin}/metrics", timeout=5).text
        return {
            tuple(value for _, value in sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name
        }

    def in_flight(self) -> float:
        return sum(self.metric("global_ingress_in_flight_requests").values())

    def routable(self) -> set[str]:
        return {pool for (pool, *_), value in self.metric("global_ingress_pool_routable").items() if value}

    def wait_routable(self, pools: int | Iterable[Region], within_s: float = READY_WITHIN_S) -> None:
        """Wait until so many pools, or exactly the pools of these regions, are routable."""
        if isinstance(pools, int):
            wait_until(lambda: len(self.routable()) == pools, f"{pools} pools routable at {self.name}", within_s)
            return
        wanted = {pool_of(region) for region in pools}

        def as_wanted() -> bool:
            return self.routable() == wanted

        wait_until(as_wanted, f"exactly {sorted(wanted)} routable at {self.name}", within_s)

    def wait_idle(self, within_s: float = 5.0) -> None:
        wait_until(lambda: self.in_flight() == 0, f"no request in flight at {self.name}", within_s)


def static_pools(regions: Sequence[Region]) -> dict[str, Any]:
    """The `discovery` section of an ingress that is told its pools and asks nobody."""
    return {
        "pools": [
            {
                "cluster": region.cluster,
                "namespace": NAMESPACE,
                "name": POOL,
                "region": region.name,
                "frontends": [region.url],
            }
            for region in regions
        ]
    }
