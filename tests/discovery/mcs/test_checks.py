"""What may enter the registry, and where the error says it is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from discovery.mcs import checks
from discovery.mcs.model import Announcement, Endpoint, ServiceKey, ServicePort, Session, SlicePort, Stamp, Term
from discovery.mcs.registry import Reason, Refused
from tests.discovery.mcs.making import TCP, endpoints, export


@pytest.mark.parametrize("good", ["c1", "a.b", "a" * 63, "us-west-2.prod"])
def test_cluster_ids_that_fit_a_label_are_taken(good: str) -> None:
    checks.cluster_id(good)


@pytest.mark.parametrize("bad", ["", "A", "a.b.c", "a" * 64, "-a", "a-", "a_b", "a.", "a\n"])
def test_other_cluster_ids_are_refused(bad: str) -> None:
    with pytest.raises(Refused) as caught:
        checks.cluster_id(bad)
    assert (caught.value.reason, caught.value.field) == (Reason.INVALID, "cluster")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"service": ServiceKey("Demo", "x")}, "service.namespace"),
        ({"service": ServiceKey("demo", "")}, "service.name"),
        ({"uid": ""}, "uid"),
        ({"exported_ms": -1}, "exported_ms"),
        ({"ports": (TCP, ServicePort("b", "TCP", 0))}, "ports[1].number"),
        ({"ports": (ServicePort("b", "TCP", 65_536),)}, "ports[0].number"),
        ({"ports": (ServicePort("b", "HTTP", 1),)}, "ports[0].protocol"),
        ({"ports": (TCP, ServicePort("tcp", "TCP", 1))}, "ports[1].name"),
        ({"ports": (TCP, ServicePort("b", "TCP", 42))}, "ports[1].number"),
        ({"ports": tuple(ServicePort(f"p{n}", "TCP", n + 1) for n in range(101))}, "ports"),
        ({"session_affinity": "Cookie"}, "session_affinity"),
        ({"affinity_seconds": 10}, "affinity_seconds"),
        ({"session_affinity": "ClientIP"}, "affinity_seconds"),
        ({"session_affinity": "ClientIP", "affinity_seconds": 86_401}, "affinity_seconds"),
        ({"ip_families": ("IPv5",)}, "ip_families[0]"),
        ({"ip_families": ("IPv4", "IPv4")}, "ip_families"),
        ({"internal_traffic_policy": ""}, "internal_traffic_policy"),
        ({"traffic_distribution": "x" * 254}, "traffic_distribution"),
        ({"labels": (("b", ""), ("a", ""))}, "labels"),
        ({"annotations": (("a", "x" * 65_536),)}, "annotations"),
    ],
)
def test_an_export_is_refused_with_the_path_of_the_fault(change: dict[str, Any], field: str) -> None:
    checks.export(export())
    with pytest.raises(Refused) as caught:
        checks.export(replace(export(), **change))
    assert (caught.value.reason, caught.value.field) == (Reason.INVALID, field)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"slice": "No"}, "slice"),
        ({"address_type": "IP"}, "address_type"),
        ({"stale_since_ms": 1}, "stale_since_ms"),
        ({"ports": (SlicePort("a", "TCP", 0),)}, "ports[0].number"),
        ({"endpoints": (Endpoint(()),)}, "endpoints[0].addresses"),
        ({"endpoints": (Endpoint(("a",)), Endpoint(("",)))}, "endpoints[1].addresses[0]"),
        ({"endpoints": (Endpoint(("a",), zone="z" * 254),)}, "endpoints[0].zone"),
    ],
)
def test_a_slice_is_refused_with_the_path_of_the_fault(change: dict[str, Any], field: str) -> None:
    checks.endpoint_set(endpoints())
    checks.endpoint_set(replace(endpoints(), ports=(SlicePort("a", "TCP", None),)))
    with pytest.raises(Refused) as caught:
        checks.endpoint_set(replace(endpoints(), **change))
    assert (caught.value.reason, caught.value.field) == (Reason.INVALID, field)


def test_more_than_a_thousand_endpoints_are_too_large() -> None:
    checks.endpoint_set(replace(endpoints(), endpoints=(Endpoint(("a",)),) * 1_000))
    with pytest.raises(Refused) as caught:
        checks.endpoint_set(replace(endpoints(), endpoints=(Endpoint(("a",)),) * 1_001))
    assert (caught.value.reason, caught.value.field) == (Reason.TOO_LARGE, "endpoints")


def test_a_session_writes_for_its_own_cluster_only() -> None:
    stamp = Stamp(Session("c1", 1, Term(1, 0)), 1)
    checks.own(stamp, "c1")
    with pytest.raises(Refused) as caught:
        checks.own(stamp, "c2")
    assert caught.value.reason is Reason.FORBIDDEN


@pytest.mark.parametrize(
    ("change", "field"),
    [({"uid": ""}, "uid"), ({"region": "r" * 64}, "region"), ({"term": Term(-1, 0)}, "term.transitions")],
)
def test_an_announcement_is_refused_with_the_path_of_the_fault(change: dict[str, Any], field: str) -> None:
    good = Announcement("c1", "u", "r", Term(0, 0))
    checks.announcement(good)
    with pytest.raises(Refused) as caught:
        checks.announcement(replace(good, **change))
    assert caught.value.field == field
