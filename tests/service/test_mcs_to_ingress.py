"""From the API server to the client: EndpointSlices of a fake cluster, the directory and the ingress as processes.

What the cluster says is seen in who answers a request; what breaks on the way must cost none. The directory's token may
read slices and nothing else, and after every test the API server's log must show that it asked for nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from discovery.testing.cluster import READ_SLICES, FakeCluster, Slow
from tests.discovery.making import KARMADA, LOCAL, endpoint, port, slice_json
from tests.service.ingress.client import MODEL, Client
from tests.service.ingress.frontend import Frontend
from tests.service.ingress.load import loaded, served_by
from tests.service.ingress.process import Ingress, eventually
from tests.service.ingress.rig import BASE
from tests.service.registering import bearing, digest, said
from tests.service.running import Command, running

pytestmark = pytest.mark.outside

TOKEN = "reader"
SLICES = "endpointslices.discovery.k8s.io"
CHANGES = 30
QUIET = 0.15  # seconds; longer than the pace of tables in a burst, so that a change is one by itself
COMPLETE_FOR = 30.0  # seconds that a list counts as complete while the API server cannot be reached
WAITS = 30.0  # seconds that the directory waits at most before it asks an API server again that has failed
PATIENCE = 20.0  # seconds for what should take less than one


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster() as one:
        one.access.grant(TOKEN, READ_SLICES)
        yield one
        asked = one.requests
    assert asked, "nobody has asked the API server"
    assert {(entry.token, entry.resource) for entry in asked} == {(TOKEN, SLICES)}
    assert {entry.verb for entry in asked} <= {"get", "list", "watch"}


@pytest.fixture
async def frontends() -> AsyncIterator[list[Frontend]]:
    made = [Frontend(f"f{n}", [{"id": MODEL, "object": "model"}]) for n in range(3)]
    for one in made:
        one.forget()
        await one.start()
    yield made
    for one in made:
        await one.stop()
    assert not [fault for one in made for fault in one.faults]


def imported(frontend: Frontend, source: str = "ohio") -> dict[str, Any]:
    """The slice that an MCS controller makes of a pool whose one frontend is this; one for each source cluster."""
    return _new(
        slice_json(
            "llama-frontend",
            source,
            name=f"imported-{source}",
            endpoints=[endpoint("127.0.0.1", f"{frontend.name}-pod", ready=True)],
            ports=[port(frontend.port)],
        )
    )


def collected(frontend: Frontend, member: str) -> dict[str, Any]:
    """The slice that Karmada collects from a member for a ServiceImport."""
    return _new(
        slice_json(
            None,
            None,
            name=f"imported-{member}-llama-frontend-x7k2p",
            managed_by=KARMADA,
            labels={LOCAL: "derived-llama-frontend"},
            endpoints=[endpoint("127.0.0.1", ready=True)],
            ports=[port(frontend.port)],
        )
    )


def _new(thing: dict[str, Any]) -> dict[str, Any]:
    """Without what only the API server writes."""
    kept = ("name", "namespace", "labels", "annotations")
    return thing | {"metadata": {key: thing["metadata"][key] for key in kept}}


class Directory:
    """The directory's process and what it says."""

    def __init__(self, url: str, command: Command, http: httpx.AsyncClient) -> None:
        self.url, self.command, self.http = url, command, http

    async def table(self) -> dict[str, Any]:
        answer: dict[str, Any] = (await self.http.get("/pools")).json()
        return answer

    async def urls(self) -> list[str]:
        return urls_of(await self.table())

    async def becomes(self, *, complete: bool, limit: float = PATIENCE) -> None:
        async def so() -> bool:
            return (await self.table())["complete"] is complete

        await eventually(so, f"complete is {complete}", limit)


def urls_of(table: dict[str, Any]) -> list[str]:
    return [frontend["url"] for pool in table["pools"] for frontend in pool["frontends"]]


@asynccontextmanager
async def directory(
    cluster: FakeCluster, tmp: Path, *more: str, mode: str = "mcs", listen: str = "127.0.0.1:0"
) -> AsyncIterator[Directory]:
    config = cluster.kubeconfig(tmp / "kubeconfig", token=TOKEN)
    given = ["--pool-discovery", mode, "--kubeconfig", str(config), "--listen", listen, *more]
    async with running("-m", "discovery", "directory", *given) as command:
        url = (await command.message("listening"))["url"]
        async with httpx.AsyncClient(base_url=url, timeout=30, trust_env=False) as http:
            yield Directory(url, command, http)


