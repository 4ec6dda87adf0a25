"""The whole system before real regions: a fake API server, a controller, a discovery and an ingress for each region,
joined by one registry.

Every program is a process, started by its public command. The API servers live in the test's loop, so whatever waits
for a program does it in a thread.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from discovery.testing.cluster import FakeCluster
from global_ingress.validate.evidence import Objectives, Task
from global_ingress.validate.run import task_of
from tests.discovery.mcs.controllers import service, source_slice
from tests.e2e.children import Child, Children, wait_until
from tests.e2e.regions import MODEL, Region, free_ports
from tests.e2e.stack import NAMESPACE, POOL, READY_WITHIN_S, Ingress, answers, environment, pool_of

FRONTEND = f"{POOL}-frontend"


@dataclass
class Joined:
    """What stands before the regions. `clusters`, `directories` and `ingresses` are in the order of the regions."""

    regions: Sequence[Region]
    children: Children
    clusters: list[FakeCluster]
    directories: list[str] = field(default_factory=list)
    ingresses: list[Ingress] = field(default_factory=list)
    programs: list[Child] = field(default_factory=list)

    def export(self, region: Region) -> None:
        """The region's cluster has its frontend's slice, as Kubernetes keeps it."""
        cluster = self.clusters[self.regions.index(region)]
        slice_ = source_slice("127.0.0.1", of=FRONTEND)
        slice_["ports"][0]["port"] = region.port
        cluster.put(slice_)

    def run(self, name: str, url: str, module: str, *given: str) -> None:
        """Start a program of ours, and return when it is ready."""
        argv = [sys.executable, "-m", *module.split(), *given]
        child = self.children.start(name, argv, environment())
        self.programs.append(child)
        wait_until(lambda: answers(f"{url}/readyz", child), f"{name} ready", READY_WITHIN_S)

    def start_ingresses(self) -> None:
        for region, directory in zip(self.regions, self.directories, strict=True):
            one = Ingress(f"joined-ingress-of-{region.cluster}", {"urls": [directory]}, self.children)
            self.ingresses.append(one)
            one.start(pools=len(self.regions))

    def stop(self) -> None:
        for child in [*(one.child for one in self.ingresses), *self.programs]:
            if child is not None:
                self.children.forget(child)

    def task(self) -> Task:
        names = [region.cluster for region in self.regions]
        return task_of(
            MODEL,
            dict(zip(names, (one.url for one in self.ingresses), strict=True)),
            dict(zip(names, self.directories, strict=True)),
            dict(zip(names, (one.admin for one in self.ingresses), strict=True)),
            expect_pools=len(names),
            objectives=Objectives(error_share=0.2, recovery_s=30.0),
            disturb=("the test",),
            marks={pool_of(region): region.tag for region in self.regions},
        )


@asynccontextmanager
async def joined(regions: Sequence[Region], folder: Path, children: Children) -> AsyncIterator[Joined]:
    async with AsyncExitStack() as stack:
        clusters = [await stack.enter_async_context(FakeCluster()) for _ in regions]
        found = Joined(regions, children, clusters)
        try:
            await _started(found, folder)
            yield found
        finally:
            await asyncio.to_thread(found.stop)


async def _started(found: Joined, folder: Path) -> None:
    ports = free_ports(1 + 2 * len(found.regions))
    registry = f"http://127.0.0.1:{ports[0]}"
    given = ["--http-listen", f"127.0.0.1:{ports[0]}", "--grace", "500ms"]
    await asyncio.to_thread(found.run, "mcs-registry", registry, "discovery.mcs.registry_command", *given)
    for place, (region, cluster) in enumerate(zip(found.regions, found.clusters, strict=True)):
        config = str(cluster.kubeconfig(folder / f"{region.cluster}.kubeconfig"))
        cluster.put(service(FRONTEND, exported=True))
        found.export(region)
        controller, directory = ports[1 + 2 * place], ports[2 + 2 * place]
        given = ["--registry", registry, "--cluster-id", region.cluster, "--region", region.name]
        given += ["--kubeconfig", config, "--no-leader-elect", "--listen", f"127.0.0.1:{controller}"]
        url = f"http://127.0.0.1:{controller}"
        name = f"mcs-controller of {region.cluster}"
        await asyncio.to_thread(found.run, name, url, "discovery.mcs.controller_command", *given)
        given = ["--pool-discovery", "mcs", "--kubeconfig", config, "--namespace", NAMESPACE, "--frontend-port", "http"]
        given += ["--listen", f"127.0.0.1:{directory}"]
        url = f"http://127.0.0.1:{directory}"
        await asyncio.to_thread(found.run, f"discovery of {region.cluster}", url, "discovery directory", *given)
        found.directories.append(url)
    await asyncio.to_thread(found.start_ingresses)
