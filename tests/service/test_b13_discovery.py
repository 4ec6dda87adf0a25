"""What hurt others in endpoint discovery, one test per report; the numbers are those of our list of field reports."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from discovery.client import Following, follow
from discovery.directory.naming import NamingRules
from discovery.kube.events import Cause
from discovery.pool import Frontend, PoolTable
from discovery.testing.cluster import FakeCluster, Settings, Silence, Slow, gone, timed_out
from tests.discovery.making import endpoint, port, slice_json
from tests.service.running import Command, finished, running
from tests.service.watching import QUICK, Watched, watched


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster() as one:
        yield one


def put(cluster: FakeCluster, name: str = "s1", source: str | None = "ohio", **more: Any) -> None:
    made = slice_json(more.pop("service", "llama-frontend"), source, name=name, **more)
    for key in ("uid", "resourceVersion", "generation", "creationTimestamp"):
        made["metadata"].pop(key, None)
    cluster.put(made)


def ends(*addresses: str) -> list[Any]:
    return [endpoint(address) for address in addresses]


def delete(cluster: FakeCluster, name: str) -> None:
    cluster.delete("endpointslices", "dynamo", name)


async def urls(found: Watched, *wanted: str) -> PoolTable:
    return await found.until(lambda _: found.urls == list(wanted))


def only(table: PoolTable) -> Frontend:
    [pool] = table.pools
    [frontend] = pool.frontends
    return frontend


@asynccontextmanager
async def service(cluster: FakeCluster, tmp: Path, *more: str) -> AsyncIterator[tuple[str, Command]]:
    """The whole directory as a process, once it has a complete table."""
    path = cluster.kubeconfig(tmp / "kubeconfig")
    given = ["--pool-discovery", "mcs", "--kubeconfig", str(path), "--listen", "127.0.0.1:0", *more]
    async with running("-m", "discovery", "directory", *given) as command:
        url = (await command.message("listening"))["url"]
        await command.message("table published", complete=True)
        yield url, command


async def until(following: Following, *clusters: str) -> PoolTable:
    async with asyncio.timeout(30):
        async for table in following:
            if [one.key.cluster for one in table.pools] == list(clusters):
                return table
    raise AssertionError("the iteration has ended")


async def test_113_what_is_deleted_while_the_watch_is_down_goes_with_the_next_connection(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    put(cluster, "a", "a")
    put(cluster, "b", "b")
    async with service(cluster, tmp_path) as (url, _), follow([url]) as following:
        await until(following, "a", "b")
        await cluster.stop()
        delete(cluster, "b")
        cluster.bump()
        cluster.compact()
        await cluster.start()
        await until(following, "a")


@pytest.mark.parametrize("fault", ["410", "504"])
async def test_114_an_expired_version_is_never_asked_for_twice(
    cluster: FakeCluster, tmp_path: Path, fault: str
) -> None:
    put(cluster, "a", "a")
    async with watched(cluster, tmp_path) as found:
        await found.lists("a")
        cluster.faults.add(gone() if fault == "410" else timed_out(), verbs="watch")
        cluster.cut_watches()
        put(cluster, "b", "b")
        await found.lists("a", "b")
        asked = [entry.query.get("resourceVersion") for entry in cluster.asked("watch")]
        if fault == "410":
            assert asked[-1] is None, "a list of everything, without a version"


async def test_115_an_object_without_addresses_removes_them(cluster: FakeCluster, tmp_path: Path) -> None:
    put(cluster, "a", "a")
    async with watched(cluster, tmp_path) as found:
        await found.lists("a")
        put(cluster, "a", "a", endpoints=[])
        await found.lists()
        assert found.verdicts == {"a": "no_endpoints"}


async def test_116_a_watch_that_says_nothing_for_ever_means_a_list_by_the_interval(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    put(cluster, "a", "a")
    policy = replace(QUICK, relist_every=2.0, quiet_watch=60.0, grace=0.2)
    async with watched(cluster, tmp_path, policy=policy) as found:
        await found.lists("a")
        cluster.silence_watches()
        put(cluster, "b", "b")
        await cluster.until(lambda: len(cluster.requests) >= 2, seconds=20)
        cluster.resume_watches()
        await found.lists("a", "b")
        assert found.source.watches[0].relists[Cause.SAFETY] >= 1
        assert found.source.age < 30


async def test_117_a_half_open_connection_ends_by_our_own_limit(cluster: FakeCluster, tmp_path: Path) -> None:
    put(cluster, "a", "a")
    async with watched(cluster, tmp_path) as found:
        await found.lists("a")
        cluster.faults.add(Silence(), verbs="watch", times=1)
        cluster.cut_watches()
        put(cluster, "b", "b")
        await found.lists("a", "b")


async def test_118_one_empty_slice_does_not_fail_the_list(cluster: FakeCluster, tmp_path: Path) -> None:
    put(cluster, "a", "a")
    put(cluster, "nulls", "b", endpoints=None, ports=None)
    put(cluster, "c", "c")
    async with watched(cluster, tmp_path) as found:
        assert (await found.lists("a", "c")).complete


async def test_119_a_port_without_a_number_costs_its_slice_alone(cluster: FakeCluster, tmp_path: Path) -> None:
    put(cluster, "a", "a")
    put(cluster, "b", "b", ports=[port(None)])
    async with watched(cluster, tmp_path) as found:
        await found.lists("a")
        assert found.verdicts["b"] == "no_port"
        put(cluster, "b", "b")
        await found.lists("a", "b")


async def test_120_conditions_that_are_missing_read_as_the_api_says(cluster: FakeCluster, tmp_path: Path) -> None:
    put(cluster, endpoints=[{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"], "conditions": {}}])
    async with watched(cluster, tmp_path) as found:
        table = await found.lists("ohio")
        assert [(f.ready, f.serving, f.terminating) for f in table.pools[0].frontends] == [(True, True, False)] * 2


async def test_121_an_ending_endpoint_stays_listed_and_marked(cluster: FakeCluster, tmp_path: Path) -> None:
    put(cluster)
    async with watched(cluster, tmp_path) as found:
        assert only(await found.lists("ohio")).ready
        put(cluster, endpoints=[endpoint(ready=False, serving=True, terminating=True)])
        frontend = only(await found.until(lambda table: table.revision == 2))
        assert (frontend.ready, frontend.serving, frontend.terminating) == (False, True, True)


async def test_122_a_list_that_loses_everything_at_once_is_held_till_it_is_confirmed(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    names = [f"c{n}" for n in range(10, 50)]
    for name in names:
        put(cluster, name, name)
    async with watched(cluster, tmp_path, brake=True) as found:
        await found.lists(*names)
        backup = cluster.backup()
        await cluster.stop()
        for name in names:
            delete(cluster, name)
        cluster.bump()
        cluster.compact()
        # The second list does not come before all are back.
        strike = cluster.faults.add(Silence(), verbs="watch list", times=None, skip=2)
        await cluster.start()
        await found.until(lambda table: not table.complete)
        assert found.clusters == names
        await cluster.restore(backup)
        cluster.faults.remove(strike)
        await found.until(lambda table: table.complete)
        assert found.clusters == names


async def test_123_one_address_in_two_slices_is_one_frontend_ready_if_either_says_so(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    put(cluster, "s1", endpoints=[endpoint(ready=False)])
    put(cluster, "s2", endpoints=[endpoint(ready=True)])
    async with watched(cluster, tmp_path) as found:
        assert only(await found.lists("ohio")).ready


async def test_124_no_slice_that_fits_is_said_loudly(cluster: FakeCluster, tmp_path: Path) -> None:
    put(cluster, "vendor", None, service=None, labels={"vendor.example.org/service": "llama-frontend"})
    path = cluster.kubeconfig(tmp_path / "kubeconfig")
    given = ["--pool-discovery", "mcs", "--kubeconfig", str(path), "--listen", "127.0.0.1:0"]
    async with running("-m", "discovery", "directory", *given) as command:
        url = (await command.message("listening"))["url"]
        line = await command.message("no slice fits the selector", level="warning")
        assert "multicluster.kubernetes.io/service-name" in line["selector"]
        async with httpx.AsyncClient(base_url=url) as client:
            metrics = (await client.get("/metrics")).text
        assert 'global_discovery_watched_slices{source="mcs",watch="mcs/imports/*"} 0.0' in metrics


async def test_125_names_of_slices_mean_nothing(cluster: FakeCluster, tmp_path: Path) -> None:
    put(cluster, "imported-x-y", "ohio")
    put(cluster, "llama-frontend-abcde", "west", service="other")
    async with watched(cluster, tmp_path) as found:
        await found.lists("ohio")
        assert found.verdicts["llama-frontend-abcde"] == "not_a_pool"


async def test_126_a_frozen_twin_of_a_slice_adds_nothing_and_goes_alone(cluster: FakeCluster, tmp_path: Path) -> None:
    put(cluster, "frozen", endpoints=ends("10.0.0.1"))
    put(cluster, "live", endpoints=ends("10.0.0.1", "10.0.0.2"))
    async with watched(cluster, tmp_path) as found:
        await urls(found, "http://10.0.0.1:8000", "http://10.0.0.2:8000")
        put(cluster, "live", endpoints=ends("10.0.0.2"))
        await asyncio.sleep(0)
        delete(cluster, "frozen")
        await urls(found, "http://10.0.0.2:8000")


async def test_127_one_name_in_two_namespaces_is_two_pools(cluster: FakeCluster, tmp_path: Path) -> None:
    put(cluster, namespace="one")
    put(cluster, namespace="two")
    async with watched(cluster, tmp_path) as found:
        table = await found.lists("ohio", "ohio")
        assert [pool.key.namespace for pool in table.pools] == ["one", "two"]


async def test_128_exporters_with_other_ports_keep_their_own_and_updates_are_followed(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    put(cluster, "s1", "ohio", ports=[port(8000)])
    put(cluster, "s2", "west", ports=[port(9000)])
    async with watched(cluster, tmp_path) as found:
        await urls(found, "http://10.0.0.1:8000", "http://10.0.0.1:9000")
        put(cluster, "s2", "west", ports=[port(9001)])
        await urls(found, "http://10.0.0.1:8000", "http://10.0.0.1:9001")
        assert found.assembled is not None
        assert found.assembled.address_conflicts == 0, "same host, other ports"


async def test_129_a_cluster_out_of_touch_is_marked_and_not_removed(cluster: FakeCluster, tmp_path: Path) -> None:
    put(cluster)
    async with watched(cluster, tmp_path) as found:
        assert (await found.lists("ohio")).pools[0].stale_since is None
        put(cluster, annotations={"dynamo.nvidia.com/stale-since": "2026-11-30T12:00:00Z"})
        table = await found.until(lambda table: table.pools[0].stale_since is not None)
        assert only(table).ready


async def test_130_a_directory_that_starts_anew_takes_nothing_from_its_readers(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    put(cluster, "a", "a")
    put(cluster, "b", "b")
    async with service(cluster, tmp_path) as (url, _):
        address = url.removeprefix("http://")
        following = follow([url], chance=lambda: 0.0)
        await following.__aenter__()
        await until(following, "a", "b")
    try:
        put(cluster, "c", "c")
        # The new one begins with an API server that takes its time.
        cluster.faults.add(Slow(delay=1.0, piece=500, every=0.1), verbs="watch")
        async with service(cluster, tmp_path, "--listen", address):
            async with asyncio.timeout(30):
                async for table in following:
                    assert {"a", "b"} <= {pool.key.cluster for pool in table.pools}
                    if table.complete and len(table.pools) == 3:
                        break
    finally:
        await following.__aexit__(None, None, None)


async def test_131_nothing_is_complete_before_everything_was_listed_once(cluster: FakeCluster, tmp_path: Path) -> None:
    put(cluster, "a", "a", namespace="one")
    put(cluster, "b", "b", namespace="two")
    strike = cluster.faults.add(Silence(), verbs="watch list", times=None, skip=1)
    async with watched(cluster, tmp_path, namespaces=("one", "two")) as found:
        table = await found.until(lambda table: len(table.pools) == 1)
        assert not table.complete
        assert not found.source.listed
        cluster.faults.remove(strike)
        assert (await found.lists("a", "b")).complete


async def test_132_new_addresses_of_a_pool_replace_the_old_ones(cluster: FakeCluster, tmp_path: Path) -> None:
    put(cluster, endpoints=ends("10.0.0.1", "10.0.0.2"))
    async with watched(cluster, tmp_path) as found:
        await urls(found, "http://10.0.0.1:8000", "http://10.0.0.2:8000")
        put(cluster, endpoints=ends("10.0.0.3", "10.0.0.4"))
        await urls(found, "http://10.0.0.3:8000", "http://10.0.0.4:8000")


async def test_133_a_port_goes_by_name_then_number_and_a_mismatch_has_a_reason(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    put(cluster, "named", "a", ports=[port(1, "web"), port(2, "http")])
    put(cluster, "single", "b", ports=[port(3, "web")])
    put(cluster, "neither", "c", ports=[port(4, "web"), port(5, "api")])
    async with watched(cluster, tmp_path) as found:
        await urls(found, "http://10.0.0.1:2", "http://10.0.0.1:3")
        assert found.verdicts["neither"] == "port_not_found"


async def test_134_ipv6_stands_in_brackets(cluster: FakeCluster, tmp_path: Path) -> None:
    put(cluster, address_type="IPv6", endpoints=ends("fd00::1"))
    async with watched(cluster, tmp_path) as found:
        await urls(found, "http://[fd00::1]:8000")


async def test_135_a_dual_stack_pod_is_one_frontend(cluster: FakeCluster, tmp_path: Path) -> None:
    put(cluster, "four", endpoints=[endpoint("10.0.0.1", "pod-1", uid="u1")])
    put(cluster, "six", address_type="IPv6", endpoints=[endpoint("fd00::1", "pod-1", uid="u1")])
    async with watched(cluster, tmp_path) as found:
        frontend = only(await found.lists("ohio"))
        assert (frontend.url, frontend.also) == ("http://10.0.0.1:8000", ("http://[fd00::1]:8000",))


async def test_136_what_shrinks_shrinks(cluster: FakeCluster, tmp_path: Path) -> None:
    put(cluster, endpoints=ends("10.0.0.1", "10.0.0.2", "10.0.0.3"))
    async with watched(cluster, tmp_path) as found:
        await found.until(lambda _: len(found.urls) == 3)
        put(cluster, endpoints=ends("10.0.0.1", "10.0.0.3"))
        await urls(found, "http://10.0.0.1:8000", "http://10.0.0.3:8000")


async def test_137_a_change_is_with_the_reader_in_a_moment(cluster: FakeCluster, tmp_path: Path) -> None:
    for n in range(50):
        put(cluster, f"s{n}", f"c{n}", endpoints=ends(f"10.1.0.{n + 1}"))
    took: list[float] = []
    async with service(cluster, tmp_path) as (url, _), follow([url]) as following:
        async with asyncio.timeout(20):
            async for table in following:
                if len(table.pools) == 50:
                    break
        for n in range(40):
            await asyncio.sleep(0.25)
            begun = time.monotonic()
            put(cluster, "s0", "c0", endpoints=ends(f"10.2.0.{n + 1}"))
            async with asyncio.timeout(10):
                async for table in following:
                    if table.pools[0].frontends[0].url == f"http://10.2.0.{n + 1}:8000":
                        break
            took.append(time.monotonic() - begun)
        async with httpx.AsyncClient(base_url=url) as client:
            metrics = (await client.get("/metrics")).text
    took.sort()
    print(f"slice to reader: p50 {took[20] * 1000:.1f} ms, worst {took[-1] * 1000:.1f} ms")
    # 200 ms is what is promised; the rest is for machines that do other things, too.
    assert took[-3] < 1.0
    assert "global_discovery_publish_latency_seconds_total" in metrics


async def test_138_an_ending_one_here_and_a_ready_one_there_are_told_apart(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    put(cluster, "here", "hub", endpoints=[endpoint("10.0.0.1", ready=False, serving=True, terminating=True)])
    put(cluster, "there", "west", endpoints=ends("10.0.0.2"))
    async with watched(cluster, tmp_path) as found:
        table = await found.lists("hub", "west")
        assert [f.url for pool in table.pools for f in pool.frontends if f.ready] == ["http://10.0.0.2:8000"]


KARMADA = "endpointslice-controller.karmada.io"


async def test_karmada_from_end_to_end(cluster: FakeCluster, tmp_path: Path) -> None:
    """The vectors of Karmada's names, as a member cluster and the control plane show them."""
    vectors = {
        "imported-member1-relay-llama-x7k2p": ("derived-relay-llama", "karmada-es-member2", "member1"),
        "imported-us-west-2-prod-relay-llama-x7k2p": ("derived-relay-llama", None, "us-west-2-prod"),
        "imported-x-relay-a-y-relay-a-abcde": ("derived-relay-a", None, "x-relay-a-y"),
        "imported-relay-a-relay-a-relay-a-abcde": ("derived-relay-a", None, "relay-a-relay-a"),
        "imported-m1-custom-slice": ("derived-relay-llama", None, "m1-custom"),
    }
    for name, (service_name, noted, _) in vectors.items():
        annotations = {"work.karmada.io/namespace": noted} if noted else {}
        labels = {"kubernetes.io/service-name": service_name}
        put(
            cluster,
            name,
            None,
            service=None,
            managed_by=KARMADA,
            labels=labels,
            annotations=annotations,
            ports=[port(50051, "grpc")],
        )
    put(
        cluster,
        "member9-relay-q-slice",
        None,
        service=None,
        managed_by="endpointslice-dispatch-controller.karmada.io",
        labels={"kubernetes.io/service-name": "relay-q"},
        annotations={"endpointslice.karmada.io/provision-cluster": "member9"},
        ports=[port(50051, "grpc")],
    )
    put(cluster, "mcs-slice", "ohio")
    rules = NamingRules(relay_service="relay-{name}", karmada_clusters=("m1", "m1-custom"))
    async with watched(cluster, tmp_path, mode="karmada", rules=rules) as found:
        table = await found.until(lambda table: bool(table.pools))
        expected = sorted([*(want for _, _, want in vectors.values()), "member9"])
        assert [pool.key.cluster for pool in sorted(table.pools, key=lambda pool: pool.key.cluster)] == expected
        assert {pool.sources for pool in table.pools} == {("karmada",)}
        assert {pool.relay.url for pool in table.pools if pool.relay} == {"http://10.0.0.1:50051"}


