"""From slices to a table: which slices make a pool, what each slice was used for, and what is warned of."""

from __future__ import annotations

from typing import Any

import pytest

from discovery.directory.assemble import Assembled, State, Verdict, Warned, WarningKind, assemble, refused
from discovery.directory.naming import NamingRules, Reason, Role
from discovery.errors import MalformedSlice
from discovery.identity import PoolKey
from discovery.pool import Frontend, Pod, Pool, Relay, Router
from discovery.slices import Slice
from tests.discovery.making import LOCAL, endpoint, karmada, make_slice, port

RULES = NamingRules()
KEY = PoolKey("ohio", "dynamo", "llama")


def table(*slices: Slice, rules: NamingRules = RULES, source: str = "mcs") -> Assembled:
    return assemble([(source, slice_) for slice_ in slices], rules)


def pool(*slices: Slice, rules: NamingRules = RULES) -> Pool:
    (found,) = table(*slices, rules=rules).pools
    return found


def frontends(*slices: Slice, rules: NamingRules = RULES) -> tuple[Frontend, ...]:
    return pool(*slices, rules=rules).frontends


def reason(*slices: Slice, rules: NamingRules = RULES) -> Reason | None:
    (found,) = {verdict.reason for verdict in table(*slices, rules=rules).verdicts}
    return found


def test_a_pool_of_frontends_and_a_relay() -> None:
    found = table(
        make_slice(
            "llama-frontend",
            region="us-east",
            name="f",
            endpoints=[endpoint("10.0.0.2", "f-1", uid="u1"), endpoint("10.0.0.1", "f-0", uid="u0", zone="z")],
        ),
        make_slice(
            "llama-pool-relay",
            region="us-east",
            name="r",
            endpoints=[endpoint("10.0.0.9", "r-0")],
            ports=[port(5561, "grpc")],
        ),
    )
    assert found.pools == (
        Pool(
            KEY,
            "us-east",
            (
                Frontend("http://10.0.0.1:8000", pod=Pod("f-0", "u0"), zone="z"),
                Frontend("http://10.0.0.2:8000", pod=Pod("f-1", "u1")),
            ),
            Relay("ip:10.0.0.9", "http://10.0.0.9:5561"),
            ("mcs",),
        ),
    )
    assert [(v.name, v.state, v.key, v.role) for v in found.verdicts] == [
        ("f", State.USED, KEY, Role.FRONTEND),
        ("r", State.USED, KEY, Role.RELAY),
    ]
    assert found.warnings == ()


def test_either_service_alone_is_a_pool() -> None:
    assert pool(make_slice("llama-frontend")).relay is None
    only_relay = pool(make_slice("llama-pool-relay", ports=[port(5561, "grpc")]))
    assert (only_relay.frontends, only_relay.relay) == ((), Relay("ip:10.0.0.1", "http://10.0.0.1:5561"))


@pytest.mark.parametrize(
    ("conditions", "listed"),
    [
        ({"ready": True}, True),
        ({"ready": False}, False),
        ({"ready": False, "serving": True, "terminating": True}, True),
        ({"ready": False, "serving": False, "terminating": True}, False),
        ({"ready": False, "serving": True, "terminating": False}, False),
    ],
)
def test_a_pool_is_listed_while_something_is_ready_or_ending_and_serving(conditions: Any, listed: bool) -> None:
    slice_ = make_slice(endpoints=[endpoint(**conditions)])
    found = table(slice_)
    assert len(found.pools) == listed
    (verdict,) = found.verdicts
    assert (verdict.state, verdict.reason) == ((State.USED, None) if listed else (State.IGNORED, Reason.NOTHING_LISTED))


def test_require_serving_reads_ready_but_not_serving_as_not_ready() -> None:
    ending = make_slice(endpoints=[endpoint("10.0.0.1", ready=True, serving=False), endpoint("10.0.0.2")])
    assert [f.url for f in frontends(ending)] == ["http://10.0.0.1:8000", "http://10.0.0.2:8000"]
    strict = NamingRules(require_serving=True)
    assert [f.url for f in frontends(ending, rules=strict)] == ["http://10.0.0.2:8000"]


