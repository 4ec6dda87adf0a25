"""What is written is read back as it was; any bytes are a table or a refusal."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from discovery.errors import MalformedWire
from discovery.pool import Pool, PoolTable, apply, diff, make_table
from discovery.wire import (
    ChangeLine,
    PoolLine,
    Ready,
    Reset,
    SourceState,
    decode_line,
    decode_routers,
    decode_table,
    encode_change,
    encode_pool_line,
    encode_ready,
    encode_reset,
    encode_routers,
    encode_table,
)
from tests.discovery.tables import tables
from tests.discovery.test_slices_properties import places, replaced

SOURCES = [SourceState("mcs", False, 1.5)]
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(tables())
def test_what_is_written_is_read(table: PoolTable) -> None:
    read = decode_table(encode_table(table, observed_at="2026-01-01T00:00:00Z", sources=SOURCES))
    assert read == make_table(table.epoch, table.revision, table.complete, table.pools)
    read = decode_routers(encode_routers(table, observed_at="2026-01-01T00:00:00Z", sources=SOURCES))
    assert read == make_table(table.epoch, table.revision, table.complete, (), table.routers)


@given(tables(), tables())
def test_a_watch_ends_where_the_directory_is(first: PoolTable, second: PoolTable) -> None:
    lines = [
        encode_reset(first),
        *map(encode_pool_line, first.pools),
        encode_ready(first.revision),
        encode_change(diff(first, second)),
    ]
    held: PoolTable | None = None
    opened: Reset | None = None
    coming: list[Pool] = []
    for line in map(decode_line, lines):
        match line:
            case Reset():
                opened, coming = line, []
            case PoolLine(pool):
                coming.append(pool)
            case Ready(revision):
                assert opened is not None
                held = make_table(opened.epoch, revision, opened.complete, coming, first.routers)
            case ChangeLine(change):
                assert held == first
                held = apply(change, first)
    assert held == second


@given(st.binary(max_size=40) | json_values.map(orjson.dumps))
def test_any_bytes_are_read_or_malformed(data: bytes) -> None:
    for decode in (decode_table, decode_routers, decode_line):
        try:
            decode(data)
        except MalformedWire:
            pass


@given(tables(), st.data())
def test_a_table_with_anything_anywhere_is_read_or_malformed(table: PoolTable, data: st.DataObject) -> None:
    document = orjson.loads(encode_table(table, observed_at="2026-01-01T00:00:00Z", sources=SOURCES))
    spoilt = replaced(document, data.draw(st.sampled_from(places(document))), data.draw(json_values))
    try:
        read = decode_table(orjson.dumps(spoilt))
    except MalformedWire:
        return
    again = encode_table(read, observed_at="2026-01-01T00:00:00Z", sources=SOURCES)
    assert decode_table(again) == read
