"""From a label in one cluster to the clients of every cluster: all programs as processes.

Three fake clusters, one registry in memory, and for each cluster a controller, a directory and an ingress under load
that must not lose a request. What the registry says is seen in who answers. The first cluster imports with `withdraw`,
the second with `keep`, the third one is cut off.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from discovery.kube import labels
from discovery.mcs import names
from discovery.testing.cluster import FakeCluster
from tests.discovery.mcs.controllers import imported, service, source_slice
from tests.service.cuttable import CuttableLine, cuttable
from tests.service.ingress.client import MODEL
from tests.service.ingress.frontend import Frontend
from tests.service.ingress.load import Load, loaded
from tests.service.ingress.process import Ingress, eventually, merged
from tests.service.ingress.rig import BASE
from tests.service.ingress.wire import free_port
from tests.service.running import Command, running

pytestmark = [pytest.mark.outside, pytest.mark.slow, pytest.mark.timeout(180)]

NAME = "llama-frontend"
ASIDE = "aside"  # no name of a frontend: it is imported, and no directory lists it
SOON = 3.0  # seconds from a label to answers in every cluster, as promised
PATIENCE = 20.0
TTL = "2s"
STALE = ("withdraw", "keep", "withdraw")


@dataclass
class Member:
    id: str
    api: FakeCluster
    line: CuttableLine
    frontend: Frontend
    controller_url: str
    directory: httpx.AsyncClient
    directory_url: str

    def offer(self, name: str, *, exported: bool) -> None:
        """The Service and the slice that Kubernetes makes of it."""
        slice_ = source_slice("127.0.0.1", of=name)
        slice_["ports"][0]["port"] = self.frontend.port
        self.api.put(slice_)
        self.api.create(service(name, exported=exported))

    def label(self, name: str, *, exported: bool) -> None:
        marks = {labels.MCS_EXPORT: "true"} if exported else {}
        self.api.change("services", "dynamo", name, lambda one: one["metadata"].update(labels=marks))

    async def pools(self) -> dict[str, dict[str, Any]]:
        """By their cluster."""
        table: dict[str, Any] = (await self.directory.get("/pools")).json()
        return {pool["cluster"]: pool for pool in table["pools"]}

    def import_of(self, name: str) -> dict[str, Any]:
        return self.api.get("serviceimports", "dynamo", name) or {}

    def clusters_of(self, name: str) -> list[str]:
        return sorted(one["cluster"] for one in self.import_of(name).get("status", {}).get("clusters", ()))

    def standing(self) -> tuple[str, str, str]:
        """What must outlive a cut: the import and its Service are the same objects, under the same address."""
        found = self.import_of(NAME)["metadata"]
        derived = self.api.get("services", "dynamo", found["annotations"][names.DERIVED_SERVICE])
        assert derived is not None
        return found["uid"], derived["metadata"]["uid"], derived["spec"]["clusterIP"]

    def versions(self) -> dict[str, str]:
        """Of the import, its Service and its slices: any write would change one."""
        found = self.import_of(NAME)
        derived = self.api.get("services", "dynamo", found["metadata"]["annotations"][names.DERIVED_SERVICE])
        assert derived is not None
        things = [found, derived, *imported(self.api, NAME)]
        return {one["metadata"]["uid"]: one["metadata"]["resourceVersion"] for one in things}


@asynccontextmanager
async def registry(port: int) -> AsyncIterator[Command]:
    given = ["--http-listen", f"127.0.0.1:{port}", "--lease-ttl", TTL, "--grace", "500ms", "--log-format", "json"]
    async with running("-m", "discovery.mcs.registry_command", *given) as command:
        await command.message("listening")
        yield command


@asynccontextmanager
async def member(number: int, port: int, tmp: Path) -> AsyncIterator[Member]:
    id_ = f"c{number}"
    async with AsyncExitStack() as stack:
        frontend = Frontend(f"f{number}", [{"id": MODEL, "object": "model"}])
        frontend.forget()
        await frontend.start()
        stack.push_async_callback(frontend.stop)
        api = await stack.enter_async_context(FakeCluster())
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "dynamo"}})
        line = await stack.enter_async_context(cuttable(port))
        config = str(api.kubeconfig(tmp / f"{id_}.kubeconfig"))
        given = ["--registry", f"http://127.0.0.1:{line.port}", "--cluster-id", id_, "--kubeconfig", config]
        given += ["--listen", "127.0.0.1:0", "--no-leader-elect", "--log-format", "json"]
        given += ["--stale-endpoints", STALE[number - 1]]
        controller = await stack.enter_async_context(running("-m", "discovery.mcs.controller_command", *given))
        asked = ["--pool-discovery", "mcs", "--kubeconfig", config, "--frontend-port", "http"]
        asked += ["--listen", "127.0.0.1:0"]
        directory = await stack.enter_async_context(running("-m", "discovery", "directory", *asked))
        controller_url = (await controller.message("listening"))["url"]
        url = (await directory.message("listening"))["url"]
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=30, trust_env=False))
        yield Member(id_, api, line, frontend, controller_url, http, url)
        assert frontend.faults == []


@asynccontextmanager
async def ingress(one: Member, tmp: Path) -> AsyncIterator[Load]:
    """The cluster's ingress under load."""
    folder = tmp / f"ingress-{one.id}"
    folder.mkdir()
    front = Ingress(folder)
    front.write(merged(BASE, {"discovery": {"urls": [one.directory_url]}, "ejection": {"failures": 1}}))
    try:
        await front.start()
        async with loaded(front.port, count=1) as load:
            yield load
        assert front.alive
        assert "Traceback" not in front.text(), front.text()[-4000:]
    finally:
        await front.stop()


