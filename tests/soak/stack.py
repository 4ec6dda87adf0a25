"""The processes of a soak test: simulated frontends, discovery over slice files, an ingress; and what changes them.

Everything is started by its public command and looked at by HTTP. Files are replaced as a whole, by rename or, for the
settings, as Kubernetes does it with a mounted ConfigMap: a new folder and one swap of a link.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from tests.bench.machine import free_ports
from tests.e2e.children import ROOT, Child, Children, wait_until
from tests.soak.wire import MODEL

NAMESPACE = "soak"
POOL = "llama"
READY_WITHIN_S = 30.0


def environment() -> dict[str, str]:
    """Ours without the variables that would configure the commands behind the tests' back."""
    ours = ("GLOBAL_INGRESS_", "GLOBAL_DISCOVERY_", "MCS_", "OTEL_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


class Talker:
    """A process of ours that is told and answers lines of JSON; it ends with its standard input, and so with us."""

    def __init__(self, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def tell(self, do: str, **order: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, **order}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"{self._process.args!r} has ended"
        return json.loads(answer)


class Fleet(Talker):
    """Simulated frontends at addresses of 127.0.0.0/8, all with one port."""

    def __init__(self) -> None:
        super().__init__("tests.soak.frontend")
        (self.port,) = free_ports(1)
        self._given = 0

    def open(self, count: int = 1) -> list[str]:
        """Start that many frontends; their addresses, which were never used before."""
        first, self._given = self._given + 1, self._given + count
        addresses = [f"127.{10 + n // 62500}.{n // 250 % 250}.{n % 250 + 1}" for n in range(first, self._given + 1)]
        self.tell("open", addresses=addresses, port=self.port)
        return addresses

    def counts(self) -> dict[str, dict[str, Any]]:
        answer: dict[str, dict[str, Any]] = self.tell("counts")
        return answer

    def total(self, what: str) -> int:
        return sum(int(one[what]) for one in self.counts().values())

    def url(self, address: str) -> str:
        return f"http://{address}:{self.port}"


class SliceFolder:
    """The files that discovery watches: one EndpointSlice per cluster."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self._port = port
        folder.mkdir()

    def put(self, cluster: str, ready: Sequence[str], leaving: Sequence[str] = ()) -> None:
        """The cluster's pool: frontends that are ready, and those that end but still serve."""
        endpoints = [
            {"addresses": [address], "conditions": {"ready": up, "serving": True, "terminating": not up}}
            for addresses, up in ((ready, True), (leaving, False))
            for address in addresses
        ]
        written = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": f"imported-{cluster}-{POOL}-frontend",
                "namespace": NAMESPACE,
                "labels": {
                    "multicluster.kubernetes.io/service-name": f"{POOL}-frontend",
                    "multicluster.kubernetes.io/source-cluster": cluster,
                    "topology.kubernetes.io/region": f"region-{cluster}",
                },
            },
            "addressType": "IPv4",
            "ports": [{"name": "http", "protocol": "TCP", "port": self._port}],
            "endpoints": endpoints,
        }
        half = self.folder / f".{cluster}.half"
        half.write_text(json.dumps(written))
        half.rename(self.folder / f"{cluster}.json")


class Directory:
    """The discovery service over the slices."""

    def __init__(self, slices: SliceFolder, children: Children) -> None:
        (self.port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}"
        self._slices = slices
        self._children = children
        self.child: Child | None = None

    def start(self) -> None:
        argv = [sys.executable, "-m", "discovery", "directory", "--pool-discovery", "files"]
        argv += ["--files", str(self._slices.folder), "--listen", f"127.0.0.1:{self.port}"]
        self.child = self._children.start("discovery", argv, environment())
        wait_answer(f"{self.url}/readyz", self.child)

    def restart(self) -> None:
        """End it as an operator does, and start it at the same address."""
        assert self.child is not None
        self.child.stop()
        self._children.forget(self.child)
        self.start()


