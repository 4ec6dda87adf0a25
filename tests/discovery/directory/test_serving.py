"""Queries, the store, the pace of publishing, and what is kept encoded."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery.directory.encoded import LARGEST_CHANGE, PIECE, Encoded, pieces
from discovery.directory.publisher import PACE, Publisher
from discovery.directory.query import BadQuery, Selection, parse_query, parse_version
from discovery.directory.store import Store
from discovery.identity import PoolKey
from discovery.kit.tasks import background
from discovery.kit.testing import VirtualClock, settle
from discovery.pool import Frontend, Pool, Router, make_table
from discovery.wire import ChangeLine, decode_line, encode_pool, encode_pool_line


def pool(name: str, *, namespace: str = "ns", cluster: str = "c", region: str = "eu", ready: bool = True) -> Pool:
    return Pool(PoolKey(cluster, namespace, name), region, (Frontend("http://10.0.0.1:80", ready=ready),))


def test_filters() -> None:
    table = make_table("e", 1, True, [pool("a"), pool("b", region="us", ready=False), pool("c", namespace="x")])
    for query, expected in (
        ([], "abc"),
        ([("namespace", "x")], "c"),
        ([("name", "a"), ("name", "b")], "ab"),
        ([("region", "us")], "b"),
        ([("cluster", "d")], ""),
        ([("ready", "true"), ("namespace", "ns")], "a"),
    ):
        view = parse_query("pools", query).selection.of_table(table)
        assert "".join(one.key.name for one in view.pools) == expected
        assert (view.epoch, view.revision, view.complete) == ("e", 1, True)


@pytest.mark.parametrize(
    ("of", "parameters", "param"),
    [
        ("pools", [("nmae", "x")], "nmae"),
        ("pools", [("name", "")], "name"),
        ("pools", [("ready", "yes")], "ready"),
        ("pools", [("watch", "1")], "watch"),
        ("pools", [("watch", "true"), ("watch", "true")], "watch"),
        ("pools", [("since", "e.1")], "since"),
        ("pools", [("watch", "true"), ("since", "e")], "since"),
        ("pools", [("watch", "true"), ("since", "e.-1")], "since"),
        ("routers", [("namespace", "x")], "namespace"),
    ],
)
def test_bad_queries_name_the_parameter(of: str, parameters: list[tuple[str, str]], param: str) -> None:
    with pytest.raises(BadQuery) as caught:
        parse_query(of, parameters)
    assert caught.value.param == param


@given(st.text(min_size=1), st.integers(0, 10**17))
def test_versions_are_read_back(epoch: str, revision: int) -> None:
    assert parse_version(f"{epoch}.{revision}") == (epoch, revision)


@given(st.text())
def test_any_text_is_a_version_or_none(text: str) -> None:
    found = parse_version(text)
    assert found is None or f"{found[0]}." in text


async def test_the_store_swaps_only_what_differs_and_wakes() -> None:
    store = Store("e", VirtualClock(), history=3)
    first = store.table
    assert (first.revision, first.complete, first.pools) == (0, False, ())
    waiting = asyncio.create_task(store.newer(first))
    await settle()
    assert not waiting.done()
    assert store.publish([pool("a")], (), complete=True)
    await waiting
    assert not store.publish([pool("a")], (), complete=True)
    assert store.table.revision == 1
    for name in "bcd":
        store.publish([pool(name)], (), complete=True)
    assert store.at("e", 1) is None
    assert store.at("e", 4) is store.table
    assert store.at("f", 4) is None
    waiting = asyncio.create_task(store.newer(store.table))
    await settle()
    store.close()
    await waiting


async def test_the_first_change_is_published_at_once_and_bursts_are_one() -> None:
    clock = VirtualClock()
    published: list[float] = []

    async def publish() -> None:
        published.append(clock.monotonic())

    def fail(error: Exception) -> None:
        raise error

    publisher = Publisher(publish, clock)
    async with background(publisher.run(), name="publisher", on_failure=fail):
        await clock.advance(1)
        publisher.touch()
        await settle()
        assert published == [1]
        for _ in range(10):
            publisher.touch()
            await clock.advance(0.01)
        assert len(published) == 2
        assert published[1] == pytest.approx(1 + PACE)
        await clock.advance(5)
        assert len(published) == 2
        publisher.touch()
        await settle()
        assert len(published) == 3
        assert published[2] == clock.monotonic()


def test_encoded_forms_are_the_wire_s() -> None:
    encoded = Encoded()
    one = pool("a")
    table = make_table("e", 1, True, [one])
    assert encoded.pool(one, table) == encode_pool(one)
    assert encoded.pool_line(one, table) == encode_pool_line(one)


def test_a_change_that_is_too_large_is_not_encoded() -> None:
    frontends = tuple(Frontend(f"http://10.0.{n >> 8}.{n & 255}:1") for n in range(LARGEST_CHANGE // 2 + 1))
    one = replace(pool("a"), frontends=frontends)
    none, half, both = (
        make_table("e", revision, True, pools)
        for revision, pools in enumerate([[], [one], [one, replace(one, key=pool("b").key)]])
    )
    encoded = Encoded()
    assert encoded.change(Selection(), none, both) is None
    assert encoded.change(Selection(), none, half)
    assert encoded.change(Selection(), half, both)


def test_changes_tell_what_is_selected_and_nothing_else() -> None:
    encoded = Encoded(changes=2)
    old = make_table("e", 1, True, [pool("a"), pool("b", region="us")])
    new = make_table(
        "e", 2, True, [pool("a", ready=False), pool("b", region="us")], [Router("r", "http://h", "c", "eu")]
    )
    whole, us, routers = Selection(), Selection(regions=frozenset({"us"})), Selection(of="routers")
    line = decode_line(encoded.change(whole, old, new) or b"")
    assert isinstance(line, ChangeLine)
    assert [one.key.name for one in line.change.upserted] == ["a"]
    assert line.change.routers is None
    assert encoded.change(us, old, new) == b""
    line = decode_line(encoded.change(routers, old, new) or b"")
    assert isinstance(line, ChangeLine)
    assert (line.change.upserted, line.change.routers) == ((), new.routers)
    unsure = make_table("e", 3, False, new.pools, new.routers)
    line = decode_line(encoded.change(us, new, unsure) or b"")
    assert isinstance(line, ChangeLine)
    assert not line.change.complete


def test_entries_of_pools_that_are_gone_are_dropped() -> None:
    encoded = Encoded()
    for revision in range(100):
        table = make_table("e", revision, True, [pool(f"p{revision}")])
        encoded.pool(table.pools[0], table)
    assert len(encoded._pools) <= 20


@given(st.lists(st.binary(max_size=3 * PIECE), max_size=4))
def test_pieces_are_the_same_bytes_and_none_is_large(parts: list[bytes]) -> None:
    made = list(pieces(parts))
    assert b"".join(made) == b"".join(parts)
    assert all(0 < len(piece) <= PIECE for piece in made)
