"""One import of all exports: the published cases, and that order is nothing and the oldest wins."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery.mcs.merge import as_imported, by_precedence, merged, renaming, statuses
from discovery.mcs.model import Conflict, Export, ServicePort, ServiceType, SlicePort
from tests.discovery.mcs.making import TCP, UDP, endpoints, export

STCP = ServicePort("stcp", "SCTP", 142)


@pytest.mark.parametrize(
    ("ports", "union", "conflicts", "served"),
    [
        ((TCP, UDP), (TCP, UDP), (), {"tcp": "tcp", "udp": "udp"}),
        ((UDP, TCP), (TCP, UDP), (), {"tcp": "tcp", "udp": "udp"}),
        ((TCP, STCP), (TCP, UDP, STCP), (Conflict.PORT,), {"tcp": "tcp", "stcp": "stcp"}),
        ((ServicePort("tcp", "TCP", 43),), (TCP, UDP), (Conflict.PORT,), {}),
        (
            (ServicePort("tcp2", "TCP", 4242),),
            (TCP, UDP, ServicePort("tcp2", "TCP", 4242)),
            (Conflict.PORT,),
            {"tcp2": "tcp2"},
        ),
        ((ServicePort("web", "TCP", 42),), (TCP, UDP), (Conflict.PORT,), {"web": "tcp"}),
        (
            (TCP._replace(app_protocol="http"), UDP),
            (TCP, UDP),
            (Conflict.PORT,),
            {"tcp": "tcp", "udp": "udp"},
        ),
        ((ServicePort("", "TCP", 80),), (TCP, UDP, ServicePort("", "TCP", 80)), (Conflict.PORT,), {"": ""}),
    ],
)
def test_ports_are_united_and_served_by_number(
    ports: tuple[ServicePort, ...],
    union: tuple[ServicePort, ...],
    conflicts: tuple[Conflict, ...],
    served: dict[str, str],
) -> None:
    exports = [export("c1", age=1), export("c2", age=2, ports=ports)]
    value = merged(exports, {"c1", "c2"})
    assert value.ports == union
    assert [status.conflicts for status in statuses(exports, value)] == [conflicts, conflicts]
    assert {own: name for (own, _), name in renaming(value, exports[1]).items()} == served


def test_the_message_names_field_value_winner_and_how_many_disagree() -> None:
    exports = [export(f"cluster-{n}", age=n) for n in (1, 2, 3, 4, 5)]
    for index in (1, 3):
        exports[index] = replace(exports[index], type=ServiceType.HEADLESS)
    (status, *_) = statuses(exports, merged(exports, ()))
    assert status.conflicts == (Conflict.TYPE,)
    assert status.message == (
        'Conflicting type. Using "ClusterSetIP" from oldest service export in "cluster-1". 2/5 clusters disagree.'
    )


def test_all_conflicts_are_told_in_their_order() -> None:
    first = export("c1", age=1, session_affinity="ClientIP", affinity_seconds=10, ip_families=("IPv4",))
    second = export(
        "c2",
        age=2,
        type=ServiceType.HEADLESS,
        ports=(),
        session_affinity="ClientIP",
        affinity_seconds=20,
        ip_families=("IPv6", "IPv4"),
        internal_traffic_policy="Local",
        traffic_distribution="PreferClose",
        labels=(("a", "b"),),
        annotations=(("c", "d"),),
    )
    third = replace(second, cluster="c3", session_affinity="None", affinity_seconds=None)
    value = merged([third, second, first], {"c1"})
    assert statuses([third, second, first], value)[0].conflicts == tuple(Conflict)
    assert (value.ip_families, value.clusters, value.labels) == (("IPv4", "IPv6"), ("c1",), ())


def test_one_second_goes_to_the_smaller_cluster_id() -> None:
    assert [one.cluster for one in by_precedence([export("b"), export("a"), export("a.x")])] == ["a", "a.x", "b"]


def test_ports_that_the_import_lacks_are_left_out_and_a_slice_of_nothing_else_too() -> None:
    exports = [export("c1", age=1), export("c2", age=2, ports=(ServicePort("web", "TCP", 42), UDP._replace(number=9)))]
    value = merged(exports, ())
    names = renaming(value, exports[1])
    given_set = replace(endpoints("c2"), ports=(SlicePort("web", "TCP", 80), SlicePort("udp", "UDP", 9)))
    shown = as_imported(given_set, names)
    assert shown is not None
    assert shown.ports == (SlicePort("tcp", "TCP", 80),)
    assert as_imported(replace(given_set, ports=(SlicePort("no", "TCP", 1),)), names) is None
    assert as_imported(replace(given_set, ports=()), names) == replace(given_set, ports=())


PORTS = st.lists(
    st.builds(ServicePort, st.sampled_from(["", "a", "b"]), st.sampled_from(["TCP", "UDP"]), st.integers(1, 4)),
    max_size=4,
    unique_by=(lambda port: port.name, lambda port: (port.protocol, port.number)),
).map(tuple)


@st.composite
def exports_of_one(draw: st.DrawFn) -> list[Export]:
    clusters = draw(st.lists(st.sampled_from("abcdef"), min_size=1, unique=True))
    return [
        export(
            cluster,
            age=draw(st.integers(0, 3)),
            ports=draw(PORTS),
            type=draw(st.sampled_from(ServiceType)),
            ip_families=draw(st.sampled_from([("IPv4",), ("IPv6",), ("IPv6", "IPv4")])),
            labels=draw(st.sampled_from([(), (("k", "v"),)])),
        )
        for cluster in clusters
    ]


@given(exports_of_one(), st.randoms(use_true_random=False))
def test_the_order_of_exports_is_nothing(exports: list[Export], chance: object) -> None:
    value, told = merged(exports, "abc"), statuses(exports, merged(exports, "abc"))
    chance.shuffle(exports)  # type: ignore[attr-defined]
    assert merged(exports, "abc") == value
    assert statuses(exports, value) == told


@given(exports_of_one())
def test_the_oldest_wins_and_names_and_numbers_are_unique(exports: list[Export]) -> None:
    value, first = merged(exports, ()), min(exports, key=lambda one: (one.exported_ms, one.cluster))
    assert (value.type, value.labels) == (first.type, first.labels)
    assert value.ports[: len(first.ports)] == first.ports
    assert len({port.name for port in value.ports}) == len(value.ports)
    assert len({(port.protocol, port.number) for port in value.ports}) == len(value.ports)
    # Everything anybody serves goes by a name of the import, and no two ports by one.
    for one in exports:
        names = list(renaming(value, one).values())
        assert len(set(names)) == len(names)


@given(exports_of_one())
def test_all_are_told_the_same_and_only_if_somebody_differs(exports: list[Export]) -> None:
    told = statuses(exports, merged(exports, ()))
    assert len({(one.conflicts, one.message) for one in told}) == 1
    same = [replace(one, ports=(), type=ServiceType.HEADLESS, ip_families=(), labels=()) for one in exports]
    assert statuses(same, merged(same, ()))[0].conflicts == ()
