"""The fake cluster as tests hold it: its life, its inside, its access table, its log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import yaml

from discovery.testing.cluster import (
    EVERYTHING,
    KINDS,
    READ_SLICES,
    ApiFailure,
    FakeCluster,
    custom_kind,
    rule,
)
from tests.discovery.cluster.api import FAST, REAL, Api, connected, needs_fake, slice_of

pytestmark = pytest.mark.skipif(bool(REAL), reason="NOT CHECKED on the real API server: these are the fake's own ways")

ALL_SLICES = "/apis/discovery.k8s.io/v1/endpointslices"


@pytest.fixture
def fake(api: Api) -> FakeCluster:
    return needs_fake(api, "its inside")


def homed(name: str, namespace: str = "default") -> dict[str, object]:
    return slice_of(name) | {"metadata": {"name": name, "namespace": namespace}}


async def test_a_restart_keeps_address_objects_and_past(api: Api, fake: FakeCluster) -> None:
    made = await api.create(slice_of("a"))
    await api.create(slice_of("b"))
    url = fake.url
    await fake.restart()
    assert fake.url == url
    async with api.watch(resourceVersion=made["metadata"]["resourceVersion"]) as watch:
        assert (await watch.next())["object"]["metadata"]["name"] == "b"


async def test_a_restart_may_lose_the_past(api: Api, fake: FakeCluster) -> None:
    made = await api.create(slice_of("a"))
    await api.create(slice_of("b"))
    await fake.restart(lose_history=True)
    assert len((await api.list()).json()["items"]) == 2
    async with api.watch(resourceVersion=made["metadata"]["resourceVersion"]) as watch:
        assert (await watch.next())["object"]["code"] == 410


async def test_after_a_restore_what_was_seen_is_the_future(api: Api, fake: FakeCluster) -> None:
    await api.create(slice_of("a"))
    backup = fake.backup()
    seen = (await api.create(slice_of("lost")))["metadata"]["resourceVersion"]
    fake.bump(100)
    seen = (await api.create(slice_of("lost-too")))["metadata"]["resourceVersion"]
    await fake.restore(backup)
    assert [item["metadata"]["name"] for item in (await api.list()).json()["items"]] == ["a"]
    assert (await api.list(resourceVersion=seen)).status_code == 504
    async with api.watch(resourceVersion=seen, timeoutSeconds=1, allowWatchBookmarks="true") as watch:
        await api.create(slice_of("b"))
        assert (watch.status, await watch.rest()) == (200, [])


async def test_while_it_is_stopped_nobody_listens(api: Api, fake: FakeCluster) -> None:
    await fake.stop()
    with pytest.raises(httpx.ConnectError):
        await api.list()
    await fake.start()
    assert (await api.list()).status_code == 200


async def test_objects_from_the_inside(fake: FakeCluster) -> None:
    made = fake.put(homed("a", "prod"))
    assert fake.get("namespaces", "", "prod") is not None
    assert fake.put(homed("a", "prod")) is made
    fake.change("endpointslices", "prod", "a", lambda thing: thing["metadata"].update(labels={"x": "1"}))
    changed = fake.get("endpointslices.discovery.k8s.io", "prod", "a")
    assert changed is not None
    assert changed["metadata"]["labels"] == {"x": "1"}
    fake.put(homed("b", "dev"))
    assert [thing["metadata"]["name"] for thing in fake.objects("endpointslices")] == ["b", "a"]
    assert len(fake.objects("endpointslices", "prod")) == 1
    fake.delete("endpointslices", "prod", "a")
    assert fake.get("endpointslices", "prod", "a") is None
    with pytest.raises(ApiFailure, match="not found"):
        fake.delete("endpointslices", "prod", "a")
    with pytest.raises(KeyError, match="no kind 'pods'"):
        fake.objects("pods")


async def test_status_from_the_inside(fake: FakeCluster) -> None:
    thing = {
        "apiVersion": "multicluster.x-k8s.io/v1beta1",
        "kind": "ServiceImport",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"type": "ClusterSetIP", "ports": []},
        "status": {"clusters": [{"cluster": "c1"}]},
    }
    assert fake.put(thing)["status"] == {"clusters": [{"cluster": "c1"}]}
    assert fake.put(thing | {"status": {"clusters": []}})["status"] == {"clusters": []}


async def test_everything_asked_is_in_the_log(api: Api, fake: FakeCluster) -> None:
    fake.forget_requests()
    await api.list(labelSelector="a=b")
    await api.http.get(ALL_SLICES, headers={"authorization": "Bearer secret"})
    await api.get("none")
    await api.http.get("/version")
    async with api.watch(timeoutSeconds=1) as watch:
        await watch.rest()
    told = [(entry.verb, entry.resource, entry.namespace, entry.code) for entry in fake.requests]
    slices = "endpointslices.discovery.k8s.io"
    assert told == [
        ("list", slices, api.namespace, 200),
        ("list", slices, None, 200),
        ("get", slices, api.namespace, 404),
        ("get", "", None, 200),
        ("watch", slices, api.namespace, 200),
    ]
    assert fake.requests[0].query["labelSelector"] == "a=b"
    assert fake.requests[1].token == "secret"
    assert len(fake.asked("list", "endpointslices")) == 2
    assert fake.asked("list", "services") == []


async def test_waiting_for_what_does_not_come_says_what_there_was(api: Api, fake: FakeCluster) -> None:
    await api.list()
    with pytest.raises(TimeoutError, match="0 watches, last asked"):
        await fake.watched(seconds=0.05)


async def test_endpoints_at_loopback_addresses_are_a_setting() -> None:
    here = homed("a") | {"endpoints": [{"addresses": ["127.0.0.1"]}]}
    async with FakeCluster(settings=FAST) as fake:
        fake.put(here)
    async with FakeCluster(settings=replace(FAST, loopback=False)) as fake:
        with pytest.raises(ApiFailure, match="may not be in the loopback range"):
            fake.put(here)


async def test_who_may_do_what(fake: FakeCluster) -> None:
    fake.access.grant("reader", READ_SLICES)
    fake.access.grant("one-home", rule("get list", "endpointslices.discovery.k8s.io", "prod"))
    fake.access.grant("admin", EVERYTHING)
    fake.put(homed("a", "prod"))
    in_prod = "/apis/discovery.k8s.io/v1/namespaces/prod/endpointslices"
    async with httpx.AsyncClient(base_url=fake.url, trust_env=False) as http:

        async def code(token: str, path: str, method: str = "GET") -> int:
            headers = {"authorization": f"Bearer {token}"} if token else {}
            return (await http.request(method, path, headers=headers)).status_code

        assert await code("reader", ALL_SLICES) == 200
        assert await code("reader", f"{in_prod}/a") == 200
        assert await code("reader", f"{in_prod}/a", "DELETE") == 403
        assert await code("reader", "/api/v1/services") == 403
        assert await code("reader", "/version") == 200
        assert await code("one-home", in_prod) == 200
        assert await code("one-home", ALL_SLICES) == 403
        assert await code("nobody", ALL_SLICES) == 401
        assert await code("nobody", "/version") == 401
        assert await code("", ALL_SLICES) == 403
        assert await code("admin", f"{in_prod}/a", "DELETE") == 200
        fake.access.revoke("reader")
        assert await code("reader", ALL_SLICES) == 401


async def test_a_refusal_says_who_what_and_where_and_never_the_token(fake: FakeCluster) -> None:
    fake.access.grant("a-secret-token")
    async with httpx.AsyncClient(base_url=fake.url, trust_env=False) as http:
        answer = await http.get(ALL_SLICES, headers={"authorization": "Bearer a-secret-token"})
    status = answer.json()
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 403, "Forbidden")
    assert status["message"] == (
        'endpointslices.discovery.k8s.io is forbidden: User "token-0" cannot list resource "endpointslices" '
        'in API group "discovery.k8s.io" at the cluster scope'
    )


async def test_status_is_a_resource_of_its_own(fake: FakeCluster) -> None:
    exports = "/apis/multicluster.x-k8s.io/v1beta1/namespaces/default/serviceexports"
    fake.create(
        {
            "apiVersion": "multicluster.x-k8s.io/v1beta1",
            "kind": "ServiceExport",
            "metadata": {"name": "a", "namespace": "default"},
        }
    )
    fake.access.grant("spec", rule("patch", "serviceexports.multicluster.x-k8s.io"))
    headers = {"authorization": "Bearer spec", "content-type": "application/merge-patch+json"}
    async with httpx.AsyncClient(base_url=fake.url, trust_env=False, headers=headers) as http:
        assert (await http.patch(f"{exports}/a", content=b"{}")).status_code == 200
        assert (await http.patch(f"{exports}/a/status", content=b"{}")).status_code == 403


async def test_kubeconfigs(fake: FakeCluster, tmp_path: Path) -> None:
    path = fake.kubeconfig(tmp_path / "config", token="t", namespace="prod")
    config = yaml.safe_load(path.read_text())
    assert config["clusters"][0]["cluster"] == {"server": fake.url}
    assert config["users"][0]["user"] == {"token": "t"}
    assert config["contexts"][0]["context"]["namespace"] == "prod"
    assert yaml.safe_load(fake.kubeconfig_text())["users"][0]["user"] == {}


async def test_more_kinds() -> None:
    widget = custom_kind("Widget", "widgets", "example.com", ("v2", "v1"), short=("wd",))
    async with FakeCluster(settings=FAST, kinds=[*KINDS, widget]) as fake:
        fake.create({"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": "a"}, "spec": {"any": 1}})
        async with httpx.AsyncClient(base_url=fake.url, trust_env=False) as http:
            item = (await http.get("/apis/example.com/v2/widgets")).json()["items"][0]
            resources = (await http.get("/apis/example.com/v2")).json()["resources"]
            groups = (await http.get("/apis")).json()["groups"]
    assert (item["apiVersion"], item["spec"]) == ("example.com/v2", {"any": 1})
    assert [one["name"] for one in resources] == ["widgets", "widgets/status"]
    assert "example.com" in {group["name"] for group in groups}


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
async def test_how_dependents_go(policy: str) -> None:
    async with connected() as api:
        fake = needs_fake(api, "garbage collection")
        owner = await api.create(slice_of("owner"))
        reference = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "name": "owner"}
        owned = slice_of("owned")
        owned["metadata"]["ownerReferences"] = [reference | {"uid": owner["metadata"]["uid"]}]
        await api.create(owned)
        await api.delete("owner", propagationPolicy=policy)
        await fake.until(lambda: fake.get("endpointslices", api.namespace, "owner") is None)
        if policy == "Orphan":
            left = fake.get("endpointslices", api.namespace, "owned")
            assert left is not None
            assert "ownerReferences" not in left["metadata"]
        else:
            await fake.until(lambda: fake.get("endpointslices", api.namespace, "owned") is None)


async def test_the_past_is_bounded() -> None:
    async with FakeCluster(settings=replace(FAST, history=10)) as fake:
        first = fake.put(homed("a"))["metadata"]["resourceVersion"]
        for number in range(30):
            fake.put(homed("a") | {"ports": [{"port": number + 1}]})
        async with httpx.AsyncClient(base_url=fake.url, trust_env=False) as http:
            answer = await http.get(ALL_SLICES, params={"resourceVersion": first, "resourceVersionMatch": "Exact"})
    assert answer.status_code == 410


async def test_what_the_server_says_of_itself(api: Api) -> None:
    groups = {group["name"]: group for group in (await api.http.get("/apis")).json()["groups"]}
    assert groups["multicluster.x-k8s.io"]["preferredVersion"]["version"] == "v1beta1"
    assert (await api.http.get("/apis/about.k8s.io")).json()["kind"] == "APIGroup"
    core = (await api.http.get("/api/v1")).json()
    assert {"services", "namespaces", "services/status"} <= {one["name"] for one in core["resources"]}
    assert (await api.http.get("/api")).json()["versions"] == ["v1"]
    assert (await api.http.get("/readyz")).text == "ok"
    paths = (await api.http.get("/openapi/v3")).json()["paths"]
    document = (await api.http.get(paths["apis/discovery.k8s.io/v1"]["serverRelativeURL"])).json()
    assert document["openapi"] == "3.0.0"
    assert (await api.http.get("/nothing")).status_code == 404
