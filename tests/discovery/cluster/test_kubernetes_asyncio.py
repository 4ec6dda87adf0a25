"""The library that our own client stands on, against the fake: its configuration, raw answers, typed models."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from discovery.testing.cluster import READ_SLICES, FakeCluster
from tests.discovery.cluster.api import FAST, slice_of

kubernetes = pytest.importorskip("kubernetes_asyncio", reason="NOT CHECKED: kubernetes_asyncio is not installed")
SLICES = "/apis/discovery.k8s.io/v1/endpointslices"


async def test_raw_answers_by_a_kubeconfig_with_a_token(tmp_path: Path) -> None:
    async with FakeCluster(settings=FAST) as fake:
        fake.access.grant("t", READ_SLICES)
        fake.put(slice_of("a"))
        settings = kubernetes.client.Configuration()
        path = fake.kubeconfig(tmp_path / "config", token="t")
        await kubernetes.config.load_kube_config(config_file=str(path), client_configuration=settings)
        async with kubernetes.client.ApiClient(settings) as client:
            answer = await client.call_api(
                SLICES,
                "GET",
                query_params=[("watch", "true"), ("resourceVersion", "0")],
                auth_settings=["BearerToken"],
                response_types_map={},
                _preload_content=False,
                _request_timeout=(5, 10),
            )
            try:
                assert answer.status == 200
                assert orjson.loads(await answer.content.readline())["object"]["metadata"]["name"] == "a"
                fake.put(slice_of("b"))
                assert orjson.loads(await answer.content.readline())["object"]["metadata"]["name"] == "b"
            finally:
                answer.close()
        assert {(entry.verb, entry.token) for entry in fake.requests} == {("watch", "t")}


async def test_typed_models_read_what_it_writes(tmp_path: Path) -> None:
    async with FakeCluster(settings=FAST) as fake:
        fake.put(slice_of("a"))
        settings = kubernetes.client.Configuration()
        path = fake.kubeconfig(tmp_path / "config")
        await kubernetes.config.load_kube_config(config_file=str(path), client_configuration=settings)
        async with kubernetes.client.ApiClient(settings) as client:
            found = await kubernetes.client.DiscoveryV1Api(client).list_endpoint_slice_for_all_namespaces()
            assert found.items[0].endpoints[0].addresses == ["10.1.2.3"]
            with pytest.raises(kubernetes.client.ApiException) as refused:
                await kubernetes.client.CoreV1Api(client).read_namespaced_service("none", "default")
            assert refused.value.status == 404
