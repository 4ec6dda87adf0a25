"""A watched source in this loop, against a fake API server: its slices become tables as in the directory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from discovery.directory.assemble import Assembled, assemble
from discovery.directory.naming import NamingRules
from discovery.directory.publisher import Publisher
from discovery.directory.store import Store
from discovery.directory.watched import targets
from discovery.directory.watcher import POLICY, WatchedSource
from discovery.kit.clock import SYSTEM_CLOCK
from discovery.kit.tasks import background
from discovery.kube.client import Access
from discovery.pool import PoolTable
from discovery.testing.cluster import FakeCluster

SLICES = "endpointslices.discovery.k8s.io"
QUICK = replace(POLICY, delay=lambda failures, chance: 0.05, quiet_watch=1.0, quiet_stream=1.0, head=2.0, page=3.0)
RULES = NamingRules()


@dataclass
class Watched:
    source: WatchedSource
    store: Store
    cluster: FakeCluster
    assembled: Assembled | None = None

    @property
    def table(self) -> PoolTable:
        return self.store.table

    @property
    def clusters(self) -> list[str]:
        return [pool.key.cluster for pool in self.table.pools]

    @property
    def urls(self) -> list[str]:
        return [frontend.url for pool in self.table.pools for frontend in pool.frontends]

    @property
    def verdicts(self) -> dict[str, str]:
        assert self.assembled is not None
        return {one.name: str(one.reason or one.state) for one in self.assembled.verdicts}

    async def until(self, true: Callable[[PoolTable], bool], *, seconds: float = 15) -> PoolTable:
        try:
            async with asyncio.timeout(seconds):
                while not true(self.table):
                    await self.store.newer(self.table)
        except TimeoutError:
            raise TimeoutError(f"still {self.table}; {self.source}") from None
        return self.table

    async def lists(self, *clusters: str) -> PoolTable:
        return await self.until(lambda table: [pool.key.cluster for pool in table.pools] == list(clusters))


@asynccontextmanager
async def watched(
    cluster: FakeCluster,
    tmp: Path,
    *,
    mode: str = "mcs",
    rules: NamingRules = RULES,
    namespaces: Sequence[str] = (),
    token: str = "",
    **more: Any,
) -> AsyncIterator[Watched]:
    """A source of this cluster while the block runs; a failure of it is raised at the end."""
    path = cluster.kubeconfig(tmp / "kubeconfig", token=token)
    router = (rules.router_namespace, rules.router_service)
    store = Store("epoch", SYSTEM_CLOCK)
    failures: list[Exception] = []

    async def publish() -> None:
        found.assembled = assemble(list(source.told()), rules, found.assembled)
        store.publish(found.assembled.pools, found.assembled.routers, complete=source.complete)

    publisher = Publisher(publish, SYSTEM_CLOCK)
    settings: dict[str, Any] = {"policy": QUICK, "chance": lambda: 0.5} | more
    source = WatchedSource(
        mode,
        targets(mode, namespaces, router if router[0] and router[1] else None),  # type: ignore[arg-type]
        Access(str(path)),
        rules,
        SYSTEM_CLOCK,
        publisher.touch,
        **settings,
    )
    found = Watched(source, store, cluster)
    async with (
        background(publisher.run(), name="publisher", on_failure=failures.append),
        background(source.run(), name="source", on_failure=failures.append),
    ):
        yield found
    assert not failures