async def answer(loads: list[Load], name: str, limit: float) -> float:
    """Seconds until this frontend has answered in every cluster."""
    began = asyncio.get_running_loop().time()
    before = [load.by.get(name, 0) for load in loads]

    def so() -> bool:
        return all(load.by.get(name, 0) > old for load, old in zip(loads, before, strict=True))

    await eventually(so, f"{name} answers everywhere", limit)
    return asyncio.get_running_loop().time() - began


async def only(loads: list[Load], *names: str) -> None:
    """From some moment on these answer in every cluster, and no others."""
    async with asyncio.TaskGroup() as group:
        for load in loads:
            group.create_task(load.reaches(*names))


async def test_a_label_makes_a_pool_everywhere(tmp_path: Path) -> None:
    port = free_port()
    async with AsyncExitStack() as stack:
        async with registry(port) as first:
            members = [await stack.enter_async_context(member(n, port, tmp_path)) for n in (1, 2, 3)]
            for one in members:
                one.offer(NAME, exported=one.id == "c2")
                one.offer(ASIDE, exported=False)
            loads = [await stack.enter_async_context(ingress(one, tmp_path)) for one in members]
            await only(loads, "f2")

            for name, one in (("f1", members[0]), ("f3", members[2])):
                one.label(NAME, exported=True)
                print(f"{one.id}: label to answers in all clusters {await answer(loads, name, SOON):.2f} s")
            async with httpx.AsyncClient(trust_env=False) as http:
                told = (await http.get(f"{members[0].controller_url}/metrics")).text
            assert 'dynamo_mcs_client_requests_total{call="put_export",outcome="ok"}' in told

            everybody = ["c1", "c2", "c3"]
            await eventually(lambda: all(one.clusters_of(NAME) == everybody for one in members), "all told", PATIENCE)
            before = [one.versions() for one in members]
            # With all it knew.
            first.process.kill()
            await first.process.wait()
            for load in loads:
                await load.goes_on(40)
        async with registry(port):
            await the_new_registry_is_followed(members)
            assert [one.versions() for one in members] == before, "nothing flaps: no import is touched"
            await only(loads, "f1", "f2", "f3")
            await a_cluster_is_cut(members, loads)
            await an_export_is_deleted(members, loads)


async def the_new_registry_is_followed(members: list[Member]) -> None:
    """What each cluster exports now passes through it, so each has told it everything."""
    for one in members:
        one.label(ASIDE, exported=True)
    wanted = [one.id for one in members]
    await eventually(lambda: all(one.clusters_of(ASIDE) == wanted for one in members), "it is followed", PATIENCE)


async def a_cluster_is_cut(members: list[Member], loads: list[Load]) -> None:
    withdraws, keeps, cut = members
    before = [one.standing() for one in members]
    frozen = cut.versions()
    await cut.line.cut()
    await loads[0].reaches("f1", "f2")
    assert set(await withdraws.pools()) == {"c1", "c2"}, "the lease is over: its endpoints leave"

    async def stale() -> bool:
        return bool((await keeps.pools())["c3"]["stale_since"])

    await eventually(stale, "its endpoints are shown stale", PATIENCE)
    await loads[1].reaches("f1", "f2", "f3")
    cut.frontend.refuse()
    await loads[1].reaches("f1", "f2")
    assert set(await keeps.pools()) == {"c1", "c2", "c3"}, "nobody but the ingress has given it up"
    assert [one.standing() for one in members] == before, "the import stays either way"
    assert cut.versions() == frozen, "who is cut off keeps what it knew"
    await cut.frontend.start()
    await cut.line.mend()
    await only(loads, "f1", "f2", "f3")


async def an_export_is_deleted(members: list[Member], loads: list[Load]) -> None:
    loop = asyncio.get_running_loop()
    gone, began = members[0], loop.time()
    gone.label(NAME, exported=False)

    async def so() -> bool:
        return all(["c1" not in await one.pools() for one in members])

    await eventually(so, "its pool is gone everywhere", SOON)
    print(f"{gone.id}: gone everywhere after {loop.time() - began:.2f} s")
    await only(loads, "f2", "f3")
    assert all(one.clusters_of(NAME) == ["c2", "c3"] for one in members)
    for one in members[1:]:
        one.label(NAME, exported=False)
    await eventually(lambda: not any(one.import_of(NAME) for one in members), "the last export takes it", PATIENCE)