@pytest.mark.parametrize(
    ("ports", "wanted", "url"),
    [
        ([port(8000, "http"), port(9000, "metrics")], "http", "http://10.0.0.1:8000"),
        ([port(8000, "web"), port(9000, "metrics")], "8000", "http://10.0.0.1:8000"),
        ([port(8000, "web")], "http", "http://10.0.0.1:8000"),
        ([port(8000, None)], "http", "http://10.0.0.1:8000"),
        ([port(8000, "web"), port(53, "dns", protocol="UDP")], "http", "http://10.0.0.1:8000"),
        ([port(None, "http")], "8000", "http://10.0.0.1:8000"),
        ([], "8000", "http://10.0.0.1:8000"),
        ([port(8000, "http"), port(8001, "http")], "http", Reason.PORT_NOT_FOUND),
        ([port(8000, "web"), port(9000, "metrics")], "http", Reason.PORT_NOT_FOUND),
        ([port(53, "http", protocol="UDP")], "http", Reason.NO_PORT),
        ([port(53, "http", protocol="UDP")], "8000", Reason.NO_PORT),
        ([port(None, "http")], "http", Reason.NO_PORT),
        ([], "http", Reason.NO_PORT),
    ],
)
def test_the_port(ports: Any, wanted: str, url: str | Reason) -> None:
    rules = NamingRules(frontend_port=wanted)
    slice_ = make_slice(ports=ports)
    if isinstance(url, Reason):
        assert table(slice_, rules=rules).pools == ()
        assert reason(slice_, rules=rules) is url
    else:
        assert [f.url for f in frontends(slice_, rules=rules)] == [url]


@pytest.mark.parametrize("ports", [[], [port(None, "http")]])
def test_the_configured_pool_port_stands_in(ports: Any) -> None:
    rules = NamingRules(pool_port=7000)
    assert [f.url for f in frontends(make_slice(ports=ports), rules=rules)] == ["http://10.0.0.1:7000"]


@pytest.mark.parametrize(
    ("said", "configured", "scheme"),
    [
        ("https", "http", "https"),
        ("HTTPS", "http", "https"),
        ("kubernetes.io/h2c", "https", "http"),
        ("grpc", "https", "http"),
        ("http", "https", "http"),
        ("example.org/own", "https", "https"),
        (None, "https", "https"),
        (None, "http", "http"),
    ],
)
def test_the_scheme(said: str | None, configured: Any, scheme: str) -> None:
    slice_ = make_slice(ports=[port(8000, appProtocol=said)])
    (found,) = frontends(slice_, rules=NamingRules(frontend_scheme=configured))
    assert found.url == f"{scheme}://10.0.0.1:8000"


def test_one_slices_endpoints_never_meet_anothers_ports() -> None:
    found = frontends(
        make_slice(name="a", endpoints=[endpoint("10.0.0.1")], ports=[port(8001)]),
        make_slice(name="b", endpoints=[endpoint("10.0.0.2")], ports=[port(8002)]),
    )
    assert [f.url for f in found] == ["http://10.0.0.1:8001", "http://10.0.0.2:8002"]


def test_copies_of_one_address_are_one_frontend() -> None:
    """Ready if any copy is; ending only if all are; what a copy leaves out another may know."""
    ending = endpoint("10.0.0.1", ready=False, serving=True, terminating=True, zone="z")
    fresh = endpoint("10.0.0.1", "f-0", uid="u0", ready=True)
    for order in ([ending, fresh], [fresh, ending]):
        assert frontends(make_slice(endpoints=order)) == (
            Frontend("http://10.0.0.1:8000", pod=Pod("f-0", "u0"), zone="z"),
        )


def test_a_copy_that_serves_speaks_for_the_one_that_does_not() -> None:
    copies = [endpoint(ready=True, serving=False), endpoint(ready=True, serving=True)]
    (found,) = frontends(make_slice(endpoints=copies))
    assert found.serving


def dual(**said: Any) -> tuple[Slice, Slice]:
    v4 = make_slice(name="four", endpoints=[endpoint("10.0.0.1", **said)])
    v6 = make_slice(name="six", address_type="IPv6", endpoints=[endpoint("fd00::1", **said)])
    return v4, v6


@pytest.mark.parametrize("said", [{"uid": "u0"}, {"pod": "f-0"}, {"pod": "f-0", "uid": "u0"}, {"hostname": "f-0"}])
def test_a_dual_stack_pod_is_one_frontend(said: Any) -> None:
    (found,) = frontends(*dual(**said))
    assert (found.url, found.also) == ("http://10.0.0.1:8000", ("http://[fd00::1]:8000",))
    (found,) = frontends(*dual(**said), rules=NamingRules(address_family="ipv6"))
    assert (found.url, found.also) == ("http://[fd00::1]:8000", ("http://10.0.0.1:8000",))


def test_addresses_without_identity_are_not_joined() -> None:
    assert len(frontends(*dual())) == 2
    assert len(frontends(*dual(targetRef={"kind": "Service", "name": "s", "uid": "u"}))) == 2