class Settings:
    """The settings file; `marker` is a value in it by which one sees whether it is in force."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.path = folder / "ingress.yaml"
        self._given = settings
        self._writes = 0
        folder.mkdir()
        self.rename(0)

    def text(self, marker: int, **sections: Any) -> str:
        timeouts = {**self._given.get("timeouts", {}), "total": f"{1000 + marker}s"}
        return json.dumps({**self._given, "timeouts": timeouts, **sections}, indent=1)

    def rename(self, marker: int, **sections: Any) -> None:
        self.write(self.text(marker, **sections))

    def write(self, text: str) -> None:
        half = self.path.with_suffix(".half")
        half.write_text(text)
        half.rename(self.path)

    def swap(self, marker: int, **sections: Any) -> None:
        """As kubelet does: `ingress.yaml` → `..data/ingress.yaml`, and `..data` → a folder that is new each time."""
        folder = self.path.parent
        self._writes += 1
        fresh = folder / f"..{self._writes}"
        fresh.mkdir()
        (fresh / "ingress.yaml").write_text(self.text(marker, **sections))
        data = folder / "..data"
        old = data.resolve() if data.is_symlink() else None
        _link(fresh.name, data)
        if not self.path.is_symlink():
            _link("..data/ingress.yaml", self.path)
        if old is not None:
            (old / "ingress.yaml").unlink()
            old.rmdir()


def _link(to: str, at: Path) -> None:
    half = at.with_name(f"{at.name}_tmp")
    half.symlink_to(to)
    half.rename(at)


class Ingress:
    """`global-ingress serve` and what it tells."""

    def __init__(self, name: str, settings: dict[str, Any], children: Children, *, workers: int = 1) -> None:
        self.name = name
        self.port, self.admin_port = free_ports(2)
        self.admin = f"http://127.0.0.1:{self.admin_port}"
        self.workers = workers
        self.access_log = children.folder / f"{name}.access.log"
        log = {"access": str(self.access_log), "format": "json"}
        self.settings = Settings(children.folder / name, {**settings, "log": log})
        self._children = children
        self.child: Child | None = None

    def start(self) -> Self:
        argv = [sys.executable, "-m", "global_ingress", "serve", "--config", str(self.settings.path)]
        argv += ["--workers", str(self.workers), "--listen", f"127.0.0.1:{self.port}"]
        argv += ["--admin", f"127.0.0.1:{self.admin_port}"]
        self.child = self._children.start(self.name, argv, environment())
        wait_answer(f"{self.admin}/readyz", self.child)
        wait_until(lambda: len(self.worker_pids()) == self.workers, "all workers listen", READY_WITHIN_S)
        return self

    @property
    def pid(self) -> int:
        assert self.child is not None
        return self.child.pid

    def hup(self) -> None:
        assert self.child is not None
        self.child.signal(signal.SIGHUP, group=False)

    def get(self, path: str) -> Any:
        return httpx.get(f"{self.admin}{path}", timeout=10).json()

    def worker_pids(self) -> list[int]:
        return [worker["pid"] for worker in self.get("/status.json")["workers"] if worker["listening"]]

    def metric(self, name: str, **labels: str) -> float:
        """The sum of the samples whose labels match."""
        total = 0.0
        for line in httpx.get(f"{self.admin}/metrics", timeout=10).text.splitlines():
            found = re.fullmatch(r"(\w+)(\{.*\})? (\S+)", line)
            if found and found[1] == f"global_ingress_{name}":
                given = dict(re.findall(r'(\w+)="([^"]*)"', found[2] or ""))
                if labels.items() <= given.items():
                    total += float(found[3])
        return total

    def marker(self) -> int:
        """Which settings are in force."""
        told = re.fullmatch(r"(\d+)(s|m)", self.get("/config")["timeouts"]["total"])
        assert told is not None
        return int(told[1]) * (60 if told[2] == "m" else 1) - 1000

    def stop(self) -> None:
        assert self.child is not None
        assert self.child.stop() == 0


def wait_answer(url: str, child: Child) -> None:
    def answers() -> bool:
        assert child.alive(), f"{child!r} ended while it was to start:\n{child.tail(40)}"
        try:
            return httpx.get(url, timeout=2).status_code == 200
        except httpx.TransportError:
            return False

    wait_until(answers, f"{url} answers 200", READY_WITHIN_S)


def static_pools(fleet: Fleet, pools: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Settings of an ingress that is told its pools; probing off, so that nothing but the load moves."""
    listed = [
        {
            "cluster": f"cluster-{n}",
            "namespace": NAMESPACE,
            "name": POOL,
            "region": f"region-{n}",
            "frontends": [fleet.url(address) for address in addresses],
        }
        for n, addresses in enumerate(pools)
    ]
    drain = {"delay": "100ms", "timeout": "5s"}
    return {"discovery": {"pools": listed}, "models": [{"id": MODEL}], "probe": False, "drain": drain}


def settle(seconds: float) -> None:
    """Let what is measured come to rest; for memory there is no condition to wait for."""
    time.sleep(seconds)