async def test_two_sources_and_files_make_one_table(cluster: FakeCluster, tmp_path: Path) -> None:
    put(cluster, "s1", "ohio", endpoints=ends("10.0.0.1"))
    labels = {"kubernetes.io/service-name": "derived-llama-frontend"}
    put(
        cluster,
        "imported-ohio-llama-frontend-abcde",
        None,
        service=None,
        managed_by=KARMADA,
        labels=labels,
        endpoints=ends("10.0.0.1", "10.0.0.2"),
    )
    files = tmp_path / "slices"
    files.mkdir()
    path = cluster.kubeconfig(tmp_path / "kubeconfig")
    given = ["--pool-discovery", "mcs,karmada,files", "--kubeconfig", str(path), "--files", str(files)]
    async with running("-m", "discovery", "directory", *given, "--listen", "127.0.0.1:0") as command:
        url = (await command.message("listening"))["url"]
        await command.message("table published", complete=True, pools=1)
        async with httpx.AsyncClient(base_url=url) as client:
            table = (await client.get("/pools")).json()
            assert (await client.get("/readyz")).status_code == 200
        [pool] = table["pools"]
        assert [one["url"] for one in pool["frontends"]] == ["http://10.0.0.1:8000", "http://10.0.0.2:8000"]
        assert pool["sources"] == ["karmada", "mcs"]
        assert sorted(one["name"] for one in table["sources"]) == ["files", "karmada", "mcs"]


