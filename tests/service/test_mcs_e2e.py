"""From a label in one cluster to the pools of every cluster's directory: all programs as processes.

Three fake clusters, one registry in memory, a controller and a directory for each cluster.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from discovery.testing.cluster import FakeCluster
from tests.discovery.mcs.controllers import service, source_slice
from tests.service.ingress.process import eventually
from tests.service.running import Command, running

pytestmark = [pytest.mark.outside, pytest.mark.slow]

NAME = "llama-frontend"
PATIENCE = 15.0
TTL = "2s"


@dataclass
class Member:
    api: FakeCluster
    controller: Command
    controller_url: str
    directory: httpx.AsyncClient

    async def pools(self) -> set[str]:
        table: dict[str, Any] = (await self.directory.get("/pools")).json()
        return {f"{pool['cluster']}:{frontend['url']}" for pool in table["pools"] for frontend in pool["frontends"]}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@asynccontextmanager
async def registry(port: int) -> AsyncIterator[Command]:
    given = ["--http-listen", f"127.0.0.1:{port}", "--lease-ttl", TTL, "--grace", "500ms", "--log-format", "json"]
    async with running("-m", "discovery.mcs.registry_command", *given) as command:
        await command.message("listening")
        yield command


@asynccontextmanager
async def member(id_: str, port: int, tmp: Path) -> AsyncIterator[Member]:
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(FakeCluster())
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "dynamo"}})
        config = str(api.kubeconfig(tmp / f"{id_}.kubeconfig"))
        given = ["--registry", f"http://127.0.0.1:{port}", "--cluster-id", id_, "--kubeconfig", config]
        given += ["--listen", "127.0.0.1:0", "--no-leader-elect", "--log-format", "json"]
        controller = await stack.enter_async_context(running("-m", "discovery.mcs.controller_command", *given))
        asked = [
            "--pool-discovery",
            "mcs",
            "--kubeconfig",
            config,
            "--listen",
            "127.0.0.1:0",
            "--frontend-port",
            "http",
        ]
        directory = await stack.enter_async_context(running("-m", "discovery", "directory", *asked))
        controller_url = (await controller.message("listening"))["url"]
        url = (await directory.message("listening"))["url"]
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=30, trust_env=False))
        yield Member(api, controller, controller_url, http)


async def all_see(members: list[Member], wanted: set[str], what: str) -> None:
    seen: list[set[str]] = []

    async def so() -> bool:
        seen[:] = [await one.pools() for one in members]
        return all(one == wanted for one in seen)

    try:
        await eventually(so, what, PATIENCE)
    except AssertionError as error:
        raise AssertionError(f"{what}: {seen}") from error


async def test_a_label_makes_a_pool_everywhere(tmp_path: Path) -> None:
    port = free_port()
    async with AsyncExitStack() as stack:
        async with registry(port) as first:
            members = [await stack.enter_async_context(member(f"c{n}", port, tmp_path)) for n in (1, 2, 3)]
            for number, one in enumerate(members[:2], 1):
                one.api.create(service(NAME, exported=True))
                one.api.create(source_slice(f"10.0.0.{number}", of=NAME))
            pools = {"c1:http://10.0.0.1:8000", "c2:http://10.0.0.2:8000"}
            await all_see(members, pools, "both pools are everywhere")
            async with httpx.AsyncClient(trust_env=False) as http:
                told = (await http.get(f"{members[0].controller_url}/metrics")).text
            assert 'dynamo_mcs_client_requests_total{call="put_export",outcome="ok"}' in told
            # With all it knew.
            first.process.kill()
            await first.process.wait()
        async with registry(port):
            for number, one in enumerate(members[:2], 1):
                # A change that passes through the new registry shows that everybody follows it.
                one.api.create(source_slice(f"10.0.1.{number}", of=NAME, name=f"{NAME}-more"))
            seen = [await one.pools() for one in members]
            assert all(pools <= one for one in seen), "nothing flaps"
            more = {"c1:http://10.0.1.1:8000", "c2:http://10.0.1.2:8000"}

            async def followed() -> bool:
                now = [await one.pools() for one in members]
                assert all(pools <= one for one in now), "nothing flaps"
                return all(one == pools | more for one in now)

            await eventually(followed, "the new registry is followed", PATIENCE)
            members[1].controller.process.kill()
            await members[1].controller.process.wait()
            left = {url for url in pools | more if url.startswith("c1")}
            await all_see([members[0], members[2]], left, "the silent cluster's endpoints are withdrawn")
            members[0].api.change("services", "dynamo", NAME, lambda one: one["metadata"].update(labels={}))
            await all_see([members[0], members[2]], set(), "what is no longer exported is gone")
