"""Controllers over fake clusters: what a label in one cluster becomes in all, and what trouble must not do."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from discovery.kube import labels
from discovery.mcs import names
from discovery.mcs.model import ServiceKey
from discovery.testing.cluster import KINDS, FakeCluster
from tests.discovery.mcs.controllers import (
    Member,
    addresses,
    clusterset,
    conditions,
    controller,
    eventually,
    export,
    imported,
    service,
    source_slice,
    synced,
)
from tests.discovery.mcs.plain_registry import PlainRegistry

HELLO = ServiceKey("dynamo", "hello")
DERIVED = names.derived_service(HELLO)
GOOD = {"Valid": ("True", "Valid"), "Ready": ("True", "Exported"), "Conflict": ("False", "NoConflicts")}


async def shown(member: Member, *expected: str) -> None:
    """The import is there, ready, and these are its addresses."""
    ready = {"Ready": ("True", "Ready")}
    await member.until(lambda: addresses(member.api) == set(expected))
    await member.until(lambda: conditions(member.api.get("serviceimports", *HELLO)) == ready)


async def cleared(member: Member) -> None:
    api = member.api
    await member.until(lambda: not imported(api) and not api.objects("serviceimports"))
    await member.until(lambda: api.get("services", "dynamo", DERIVED) is None)


async def conflicting(member: Member, *expected: str) -> None:
    await member.until(lambda: conditions(member.api.get("serviceexports", *HELLO)).get("Conflict") == expected)


async def test_a_label_in_one_cluster_is_an_import_in_all(tmp_path: Path) -> None:
    async with clusterset(tmp_path, PlainRegistry()) as (first, second):
        first.api.put(service(exported=True))
        first.api.put(source_slice("10.1.0.1", "10.1.0.2"))
        for member in (first, second):
            await shown(member, "10.1.0.1", "10.1.0.2")
            found = member.api.get("serviceimports", *HELLO)
            derived = member.api.get("services", "dynamo", DERIVED)
            assert found is not None
            assert derived is not None
            assert found["spec"]["ips"] == derived["spec"]["clusterIPs"]
            assert found["status"]["clusters"] == [{"cluster": "c1"}]
            [one] = imported(member.api)
            assert one["metadata"]["labels"] == {
                labels.MCS_SERVICE_NAME: "hello",
                labels.MCS_SOURCE_CLUSTER: "c1",
                labels.MANAGED_BY: "mcs-controller.dynamo.nvidia.com",
                labels.MCS_OURS: "mcs-controller.dynamo.nvidia.com",
                labels.REGION: "region-c1",
                labels.SERVICE_NAME: DERIVED,
            }
        await first.until(lambda: conditions(first.api.get("serviceexports", *HELLO)) == GOOD)


async def test_a_lease_is_renewed_as_often_as_the_registry_says(tmp_path: Path) -> None:
    registry = PlainRegistry(ttl_ms=600_000)
    registry.renew_ms = 20
    async with clusterset(tmp_path, registry, 1):
        await eventually(lambda: registry.renewals >= 3)


async def test_when_the_label_goes_everything_goes(tmp_path: Path) -> None:
    async with clusterset(tmp_path, PlainRegistry()) as (first, second):
        first.api.put(service(exported=True))
        first.api.put(source_slice("10.1.0.1"))
        await second.until(lambda: addresses(second.api) == {"10.1.0.1"})
        first.api.put(service())
        for member in (first, second):
            await cleared(member)
        assert first.api.objects("serviceexports") == []


async def test_a_users_export_keeps_what_is_the_users(tmp_path: Path) -> None:
    async with clusterset(tmp_path, PlainRegistry()) as (first, second):
        first.api.put(service())
        first.api.put(export(version="v1alpha1", exportedLabels={"team": "a", labels.MCS_EXPORT: "true"}))
        await second.until(lambda: bool(second.api.objects("serviceimports")))
        await first.until(lambda: conditions(first.api.get("serviceexports", *HELLO)) == GOOD)
        [found] = second.api.objects("serviceimports")
        assert found["metadata"]["labels"] == {"team": "a", labels.MCS_OURS: names.CONTROLLER}
        first.api.put(service(exported=True))
        first.api.put(service())
        await asyncio.sleep(0.3)
        assert first.api.get("serviceexports", *HELLO) is not None
        first.api.delete("serviceexports", *HELLO)
        await first.until(lambda: first.api.get("serviceexports", *HELLO) is None)
        await second.until(lambda: not second.api.objects("serviceimports"))


@pytest.mark.parametrize("complete", [True, False])
async def test_a_registry_that_lost_everything_makes_nothing_flap(tmp_path: Path, complete: bool) -> None:
    registry = PlainRegistry()
    async with clusterset(tmp_path, registry) as (first, second):
        first.api.put(service(exported=True))
        first.api.put(source_slice("10.1.0.1"))
        await second.until(lambda: addresses(second.api) == {"10.1.0.1"})
        await first.until(lambda: conditions(first.api.get("serviceexports", *HELLO)) == GOOD)
        await asyncio.sleep(0.2)
        before = {member.id: (member.api.revision, member.api.objects("serviceimports")) for member in (first, second)}
        registry.restart()
        registry.complete = complete
        await eventually(lambda: all(m.controller.importer.mirror.epoch == "e2" for m in (first, second)))  # type: ignore[union-attr]
        await eventually(lambda: len(registry.imports()) == 1)
        await synced(first.controller)
        await asyncio.sleep(0.5)
        for member in (first, second):
            deleted = [entry for entry in member.api.requests if entry.verb == "delete"]
            assert deleted == []
            assert member.api.objects("serviceimports") == before[member.id][1]
            assert member.api.revision == before[member.id][0], "not even a write"


async def test_a_lapsed_cluster_is_withdrawn_or_kept(tmp_path: Path) -> None:
    registry = PlainRegistry()
    async with clusterset(tmp_path, registry) as (first, second):
        first.api.put(service(exported=True))
        first.api.put(source_slice("10.1.0.1"))
        await second.until(lambda: addresses(second.api) == {"10.1.0.1"})
        ips = second.api.objects("serviceimports")[0]["spec"]["ips"]
        first.line.cut = True
        registry.expire("c1")
        await second.until(lambda: not imported(second.api))
        await second.until(
            lambda: conditions(second.api.get("serviceimports", *HELLO)) == {"Ready": ("False", "Pending")}
        )
        assert addresses(first.api) == {"10.1.0.1"}, "who is cut off stays as it is"
        first.line.cut = False
        await second.until(lambda: addresses(second.api) == {"10.1.0.1"})
        assert second.api.objects("serviceimports")[0]["spec"]["ips"] == ips


async def test_with_keep_a_lapsed_cluster_is_only_marked(tmp_path: Path) -> None:
    registry = PlainRegistry()
    async with clusterset(tmp_path, registry, stale_endpoints="keep") as (first, second):
        first.api.put(service(exported=True))
        first.api.put(source_slice("10.1.0.1"))
        await second.until(lambda: addresses(second.api) == {"10.1.0.1"})
        first.line.cut = True
        registry.expire("c1")

        def mark() -> str | None:
            [one] = imported(second.api)
            found: str | None = one["metadata"].get("annotations", {}).get(labels.STALE_SINCE)
            return found

        await second.until(lambda: mark() is not None)
        assert addresses(second.api) == {"10.1.0.1"}
        first.line.cut = False
        await second.until(lambda: mark() is None)


async def test_drift_is_repaired_and_foreign_objects_are_not_touched(tmp_path: Path) -> None:
    async with clusterset(tmp_path, PlainRegistry()) as (first, second):
        foreign = {
            "apiVersion": "multicluster.x-k8s.io/v1beta1",
            "kind": "ServiceImport",
            "metadata": {"namespace": "dynamo", "name": "other"},
            "spec": {"type": "Headless", "ports": []},
        }
        before = second.api.put(foreign)
        first.api.put(service(exported=True))
        first.api.put(service("other", exported=True))
        first.api.put(source_slice("10.1.0.1"))
        await second.until(lambda: addresses(second.api) == {"10.1.0.1"})
        await second.until(lambda: any(one["reason"] == "NotOurs" for one in second.api.objects("events")))
        [one] = imported(second.api)
        name = one["metadata"]["name"]
        second.api.change("endpointslices", "dynamo", name, lambda thing: thing.update(endpoints=[]))
        await second.until(lambda: addresses(second.api) == {"10.1.0.1"})
        second.api.delete("endpointslices", "dynamo", name)
        await second.until(lambda: addresses(second.api) == {"10.1.0.1"})
        second.api.change("services", "dynamo", DERIVED, lambda thing: thing["spec"]["ports"][0].update(port=81))
        await second.until(
            lambda: [p["port"] for p in second.api.get("services", "dynamo", DERIVED)["spec"]["ports"]] == [80]  # type: ignore[index]
        )
        second.api.delete("serviceimports", *HELLO)
        await second.until(lambda: addresses(second.api) == {"10.1.0.1"})
        assert second.api.get("serviceimports", "dynamo", "other") == before


async def test_a_namespace_that_appears_gets_its_imports(tmp_path: Path) -> None:
    async with clusterset(tmp_path, PlainRegistry()) as (first, second):
        second.api.delete("namespaces", "", "dynamo")
        await second.until(lambda: second.api.get("namespaces", "", "dynamo") is None)
        first.api.put(service(exported=True))
        await first.until(lambda: bool(first.api.objects("serviceimports")))
        assert second.api.objects("serviceimports") == []
        second.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "dynamo"}})
        await second.until(lambda: bool(second.api.objects("serviceimports")))


async def test_headless_and_back(tmp_path: Path) -> None:
    async with clusterset(tmp_path, PlainRegistry()) as (first, second):
        first.api.put(service(exported=True, clusterIP="None"))
        first.api.put(source_slice("10.1.0.1"))
        await second.until(lambda: addresses(second.api) == {"10.1.0.1"})
        [one] = imported(second.api)
        assert one["metadata"]["labels"][names.HEADLESS] == ""
        assert second.api.get("services", "dynamo", DERIVED) is None
        first.api.delete("services", *HELLO)
        first.api.put(service(exported=True))
        await second.until(
            lambda: (second.api.get("serviceimports", *HELLO) or {"spec": {}})["spec"].get("ips") not in (None, [])
        )
        first.api.delete("services", *HELLO)
        await first.until(lambda: first.api.get("serviceexports", *HELLO) is None)
        first.api.put(service(exported=True, clusterIP="None"))
        await second.until(
            lambda: (second.api.get("serviceimports", *HELLO) or {"spec": {}})["spec"].get("type") == "Headless"
        )
        await second.until(lambda: second.api.get("services", "dynamo", DERIVED) is None)


async def test_an_external_name_is_no_export(tmp_path: Path) -> None:
    async with clusterset(tmp_path, PlainRegistry(), count=1) as (first,):
        first.api.put(service(type="ExternalName", externalName="example.org"))
        first.api.put(export())
        bad = {"Valid": ("False", "InvalidServiceType"), "Ready": ("False", "Pending")}
        await first.until(lambda: conditions(first.api.get("serviceexports", *HELLO)) == bad)
        first.api.put(export("nobody"))
        none = {"Valid": ("False", "NoService"), "Ready": ("False", "Pending")}
        await first.until(lambda: conditions(first.api.get("serviceexports", "dynamo", "nobody")) == none)
        assert first.api.objects("serviceimports") == []


async def test_conflicts_are_said_by_both(tmp_path: Path) -> None:
    async with clusterset(tmp_path, PlainRegistry()) as members:
        for number, member in enumerate(members):
            member.api.put(service(ports=[{"name": "http", "port": 80 + number}]))
            member.api.put(export())
        for member in members:
            await conflicting(member, "True", "PortConflict")


async def test_when_all_is_done_nothing_is_written(tmp_path: Path) -> None:
    async with clusterset(tmp_path, PlainRegistry()) as members:
        for member in members:
            member.api.put(service(exported=True, ports=[{"port": 80}]))
            member.api.put(source_slice(f"10.{member.id[1]}.0.1", port_name=""))
        for member in members:
            await shown(member, "10.1.0.1", "10.2.0.1")
            await conflicting(member, "False", "NoConflicts")
        await asyncio.sleep(0.5)
        for member in members:
            member.api.forget_requests()
            assert member.controller.importer is not None
            member.controller.importer.look_at_everything()
        await asyncio.sleep(0.5)
        for member in members:
            assert {entry.verb for entry in member.api.requests} <= {"list", "watch"}


async def test_two_replicas_one_writes_and_the_other_takes_over(tmp_path: Path) -> None:
    registry = PlainRegistry()
    async with clusterset(tmp_path, registry, count=1, leader_elect=True) as (first,):
        first.api.put(service(exported=True))
        await first.until(lambda: bool(first.api.objects("serviceimports")))
        async with controller("c1", first.api, registry.member("c1"), tmp_path, me="pod-1") as (other, _):
            await eventually(lambda: other.cluster is not None and other.cluster.synced)
            assert not other.leads
            first.controller.stop()
            await eventually(lambda: other.leads, 30)
            first.api.put(service("second", exported=True))
            await first.until(lambda: first.api.get("serviceimports", "dynamo", "second") is not None)


async def test_a_newer_leadership_ends_the_older(tmp_path: Path) -> None:
    registry = PlainRegistry()
    async with AsyncExitStack() as stack:
        [first] = await stack.enter_async_context(clusterset(tmp_path, registry, count=1))
        newer = controller("c1", first.api, registry.member("c1"), tmp_path, me="b", leader_elect=False)
        other, _ = await stack.enter_async_context(newer)
        await synced(other)
        await eventually(lambda: not first.controller.leads)
        assert other.leads


async def test_what_it_says_of_itself(tmp_path: Path) -> None:
    async with clusterset(tmp_path, PlainRegistry(), count=1) as (first,):
        first.api.put(service(exported=True))
        await first.until(lambda: bool(first.api.objects("serviceimports")))
        async with httpx.AsyncClient(base_url=first.controller.url, trust_env=False) as http:
            for path in ("/livez", "/readyz"):
                assert (await http.get(path)).status_code == 200
            said = (await http.get("/status")).json()
            assert (said["cluster"], said["leads"], said["not_ready"]) == ("c1", True, None)
            assert said["registry"]["clusters"]["c1"] == {"live": True, "sync": "complete", "region": "region-c1"}
            metrics = (await http.get("/metrics")).text
            assert "dynamo_mcs_controller_leader 1.0" in metrics
            assert "dynamo_mcs_controller_synced 1.0" in metrics
            assert 'dynamo_mcs_controller_writes_total{kind="serviceimports",outcome="done",verb="apply"}' in metrics


async def test_without_definitions_it_waits_and_says_so(tmp_path: Path) -> None:
    kinds = [kind for kind in KINDS if kind.group != names.GROUP]
    async with FakeCluster(kinds=kinds) as api:
        line = PlainRegistry().member("c1")
        async with controller("c1", api, line, tmp_path, leader_elect=False) as (one, _):
            await eventually(lambda: "CustomResourceDefinitions" in one.waiting)
            async with httpx.AsyncClient(base_url=one.url, trust_env=False) as http:
                answer = await http.get("/readyz")
                assert answer.status_code == 503
                assert "CustomResourceDefinitions" in answer.text


async def test_a_cluster_may_say_itself_who_it_is(tmp_path: Path) -> None:
    async with FakeCluster() as api:
        for name, value in ((names.CLUSTER_PROPERTY, "ohio"), (names.CLUSTERSET_PROPERTY, "all")):
            thing = {"apiVersion": "about.k8s.io/v1", "kind": "ClusterProperty", "metadata": {"name": name}}
            api.put(thing | {"spec": {"value": value}})
        line = PlainRegistry().member("ohio")
        async with controller("ohio", api, line, tmp_path, cluster_id=None, leader_elect=False) as (one, _):
            await synced(one)
            assert one.identity is not None
            assert (one.identity.cluster, one.identity.clusterset) == ("ohio", "all")
