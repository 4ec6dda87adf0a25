"""The conformance clauses F1 to F16: real controllers over three fake clusters, each clause by its number.

The registry between them is the service that the program runs, over its store in memory.

With MCS_CONFORMANCE_KUBECONFIGS (kubeconfigs with `:` between) it is also looked whether real clusters serve the API;
the clauses themselves need the inside of the fake ones. Without it that look is skipped, and says so.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from discovery.kit.clock import SYSTEM_CLOCK
from discovery.kube import labels
from discovery.mcs.model import ServiceKey
from discovery.testing.registry import FakeRegistry
from tests.discovery.mcs.controllers import Member, clusterset, conditions, export, imported, service, source_slice

HELLO = ServiceKey("dynamo", "hello")
STAYS = 0.5  # seconds in which what must not come would have come
TCP = {"name": "tcp", "port": 42, "protocol": "TCP"}
UDP = {"name": "udp", "port": 42, "protocol": "UDP"}
SPEC: dict[str, Any] = {
    "ports": [TCP, UDP],
    "sessionAffinity": "ClientIP",
    "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10}},
    "trafficDistribution": "PreferClose",
}


@pytest.fixture
async def members(tmp_path: Path) -> AsyncIterator[list[Member]]:
    registry = FakeRegistry(SYSTEM_CLOCK)
    await registry.service.open()
    running = asyncio.create_task(registry.service.run())
    try:
        async with clusterset(tmp_path, registry, count=3) as found:
            yield found
        assert not running.done(), "the registry ran to the end"
    finally:
        running.cancel()
        await asyncio.wait([running])


def shown(member: Member) -> dict[str, Any] | None:
    return member.api.get("serviceimports", *HELLO)


async def appears(members: Sequence[Member]) -> list[dict[str, Any]]:
    """The import of every cluster, once each is ready."""
    found = []
    for member in members:
        await member.until(lambda member=member: conditions(shown(member)) == {"Ready": ("True", "Ready")}, 20)  # type: ignore[misc]
        one = shown(member)
        assert one is not None
        found.append(one)
    return found


async def disappears(members: Sequence[Member]) -> None:
    for member in members:
        await member.until(lambda member=member: shown(member) is None, 20)  # type: ignore[misc]


async def conflict(members: Sequence[Member], *wanted: str) -> None:
    for member in members:
        await member.until(
            lambda member=member: conditions(member.api.get("serviceexports", *HELLO)).get("Conflict") == wanted,  # type: ignore[misc]
            20,
        )


def exports(member: Member, *, of: dict[str, Any] | None = None, **spec: Any) -> None:
    member.api.put(service(**(SPEC | (of or {}))))
    member.api.put(export(**spec))


async def both(members: Sequence[Member], first: dict[str, Any], second: dict[str, Any]) -> None:
    """The second cluster exports when the first one's import is there, and in another second."""
    exports(members[0], **first)
    await appears(members[:1])
    await asyncio.sleep(1.1)
    exports(members[1], **second)


async def test_f01_exists_while_anybody_exports(members: list[Member]) -> None:
    await both(members, {}, {})
    await appears(members)
    await conflict(members[:2], "False", "NoConflicts")
    members[0].api.delete("serviceexports", *HELLO)
    for member in members:
        await member.until(
            lambda member=member: (
                [one["cluster"] for one in (shown(member) or {"status": {}})["status"].get("clusters", ())]  # type: ignore[misc]
                == ["c2"]
            )
        )
    await asyncio.sleep(STAYS)
    assert all(shown(member) for member in members)
    members[1].api.delete("serviceexports", *HELLO)
    await disappears(members)


async def test_f02_only_exported_words_are_exported(members: list[Member]) -> None:
    members[0].api.put(service(**SPEC))
    members[0].api.change("services", *HELLO, lambda one: one["metadata"].update(labels={"no": "label"}))
    members[0].api.put(export(exportedLabels={"yes": "label"}, exportedAnnotations={"yes": "annotation"}))
    for one in await appears(members):
        assert one["metadata"]["labels"].get("yes") == "label"
        assert one["metadata"]["annotations"].get("yes") == "annotation"
        assert "no" not in one["metadata"]["labels"]


async def test_f03_words_that_differ(members: list[Member]) -> None:
    first = {"exportedLabels": {"a": "1"}, "exportedAnnotations": {"b": "1"}}
    second = {"exportedLabels": {"a": "2", "c": "2"}, "exportedAnnotations": {"b": "2"}}
    await both(members, first, second)
    await conflict(members[:2], "True", "AnnotationsConflict,LabelsConflict")
    for one in await appears(members):
        assert (one["metadata"]["labels"]["a"], one["metadata"]["annotations"]["b"]) == ("1", "1")
        assert "c" not in one["metadata"]["labels"]


