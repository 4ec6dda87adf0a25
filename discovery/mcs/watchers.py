"""Who watches, and what each has still to be told.

Owns one bounded queue a watcher, keyed by what an event is about: the newest wins and moves to the end, so that the
revision of whatever was taken last covers all before it. A watcher that falls behind by more than its queue starts over
with a snapshot; it never holds up anybody else (C44). Queues hold references to values that the board has anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from discovery.mcs.board import Key, key_of
from discovery.mcs.model import Bookmark, Event
from discovery.mcs.registry import Reason, Refused


class Watcher:
    """`resync`: the queue is void, a snapshot must come."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._queue: dict[Key, Event] = {}
        self._bookmark: Bookmark | None = None
        self._news = asyncio.Event()
        self.resync = False
        self.complete = False
        """The last snapshot it was sent was complete."""
        self.closed = False

    def __repr__(self) -> str:
        return f"<Watcher {len(self._queue)} to tell{' resync' if self.resync else ''}>"

    def push(self, event: Event) -> None:
        if self.resync:
            return
        self._queue.pop(key_of(event), None)
        self._queue[key_of(event)] = event
        if len(self._queue) > self._limit:
            self.start_over()
        self._news.set()

    def start_over(self) -> None:
        self._queue.clear()
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
        taken = list(self._queue.values())
        if not taken and self._bookmark is not None:
            taken = [self._bookmark]
        self._queue.clear()
        self._bookmark = None
        self._news.clear()
        return taken

    async def news(self) -> None:
        await self._news.wait()


class Watchers:
    """All of one replica; `limit` of them, each with a queue of `keys`."""

    def __init__(self, *, limit: int = 1_000, keys: int = 10_000) -> None:
        self._limit = limit
        self._keys = keys
        self._all: dict[Watcher, None] = {}

    def __repr__(self) -> str:
        return f"<Watchers {len(self._all)}>"

    def __len__(self) -> int:
        return len(self._all)

    @contextmanager
    def joined(self) -> Iterator[Watcher]:
        if len(self._all) >= self._limit:
            raise Refused(Reason.BUSY, f"{self._limit} watchers are enough", retry_after_s=5.0)
        watcher = Watcher(self._keys)
        self._all[watcher] = None
        try:
            yield watcher
        finally:
            self._all.pop(watcher, None)

    def tell(self, events: Iterable[Event]) -> None:
        for event in events:
            for watcher in self._all:
                watcher.push(event)

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