@asynccontextmanager
async def ingress(tmp: Path, url: str) -> AsyncIterator[Ingress]:
    """The ingress once it is ready; it must live to the end and log no traceback."""
    folder = tmp / "ingress"
    folder.mkdir()
    one = Ingress(folder)
    one.write(BASE | {"discovery": {"urls": [url]}})
    try:
        await one.start()
        yield one
        assert one.alive
        assert "Traceback" not in one.text(), one.text()[-4000:]
    finally:
        await one.stop()


async def test_a_changed_endpoint_is_asked_at_once_and_the_old_one_no_more(
    cluster: FakeCluster, frontends: list[Frontend], tmp_path: Path
) -> None:
    loop = asyncio.get_running_loop()
    took: list[float] = []
    cluster.put(imported(frontends[0]))
    async with directory(cluster, tmp_path) as found, ingress(tmp_path, found.url) as front:
        client = await Client.connect(front.port)
        assert await served_by(client) == "f0"
        for turn in range(CHANGES):
            old, new = frontends[turn % 2], frontends[(turn + 1) % 2]
            began = loop.time()
            cluster.put(imported(new))
            while await served_by(client) != new.name:
                assert loop.time() - began < PATIENCE, f"change {turn} is not seen"
            took.append(loop.time() - began)
            asked = len(old.requests)
            while loop.time() - began < took[-1] + QUIET:
                assert await served_by(client) == new.name
            assert len(old.requests) == asked, "the old one is asked after the new one was"
        client.leave()
    took.sort()
    median, worst = statistics.median(took), took[-1]
    print(f"{CHANGES} changes: median {median * 1000:.1f} ms, worst {worst * 1000:.1f} ms")
    assert median < 0.2
    assert worst < 2.0


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_an_api_server_that_is_away_for_long_costs_no_request(
    cluster: FakeCluster, frontends: list[Frontend], tmp_path: Path
) -> None:
    loop = asyncio.get_running_loop()
    cluster.put(imported(frontends[0], "ohio"))
    cluster.put(imported(frontends[1], "west"))
    async with directory(cluster, tmp_path) as found, ingress(tmp_path, found.url) as front, loaded(front.port) as load:
        await found.becomes(complete=True)
        before = (await found.table())["pools"]
        await cluster.stop()
        gone = loop.time()
        await found.becomes(complete=False, limit=COMPLETE_FOR + PATIENCE)
        away = loop.time() - gone
        print(f"complete became false after {away:.1f} s")
        assert away > COMPLETE_FOR / 2, "a short outage is no reason to doubt the list"
        assert (await found.table())["pools"] == before
        await load.reaches("f0", "f1")
        await cluster.start()
        await found.becomes(complete=True, limit=WAITS + PATIENCE)
        assert (await found.table())["pools"] == before
        cluster.put(imported(frontends[2], "west"))
        await load.reaches("f0", "f2")


async def test_an_api_server_that_has_lost_its_past_costs_no_request(
    cluster: FakeCluster, frontends: list[Frontend], tmp_path: Path
) -> None:
    cluster.put(imported(frontends[0], "ohio"))
    cluster.put(imported(frontends[1], "west"))
    async with directory(cluster, tmp_path) as found, ingress(tmp_path, found.url) as front, loaded(front.port) as load:
        await load.reaches("f0", "f1")
        for turn in range(2):
            await cluster.stop()
            # Nobody is told of this: only a new list can say it.
            if turn % 2:
                cluster.put(imported(frontends[1], "west"))
            else:
                cluster.delete("endpointslices", "dynamo", "imported-west")
            cluster.bump()
            cluster.compact()
            await cluster.start()
            await load.reaches(*(("f0", "f1") if turn % 2 else ("f0",)))
        metrics = (await found.http.get("/metrics")).text
        [expired] = [line for line in metrics.splitlines() if "relists" in line and 'expired"' in line]
        assert float(expired.rpartition(" ")[2]) == 2