async def test_f04_a_cluster_set_ip_everywhere(members: list[Member]) -> None:
    exports(members[0])
    assert {one["spec"]["type"] for one in await appears(members)} == {"ClusterSetIP"}
    found = conditions(members[0].api.get("serviceexports", *HELLO))
    assert found["Valid"] == ("True", "Valid")
    members[0].api.delete("serviceexports", *HELLO)
    await disappears(members)


async def test_f05_to_f09_properties_are_the_services(members: list[Member]) -> None:
    http = TCP | {"appProtocol": "http"}
    exports(members[0], of={"ports": [http, UDP], "internalTrafficPolicy": "Local"})
    for one in await appears(members):
        spec = one["spec"]
        assert spec["sessionAffinity"] == "ClientIP"
        assert spec["sessionAffinityConfig"] == {"clientIP": {"timeoutSeconds": 10}}
        assert spec["internalTrafficPolicy"] == "Local"
        assert spec["trafficDistribution"] == "PreferClose"
        assert spec["ports"] == [http, UDP]
        assert len(spec["ips"]) == len(spec["ipFamilies"]) > 0
        for address, family in zip(spec["ips"], spec["ipFamilies"], strict=True):
            assert f"IPv{ipaddress.ip_address(address).version}" == family


async def test_f10_ports_are_united(members: list[Member]) -> None:
    other = {"name": "stcp", "port": 142, "protocol": "SCTP"}
    await both(members, {}, {"of": {"ports": [TCP, other]}})
    await conflict(members[:2], "True", "PortConflict")
    for member in members:
        await member.until(lambda member=member: (shown(member) or {})["spec"]["ports"] == [TCP, UDP, other])  # type: ignore[misc]


async def test_f11_one_name_and_two_numbers(members: list[Member]) -> None:
    await both(members, {}, {"of": {"ports": [TCP | {"port": 43}]}})
    await conflict(members[:2], "True", "PortConflict")
    assert all(one["spec"]["ports"] == [TCP, UDP] for one in await appears(members))


async def test_f12_and_f13_headless(members: list[Member]) -> None:
    exports(members[0], of={"clusterIP": "None"})
    assert {one["spec"]["type"] for one in await appears(members)} == {"Headless"}
    await asyncio.sleep(STAYS)
    assert all("ips" not in one["spec"] for one in await appears(members))
    members[0].api.delete("serviceexports", *HELLO)
    await disappears(members)


async def test_f14_an_external_name_is_not_exported(members: list[Member]) -> None:
    members[0].api.put(service(type="ExternalName", externalName="example.org", ports=[]))
    members[0].api.put(export())
    await members[0].until(
        lambda: conditions(members[0].api.get("serviceexports", *HELLO)).get("Valid") == ("False", "InvalidServiceType")
    )
    await asyncio.sleep(STAYS)
    assert not any(shown(member) for member in members)


async def test_f15_types_that_differ(members: list[Member]) -> None:
    await both(members, {}, {"of": {"clusterIP": "None"}})
    await conflict(members[:2], "True", "TypeConflict")
    assert {one["spec"]["type"] for one in await appears(members)} == {"ClusterSetIP"}


async def test_f16_slices_are_marked(members: list[Member]) -> None:
    exports(members[0])
    members[0].api.put(source_slice("10.1.0.1", port_name="tcp"))
    for member in members:
        await member.until(lambda member=member: len(imported(member.api)) == 1)  # type: ignore[misc]
        [one] = imported(member.api)
        marks = one["metadata"]["labels"]
        assert (marks[labels.MCS_SERVICE_NAME], marks[labels.MCS_SOURCE_CLUSTER]) == ("hello", "c1")
        assert marks[labels.MANAGED_BY] not in {"", "endpointslice-controller.k8s.io"}
        assert (one["addressType"], len(one["endpoints"])) == ("IPv4", 1)
    members[0].api.delete("serviceexports", *HELLO)
    for member in members:
        await member.until(lambda member=member: not imported(member.api))  # type: ignore[misc]


@pytest.mark.skipif(
    "MCS_CONFORMANCE_KUBECONFIGS" not in os.environ,
    reason="*** no real clusters: MCS_CONFORMANCE_KUBECONFIGS names none; the clauses ran over fake ones only",
)
async def test_real_clusters_serve_the_api() -> None:
    from discovery.kube.client import Access
    from discovery.kube.writes import KubeWriter
    from discovery.mcs.controller.about import served_version

    configs = os.environ["MCS_CONFORMANCE_KUBECONFIGS"].split(":")
    assert len(configs) >= 2
    for config in configs:
        async with KubeWriter(Access(config)) as client:
            assert await served_version(client) is not None