def test_two_addresses_of_one_family_stay_two_frontends() -> None:
    """Left-overs of an old sandbox: which one lives nobody says, so the one that fails is ejected."""
    left = endpoint("10.0.0.7", "f-0", uid="u0", ready=True)
    v4, v6 = dual(pod="f-0", uid="u0")
    found = frontends(v4, v6, make_slice(name="old", endpoints=[left]))
    assert [(f.url, f.also) for f in found] == [
        ("http://10.0.0.1:8000", ("http://[fd00::1]:8000",)),
        ("http://10.0.0.7:8000", ()),
    ]


def test_the_address_that_is_ready_goes_with_the_other_family() -> None:
    left = endpoint("10.0.0.0", "f-0", uid="u0", ready=False, serving=True, terminating=True)
    found = frontends(*dual(pod="f-0", uid="u0"), make_slice(name="old", endpoints=[left]))
    assert [(f.url, f.also, f.ready) for f in found] == [
        ("http://10.0.0.0:8000", (), False),
        ("http://10.0.0.1:8000", ("http://[fd00::1]:8000",), True),
    ]


def test_both_slices_of_a_dual_stack_pod_are_used() -> None:
    assert {v.state for v in table(*dual(uid="u0")).verdicts} == {State.USED}


def test_a_pod_that_is_no_pod_gives_no_pod() -> None:
    refs = {"kind": "Service", "name": "s", "uid": "u"}
    assert frontends(make_slice(endpoints=[endpoint(targetRef=refs)]))[0].pod is None


def test_the_relay_is_one_that_is_ready() -> None:
    ports = [port(5561, "grpc")]
    relays = [
        endpoint("10.0.0.1", ready=False, serving=True, terminating=True),
        endpoint("10.0.0.3"),
        endpoint("10.0.0.2"),
    ]
    found = pool(make_slice("llama-pool-relay", ports=ports, endpoints=relays))
    assert found.relay == Relay("ip:10.0.0.2", "http://10.0.0.2:5561")
    ending = pool(make_slice("llama-pool-relay", ports=ports, endpoints=relays[:1]))
    assert ending.relay == Relay("ip:10.0.0.1", "http://10.0.0.1:5561")


def test_a_relay_in_ipv6() -> None:
    slice_ = make_slice(
        "llama-pool-relay", address_type="IPv6", endpoints=[endpoint("fd00::1")], ports=[port(5561, "grpc")]
    )
    assert pool(slice_).relay == Relay("ip:fd00::1", "http://[fd00::1]:5561")


def test_region_from_label_then_map_then_cluster() -> None:
    mapped = NamingRules(cluster_regions={"ohio": "us-east-2"})
    assert pool(make_slice(region="mars"), rules=mapped).region == "mars"
    assert pool(make_slice(), rules=mapped).region == "us-east-2"
    assert pool(make_slice()).region == "ohio"


def test_readiness_never_moves_a_pool_to_another_region() -> None:
    old = make_slice(name="a", region="mars", creationTimestamp="2026-01-01T00:00:00Z")
    for ready in (True, False):
        new = make_slice(
            name="b",
            region="venus",
            creationTimestamp="2026-02-01T00:00:00Z",
            endpoints=[endpoint("10.0.0.2", ready=ready)],
        )
        assert pool(old, new).region == "venus"


@pytest.mark.parametrize(
    ("mark", "since"),
    [
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z"),
        ("2026-01-31T14:00:00.5+02:00", "2026-01-31T12:00:00Z"),
        ("20260131T120000Z", "2026-01-31T12:00:00Z"),
    ],
)
@pytest.mark.parametrize("place", ["annotations", "labels"])
def test_a_stale_mark(mark: str, since: str, place: str) -> None:
    said: dict[str, Any] = {place: {"dynamo.nvidia.com/stale-since": mark}}
    marked = make_slice(name="b", **said)
    assert pool(make_slice(name="a"), marked).stale_since == since


@pytest.mark.parametrize("mark", ["soon", "2026-01-31T12:00:00", "0001-01-01T00:00:00+14:00"])
def test_a_stale_mark_that_is_no_time_is_warned_of(mark: str) -> None:
    found = table(make_slice(annotations={"dynamo.nvidia.com/stale-since": mark}))
    assert found.pools[0].stale_since is None
    assert [w.kind for w in found.warnings] == [WarningKind.BAD_STALE_MARK]


