"""Facts of objects and writes, each measured on a real API server: A6, A30, A32, C24, D5, D15, D21-D32, D53, D54."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.discovery.cluster.api import REAL, Api, slice_of

SERVICES = "v1", "services"
LEASES = "coordination.k8s.io/v1", "leases"
EXPORTS = "multicluster.x-k8s.io/v1beta1", "serviceexports"
IMPORTS = "multicluster.x-k8s.io/v1beta1", "serviceimports"
OLD_IMPORTS = "multicluster.x-k8s.io/v1alpha1", "serviceimports"


@pytest.fixture
async def mcs(api: Api) -> Api:
    if REAL and (await api.list(IMPORTS)).status_code == 404:
        pytest.skip("NOT CHECKED on the real API server: the MCS CRDs are not installed")
    return api


def service(name: str, **spec: Any) -> dict[str, Any]:
    ports = [{"name": "http", "port": 80}]
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": ports} | spec}


def service_import(name: str, **spec: Any) -> dict[str, Any]:
    base = {"type": "ClusterSetIP", "ports": [{"port": 80, "protocol": "TCP"}]}
    return {"apiVersion": IMPORTS[0], "kind": "ServiceImport", "metadata": {"name": name}, "spec": base | spec}


def condition(kind: str, status: str = "True", reason: str = "Because") -> dict[str, Any]:
    at = "2026-01-01T00:00:00Z"
    return {"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": at}


def export(name: str, *conditions: dict[str, Any]) -> dict[str, Any]:
    thing: dict[str, Any] = {"apiVersion": EXPORTS[0], "kind": "ServiceExport", "metadata": {"name": name}}
    return thing | ({"status": {"conditions": list(conditions)}} if conditions else {})


def causes(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 422, answer.text
    return [cause["field"] for cause in answer.json()["details"]["causes"]]


async def refused(api: Api, thing: dict[str, Any], of: tuple[str, str]) -> list[str]:
    return causes(await api.http.post(api.path(of), json=thing))


async def becomes(api: Api, path: str, true: Callable[[httpx.Response], bool]) -> None:
    """Ask until it is so. The garbage collector tells nobody what it does."""
    async with asyncio.timeout(20):
        while not true(await api.http.get(path)):  # noqa: ASYNC110 - the condition is in another process perhaps
            await asyncio.sleep(0.02)


async def gone(api: Api, path: str) -> None:
    await becomes(api, path, lambda answer: answer.status_code == 404)


async def test_a6_a_dotted_label_value_is_legal_and_64_characters_are_not(api: Api) -> None:
    await api.create(slice_of("dotted", cluster="c1.reg1"))
    await api.create(slice_of("long", cluster="c" * 63))
    answer = await api.http.post(api.path(), json=slice_of("longer", cluster="c" * 64))
    assert causes(answer) == ["metadata.labels"]


async def test_a30_a_slice_holds_at_most_1000_endpoints(api: Api) -> None:
    def many(count: int) -> list[dict[str, Any]]:
        return [{"addresses": [f"10.1.{n // 250}.{n % 250 + 1}"]} for n in range(count)]

    await api.create(slice_of("full") | {"endpoints": many(1000)})
    answer = await api.http.post(api.path(), json=slice_of("overfull") | {"endpoints": many(1001)})
    assert "endpoints" in causes(answer)


async def test_a32_the_same_address_twice_in_one_slice_is_accepted(api: Api) -> None:
    twice = [{"addresses": ["10.1.2.3"]}, {"addresses": ["10.1.2.3"]}]
    made = await api.create(slice_of("twice") | {"endpoints": twice})
    assert len(made["endpoints"]) == 2


async def test_a24_an_endpoint_without_an_address_is_refused(api: Api) -> None:
    bad = slice_of("none") | {"endpoints": [{"addresses": []}]}
    assert "endpoints[0].addresses" in causes(await api.http.post(api.path(), json=bad))


@pytest.mark.parametrize(
    ("family", "address", "fine"),
    [
        ("IPv4", "10.1.2.3", True),
        ("IPv4", "010.1.2.3", False),
        ("IPv4", "fd00::1", False),
        ("IPv4", "169.254.1.1", False),
        ("IPv4", "a.example.com", False),
        ("IPv6", "fd00::1", True),
        ("IPv6", "10.1.2.3", False),
    ],
)
async def test_addresses_are_of_the_slices_family(api: Api, family: str, address: str, fine: bool) -> None:
    thing = slice_of("a") | {"addressType": family, "endpoints": [{"addresses": [address]}]}
    answer = await api.http.post(api.path(), json=thing)
    assert answer.status_code == (201 if fine else 422), answer.text


async def test_d28_the_address_type_cannot_be_changed(api: Api) -> None:
    made = await api.create(slice_of("a"))
    other = made | {"addressType": "IPv6", "endpoints": [{"addresses": ["fd00::1"]}]}
    assert "addressType" in causes(await api.put(other))


async def test_updates_are_optimistic(api: Api) -> None:
    made = await api.create(slice_of("a"))
    newer = (await api.put(made | {"ports": [{"name": "x", "port": 1}]})).json()
    stale = await api.put(made | {"ports": [{"name": "y", "port": 2}]})
    assert (stale.status_code, stale.json()["reason"]) == (409, "Conflict")
    assert newer["metadata"]["generation"] == made["metadata"]["generation"] + 1
    assert newer["metadata"]["uid"] == made["metadata"]["uid"]


async def test_an_equal_update_changes_no_version(api: Api) -> None:
    made = await api.create(slice_of("a"))
    again = (await api.put(made)).json()
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_names_can_be_generated_and_a_second_of_the_same_is_409(api: Api) -> None:
    thing = slice_of("")
    thing["metadata"] = {"generateName": "prefix-"}
    first, second = await api.create(thing), await api.create(thing)
    assert first["metadata"]["name"] != second["metadata"]["name"]
    assert {len(made["metadata"]["name"]) for made in (first, second)} == {len("prefix-") + 5}
    await api.create(slice_of("a"))
    answer = await api.http.post(api.path(), json=slice_of("a"))
    assert (answer.status_code, answer.json()["reason"]) == (409, "AlreadyExists")


async def test_finalizers_keep_an_object_until_the_last_is_gone(api: Api) -> None:
    thing = slice_of("a")
    thing["metadata"]["finalizers"] = ["example.com/hold"]
    made = await api.create(thing)
    async with api.watch(resourceVersion=made["metadata"]["resourceVersion"]) as watch:
        assert (await api.delete("a")).status_code == 200
        marked = await watch.next()
        assert marked["type"] == "MODIFIED"
        assert "deletionTimestamp" in marked["object"]["metadata"]
        assert (await api.get("a")).status_code == 200
        more = await api.patch("a", {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}})
        assert more.status_code == 422
        assert (await api.patch("a", {"metadata": {"finalizers": None}})).status_code == 200
        assert (await watch.next())["type"] == "DELETED"
    assert (await api.get("a")).status_code == 404


async def test_d29_deletes_may_name_the_uid(api: Api) -> None:
    made = await api.create(slice_of("a"))
    wrong = await api.delete("a", preconditions={"uid": "another"})
    assert (wrong.status_code, wrong.json()["reason"]) == (409, "Conflict")
    assert (await api.delete("a", preconditions={"uid": made["metadata"]["uid"]})).status_code == 200
    missing = await api.delete("a")
    assert (missing.status_code, missing.json()["reason"]) == (404, "NotFound")


async def test_d29_applying_the_same_again_changes_no_version(api: Api) -> None:
    first = await api.apply(service("a"), SERVICES)
    assert first.status_code == 201
    again = await api.apply(service("a"), SERVICES)
    assert again.status_code == 200
    assert again.json()["metadata"]["resourceVersion"] == first.json()["metadata"]["resourceVersion"]


async def test_d29_a_version_in_an_apply_makes_it_conditional(api: Api) -> None:
    first = (await api.apply(service("a"), SERVICES)).json()
    await api.patch("a", {"metadata": {"labels": {"x": "1"}}}, of=SERVICES)
    conditional = service("a")
    conditional["metadata"]["resourceVersion"] = first["metadata"]["resourceVersion"]
    assert (await api.apply(conditional, SERVICES)).status_code == 409


async def test_apply_fields_of_others_are_conflicts_unless_forced(api: Api) -> None:
    def labelled(value: str) -> dict[str, Any]:
        thing = service("a")
        thing["metadata"]["labels"] = {"owner": value}
        return thing

    await api.apply(labelled("one"), SERVICES, "one")
    answer = await api.apply(labelled("two"), SERVICES, "two")
    assert (answer.status_code, answer.json()["reason"]) == (409, "Conflict")
    (cause,) = answer.json()["details"]["causes"]
    assert (cause["reason"], cause["field"]) == ("FieldManagerConflict", ".metadata.labels.owner")
    forced = await api.apply(labelled("two"), SERVICES, "two", force="true")
    assert forced.json()["metadata"]["labels"]["owner"] == "two"
    # Who no longer names a field that nobody else owns removes it.
    await api.apply(service("a"), SERVICES, "two")
    assert "owner" not in (await api.get("a", SERVICES)).json()["metadata"].get("labels", {})


async def test_apply_needs_a_manager(api: Api) -> None:
    answer = await api.patch("a", service("a"), "application/apply-patch+yaml", SERVICES)
    assert answer.status_code in {400, 422}


async def test_d15_status_goes_only_through_its_own_path(mcs: Api) -> None:
    made = await mcs.create(export("a", condition("Valid")), EXPORTS)
    assert "status" not in made
    answer = await mcs.patch("a", export("a", condition("Valid")), of=EXPORTS)
    assert "status" not in answer.json()
    answer = await mcs.patch("a", {"status": {"conditions": [condition("Valid")]}}, of=EXPORTS, sub="status")
    assert answer.json()["status"]["conditions"][0]["type"] == "Valid"
    assert answer.json()["metadata"]["generation"] == made["metadata"]["generation"]
    labelled = await mcs.patch("a", {"metadata": {"labels": {"x": "1"}}, "status": None}, of=EXPORTS, sub="status")
    assert "labels" not in labelled.json()["metadata"]


async def test_d15_conditions_of_others_survive_an_apply_and_mine_that_i_leave_out_go(mcs: Api) -> None:
    await mcs.create(export("a"), EXPORTS)
    both = export("a", condition("Valid"), condition("Ready"))
    assert (await mcs.apply(both, EXPORTS, "me", "status")).status_code == 200
    await mcs.apply(export("a", condition("Foreign")), EXPORTS, "other", "status")
    left = (await mcs.apply(export("a", condition("Valid")), EXPORTS, "me", "status")).json()
    assert sorted(one["type"] for one in left["status"]["conditions"]) == ["Foreign", "Valid"]


async def test_d15_two_conditions_of_one_type_are_a_500(mcs: Api) -> None:
    await mcs.create(export("a"), EXPORTS)
    twins = export("a", condition("Valid"), condition("Valid", "False"))
    assert (await mcs.apply(twins, EXPORTS, "me", "status")).status_code == 500


async def test_d15_a_condition_needs_its_time(mcs: Api) -> None:
    await mcs.create(export("a"), EXPORTS)
    timeless = condition("Valid")
    del timeless["lastTransitionTime"]
    fields = causes(await mcs.patch("a", export("a", timeless), of=EXPORTS, sub="status"))
    assert "status.conditions[0].lastTransitionTime" in fields


@pytest.mark.parametrize("reason", ["PortConflict, TypeConflict", ""])
async def test_c24_reasons_of_another_pattern_are_refused(mcs: Api, reason: str) -> None:
    await mcs.create(export("a"), EXPORTS)
    bad = export("a", condition("Conflict", reason=reason))
    assert "status.conditions[0].reason" in causes(await mcs.patch("a", bad, of=EXPORTS, sub="status"))
    good = export("a", condition("Conflict", reason="PortConflict,TypeConflict"))
    assert (await mcs.patch("a", good, of=EXPORTS, sub="status")).status_code == 200


async def test_d22_an_import_has_at_most_two_ips(mcs: Api) -> None:
    await mcs.create(service_import("two", ips=["10.0.0.1", "fd00::1"]), IMPORTS)
    assert "spec.ips" in await refused(mcs, service_import("three", ips=["10.0.0.1", "10.0.0.2", "10.0.0.3"]), IMPORTS)


async def test_d27_a_cluster_named_twice_is_refused_and_unknown_status_is_pruned(mcs: Api) -> None:
    await mcs.create(service_import("a"), IMPORTS)
    twice = {"status": {"clusters": [{"cluster": "c1"}, {"cluster": "c1"}]}}
    assert causes(await mcs.patch("a", twice, of=IMPORTS, sub="status"))
    unknown = {"status": {"clusters": [{"cluster": "c1"}], "endpointSliceObjects": "Present"}}
    answer = await mcs.patch("a", unknown, of=IMPORTS, sub="status")
    assert answer.json()["status"] == {"clusters": [{"cluster": "c1"}]}


async def test_d32_an_object_of_one_version_is_readable_through_the_other(mcs: Api) -> None:
    await mcs.apply(service_import("a"), IMPORTS)
    old = (await mcs.get("a", OLD_IMPORTS)).json()
    new = (await mcs.get("a", IMPORTS)).json()
    assert (old["apiVersion"], new["apiVersion"]) == (OLD_IMPORTS[0], IMPORTS[0])
    assert old["spec"] == new["spec"]
    assert old["metadata"]["uid"] == new["metadata"]["uid"]


async def test_custom_resources_are_only_replaced_by_version(mcs: Api) -> None:
    made = await mcs.create(service_import("a"), IMPORTS)
    unversioned = service_import("a", type="Headless")
    assert "metadata.resourceVersion" in causes(await mcs.put(unversioned, IMPORTS))
    assert (await mcs.put(made | {"spec": {**made["spec"], "type": "Headless"}}, IMPORTS)).status_code == 200
    strategic = await mcs.patch("a", {}, "application/strategic-merge-patch+json", IMPORTS)
    assert strategic.status_code == 415


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
async def test_d5_what_an_import_owns_goes_with_it(mcs: Api, version: str) -> None:
    owner = await mcs.create(service_import("a"), IMPORTS)
    reference = {"apiVersion": f"multicluster.x-k8s.io/{version}", "kind": "ServiceImport", "name": "a"}
    owned = slice_of("owned")
    owned["metadata"]["ownerReferences"] = [reference | {"uid": owner["metadata"]["uid"]}]
    await mcs.create(owned)
    await mcs.create(slice_of("free"))
    await mcs.delete("a", IMPORTS)
    await gone(mcs, mcs.path(name="owned"))
    assert (await mcs.get("free")).status_code == 200


async def test_d5_an_owner_of_another_uid_is_none(mcs: Api) -> None:
    await mcs.create(service_import("a"), IMPORTS)
    owned = slice_of("owned")
    uid = "00000000-0000-0000-0000-000000000000"
    owned["metadata"]["ownerReferences"] = [
        {"apiVersion": IMPORTS[0], "kind": "ServiceImport", "name": "a", "uid": uid}
    ]
    await mcs.create(owned)
    await gone(mcs, mcs.path(name="owned"))


async def test_d21_nothing_new_in_a_namespace_that_ends(api: Api) -> None:
    held = slice_of("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await api.create(held)
    assert (await api.http.delete(f"/api/v1/namespaces/{api.namespace}")).status_code == 200
    answer = await api.http.post(api.path(), json=slice_of("late"))
    assert (answer.status_code, answer.json()["reason"]) == (403, "Forbidden")
    assert answer.json()["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    await becomes(api, api.path(name="held"), lambda answer: "deletionTimestamp" in answer.json()["metadata"])
    await api.patch("held", {"metadata": {"finalizers": None}})
    await gone(api, f"/api/v1/namespaces/{api.namespace}")


async def test_d21_and_none_at_all_in_a_namespace_that_is_not(api: Api) -> None:
    answer = await api.http.post(api.path(namespace="not-there"), json=slice_of("a"))
    assert answer.status_code == 404
    assert answer.json()["details"]["kind"] == "namespaces"


async def test_d23_services_of_several_ports_name_them_and_none_has_no_port(api: Api) -> None:
    nameless = service("a", ports=[{"port": 80}, {"name": "b", "port": 81}])
    assert await refused(api, nameless, SERVICES) == ["spec.ports[0].name"]
    assert await refused(api, service("a", ports=[]), SERVICES) == ["spec.ports"]
    await api.create(service("a", ports=[], clusterIP="None"), SERVICES)


async def test_services_get_an_ip_that_stays(api: Api) -> None:
    made = await api.create(service("a"), SERVICES)
    assert made["spec"]["clusterIP"]
    assert made["spec"]["clusterIPs"] == [made["spec"]["clusterIP"]]
    labelled = (await api.patch("a", {"metadata": {"labels": {"x": "1"}}}, of=SERVICES)).json()
    assert labelled["spec"]["clusterIP"] == made["spec"]["clusterIP"]
    moved = await api.patch("a", {"spec": {"clusterIP": "10.96.200.200"}}, of=SERVICES)
    assert "spec.clusterIPs[0]" in causes(moved)


async def test_d26_address_families_that_the_cluster_has_not(api: Api) -> None:
    fields = await refused(api, service("a", ipFamilies=["IPv6"]), SERVICES)
    assert fields == ["spec.ipFamilies[0]"]


async def test_strategic_patches_merge_ports_by_number(api: Api) -> None:
    await api.create(service("a"), SERVICES)
    change = {"spec": {"ports": [{"name": "more", "port": 81}]}}
    answer = await api.patch("a", change, "application/strategic-merge-patch+json", SERVICES)
    assert sorted(port["port"] for port in answer.json()["spec"]["ports"]) == [80, 81]
    drop = {"spec": {"ports": [{"port": 80, "$patch": "delete"}]}}
    answer = await api.patch("a", drop, "application/strategic-merge-patch+json", SERVICES)
    assert [port["port"] for port in answer.json()["spec"]["ports"]] == [81]


async def test_json_patches(api: Api) -> None:
    await api.create(slice_of("a", x="1"))
    operations = [
        {"op": "test", "path": "/metadata/labels/x", "value": "1"},
        {"op": "add", "path": "/metadata/labels/example.com~1y", "value": "2"},
        {"op": "remove", "path": "/metadata/labels/x"},
    ]
    answer = await api.patch("a", operations, "application/json-patch+json")
    assert answer.json()["metadata"]["labels"] == {"example.com/y": "2"}
    failed = await api.patch("a", operations, "application/json-patch+json")
    assert failed.status_code == 422


@pytest.mark.parametrize(
    ("time", "code"),
    [
        ("2026-01-01T00:00:00.000000Z", 201),
        ("2026-01-01T00:00:00Z", 400),
        ("2026-01-01T00:00:00.000Z", 400),
    ],
)
async def test_d53_times_of_leases_have_six_decimals(api: Api, time: str, code: int) -> None:
    spec = {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": time}
    thing = {"apiVersion": LEASES[0], "kind": "Lease", "metadata": {"name": "a"}, "spec": spec}
    assert (await api.http.post(api.path(LEASES), json=thing)).status_code == code


async def test_times_in_yaml_are_text_with_or_without_quotes(api: Api) -> None:
    time = "2026-01-01T00:00:00.000000Z"
    text = f"{{apiVersion: {LEASES[0]}, kind: Lease, metadata: {{name: a}}, spec: {{renewTime: {time}}}}}"
    headers = {"content-type": "application/apply-patch+yaml"}
    answer = await api.http.patch(api.path(LEASES, "a"), content=text, headers=headers, params={"fieldManager": "me"})
    assert answer.status_code == 201, answer.text
    assert answer.json()["spec"]["renewTime"] == time


async def test_d54_a_lease_is_replaced_by_version_and_made_by_put(api: Api) -> None:
    thing = {"apiVersion": LEASES[0], "kind": "Lease", "metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}}
    stale: dict[str, Any] = thing | {"metadata": {"name": "a", "resourceVersion": "12345"}}
    made = await api.put(stale, LEASES)
    assert made.status_code == 201
    assert (await api.put(thing, LEASES)).status_code == 422
    assert (await api.put(stale, LEASES)).status_code == 409
    mine = made.json() | {"spec": {"holderIdentity": "you"}}
    assert (await api.put(mine, LEASES)).status_code == 200


async def test_what_is_not_there(api: Api) -> None:
    missing = await api.get("none")
    assert missing.json()["details"] == {"name": "none", "group": "discovery.k8s.io", "kind": "endpointslices"}
    assert (await api.http.get("/apis/example.com/v1/things")).status_code == 404
    assert (await api.http.get("/apis/discovery.k8s.io/v9/endpointslices")).status_code == 404
    assert (await api.http.request("PUT", api.path(), json={})).status_code == 405
    assert (
        await api.http.post(api.path(), content=b"{", headers={"content-type": "application/json"})
    ).status_code == 400


async def test_a_dry_run_changes_nothing(api: Api) -> None:
    answer = await api.http.post(api.path(), params={"dryRun": "All"}, json=slice_of("a"))
    assert answer.status_code == 201
    assert (await api.get("a")).status_code == 404


async def test_many_can_be_deleted_at_once(api: Api) -> None:
    for name, colour in (("a", "red"), ("b", "blue"), ("c", "red")):
        await api.create(slice_of(name, colour=colour))
    answer = await api.http.request("DELETE", api.path(), params={"labelSelector": "colour=red"})
    assert answer.status_code == 200
    assert [item["metadata"]["name"] for item in (await api.list()).json()["items"]] == ["b"]
