"""What holds for any history of writes: the past, the watches, the pages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discovery.testing.cluster.cursor import Cursor
from discovery.testing.cluster.kinds import ENDPOINT_SLICES
from discovery.testing.cluster.reading import Options, read_page
from discovery.testing.cluster.selectors import Selector, parse_selector
from discovery.testing.cluster.store import Compacted, Store

RESOURCE = ENDPOINT_SLICES.resource
ALL = Selector(ENDPOINT_SLICES)
LIST = Options(version=None, match="", limit=0, token="", watch=False, initial=False, bookmarks=False, timeout=0)

# A write: the name, and the label it gets; None removes the object.
writes = st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from(["red", "blue", None])), max_size=30)
State = dict[str, str]


def write(store: Store, name: str, colour: str | None) -> None:
    where = ("ns", name)
    if colour is not None:
        metadata = {"name": name, "namespace": "ns", "labels": {"colour": colour}}
        store.put(RESOURCE, where, {"metadata": metadata})
    elif store.get(RESOURCE, where) is not None:
        store.remove(RESOURCE, where)
    else:
        store.bump(store.revision + 1)


def seen(things: Any) -> State:
    return {thing["metadata"]["name"]: thing["metadata"]["labels"]["colour"] for thing in things}


def history(store: Store, script: list[tuple[str, str | None]]) -> dict[int, State]:
    """The state after each write, by its revision."""
    states = {store.revision: seen(store.now(RESOURCE).values())}
    for name, colour in script:
        write(store, name, colour)
        states[store.revision] = seen(store.now(RESOURCE).values())
    return states


@given(writes)
def test_every_state_of_the_past_is_as_it_was(script: list[tuple[str, str | None]]) -> None:
    store = Store()
    states = history(store, script)
    assert {revision: seen(store.at(RESOURCE, revision).values()) for revision in states} == states


@given(writes, writes)
def test_what_is_compacted_is_refused_and_the_rest_is_as_it_was(
    script: list[tuple[str, str | None]], more: list[tuple[str, str | None]]
) -> None:
    store = Store()
    old = history(store, script)
    store.compact()
    states = history(store, more)
    for revision in old.keys() - states.keys():
        with pytest.raises(Compacted) as gone:
            store.at(RESOURCE, revision)
        assert gone.value.oldest == store.compacted
    assert {revision: seen(store.at(RESOURCE, revision).values()) for revision in states} == states


def follow(state: State, lines: list[bytes]) -> State:
    state = dict(state)
    for line in lines:
        event = orjson.loads(line)
        metadata = event["object"]["metadata"]
        name = metadata["name"]
        # Nothing is added twice, and nothing goes that was not there.
        assert (name in state) == (event["type"] != "ADDED")
        if event["type"] == "DELETED":
            del state[name]
        else:
            state[name] = metadata["labels"]["colour"]
    return state


@given(writes, writes, st.sampled_from(["", "colour=red", "colour!=red", "colour in (red,blue)"]), st.booleans())
@settings(max_examples=200)
def test_a_watch_ends_in_what_a_list_with_its_selector_finds(
    script: list[tuple[str, str | None]], more: list[tuple[str, str | None]], labels: str, at_once: bool
) -> None:
    selector = parse_selector(ENDPOINT_SLICES, None, labels, "")
    store = Store()
    history(store, script)
    cursor = Cursor(store, selector, "v1", None)
    state = follow({}, list(cursor.initial()))
    for name, colour in more:
        write(store, name, colour)
        if not at_once:
            state = follow(state, list(cursor.news()))
    state = follow(state, list(cursor.news()))
    assert state == seen(read_page(store, selector, LIST).items)
    assert cursor.revision == store.revision


@given(writes, writes, st.integers(1, 4))
def test_pages_are_one_list_of_one_moment(
    script: list[tuple[str, str | None]], more: list[tuple[str, str | None]], limit: int
) -> None:
    store = Store()
    history(store, script)
    whole = read_page(store, ALL, LIST)
    page = read_page(store, ALL, replace(LIST, limit=limit))
    found = list(page.items)
    while page.token:
        assert page.remaining == len(whole.items) - len(found)
        for name, colour in more:
            write(store, name, colour)
        page = read_page(store, ALL, replace(LIST, limit=limit, token=page.token))
        assert 0 < len(page.items) <= limit
        found += page.items
    assert found == list(whole.items)


@given(writes, writes)
def test_a_restore_is_as_if_nothing_had_been_since(
    script: list[tuple[str, str | None]], more: list[tuple[str, str | None]]
) -> None:
    store, other = Store(), Store()
    states = history(store, script)
    history(other, script)
    backup = store.backup()
    history(store, more)
    store.restore(backup)
    assert repr(store) == repr(other)
    assert {revision: seen(store.at(RESOURCE, revision).values()) for revision in states} == states
    assert history(store, more) == history(other, more)


@given(writes, st.integers(1, 5))
def test_the_past_is_bounded(script: list[tuple[str, str | None]], most: int) -> None:
    store = Store(history=most)
    history(store, script)
    assert len(store.after(store.compacted)) <= 2 * most