async def test_a_directory_that_is_killed_and_comes_back_costs_no_request(
    cluster: FakeCluster, frontends: list[Frontend], tmp_path: Path
) -> None:
    cluster.put(imported(frontends[0], "ohio"))
    cluster.put(imported(frontends[1], "west"))
    async with contextlib.AsyncExitStack() as stack:
        async with directory(cluster, tmp_path) as first:
            front = await stack.enter_async_context(ingress(tmp_path, first.url))
            load = await stack.enter_async_context(loaded(front.port))
            await load.reaches("f0", "f1")
            first.command.process.kill()
            await first.command.process.wait()

        async def noticed() -> bool:
            errors: int = (await front.status())["discovery"]["errors"]
            return errors > 0

        await eventually(noticed, "the ingress has noticed")
        await load.reaches("f0", "f1")
        cluster.put(imported(frontends[2], "west"))
        # The new one begins with a list that takes its time: what it knows meanwhile is less than all.
        cluster.faults.add(Slow(delay=1.0, piece=500, every=0.1), verbs="list watch")
        listen = first.url.removeprefix("http://")
        second = await stack.enter_async_context(directory(cluster, tmp_path, listen=listen))
        await second.becomes(complete=True)
        await load.reaches("f0", "f2")


async def test_slices_that_karmada_collects_are_routed(
    cluster: FakeCluster, frontends: list[Frontend], tmp_path: Path
) -> None:
    cluster.put(collected(frontends[0], "member1"))
    async with directory(cluster, tmp_path, mode="karmada") as found, ingress(tmp_path, found.url) as front:
        [pool] = (await found.table())["pools"]
        assert (pool["cluster"], pool["namespace"], pool["name"]) == ("member1", "dynamo", "llama")
        assert pool["sources"] == ["karmada"]
        async with loaded(front.port) as load:
            await load.reaches("f0")
            cluster.put(collected(frontends[1], "member2"))
            await load.reaches("f0", "f1")
            cluster.delete("endpointslices", "dynamo", "imported-member1-llama-frontend-x7k2p")
            await load.reaches("f1")


async def test_a_relay_registers_with_a_pool_that_slices_tell(
    cluster: FakeCluster, frontends: list[Frontend], tmp_path: Path
) -> None:
    cluster.put(imported(frontends[0], "ohio"))
    tokens = tmp_path / "tokens.yaml"
    tokens.write_text(f"{digest('relay-of-ohio')}: [ohio]\n")
    given = ("--registration-tokens-file", str(tokens))
    body = said("ohio", "llama", namespace="dynamo", region="us-east-2")
    async with (
        directory(cluster, tmp_path, *given, mode="mcs,registrations") as found,
        ingress(tmp_path, found.url) as front,
        loaded(front.port) as load,
    ):
        refused = await found.http.post("/pools", json=body)
        other = await found.http.post("/pools", json=body | {"cluster": "west"}, headers=bearing("relay-of-ohio"))
        assert (refused.status_code, other.status_code) == (401, 403)
        answer = await found.http.post("/pools", json=body, headers=bearing("relay-of-ohio"))
        assert answer.status_code == 200, answer.text

        async def registered() -> bool:
            return bool((await found.table())["pools"][0]["relay"])

        await eventually(registered, "the pool has a relay")
        [pool] = (await found.table())["pools"]
        assert (pool["relay"], pool["sources"]) == (body["relay"], ["mcs", "registration"])
        assert [frontend["url"] for frontend in pool["frontends"]] == [frontends[0].url]
        await load.reaches("f0")
        cluster.put(imported(frontends[1], "ohio"))
        await load.reaches("f1")


async def test_the_token_of_the_directory_reads_slices_and_nothing_else(
    cluster: FakeCluster, frontends: list[Frontend], tmp_path: Path
) -> None:
    """All that makes it ask: namespaces, routers, a list in pages, a lost past, a watch that is cut."""
    cluster.put(imported(frontends[0], "ohio"))
    given = ("--namespace", "dynamo", "--router-namespace", "routing", "--router-service", "global-router")
    async with directory(cluster, tmp_path, *given, "--cluster-id", "hub") as found:
        await found.becomes(complete=True)
        cluster.cut_watches()
        cluster.bump()
        await cluster.restart(lose_history=True)
        cluster.put(imported(frontends[1], "ohio"))

        async def changed() -> bool:
            return await found.urls() == [frontends[1].url]

        await eventually(changed, "the change is seen")
    assert {entry.namespace for entry in cluster.requests} == {"dynamo", "routing"}
    assert not [entry for entry in cluster.requests if entry.code in (401, 403)], "it asks for what it may not"
    assert not [entry for entry in cluster.requests if entry.subresource or entry.name]
