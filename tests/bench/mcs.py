"""`python -m tests.bench.mcs`: what a large clusterset costs the registry.

Runs the real registry as a process, with its store in memory; tells it what the controllers of all clusters would tell,
over HTTP; then importers watch it while single slices change. Prints one JSON object. Linux only; everything on
127.0.0.1. The importers are the client library without what a controller does with the events.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import sys
import time
from typing import Annotated, Any

import typer

from discovery.mcs.client import RegistryClient
from discovery.mcs.model import (
    Endpoint,
    EndpointsChanged,
    EndpointSet,
    Export,
    ServiceKey,
    ServicePort,
    ServiceType,
    SlicePort,
    SnapshotEnd,
)
from tests.bench.discovery import memory
from tests.bench.machine import cpu_seconds, describe
from tests.discovery.mcs.making import Member
from tests.service.running import running

LIMIT = 600.0
"""Seconds for any one part."""


def export(cluster: int, number: int) -> Export:
    ports = (ServicePort("http", "TCP", 80),)
    key = ServiceKey("bench", f"s{number}")
    return Export(f"c{cluster}", key, f"u{cluster}-{number}", cluster + 1, ServiceType.CLUSTER_SET_IP, ports)


def slice_of(cluster: int, number: int, count: int, mark: str = "") -> EndpointSet:
    """`mark`: the address of its first endpoint, if another than usual."""
    addresses = [f"10.{cluster}.{number}.{n + 1}" for n in range(count)]
    found = tuple(Endpoint((one,), ready=True) for one in [mark or addresses[0], *addresses[1:]])
    ports = (SlicePort("http", "TCP", 8000),)
    return EndpointSet(f"c{cluster}", ServiceKey("bench", f"s{number}"), "s", "IPv4", ports, found)


class Importer:
    """Hears a watch. `due` holds when each mark was about to be sent."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.slices = 0
        self.first_view_s = 0.0
        self.complete = asyncio.Event()
        self.due: dict[str, float] = {}
        self.idle = asyncio.Event()
        self.took: list[float] = []

    async def run(self) -> None:
        began = time.monotonic()
        async with RegistryClient([self.url], timeout_s=LIMIT) as client:
            async for event in client.watch():
                if isinstance(event, SnapshotEnd):
                    self.first_view_s = time.monotonic() - began
                    self.complete.set()
                elif isinstance(event, EndpointsChanged):
                    self.slices += not self.complete.is_set()
                    sent = self.due.pop(event.value.endpoints[0].addresses[0], None)
                    if sent is not None:
                        self.took.append(time.monotonic() - sent)
                        if not self.due:
                            self.idle.set()

    def expect(self, mark: str) -> None:
        self.due[mark] = time.monotonic()
        self.idle.clear()


async def measure(clusters: int, services: int, endpoints: int, importers: int, changes: int) -> dict[str, Any]:
    given = ["--http-listen", "127.0.0.1:0", "--lease-ttl", "3600s", "--log-format", "json"]
    async with running("-m", "discovery.mcs.registry_command", *given) as command:
        url, pid = (await command.message("listening"))["url"], command.process.pid
        async with RegistryClient([url], timeout_s=60) as client:
            members = [Member(client, f"c{n}") for n in range(clusters)]
            began = time.monotonic()

            for cluster, member in enumerate(members):
                exports = [export(cluster, n) for n in range(services)]
                await member.join(*exports, *(slice_of(cluster, n, endpoints) for n in range(services)))
            found: dict[str, Any] = {
                "machine": describe(),
                "clusters": clusters,
                "services": services,
                "endpoints_each": endpoints,
                "importers": importers,
                "told_s": time.monotonic() - began,
                "told_cpu_s": cpu_seconds([pid]),
            } | memory(pid)
            hearing = [Importer(url) for _ in range(importers)]
            async with asyncio.TaskGroup() as group:
                tasks = []
                for one in hearing:
                    # One after the other: the time of one is not that of all.
                    tasks.append(group.create_task(one.run()))
                    await asyncio.wait_for(one.complete.wait(), LIMIT)
                    assert one.slices == clusters * services, f"{one.slices} slices in the first view"
                found["first_view_worst_s"] = max(one.first_view_s for one in hearing)
                found["first_view_median_s"] = statistics.median(one.first_view_s for one in hearing)
                cpu = cpu_seconds([pid])
                await change(members, hearing, services, endpoints, changes)
                for task in tasks:
                    task.cancel()
            found |= {"changes": changes, "changes_cpu_s": cpu_seconds([pid]) - cpu, "after": memory(pid)}
            return found | seen(hearing)


def seen(hearing: list[Importer]) -> dict[str, Any]:
    took = sorted(one for importer in hearing for one in importer.took)
    return {
        "seen": len(took),
        "not_seen": sum(len(one.due) for one in hearing),
        "seen_after_p50_ms": statistics.median(took) * 1000,
        "seen_after_p99_ms": took[int(len(took) * 0.99)] * 1000,
        "seen_after_worst_ms": took[-1] * 1000,
    }


async def change(members: list[Member], hearing: list[Importer], services: int, endpoints: int, changes: int) -> None:
    """Ten changes a second, each of another cluster's slice; returns when all are seen or late by far."""
    for n in range(changes):
        cluster, mark = n % len(members), f"11.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}"
        for one in hearing:
            one.expect(mark)
        await members[cluster].put(slice_of(cluster, n % services, endpoints, mark))
        await asyncio.sleep(0.1)
    with contextlib.suppress(TimeoutError):  # what has not come by then is counted as not seen
        async with asyncio.timeout(30):
            for one in hearing:
                await one.idle.wait()


def main(
    clusters: Annotated[int, typer.Option(min=1, max=250, help="how many export")] = 50,
    services: Annotated[int, typer.Option(min=1, max=250, help="of each cluster, one slice each")] = 200,
    endpoints: Annotated[int, typer.Option(min=1, max=250, help="of each slice")] = 100,
    importers: Annotated[int, typer.Option(min=1, help="that watch")] = 5,
    changes: Annotated[int, typer.Option(min=1, max=65_536, help="of single slices, ten a second")] = 200,
) -> None:
    """The registry of a large clusterset: the first view of an importer, and changes on their way."""
    found = asyncio.run(measure(clusters, services, endpoints, importers, changes))
    json.dump(found, sys.stdout, indent=2, default=str)
    sys.stdout.write("\n")


if __name__ == "__main__":
    typer.run(main)
