"""Real controllers over fake clusters and a registry in memory (the plain one, or the real service), in one process."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discovery.kit.clock import SYSTEM_CLOCK
from discovery.kit.metrics import Metrics
from discovery.kube import labels
from discovery.mcs.controller.app import Controller
from discovery.mcs.controller.settings import Settings, check
from discovery.mcs.digest import digest
from discovery.mcs.registry import Registry
from discovery.testing.cluster import FakeCluster
from discovery.testing.registry import FakeRegistry
from tests.discovery.mcs.plain_registry import Line, PlainRegistry

GIVEN: dict[str, Any] = {
    "registry": ["http://127.0.0.1:1"],
    "export_label": labels.MCS_EXPORT,
    "unexport_timeout": "5m",
    "hold_down": "10m",
    "settle": "100ms",
    "brake_wait": "60s",
    "max_delete_ratio": 0.3,
    "stale_endpoints": "withdraw",
    "listen": "127.0.0.1:0",
    "log_format": "json",
    "log_level": "info",
    "namespace": (),
}


def settings(**more: Any) -> Settings:
    found = check(GIVEN | more)
    assert isinstance(found, Settings), found
    return found


@dataclass
class Member:
    """A cluster of the set: its API server, its line to the registry, its controller while it runs."""

    id: str
    api: FakeCluster
    line: Line | FakeRegistry
    controller: Controller

    async def until(self, true: Callable[[], bool], seconds: float = 10.0) -> None:
        await self.api.until(true, seconds=seconds)


@asynccontextmanager
async def controller(
    id_: str, api: FakeCluster, registry: Registry, folder: Path, *, me: str = "pod-0", **more: Any
) -> AsyncIterator[tuple[Controller, asyncio.Task[int]]]:
    config = api.kubeconfig(folder / f"{id_}.{me}.kubeconfig")
    given = {"cluster_id": id_, "region": f"region-{id_}", "kubeconfig": str(config)} | more

    @asynccontextmanager
    async def connect(_: Settings, __: Metrics) -> AsyncIterator[Registry]:
        yield registry

    one = Controller(settings(**given), connect, digest, SYSTEM_CLOCK, random.random, me=me, lease_namespace="default")
    task = asyncio.create_task(one.run())
    try:
        yield one, task
    finally:
        one.stop()
        await task


@asynccontextmanager
async def clusterset(
    folder: Path, registry: PlainRegistry | FakeRegistry, count: int = 2, **more: Any
) -> AsyncIterator[list[Member]]:
    """So many clusters, each with a controller that leads and has told everything; a FakeRegistry is one for all."""
    async with AsyncExitStack() as stack:
        members = []
        for number in range(1, count + 1):
            id_ = f"c{number}"
            api = await stack.enter_async_context(FakeCluster())
            api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "dynamo"}})
            line = registry.member(id_) if isinstance(registry, PlainRegistry) else registry
            given = {"leader_elect": False} | more
            one, _ = await stack.enter_async_context(controller(id_, api, line, folder, **given))
            members.append(Member(id_, api, line, one))
        for member in members:
            await synced(member.controller)
        yield members


async def synced(one: Controller) -> None:
    await eventually(lambda: one.exporter is not None and one.exporter.synced)


async def eventually(true: Callable[[], bool], seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110 - what is waited for rings no bell
            await asyncio.sleep(0.01)


# Objects


def service(name: str = "hello", *, exported: bool = False, **spec: Any) -> dict[str, Any]:
    ports = [{"name": "http", "port": 80, "protocol": "TCP"}]
    marks = {labels.MCS_EXPORT: "true"} if exported else {}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": "dynamo", "name": name, "labels": marks},
        "spec": {"selector": {"app": name}, "ports": ports} | spec,
    }


def export(name: str = "hello", version: str = "v1beta1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"multicluster.x-k8s.io/{version}",
        "kind": "ServiceExport",
        "metadata": {"namespace": "dynamo", "name": name},
        "spec": spec,
    }


def source_slice(*addresses: str, of: str = "hello", name: str = "", port_name: str = "http") -> dict[str, Any]:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "namespace": "dynamo",
            "name": name or f"{of}-abcde",
            "labels": {labels.SERVICE_NAME: of, labels.MANAGED_BY: "endpointslice-controller.k8s.io"},
        },
        "addressType": "IPv4",
        "endpoints": [
            {
                "addresses": [one],
                "conditions": {"ready": True},
                "targetRef": {"kind": "Pod", "name": f"pod-{n}", "uid": f"u{n}", "namespace": "dynamo"},
            }
            for n, one in enumerate(addresses)
        ],
        "ports": [{"name": port_name, "port": 8000, "protocol": "TCP"}],
    }


def conditions(thing: dict[str, Any] | None) -> dict[str, tuple[str, str]]:
    found = ((thing or {}).get("status") or {}).get("conditions") or []
    return {one["type"]: (one["status"], one["reason"]) for one in found}


def imported(api: FakeCluster, name: str = "hello") -> list[dict[str, Any]]:
    """The slices of this import."""
    return [
        one
        for one in api.objects("endpointslices", "dynamo")
        if one["metadata"].get("labels", {}).get(labels.MCS_SERVICE_NAME) == name
    ]


def addresses(api: FakeCluster, name: str = "hello") -> set[str]:
    return {each["addresses"][0] for one in imported(api, name) for each in one["endpoints"] or ()}
