"""What a reader believes from the lines of a watch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery.errors import MalformedWire
from discovery.identity import PoolKey
from discovery.pool import Change, Frontend, Pool, PoolTable, diff, make_table
from discovery.reader import Reader
from discovery.wire import Bookmark, ChangeLine, Line, PoolLine, Ready, Reset

HOLD = 600.0


def pool(name: str, port: int = 80) -> Pool:
    return Pool(PoolKey("c", "ns", name), "eu", (Frontend(f"http://10.0.0.1:{port}"),))


def table(epoch: str, revision: int, complete: bool, *names: str) -> PoolTable:
    return make_table(epoch, revision, complete, [pool(name) for name in names])


def told(whole: PoolTable) -> list[Line]:
    lines: list[Line] = [Reset(whole.epoch, whole.revision, whole.complete)]
    return [*lines, *(PoolLine(one) for one in whole.pools), Ready(whole.revision)]


def hear(reader: Reader, lines: list[Line], now: float = 0.0) -> list[bool]:
    return [reader.hear(line, now) for line in lines]


def believed(reader: Reader) -> PoolTable:
    assert reader.table is not None
    return reader.table


def names(reader: Reader) -> list[str]:
    return [one.key.name for one in believed(reader).pools]


def test_reset_to_ready_is_one_swap() -> None:
    reader = Reader(HOLD)
    *announced, ready = told(table("e", 1, True, "a", "b"))
    assert hear(reader, announced) == [False] * 3
    assert repr(reader) == "<Reader None held=0>"
    assert hear(reader, [ready]) == [True]
    assert names(reader) == ["a", "b"]
    hear(reader, told(table("f", 9, True))[:-1])
    assert names(reader) == ["a", "b"]
    hear(reader, [Ready(9)])
    assert names(reader) == []


def test_half_a_table_was_never_told() -> None:
    reader = Reader(HOLD)
    hear(reader, told(table("e", 1, True, "a")))
    hear(reader, told(table("f", 1, True, "b", "c"))[:2])
    reader.cut()
    assert names(reader) == ["a"]
    assert reader.version == "e.1"
    hear(reader, [ChangeLine(Change((pool("d"),), (), None, True, 2))])
    assert names(reader) == ["a", "d"]


def test_an_incomplete_table_adds_and_never_removes() -> None:
    reader = Reader(HOLD)
    hear(reader, told(table("e", 5, True, "a", "b")))
    hear(reader, told(table("f", 0, False)), now=10)
    assert (names(reader), reader.held) == (["a", "b"], 2)
    assert not believed(reader).complete
    moved = pool("a", port=81)
    hear(reader, [ChangeLine(Change((moved, pool("c")), (), None, False, 1))], now=20)
    assert names(reader) == ["a", "b", "c"]
    assert believed(reader).pools[0] == moved
    hear(reader, [ChangeLine(Change((), (pool("c").id,), None, False, 2))], now=30)
    assert names(reader) == ["a", "b", "c"]
    assert hear(reader, [ChangeLine(Change((), (), None, True, 3))], now=40) == [True]
    assert (names(reader), reader.held) == (["a"], 0)


def test_an_incomplete_table_is_believed_after_the_hold_but_not_by_silence() -> None:
    reader = Reader(HOLD)
    hear(reader, told(table("e", 5, True, "a", "b")))
    hear(reader, told(table("f", 1, False, "a")), now=0)
    assert hear(reader, [Bookmark(1, False)], now=HOLD - 1) == [False]
    assert names(reader) == ["a", "b"]
    assert hear(reader, [Bookmark(1, False)], now=HOLD) == [True]
    assert names(reader) == ["a"]
    hear(reader, [ChangeLine(Change((), (pool("a").id,), None, False, 2))], now=HOLD + 1)
    assert names(reader) == []


def test_another_epoch_gets_the_whole_hold() -> None:
    reader = Reader(HOLD)
    hear(reader, told(table("e", 5, True, "a")))
    hear(reader, told(table("f", 1, False)), now=0)
    hear(reader, told(table("g", 1, False)), now=HOLD - 1)
    hear(reader, [Bookmark(1, False)], now=HOLD + 1)
    assert names(reader) == ["a"]
    hear(reader, [Bookmark(1, False)], now=2 * HOLD - 1)
    assert names(reader) == []


@pytest.mark.parametrize(
    "lines",
    [
        [PoolLine(pool("a"))],
        [Ready(1)],
        [Bookmark(1, True)],
        [ChangeLine(Change((), (), None, True, 1))],
        [Reset("e", 1, True), Ready(2)],
        [Reset("e", 1, True), Bookmark(1, True)],
        [Reset("e", 1, True), ChangeLine(Change((), (), None, True, 2))],
        [Reset("e", 1, True), PoolLine(pool("a")), PoolLine(pool("a", 81)), Ready(1)],
        [*told(table("e", 3, True)), ChangeLine(Change((), (), None, True, 3))],
        [*told(table("e", 3, True)), Bookmark(2, True)],
        [*told(table("e", 3, True)), Bookmark(3, False)],
    ],
)
def test_lines_out_of_order_are_refused(lines: list[Line]) -> None:
    reader = Reader(HOLD)
    hear(reader, lines[:-1])
    before = reader.table
    with pytest.raises(MalformedWire):
        reader.hear(lines[-1], 0.0)
    assert reader.table == before


def test_a_bookmark_moves_the_version() -> None:
    reader = Reader(HOLD)
    hear(reader, told(table("e", 3, True, "a")))
    assert hear(reader, [Bookmark(7, True)]) == [False]
    assert reader.version == "e.7"
    reader.forget()
    assert repr(reader).startswith("<Reader None ")
    assert names(reader) == ["a"]


TABLES = st.lists(st.tuples(st.sets(st.sampled_from("abcd")), st.booleans()), min_size=1, max_size=6)


@given(TABLES, st.data())
def test_any_way_of_telling_ends_in_the_directorys_table_once_it_is_complete(
    steps: list[tuple[set[str], bool]], data: st.DataObject
) -> None:
    reader = Reader(HOLD)
    before: PoolTable | None = None
    expected: set[str] = set()
    for revision, (listed, complete) in enumerate(steps, 1):
        now = table("e", revision, complete, *listed)
        if before is None or data.draw(st.booleans()):
            hear(reader, told(now))
        else:
            hear(reader, [ChangeLine(diff(before, now))])
        before = now
        expected = listed if complete else expected | listed
        assert set(names(reader)) == expected
        assert reader.held == len(expected) - len(listed)
        if complete:
            assert reader.table == now
