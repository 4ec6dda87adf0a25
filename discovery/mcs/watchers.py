"""Who watches, and what each has still to be told.

Owns one bounded queue a watcher, keyed by what an event is about: the newest wins and moves to the end, so that the
revision of whatever was taken last covers all before it. A watcher that falls behind by more than its queue starts over
with a snapshot; it never holds up anybody else (C44). Two bounds hold a queue: how many things it is about, and the
bytes of their lines of JSON. Queues hold references to values that the board has anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from discovery.mcs import wire
from discovery.mcs.board import Key, key_of
from discovery.mcs.model import Bookmark, Event
from discovery.mcs.registry import Reason, Refused

MIB: Final = 1024 * 1024


def size_of(event: Event) -> int:
    """Bytes of its line."""
    return len(wire.encode(wire.write_event(event))) + 1


class Watcher:
    """`resync`: the queue is void, a snapshot must come. `keys`, `size`: the most it may hold."""

    def __init__(self, keys: int, size: int) -> None:
        self._keys = keys
        self._size = size
        self._queue: dict[Key, tuple[Event, int]] = {}
        self.size = 0
        """Bytes that wait."""
        self.overflows = 0
        self._bookmark: Bookmark | None = None
        self._news = asyncio.Event()
        self.resync = False
        self.complete = False
        """The last snapshot it was sent was complete."""
        self.closed = False

    def __repr__(self) -> str:
        return f"<Watcher {len(self._queue)} to tell{' resync' if self.resync else ''}>"

    def __len__(self) -> int:
        return len(self._queue)

    def push(self, event: Event, size: int) -> None:
        """`size`: of the event, so that it is found once for all watchers."""
        if self.resync:
            return
        _, before = self._queue.pop(key_of(event), (event, 0))
        self._queue[key_of(event)] = (event, size)
        self.size += size - before
        if len(self._queue) > self._keys or self.size > self._size:
            self.overflows += 1
            self.start_over()
        self._news.set()

    def start_over(self) -> None:
        self._queue.clear()
        self.size = 0
        self._bookmark = None
        self.resync = True
        self._news.set()

    def mark(self, bookmark: Bookmark) -> None:
        self._bookmark = bookmark
        self._news.set()

    def close(self) -> None:
        self.closed = True
        self._news.set()

    def take(self) -> list[Event]:
        """What is to be told; a bookmark only where there is nothing else, since an event says as much."""
        taken: list[Event] = [event for event, _ in self._queue.values()]
        if not taken and self._bookmark is not None:
            taken = [self._bookmark]
        self._queue.clear()
        self.size = 0
        self._bookmark = None
        self._news.clear()
        return taken

    async def news(self) -> None:
        await self._news.wait()


class Watchers:
    """All of one replica; `limit` of them, each with a queue of `keys` and of `size` bytes."""

    def __init__(self, *, limit: int = 1_000, keys: int = 10_000, size: int = 64 * MIB) -> None:
        self._limit = limit
        self._keys = keys
        self._size = size
        self._overflowed = 0
        """Of those that have gone."""
        self._all: dict[Watcher, None] = {}

    def __repr__(self) -> str:
        return f"<Watchers {len(self._all)}>"

    def __len__(self) -> int:
        return len(self._all)

    @property
    def size(self) -> int:
        """Bytes that wait in all queues."""
        return sum(watcher.size for watcher in self._all)

    @property
    def waiting(self) -> int:
        """Events that wait in all queues."""
        return sum(map(len, self._all))

    @property
    def overflows(self) -> int:
        """How often a queue was full and its watcher had to start over."""
        return self._overflowed + sum(watcher.overflows for watcher in self._all)

    @contextmanager
    def joined(self) -> Iterator[Watcher]:
        if len(self._all) >= self._limit:
            raise Refused(Reason.BUSY, f"{self._limit} watchers are enough", retry_after_s=5.0)
        watcher = Watcher(self._keys, self._size)
        self._all[watcher] = None
        try:
            yield watcher
        finally:
            self._all.pop(watcher, None)
            self._overflowed += watcher.overflows

    def tell(self, events: Iterable[Event]) -> None:
        if not self._all:
            return
        for event in events:
            size = size_of(event)
            for watcher in self._all:
                watcher.push(event, size)

    def mark(self, bookmark: Bookmark) -> None:
        for watcher in self._all:
            watcher.mark(bookmark)

    def completed(self) -> None:
        """What is shown is complete now: whoever was shown less may see it again."""
        for watcher in self._all:
            if not watcher.complete:
                watcher.start_over()

    def close(self) -> None:
        for watcher in self._all:
            watcher.close()