def test_the_earliest_stale_mark_holds() -> None:
    marks = ("2026-01-31T12:00:00Z", "2026-01-30T12:00:00Z")
    slices = [make_slice(name=f"s{i}", annotations={"dynamo.nvidia.com/stale-since": m}) for i, m in enumerate(marks)]
    assert pool(*slices).stale_since == "2026-01-30T12:00:00Z"


def test_what_is_used_though_not_as_it_should_be() -> None:
    found = table(make_slice(managed_by=None, endpoints=[endpoint(), endpoint("x"), {}]))
    assert found.warnings == (
        Warned(
            WarningKind.ENDPOINTS_SKIPPED,
            "dynamo/slice-1",
            "endpoints[1]: 'x' is no address that can be connected to",
            2,
        ),
        Warned(WarningKind.NO_MANAGED_BY, "dynamo/slice-1", "label endpointslice.kubernetes.io/managed-by is missing"),
    )


def test_verdicts_explain_what_is_not_used() -> None:
    bad = make_slice(name="b", ports=[port(53, protocol="UDP")])
    found = table(make_slice("other", name="a"), bad, make_slice(name="c", endpoints=[endpoint("x")]))
    assert [(v.name, v.state, v.reason) for v in found.verdicts] == [
        ("a", State.IGNORED, Reason.NOT_A_POOL),
        ("b", State.INVALID, Reason.NO_PORT),
        ("c", State.IGNORED, Reason.NO_ENDPOINTS),
    ]
    assert "'x' is no address" in found.verdicts[2].detail
    assert refused("file", "dynamo", MalformedSlice("no", name="d")) == Verdict(
        "file", "dynamo", "d", State.INVALID, Reason.MALFORMED, "no"
    )


ROUTERS = NamingRules(
    router_namespace="dynamo", router_service="global-router", cluster_id="hub", cluster_regions={"hub": "us-east"}
)


def test_routers_are_listed_by_pod_while_they_are_ready() -> None:
    ends = [
        endpoint("10.0.0.2", "router-1"),
        endpoint("10.0.0.1", "router-0"),
        endpoint("10.0.0.3", "router-2", ready=False),
        endpoint("10.0.0.4", hostname="named"),
        endpoint("10.0.0.5"),
    ]
    found = table(make_slice("global-router", "hub", endpoints=ends), rules=ROUTERS)
    assert found.pools == ()
    assert found.routers == tuple(
        Router(name, f"http://10.0.0.{last}:8000", "hub", "us-east")
        for name, last in (("10.0.0.5", 5), ("named", 4), ("router-0", 1), ("router-1", 2))
    )


def test_a_router_seen_at_home_and_imported_is_one() -> None:
    ends = [endpoint("10.0.0.1", "router-0", uid="u0")]
    imported = make_slice("global-router", "hub", name="i", endpoints=ends)
    local = make_slice(
        None,
        None,
        name="l",
        managed_by="endpointslice-controller.k8s.io",
        labels={LOCAL: "global-router"},
        endpoints=ends,
    )
    assert [router.id for router in table(imported, local, rules=ROUTERS).routers] == ["router-0"]


def test_routers_of_two_clusters_are_told_apart() -> None:
    ends = [endpoint("10.0.0.1", "router-0")]
    found = table(
        make_slice("global-router", "a", name="a", endpoints=ends),
        make_slice("global-router", "b", name="b", endpoints=ends),
        rules=ROUTERS,
    )
    assert [router.id for router in found.routers] == ["a/router-0", "b/router-0"]


def test_a_slice_told_by_another_source_is_not_remembered_as_the_first() -> None:
    one = make_slice()
    first = assemble([("mcs", one)], RULES)
    assert assemble([("karmada", one)], RULES, first).pools[0].sources == ("karmada",)


def test_unchanged_pools_are_the_same_objects() -> None:
    a, b = make_slice("a-frontend", name="a"), make_slice("b-frontend", name="b")
    first = table(a, b)
    changed = make_slice("b-frontend", name="b", endpoints=[endpoint("10.0.0.5")])
    second = assemble([("mcs", a), ("mcs", changed)], RULES, first)
    assert second.pools[0] is first.pools[0]
    assert second.pools[1] != first.pools[1]


def test_karmada_and_mcs_make_one_pool() -> None:
    found = assemble(
        [
            ("mcs", make_slice(name="m")),
            (
                "karmada",
                karmada(
                    "imported-ohio-llama-frontend-abcde", "derived-llama-frontend", endpoints=[endpoint("10.0.0.2")]
                ),
            ),
        ],
        RULES,
    )
    (one,) = found.pools
    assert one.sources == ("karmada", "mcs")
    assert len(one.frontends) == 2