async def test_not_ready_until_the_first_list_and_ready_for_ever_after(tmp_path: Path) -> None:
    async with FakeCluster(settings=Settings(streaming_lists="off")) as cluster:
        put(cluster, "a", "a")
        strike = cluster.faults.add(timed_out(), verbs="list", times=None)
        path = cluster.kubeconfig(tmp_path / "kubeconfig")
        given = ["--pool-discovery", "mcs", "--kubeconfig", str(path), "--listen", "127.0.0.1:0"]
        async with running("-m", "discovery", "directory", *given) as command:
            url = (await command.message("listening"))["url"]
            async with httpx.AsyncClient(base_url=url) as client:
                await command.message("watch has trouble")
                answer = await client.get("/readyz")
                assert answer.status_code == 503
                assert "mcs" in answer.json()["error"]["message"]
                assert (await client.get("/livez")).status_code == 200
                cluster.faults.remove(strike)
                await command.message("table published", complete=True)
                assert (await client.get("/readyz")).status_code == 200
                await cluster.stop()
                await command.logged(lambda line: line["message"] == "watch has trouble" and line["kind"] != "server")
                assert (await client.get("/readyz")).status_code == 200
                assert len((await client.get("/pools")).json()["pools"]) == 1
                status = (await client.get("/status.json")).json()
                assert status["watches"][0]["trouble"]
                assert "llama" not in str(status["unused"])
                assert (await client.get("/status")).status_code == 200


async def test_a_kubeconfig_that_is_not_there_ends_with_1(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere"
    code, _, err = await finished("--pool-discovery", "mcs", "--kubeconfig", str(missing), "--listen", "127.0.0.1:0")
    assert (code, err.count("\n")) == (1, 1)
    assert str(missing) in err
