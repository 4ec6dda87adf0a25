"""What a reader of a watch believes, line by line.

Pure: lines and the time in, tables out. Owns the protocol (reset … ready is one swap, then changes and bookmarks) and
the rule that nobody is removed on an incomplete table: its upserts are taken, its absences only once a complete table
of that epoch has come, or `hold_incomplete` seconds of it have passed. Refuses lines out of order, with MalformedWire:
then the connection is worth nothing, and what is believed stays.
"""

from __future__ import annotations

from dataclasses import replace

from discovery.errors import MalformedWire
from discovery.pool import Pool, PoolTable, apply, make_table
from discovery.wire import Bookmark, ChangeLine, Line, PoolLine, Ready, Reset, RouterLine


class Reader:
    def __init__(self, hold_incomplete: float) -> None:
        self._hold = hold_incomplete
        self._table: PoolTable | None = None
        self._told: PoolTable | None = None
        self._announced: tuple[Reset, list[Pool]] | None = None
        self._incomplete_since: float | None = None

    def __repr__(self) -> str:
        return f"<Reader {self.version} held={self.held}>"

    @property
    def table(self) -> PoolTable | None:
        """What is believed; None before the first whole table."""
        return self._table

    @property
    def held(self) -> int:
        """How many pools are kept only because the directory's table is incomplete."""
        if self._table is None or self._told is None:
            return 0
        return len(self._table.pools) - len(self._told.pools)

    @property
    def version(self) -> str | None:
        """`EPOCH.REVISION` of what the directory has told, to go on from there."""
        return f"{self._told.epoch}.{self._told.revision}" if self._told else None

    def cut(self) -> None:
        """The connection has ended: a table that was only half told was never told."""
        self._announced = None

    def forget(self) -> None:
        """The directory broke the protocol: do not go on from what it told. What is believed stays."""
        self._announced = None
        self._told = None

    def hear(self, line: Line, now: float) -> bool:
        """Take a line at monotonic time `now`. True when what is believed differs now. Raises MalformedWire."""
        match line:
            case Reset():
                self._announced = (line, [])
                return False
            case PoolLine(pool):
                if self._announced is None:
                    raise MalformedWire("$", "a pool without a reset before it")
                self._announced[1].append(pool)
                return False
            case RouterLine():
                raise MalformedWire("$", "a router in a watch of pools")
            case Ready(revision):
                told = self._whole(revision)
            case ChangeLine(change):
                before = self._settled("change")
                if change.revision <= before.revision:
                    raise MalformedWire("revision", f"{change.revision} is not after {before.revision}")
                told = apply(change, before)
            case Bookmark(revision, complete):
                before = self._settled("bookmark")
                if revision < before.revision or complete != before.complete:
                    raise MalformedWire("$", f"a bookmark that contradicts revision {before.revision}")
                told = before if revision == before.revision else replace(before, revision=revision)
        self._told = told
        return self._believe(told, now)

    def _whole(self, revision: int) -> PoolTable:
        if self._announced is None:
            raise MalformedWire("$", "ready without a reset before it")
        reset, pools = self._announced
        if reset.revision != revision:
            raise MalformedWire("revision", f"ready says {revision}, its reset said {reset.revision}")
        self._announced = None
        try:
            return make_table(reset.epoch, reset.revision, reset.complete, pools)
        except ValueError as error:
            raise MalformedWire("$", str(error)) from error

    def _settled(self, what: str) -> PoolTable:
        if self._told is None or self._announced is not None:
            raise MalformedWire("$", f"a {what} before the table was whole")
        return self._told

    def _believe(self, told: PoolTable, now: float) -> bool:
        before = self._table
        self._table = self._held(told, now)
        return before is None or replace(before, revision=0) != replace(self._table, revision=0)

    def _held(self, told: PoolTable, now: float) -> PoolTable:
        before = self._table
        if told.complete:
            self._incomplete_since = None
            return told
        # Another epoch is another directory, or one that starts anew: it gets the whole time to become complete.
        if self._incomplete_since is None or before is None or before.epoch != told.epoch:
            self._incomplete_since = now
        if before is None or now - self._incomplete_since >= self._hold:
            return told
        listed = {pool.key for pool in told.pools}
        kept = [pool for pool in before.pools if pool.key not in listed]
        return make_table(told.epoch, told.revision, False, [*told.pools, *kept]) if kept else told
