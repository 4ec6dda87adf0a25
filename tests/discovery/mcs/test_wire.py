"""The registry's JSON: whatever is said arrives as it was meant, and what is wrong is told with its place."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery.mcs import wire
from discovery.mcs.model import (
    Announcement,
    Endpoint,
    EndpointSet,
    Event,
    Export,
    Registration,
    ServiceKey,
    ServicePort,
    ServiceType,
    Session,
    Term,
)
from discovery.mcs.registry import Reason, Refused

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
WORDS = st.dictionaries(TEXT, TEXT, max_size=3).map(lambda found: tuple(sorted(found.items())))
MOMENT = st.integers(0, 253_402_300_799_999)
st.register_type_strategy(str, TEXT)
# Ports and seconds: what the limits let in fits.
st.register_type_strategy(int, st.integers(-(2**31), 2**31 - 1))
TERMS = st.builds(Term, st.integers(0, 2**53), MOMENT)
EXPORTS = st.builds(
    Export, exported_ms=MOMENT, labels=WORDS, annotations=WORDS, affinity_seconds=st.none() | st.integers(0, 90_000)
)
SETS = st.builds(EndpointSet, stale_since_ms=st.none() | MOMENT)


def events() -> st.SearchStrategy[Event]:
    from discovery.mcs import model

    words = {
        model.ImportChanged: st.builds(
            model.ImportChanged, st.builds(model.Import, labels=WORDS, annotations=WORDS), TEXT
        ),
        model.ClusterChanged: st.builds(
            model.ClusterChanged, st.builds(model.Cluster, labels=WORDS, renewed_ms=MOMENT), TEXT
        ),
        model.EndpointsChanged: st.builds(model.EndpointsChanged, SETS, TEXT),
    }
    return st.one_of([words[kind] if kind in words else st.builds(kind) for kind in wire.EVENTS.values()])


@given(events())
def test_events_arrive_as_they_were_sent(event: Event) -> None:
    line = wire.encode(wire.write_event(event))
    assert b"\n" not in line
    assert wire.read_event(wire.parse(line), strict=True) == event


@given(st.one_of(EXPORTS, SETS, st.builds(Announcement, term=TERMS, labels=WORDS)))
def test_bodies_arrive_as_they_were_sent(value: Any) -> None:
    assert wire.read(type(value), wire.parse(wire.encode(wire.write(value)))) == value


@given(st.builds(Registration, st.builds(Session, TEXT, st.integers(0, 10**17), TERMS), now_ms=MOMENT))
def test_registrations_arrive_as_they_were_sent(value: Registration) -> None:
    assert wire.read_registration(wire.parse(wire.encode(wire.write_registration(value)))) == value


def test_how_it_looks() -> None:
    port = ServicePort("http", "TCP", 80, "h2c")
    export = Export(
        "ohio",
        ServiceKey("dynamo", "llama"),
        "u1",
        1_700_000_000_123,
        ServiceType.HEADLESS,
        (port,),
        labels=(("a", "b"),),
    )
    assert wire.write(export) == {
        "cluster": "ohio",
        "service": {"namespace": "dynamo", "name": "llama"},
        "uid": "u1",
        "exportedAt": "2023-11-14T22:13:20.123Z",
        "type": "Headless",
        "ports": [{"name": "http", "protocol": "TCP", "number": 80, "appProtocol": "h2c"}],
        "labels": {"a": "b"},
    }


GOOD = {
    "uid": "u",
    "region": "us",
    "term": {"transitions": 0, "acquiredAt": "2026-01-01T00:00:00Z"},
}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"uid": None}, "uid"),
        ({"uid": 1}, "uid"),
        ({"term": {"transitions": True, "acquiredAt": "2026-01-01T00:00:00Z"}}, "term.transitions"),
        ({"term": {"transitions": 0}}, "term.acquiredAt"),
        ({"term": {"transitions": 0, "acquiredAt": "2026-02-30T00:00:00Z"}}, "term.acquiredAt"),
        ({"term": {"transitions": 0, "acquiredAt": "2026-01-01T00:00:00+01:00"}}, "term.acquiredAt"),
        ({"labels": {"a": 1}}, "labels['a']"),
        ({"labels": []}, "labels"),
        ({"colour": "red"}, "colour"),
        ({"cluster": "other"}, "cluster"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(change: dict[str, Any], field: str) -> None:
    assert wire.read(Announcement, GOOD, given={"cluster": "ohio"}).cluster == "ohio"
    with pytest.raises(Refused) as caught:
        wire.read(Announcement, GOOD | change, given={"cluster": "ohio"})
    assert (caught.value.reason, caught.value.field) == (Reason.INVALID, field)


def test_a_place_deep_in_a_list() -> None:
    told = EndpointSet("c", ServiceKey("n", "s"), "x", "IPv4", (), (Endpoint(("1.2.3.4",)), Endpoint(("1.2.3.5",))))
    body = wire.write(told)
    body["endpoints"][1]["ready"] = "yes"
    with pytest.raises(Refused, match=r"^endpoints\[1\]\.ready: is not true or false"):
        wire.read(EndpointSet, body)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("", ""),
        ("mcs-session", "mcs-session"),
        ("term.acquired_ms", "term.acquiredAt"),
        ("ports[3].app_protocol", "ports[3].appProtocol"),
        ("ip_families[0]", "ipFamilies[0]"),
        ("labels['a.session_affinity']", "labels['a.session_affinity']"),
        ('labels["session_affinity\'"]', 'labels["session_affinity\'"]'),
    ],
)
def test_a_place_is_named_as_the_wire_names_it(path: str, said: str) -> None:
    assert wire.place(path) == said


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | TEXT, lambda one: st.lists(one) | st.dictionaries(TEXT, one)
    )
)
def test_anything_else_is_refused_in_words(value: Any) -> None:
    with pytest.raises(Refused):
        wire.read(Export, value)
    with pytest.raises(Refused):
        wire.read_event(value)


@pytest.mark.parametrize("data", [b"", b"{", b'{"a":', b"\xff", b"[" * 100_000, b"NaN"])
def test_what_is_no_json_is_refused(data: bytes) -> None:
    with pytest.raises(Refused, match="is not JSON"):
        wire.parse(data)


@pytest.mark.parametrize("session", ["", "1.2", "1.2.x", "-1.2.3", "1.2.3.4", "1.2." + "9" * 30])
def test_a_session_that_nobody_gave_is_refused(session: str) -> None:
    with pytest.raises(Refused, match="mcs-session"):
        wire.read_stamp("c", session, "1")
