"""The registry's metrics say what is: clusters by state, conflicts, queues, the store and its lag."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from discovery.kit.metrics import Metrics
from discovery.kit.testing import VirtualClock
from discovery.mcs.model import ServiceType
from discovery.mcs.registry_metrics import declare
from discovery.mcs.service import RegistryService
from discovery.testing.registry import FaultyStore
from tests.discovery.mcs.making import Member, endpoints, export, pass_time, service


def numbers(registry: RegistryService) -> dict[str, float]:
    """By name, without the prefix, and label value."""
    metrics = Metrics()
    declare(metrics, registry)
    return {
        ".".join([sample.name.removeprefix("dynamo_mcs_registry_"), *sample.labels.values()]): sample.value
        for family in text_string_to_metric_families(metrics.exposition().decode())
        for sample in family.samples
    }


async def test_clusters_conflicts_and_queues() -> None:
    clock = VirtualClock()
    registry = service(clock, FaultyStore(durable=True))
    assert numbers(registry)["ready"] == 0
    await registry.open()
    one, two = Member(registry, "c1"), Member(registry, "c2")
    await one.join(export("c1"), endpoints("c1"))
    await two.register()
    await two.put(export("c2", age=2, type=ServiceType.HEADLESS))
    found = numbers(registry)
    assert (found["ready"], found["complete"], found["services"], found["conflicts"]) == (1, 0, 1, 1)
    assert (found["clusters.live"], found["clusters.syncing"], found["clusters.silent"]) == (1, 1, 0)
    watch = registry.watch(registry.revision)
    with registry.watchers.joined():
        await one.put(endpoints("c1", export().service, "s2"))
        found = numbers(registry)
        assert (found["watchers"], found["watch_queue_events"]) == (1, 1)
        assert found["watch_queue_bytes"] > 100
    await watch.aclose()
    await clock.advance(36)
    await pass_time(clock, 1)
    await registry.step()
    assert numbers(registry)["clusters.silent"] == 2


async def test_the_store_and_many_leases_at_once() -> None:
    clock = VirtualClock()
    store = FaultyStore(durable=True)
    registry = service(clock, store)
    await registry.open()
    members = [Member(registry, f"c{n}") for n in range(3)]
    for member in members:
        await member.join(export(member.announcement.cluster))
    store.away = True
    await registry.step()
    await clock.advance(2)
    found = numbers(registry)
    assert (found["store_errors_total"], found["store_away_seconds"]) == (1, 2)
    store.away = False
    await registry.step()
    assert numbers(registry)["store_away_seconds"] == 0
    await clock.advance(36)
    await registry.step()
    found = numbers(registry)
    assert (found["lease_mass_expiries_total"], found["clusters.silent"]) == (1, 0)


async def test_items_that_are_late() -> None:
    clock = VirtualClock()
    store = FaultyStore(durable=True)
    registry = service(clock, store)
    await registry.open()
    member = Member(registry, "c1")
    await member.join(export("c1"))
    record = await store.cluster("c1")
    assert record is not None
    # Another region's write, of which only the record has arrived.
    await store.save(replace(record, rev=record.rev + 1, digest="0" * 32, version=record.version + 1), record.version)
    await registry.step()
    await clock.advance(20)
    assert numbers(registry)["replication_lag_seconds"] == 20
    await clock.advance(11)
    await registry.step()
    assert numbers(registry)["digest_mismatches_total"] == 1


async def test_an_export_from_the_future_is_counted_and_used() -> None:
    clock = VirtualClock()
    registry = service(clock, FaultyStore(durable=True))
    await registry.open()
    member = Member(registry, "c1")
    await member.register()
    now = registry.now_ms()
    for ahead_ms, count in ((300_000, 0), (300_001, 1)):
        await member.put(replace(export("c1"), exported_ms=now + ahead_ms))
        assert numbers(registry)["exports_from_the_future_total"] == count
    assert len(await registry.imports()) == 1
