"""Records and items for tests of the stores."""

from __future__ import annotations

from typing import Any

from discovery.mcs.model import Endpoint, EndpointSet, Export, ServiceKey, ServicePort, ServiceType, SlicePort, Term
from discovery.mcs.store import ClusterRecord, Item, ItemKey, Mark

SERVICE = ServiceKey("inference", "llama-pool-relay")


def record(cluster: str = "c1", **more: Any) -> ClusterRecord:
    given: dict[str, Any] = {
        "uid": f"uid-{cluster}",
        "region": "eu",
        "labels": (("a", "b"),),
        "incarnation": 1,
        "term": Term(3, 4),
        "renewed_ms": 1_000,
        "ttl_ms": 30_000,
        "created_ms": 500,
    }
    return ClusterRecord(cluster, **(given | more))


def export(cluster: str = "c1", service: ServiceKey = SERVICE, number: int = 80, exported_ms: int = 7) -> Export:
    ports = (ServicePort("relay", "TCP", number),)
    return Export(cluster, service, f"uid-{cluster}", exported_ms, ServiceType.CLUSTER_SET_IP, ports)


def endpoints(
    cluster: str = "c1", slice_: str = "s1", count: int = 1, service: ServiceKey = SERVICE, hostname: str = ""
) -> EndpointSet:
    ports = (SlicePort("relay", "TCP", 8000),)
    given = tuple(
        Endpoint((f"10.0.{number // 250}.{number % 250}",), True, hostname=hostname) for number in range(count)
    )
    return EndpointSet(cluster, service, slice_, "IPv4", ports, given)


def item(value: Export | EndpointSet, seq: int = 1, incarnation: int = 1) -> Item:
    key = ItemKey(value.service, value.slice if isinstance(value, EndpointSet) else "")
    return Item(value.cluster, key, Mark(incarnation, seq), value)


def gone(value: Export | EndpointSet, seq: int, incarnation: int = 1) -> Item:
    whole = item(value, seq, incarnation)
    return Item(whole.cluster, whole.key, whole.mark, None)
