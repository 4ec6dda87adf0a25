"""The Kubernetes sources over real sockets: what happens to the table when things happen to the API server."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from discovery.directory.naming import NamingRules
from discovery.kube.client import Access, KubeClient
from discovery.kube.errors import BadKubeConfig
from discovery.kube.events import Cause, What
from discovery.testing.cluster import (
    READ_SLICES,
    Cut,
    Drop,
    FakeCluster,
    Settings,
    Silence,
    Stall,
    forbidden,
    gone,
    html,
    server_error,
    too_many_requests,
    unauthorized,
)
from tests.service.running import slice_object
from tests.service.watching import QUICK, SLICES, Watched, watched


def put(cluster: FakeCluster, *names: str) -> None:
    for name in names:
        cluster.put(slice_object(name, f"10.0.0.{sum(name.encode()) % 250}"))


def remove(cluster: FakeCluster, name: str) -> None:
    cluster.delete("endpointslices", "inference", f"llama-{name}")


def machine(found: Watched) -> Any:
    return found.source.watches[0].machine


async def test_changes_come_through_one_streaming_list(tmp_path: Path) -> None:
    async with FakeCluster() as cluster:
        put(cluster, "c1", "c2")
        async with watched(cluster, tmp_path) as found:
            table = await found.lists("c1", "c2")
            assert table.complete
            assert table.revision == 1, "readers never see half of a list"
            put(cluster, "c3")
            await found.lists("c1", "c2", "c3")
            remove(cluster, "c1")
            await found.lists("c2", "c3")
            assert machine(found).requests == {What.STREAM: 1}
            assert {entry.verb for entry in cluster.requests} == {"watch"}


@pytest.mark.parametrize("streaming", ["off", "broken"])
async def test_servers_without_streaming_lists_are_asked_once(streaming: Any, tmp_path: Path) -> None:
    policy = replace(QUICK, page_size=2)
    async with FakeCluster(settings=Settings(streaming_lists=streaming)) as cluster:
        put(cluster, "c1", "c2", "c3", "c4", "c5")
        async with watched(cluster, tmp_path, policy=policy) as found:
            await found.lists("c1", "c2", "c3", "c4", "c5")
            put(cluster, "c6")
            await found.lists("c1", "c2", "c3", "c4", "c5", "c6")
            cluster.compact()
            cluster.bump()
            await cluster.restart(lose_history=True)
            remove(cluster, "c1")
            await found.lists("c2", "c3", "c4", "c5", "c6")
            assert machine(found).requests[What.STREAM] == 1
            assert len(cluster.asked("list")) >= 3


async def test_a_token_that_expires_between_pages_costs_the_list_alone(tmp_path: Path) -> None:
    async with FakeCluster(settings=Settings(streaming_lists="off")) as cluster:
        put(cluster, "c1", "c2", "c3")
        cluster.faults.add(gone(), verbs="list", skip=1)
        async with watched(cluster, tmp_path, policy=replace(QUICK, page_size=2)) as found:
            assert (await found.lists("c1", "c2", "c3")).revision == 1
            assert len(cluster.asked("list")) == 4


@pytest.mark.parametrize(
    "fault",
    [server_error(), forbidden(), html(503), html(200), too_many_requests(1), gone(), unauthorized(), Drop()],
    ids=lambda fault: str(getattr(fault, "status", "drop")),
)
async def test_bad_answers_change_nothing_and_are_got_over(fault: Any, tmp_path: Path) -> None:
    async with FakeCluster() as cluster:
        put(cluster, "c1", "c2")
        async with watched(cluster, tmp_path) as found:
            await found.lists("c1", "c2")
            strike = cluster.faults.add(fault, times=3)
            cluster.cut_watches()
            await cluster.until(lambda: strike.struck == 3)
            assert found.clusters == ["c1", "c2"]
            assert found.source.listed
            put(cluster, "c3")
            remove(cluster, "c1")
            await found.lists("c2", "c3")
            assert machine(found).failing_for(time.monotonic()) == 0


@pytest.mark.parametrize("fault", [Cut(200), Cut(1500), Stall(300), Silence()], ids=repr)
async def test_half_a_list_is_no_list(fault: Any, tmp_path: Path) -> None:
    async with FakeCluster() as cluster:
        put(cluster, "c1", "c2", "c3")
        cluster.faults.add(fault, times=2)
        async with watched(cluster, tmp_path) as found:
            table = await found.lists("c1", "c2", "c3")
            assert table.revision == 1


@pytest.mark.parametrize("as_http", [True, False])
async def test_410_in_both_forms_lists_again_with_the_table_kept(as_http: bool, tmp_path: Path) -> None:
    async with FakeCluster(settings=Settings(gone_as_http=as_http)) as cluster:
        put(cluster, "c1", "c2", "c3")
        async with watched(cluster, tmp_path) as found:
            before = await found.lists("c1", "c2", "c3")
            await cluster.stop()
            remove(cluster, "c1")
            cluster.compact()
            cluster.bump()
            cluster.compact()
            await cluster.start()
            after = await found.lists("c2", "c3")
            assert (before.revision, after.revision) == (1, 2), "from one whole list to the next"
            assert found.source.watches[0].relists == {Cause.FIRST: 1, Cause.EXPIRED: 1}


async def test_an_api_server_that_goes_and_comes_back_changes_nothing_but_age_and_complete(tmp_path: Path) -> None:
    async with FakeCluster() as cluster:
        put(cluster, "c1", "c2")
        async with watched(cluster, tmp_path, failing=0.5) as found:
            pools = (await found.lists("c1", "c2")).pools
            await cluster.stop()
            table = await found.until(lambda table: not table.complete)
            assert table.pools == pools
            assert found.source.listed
            assert found.source.age >= 0.5
            await cluster.start()
            table = await found.until(lambda table: table.complete)
            assert table.pools == pools
            assert found.source.age < 5
            put(cluster, "c3")
            await found.lists("c1", "c2", "c3")


async def test_a_half_open_watch_is_noticed(tmp_path: Path) -> None:
    async with FakeCluster() as cluster:
        put(cluster, "c1")
        async with watched(cluster, tmp_path) as found:
            await found.lists("c1")
            await cluster.watched()
            cluster.silence_watches()
            put(cluster, "c2")
            # Only the watches that are open now say nothing: new ones do.
            await cluster.until(lambda: len(cluster.asked("watch")) >= 2)
            cluster.resume_watches()
            await found.lists("c1", "c2")


async def test_two_silent_watches_mean_a_list(tmp_path: Path) -> None:
    async with FakeCluster() as cluster:
        put(cluster, "c1", "c2")
        backup = cluster.backup()
        async with watched(cluster, tmp_path) as found:
            put(cluster, "c3", "c4")
            await found.lists("c1", "c2", "c3", "c4")
            # Our version is of the future now, and the server says nothing to it.
            await cluster.restore(backup)
            await found.lists("c1", "c2")
            assert found.source.watches[0].relists[Cause.SILENCE] == 1


async def test_labels_that_go_and_come_are_pools_that_go_and_come(tmp_path: Path) -> None:
    label = "multicluster.kubernetes.io/service-name"

    def relabel(value: str | None) -> None:
        def change(thing: Any) -> None:
            thing["metadata"]["labels"].pop(label, None)
            if value is not None:
                thing["metadata"]["labels"][label] = value

        cluster.change("endpointslices", "inference", "llama-c1", change)

    async with FakeCluster() as cluster:
        put(cluster, "c1", "c2")
        async with watched(cluster, tmp_path) as found:
            await found.lists("c1", "c2")
            relabel(None)
            await found.lists("c2")
            relabel("other-frontend")
            table = await found.lists("c1", "c2")
            assert table.pools[0].key.name == "other"
            cluster.change(
                "endpointslices",
                "inference",
                "llama-c2",
                lambda thing: thing["metadata"]["labels"].update({"multicluster.kubernetes.io/source-cluster": "c9"}),
            )
            assert (await found.lists("c1", "c9")).revision == table.revision + 1, "in one publish"


async def test_get_list_and_watch_on_slices_is_all_it_may_and_all_it_does(tmp_path: Path) -> None:
    async with FakeCluster(settings=Settings(streaming_lists="off")) as cluster:
        cluster.access.grant("reader", READ_SLICES)
        put(cluster, "c1")
        async with watched(cluster, tmp_path, token="reader") as found:
            await found.lists("c1")
            cluster.cut_watches()
            put(cluster, "c2")
            await found.lists("c1", "c2")
        assert {entry.verb for entry in cluster.requests} == {"list", "watch"}
        assert {entry.resource for entry in cluster.requests} == {SLICES}
        assert {entry.headers.get("accept-encoding") for entry in cluster.requests} == {"identity"}
        assert all(entry.query["labelSelector"] for entry in cluster.requests)


async def test_a_watch_for_each_namespace(tmp_path: Path) -> None:
    async with FakeCluster() as cluster:
        for namespace in ("a", "b", "c"):
            cluster.put(slice_object(namespace, "10.0.0.1", namespace=namespace))
        async with watched(cluster, tmp_path, namespaces=("a", "b")) as found:
            await found.lists("a", "b")
            cluster.delete("endpointslices", "a", "llama-a")
            await found.lists("b")
        assert {entry.namespace for entry in cluster.requests} == {"a", "b"}


async def test_tokens_that_rotate_are_read_again(tmp_path: Path) -> None:
    async with FakeCluster() as cluster:
        cluster.access.grant("old", READ_SLICES)
        put(cluster, "c1")
        async with watched(cluster, tmp_path, token="old") as found:
            await found.lists("c1")
            cluster.access.revoke("old")
            cluster.access.grant("new", READ_SLICES)
            cluster.kubeconfig(tmp_path / "kubeconfig", token="new")
            cluster.cut_watches()
            put(cluster, "c2")
            await found.lists("c1", "c2")


async def test_the_routers_are_listed_where_they_run(tmp_path: Path) -> None:
    rules = NamingRules(router_namespace="dynamo", router_service="global-router", cluster_id="hub")
    own = slice_object("x", "10.9.0.1", name="router", namespace="dynamo")
    own["metadata"] = {
        "name": "global-router-abcde",
        "namespace": "dynamo",
        "labels": {
            "kubernetes.io/service-name": "global-router",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        },
    }
    async with FakeCluster() as cluster:
        cluster.put(own)
        put(cluster, "c1")
        async with watched(cluster, tmp_path, rules=rules, namespaces=("inference",)) as found:
            table = await found.until(lambda table: table.complete)
            assert [pool.key.cluster for pool in table.pools] == ["c1"]
            assert [(one.url, one.cluster) for one in table.routers] == [("http://10.9.0.1:8000", "hub")]
            assert [entry.namespace for entry in cluster.requests].count("dynamo") == 2, "own and imported ones"


async def test_a_mass_removal_is_held_until_a_second_list_says_the_same(tmp_path: Path) -> None:
    names = [f"c{n}" for n in range(10, 26)]
    async with FakeCluster() as cluster:
        put(cluster, *names)
        async with watched(cluster, tmp_path, brake=True) as found:
            await found.lists(*names)
            watch = found.source.watches[0]
            await cluster.stop()
            for name in names[2:]:
                remove(cluster, name)
            cluster.bump()
            cluster.compact()
            cluster.faults.add(Silence(0.3), verbs="list watch", skip=2)
            await cluster.start()
            await found.until(lambda table: not table.complete)
            assert found.clusters == names, "held"
            await found.lists(*names[:2])
            assert watch.braked == 1
            assert found.table.complete


@pytest.mark.parametrize("text", ["", "clusters: 5", "{", None])
async def test_unusable_credentials_are_one_line(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    with pytest.raises(BadKubeConfig) as raised:
        await KubeClient(Access(str(path))).open()
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


async def test_an_unknown_context_is_named(tmp_path: Path) -> None:
    async with FakeCluster() as cluster:
        path = cluster.kubeconfig(tmp_path / "config")
    with pytest.raises(BadKubeConfig, match="context nowhere"):
        await KubeClient(Access(str(path), "nowhere")).open()
