"""The JSON of tables: written, read, and refused with the place of the fault."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from discovery.errors import MalformedWire
from discovery.identity import PoolKey, pool_id
from discovery.pool import Change, Frontend, Pod, Pool, Relay, Router, make_table
from discovery.wire import (
    TAIL,
    Bookmark,
    ChangeLine,
    PoolLine,
    Ready,
    Reset,
    RouterLine,
    SourceState,
    decode_line,
    decode_routers,
    decode_table,
    encode_bookmark,
    encode_change,
    encode_head,
    encode_pool,
    encode_pool_line,
    encode_ready,
    encode_reset,
    encode_router_line,
    encode_routers,
    encode_table,
)

KEY = PoolKey("ohio", "dynamo", "mocker-1")
POOL = Pool(
    KEY,
    "us-east",
    (
        Frontend("http://10.0.0.1:8000", ("http://[fd00::1]:8000",), False, True, True, Pod("f-0", "u0"), "z1"),
        Frontend("http://10.0.0.2:8000"),
    ),
    Relay("ip:10.0.0.9", "http://10.0.0.9:5561"),
    ("karmada", "mcs"),
    "2026-01-01T00:00:00Z",
)
BARE = Pool(PoolKey("west", "dynamo", "mocker-1"), "west", relay=Relay("ip:10.1.0.9", "http://10.1.0.9:5561"))
ROUTER = Router("router-0", "http://10.0.0.7:8000", "hub", "us-east")
TABLE = make_table("e1", 7, True, [POOL, BARE], [ROUTER])
POOL_JSON: dict[str, Any] = {
    "id": "pool-v1-2d83e849329ee9362567e384ac43e4d13db27a2b6a00cb79a8be9024504c56ae",
    "cluster": "ohio",
    "namespace": "dynamo",
    "name": "mocker-1",
    "region": "us-east",
    "frontends": [
        {
            "url": "http://10.0.0.1:8000",
            "also": ["http://[fd00::1]:8000"],
            "ready": False,
            "serving": True,
            "terminating": True,
            "pod": {"name": "f-0", "uid": "u0"},
            "zone": "z1",
        },
        {
            "url": "http://10.0.0.2:8000",
            "also": [],
            "ready": True,
            "serving": True,
            "terminating": False,
            "pod": None,
            "zone": None,
        },
    ],
    "relay": {"identity": "ip:10.0.0.9", "url": "http://10.0.0.9:5561"},
    "sources": ["karmada", "mcs"],
    "stale_since": "2026-01-01T00:00:00Z",
}
BARE_JSON: dict[str, Any] = {
    "id": pool_id(BARE.key),
    "cluster": "west",
    "namespace": "dynamo",
    "name": "mocker-1",
    "region": "west",
    "frontends": [],
    "relay": {"identity": "ip:10.1.0.9", "url": "http://10.1.0.9:5561"},
    "sources": [],
    "stale_since": None,
}
ROUTER_JSON = {"id": "router-0", "url": "http://10.0.0.7:8000", "cluster": "hub", "region": "us-east"}
HEAD: dict[str, Any] = {
    "complete": True,
    "epoch": "e1",
    "revision": 7,
    "observed_at": "2026-01-02T00:00:00Z",
    "sources": [{"name": "mcs", "complete": True, "age_s": 0.5}],
}
SOURCES = [SourceState("mcs", True, 0.5)]
SEEN = "2026-01-02T00:00:00Z"


def test_the_table_as_it_is_written() -> None:
    data = encode_table(TABLE, observed_at=SEEN, sources=SOURCES)
    assert orjson.loads(data) == HEAD | {"pools": [POOL_JSON, BARE_JSON]}
    assert orjson.loads(encode_pool(POOL)) == POOL_JSON
    empty = encode_table(make_table("e1", 0, False, ()), observed_at=SEEN, sources=())
    assert orjson.loads(empty) == HEAD | {"revision": 0, "complete": False, "sources": [], "pools": []}


def test_the_routers_as_they_are_written() -> None:
    data = encode_routers(TABLE, observed_at=SEEN, sources=SOURCES)
    assert orjson.loads(data) == HEAD | {"routers": [ROUTER_JSON]}
    assert decode_routers(data) == make_table("e1", 7, True, (), [ROUTER])


def test_a_table_sent_in_pieces_is_the_table() -> None:
    pieces = [encode_head(TABLE, observed_at=SEEN, sources=SOURCES), encode_pool(POOL), b",", encode_pool(BARE), TAIL]
    assert b"".join(pieces) == encode_table(TABLE, observed_at=SEEN, sources=SOURCES)


CHANGE = Change((POOL,), (BARE.id,), None, False, 8)


@pytest.mark.parametrize(
    ("written", "members", "read"),
    [
        (encode_reset(TABLE), {"type": "reset", "epoch": "e1", "revision": 7, "complete": True}, Reset("e1", 7, True)),
        (encode_pool_line(POOL), {"type": "pool"} | POOL_JSON, PoolLine(POOL)),
        (encode_router_line(ROUTER), {"type": "router"} | ROUTER_JSON, RouterLine(ROUTER)),
        (encode_ready(7), {"type": "ready", "revision": 7}, Ready(7)),
        (
            encode_change(CHANGE),
            {"type": "change", "upserted": [POOL_JSON], "removed": [BARE.id], "revision": 8, "complete": False},
            ChangeLine(CHANGE),
        ),
        (
            encode_change(Change((), (), (ROUTER,), True, 9)),
            {
                "type": "change",
                "upserted": [],
                "removed": [],
                "revision": 9,
                "complete": True,
                "routers": [ROUTER_JSON],
            },
            ChangeLine(Change((), (), (ROUTER,), True, 9)),
        ),
        (
            encode_bookmark(8, True),
            {"type": "bookmark", "revision": 8, "complete": True},
            Bookmark(8, True),
        ),
    ],
)
def test_the_lines_of_a_watch(written: bytes, members: dict[str, Any], read: object) -> None:
    assert written.endswith(b"}\n")
    assert written.count(b"\n") == 1
    assert orjson.loads(written) == members
    assert decode_line(written) == read
    assert decode_line(written.rstrip()) == read
    newer = members | {"new_field": {"deep": [1]}}
    assert decode_line(orjson.dumps(newer)) == read, "a newer directory may say more"


def test_fields_of_a_newer_directory_are_accepted_everywhere() -> None:
    pool: dict[str, Any] = orjson.loads(encode_pool(POOL))
    for inner in (pool, pool["frontends"][0], pool["frontends"][0]["pod"], pool["relay"]):
        inner["new_field"] = 1
    document = HEAD | {"pools": [pool], "new_field": None}
    assert decode_table(orjson.dumps(document)).pools == (POOL,)


def test_a_table_needs_only_what_a_reader_uses() -> None:
    least = {key: POOL_JSON[key] for key in ("id", "cluster", "namespace", "name", "region", "frontends")}
    least["frontends"] = [{"url": "http://10.0.0.1:8000"}]
    document = {"epoch": "e1", "revision": 1, "complete": True, "pools": [least]}
    assert decode_table(orjson.dumps(document)).pools == (Pool(KEY, "us-east", (Frontend("http://10.0.0.1:8000"),)),)


def test_a_table_in_another_order_is_the_same_table() -> None:
    assert decode_table(orjson.dumps(HEAD | {"pools": [BARE_JSON, POOL_JSON]})).pools == TABLE.pools


@pytest.mark.parametrize(
    ("place", "value", "path", "reason"),
    [
        ("revision", "7", "revision", "Expected `int`, got `str`"),
        ("revision", -1, "revision", "Expected `int` >= 0"),
        ("epoch", "", "epoch", "length >= 1"),
        ("complete", None, "complete", "Expected `bool`, got `null`"),
        ("pools", None, "pools", "Expected `array`, got `null`"),
        ("pools.0", 1, "pools[0]", "Expected `object`, got `int`"),
        ("pools.0.cluster", "", "pools[0].cluster", "is empty"),
        ("pools.1.name", "a\n", "pools[1].name", "has white space around it"),
        ("pools.0.id", "pool-v1-other", "pools[0].id", "is not the id of ohio/dynamo/mocker-1"),
        ("pools.0.region", "", "pools[0].region", "length >= 1"),
        ("pools.0.frontends.1.url", "10.0.0.1", "pools[0].frontends[1]", "is no http:// or https:// URL: '10.0.0.1'"),
        ("pools.0.frontends.0.also", ["ftp://x"], "pools[0].frontends[0]", "is no http:// or https:// URL"),
        ("pools.0.frontends.0.ready", 1, "pools[0].frontends[0].ready", "Expected `bool`, got `int`"),
        ("pools.0.relay.url", "http://", "pools[0].relay", "is no http:// or https:// URL"),
        ("pools.0.stale_since", "soon", "pools[0].stale_since", "is no RFC 3339 time: 'soon'"),
        ("pools.0.stale_since", "2026-01-01T00:00:00", "pools[0].stale_since", "is no RFC 3339 time"),
        ("pools.1", POOL_JSON, "pools", "two pools are called ohio/dynamo/mocker-1"),
    ],
)
def test_a_fault_in_a_table_is_named_with_its_place(place: str, value: object, path: str, reason: str) -> None:
    document = orjson.loads(encode_table(TABLE, observed_at=SEEN, sources=SOURCES))
    inner = document
    *parents, last = [int(part) if part.isdecimal() else part for part in place.split(".")]
    for part in parents:
        inner = inner[part]
    inner[last] = value
    with pytest.raises(MalformedWire) as caught:
        decode_table(orjson.dumps(document))
    assert caught.value.path == path
    assert reason in caught.value.reason
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "data", [b"", b"null", b"[]", b"{", b"\xff", b'{"x":' + b"[" * 100_000, b"{}", b'{"type":1}', b'{"epoch":"\xff"}']
)
def test_what_is_no_table_is_malformed(data: bytes) -> None:
    for decode in (decode_table, decode_routers, decode_line):
        with pytest.raises(MalformedWire):
            decode(data)


@pytest.mark.parametrize(
    ("line", "path", "reason"),
    [
        ({"type": "other"}, "type", "Invalid value 'other'"),
        ({"revision": 1}, "$", "missing required field `type`"),
        ({"type": "ready"}, "$", "missing required field `revision`"),
        ({"type": "router"} | ROUTER_JSON | {"url": "x"}, "url", "is no http"),
        ({"type": "router"} | ROUTER_JSON | {"id": ""}, "id", "is empty"),
        ({"type": "pool"} | POOL_JSON | {"namespace": ""}, "namespace", "is empty"),
        (
            {"type": "change", "upserted": [POOL_JSON, POOL_JSON], "removed": [], "revision": 1, "complete": True},
            "upserted",
            "names a pool twice",
        ),
        (
            {"type": "change", "upserted": [POOL_JSON], "removed": [POOL.id], "revision": 1, "complete": True},
            "removed",
            "names a pool that is upserted too",
        ),
        (
            {
                "type": "change",
                "upserted": [],
                "removed": [],
                "routers": [ROUTER_JSON | {"url": "x"}],
                "revision": 1,
                "complete": True,
            },
            "routers[0].url",
            "is no http",
        ),
    ],
)
def test_a_fault_in_a_line_is_named_with_its_place(line: dict[str, Any], path: str, reason: str) -> None:
    with pytest.raises(MalformedWire) as caught:
        decode_line(orjson.dumps(line))
    assert caught.value.path == path
    assert reason in caught.value.reason
