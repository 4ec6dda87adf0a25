"""Whatever happens on the way, what was told ends as what a fresh list says; and how bytes are cut is nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discovery.kube.events import Event, Gathered
from tests.discovery.kube.scripted import FAULTS, Driver, Server, cuts

names = st.sampled_from("abcde")
steps = st.one_of(
    st.tuples(st.just("put"), names, st.integers(0, 9)),
    st.tuples(st.just("delete"), names),
    st.tuples(st.just("compact")),
    st.tuples(st.just("restore"), st.integers(1, 5)),
    st.tuples(st.just("fault"), st.sampled_from(FAULTS)),
    st.tuples(st.just("cut")),
    st.tuples(st.just("freeze")),
    st.tuples(st.just("poke")),
    st.tuples(st.just("run"), st.floats(0.01, 200)),
)


def perform(driver: Driver, script: list[Any]) -> None:
    for step in script:
        match step:
            case ("put", name, number):
                driver.server.put(name, number)
            case ("delete", name):
                driver.server.delete(name)
            case ("compact",):
                driver.server.compact()
            case ("restore", back):
                driver.server.restore(back)
            case ("fault", kind):
                driver.faults.append(kind)
            case ("cut",):
                driver.cut()
            case ("freeze",):
                driver.freeze()
            case ("poke",):
                driver.poke()
            case ("run", seconds):
                driver.run(seconds)


@given(st.lists(steps, max_size=30), st.booleans(), st.integers(0, 99), st.lists(st.integers(1, 300), min_size=1))
@settings(max_examples=400, deadline=None)
def test_any_script_ends_in_the_state_of_a_fresh_list(
    script: list[Any], streams: bool, seed: int, sizes: list[int]
) -> None:
    server = Server(streams=streams)
    for name in "abc":
        server.put(name, 1)
    driver = Driver(server, seed=seed, piece=cuts(sizes))
    perform(driver, script)
    driver.faults.clear()
    # A restored server may reach the very version we hold, so that only the safety list can tell; all else is sooner.
    driver.run(750 if any(step[0] == "restore" for step in script) else 240)
    assert driver.held == server.truth(), (driver.causes, driver.machine.health.trouble)
    assert driver.machine.failing_for(driver.now) == 0


@given(st.lists(steps, max_size=20), st.booleans(), st.lists(st.integers(1, 40), min_size=1))
@settings(max_examples=150, deadline=None)
def test_in_one_piece_or_byte_by_byte_the_events_are_the_same(
    script: list[Any], streams: bool, sizes: list[int]
) -> None:
    told: list[list[Event[Any]]] = []
    for piece in (cuts([1 << 20]), cuts([1]), cuts(sizes)):
        events: list[Event[Any]] = []
        driver = Driver(Server(streams=streams), piece=piece, watching=events.append)
        driver.server.put("a", 1)
        driver.server.put("b", 2)
        perform(driver, script)
        driver.run(60)
        told.append(events)
    assert told[0] == told[1] == told[2]


@given(st.lists(steps, max_size=25), st.booleans())
@settings(max_examples=150, deadline=None)
def test_nothing_is_ever_removed_but_by_a_whole_list_or_its_own_event(script: list[Any], streams: bool) -> None:
    """Trouble alone changes nothing: without changes at the server, what was told stays."""
    quiet = [step for step in script if step[0] not in ("put", "delete", "restore")]
    server = Server(streams=streams)
    for name in "abcde":
        server.put(name, 1)
    seen: list[int] = []
    driver = Driver(server, watching=lambda event: seen.append(len(driver.held)))
    driver.run(1)
    assert driver.held == server.truth()
    seen.clear()
    perform(driver, quiet)
    driver.run(200)
    assert set(seen) <= {5}


@pytest.mark.parametrize("streams", [True, False])
def test_the_property_can_fail(streams: bool) -> None:
    """A driver that loses events is found out: the properties above rest on that."""
    server = Server(streams=streams)
    server.put("a", 1)
    driver = Driver(server)
    driver.run(1)
    server.put("b", 1)
    server.history.clear()
    driver.run(60)
    assert driver.held != server.truth()
    driver.run(700)
    assert driver.held == server.truth(), "and the safety list mends even that"


def test_gathered_is_told_for_each_item_of_a_list() -> None:
    counts: list[Event[Any]] = []
    server = Server(streams=False)
    for name in "abcde":
        server.put(name, 1)
    Driver(server, watching=counts.append).run(1)
    assert sum(isinstance(event, Gathered) for event in counts) == 5
