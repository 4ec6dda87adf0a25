"""What waits for a watch: the newest about each thing, within both bounds, to their last byte."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery.mcs import wire
from discovery.mcs.model import Bookmark, EndpointsChanged, Event
from discovery.mcs.registry import Reason, Refused
from discovery.mcs.watchers import Watcher, Watchers, size_of
from tests.discovery.mcs.making import HELLO, endpoints


def changed(slice_: str, *addresses: str) -> EndpointsChanged:
    return EndpointsChanged(endpoints("c1", HELLO, slice_, *addresses), "e.1")


def test_the_size_of_an_event_is_that_of_its_line() -> None:
    event = changed("s1", "10.0.0.1")
    assert size_of(event) == len(wire.encode(wire.write_event(event)) + b"\n")


def test_a_queue_is_full_at_its_last_byte() -> None:
    events: list[Event] = [changed("s1"), changed("s2")]
    size = sum(map(size_of, events))
    for limit, is_over in ((size, False), (size - 1, True)):
        watchers = Watchers(size=limit)
        with watchers.joined() as watcher:
            watchers.tell(events)
            assert watcher.resync is is_over
            assert (watchers.size, watchers.waiting) == ((0, 0) if is_over else (size, 2))
            assert watchers.overflows == is_over
            assert watcher.take() == ([] if is_over else events)
            assert watchers.size == 0
        assert watchers.overflows == is_over, "it is remembered of those that have gone"


def test_a_queue_is_full_at_its_last_key() -> None:
    for limit, is_over in ((2, False), (1, True)):
        watchers = Watchers(keys=limit)
        with watchers.joined() as watcher:
            watchers.tell([changed("s1"), changed("s2")])
            assert watcher.resync is is_over


def test_one_that_starts_over_delays_nobody() -> None:
    watchers = Watchers(keys=1)
    with watchers.joined() as slow, watchers.joined() as quick:
        for name in ("s1", "s2", "s3"):
            watchers.tell([changed(name)])
            assert quick.take() == [changed(name)]
        assert slow.resync
        assert not quick.resync


def test_more_watchers_than_are_served_are_refused() -> None:
    watchers = Watchers(limit=1)
    with watchers.joined(), pytest.raises(Refused) as caught, watchers.joined():
        pass
    assert caught.value.reason is Reason.BUSY


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30))), st.integers(300, 2_000))
def test_the_newest_about_each_thing_waits_within_the_bounds(told: list[tuple[str, int]], limit: int) -> None:
    watcher = Watcher(10, limit)
    newest: dict[str, Event] = {}
    for name, length in told:
        event = changed(name, *("10.0.0.1" for _ in range(length)))
        watcher.push(event, size_of(event))
        newest.pop(name, None)
        newest[name] = event
        assert watcher.size <= limit
    fits = watcher.size == sum(map(size_of, newest.values()))
    assert watcher.resync or fits
    assert watcher.take() == ([] if watcher.resync else list(newest.values()))
    watcher.mark(Bookmark("e.2"))
    assert watcher.take() == [Bookmark("e.2")]


def test_what_is_replaced_counts_no_more() -> None:
    small, large = changed("s1", "10.0.0.1"), changed("s1", *(["10.0.0.1"] * 50))
    watcher = Watcher(10, size_of(large))
    for event in (small, large, small, large):
        watcher.push(event, size_of(event))
    assert (watcher.size, len(watcher), watcher.resync) == (size_of(large), 1, False)
    watcher.push(replace(small, revision="e.9"), size_of(small))
    assert watcher.size == size_of(small)
