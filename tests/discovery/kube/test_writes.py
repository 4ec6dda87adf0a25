"""Writing to an API server: each refusal in its word, and no write that can make a twin."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from discovery.kube.client import Access
from discovery.kube.errors import Refusal, Refused, Unreachable
from discovery.kube.writes import KubeWriter
from discovery.testing.cluster import Drop, FakeCluster, Silence, server_error, too_many_requests, unauthorized

HOME = "/api/v1/namespaces/default/services"
PATH = f"{HOME}/one"


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster() as one:
        yield one


@pytest.fixture
async def client(cluster: FakeCluster, tmp_path: Path) -> AsyncIterator[KubeWriter]:
    async with KubeWriter(Access(str(cluster.kubeconfig(tmp_path / "config")))) as one:
        yield one


def body(port: int = 80, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "one", "namespace": "default"} | metadata,
        "spec": {"ports": [{"port": port}]},
    }


async def refused(coming: Any) -> Refusal:
    with pytest.raises(Refused) as caught:
        await coming
    return caught.value.refusal


async def test_create_apply_merge_replace_delete(cluster: FakeCluster, client: KubeWriter) -> None:
    made = await client.create(HOME, body())
    assert await refused(client.create(HOME, body())) is Refusal.CONFLICT
    applied = await client.apply(PATH, body() | {"spec": {"type": "ClusterIP"}}, "me")
    assert applied["metadata"]["uid"] == made["metadata"]["uid"]
    again = await client.apply(PATH, body() | {"spec": {"type": "ClusterIP"}}, "me")
    assert again["metadata"]["resourceVersion"] == applied["metadata"]["resourceVersion"]
    merged = await client.merge(PATH, {"spec": {"ports": [{"port": 81}]}}, "me")
    assert [one["port"] for one in merged["spec"]["ports"]] == [81]
    _, new = await client.replace(PATH, body(82))
    assert not new
    assert await refused(client.replace(PATH, body(resourceVersion="1"))) is Refusal.CONFLICT
    assert await refused(client.delete(PATH, "another")) is Refusal.CONFLICT
    await client.delete(PATH, made["metadata"]["uid"])
    assert cluster.get("services", "default", "one") is None
    assert await refused(client.delete(PATH, made["metadata"]["uid"])) is Refusal.NOT_FOUND
    assert await refused(client.read(PATH)) is Refusal.NOT_FOUND


async def test_an_apply_with_a_uid_makes_nothing(cluster: FakeCluster, client: KubeWriter) -> None:
    assert await refused(client.apply(PATH, body(uid="gone"), "me")) is Refusal.CONFLICT
    assert cluster.get("services", "default", "one") is None


async def test_refusals_have_their_words(cluster: FakeCluster, client: KubeWriter) -> None:
    assert await refused(client.create(HOME, body(0))) is Refusal.INVALID
    for fault, word in (
        (too_many_requests(), Refusal.THROTTLED),
        (server_error(), Refusal.SERVER),
        (unauthorized(), Refusal.UNAUTHORIZED),
    ):
        cluster.faults.add(fault)
        assert await refused(client.create(HOME, body())) is word
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "old", "finalizers": ["a/b"]}})
    cluster.delete("namespaces", "", "old")
    path = "/api/v1/namespaces/old/services/one"
    assert await refused(client.apply(path, body(namespace="old"), "me")) is Refusal.TERMINATING


@pytest.mark.parametrize("fault", [Drop(), Silence()])
async def test_no_answer_is_not_a_refusal(cluster: FakeCluster, client: KubeWriter, fault: Any) -> None:
    cluster.faults.add(fault)
    with pytest.raises(Unreachable):
        await client.create(HOME, body(), timeout=0.3)
    await client.create(HOME, body())
