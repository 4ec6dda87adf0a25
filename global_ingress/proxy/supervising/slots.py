"""Which row of the shared ledger a frontend has: the same while it is listed, and until nothing of it is in flight.

Pure: in-flight numbers and time are arguments. A row is given to another frontend only when the old one left, holds
nothing, and has been gone for a while, so that a worker that has not heard yet cannot write into a stranger's row.
Frontends beyond the ledger's size share its last row: their counts are then those of all of them, which is better than
sending them nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

QUARANTINE = 10.0  # seconds a free row rests


class Slots:
    """Rows by frontend URL, `size` in all."""

    def __init__(self, size: int) -> None:
        self._shared = size - 1
        self._slots: dict[str, int] = {}
        self._left: dict[str, float] = {}
        self._free: list[int] = []
        self._next = 0

    def __repr__(self) -> str:
        return f"<Slots {len(self._slots)}, {len(self._left)} leaving, {self.crowded} in one>"

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """All that are in use, those that left but still hold something included."""
        return iter(self._slots.items())

    @property
    def leaving(self) -> int:
        """Rows whose frontend is gone and that are not free yet."""
        return len(self._left)

    @property
    def crowded(self) -> int:
        """Frontends that share the last row."""
        return sum(slot == self._shared for slot in self._slots.values())

    def of(self, url: str) -> int | None:
        return self._slots.get(url)

    def update(self, listed: Collection[str], now: float, in_flight: Callable[[int], int]) -> list[int]:
        """Give every listed URL a row, free those of frontends that are gone. Returns the rows that went to another
        frontend than before, whose counts are to be cleared."""
        wanted = set(listed)
        for url in [url for url in self._slots if url not in wanted]:
            since = self._left.setdefault(url, now)
            if now - since >= QUARANTINE and in_flight(self._slots[url]) == 0:
                slot = self._slots.pop(url)
                del self._left[url]
                if slot != self._shared:
                    self._free.append(slot)
        given: list[int] = []
        for url in listed:
            self._left.pop(url, None)
            if url not in self._slots:
                self._slots[url] = self._take(given)
        return given

    def _take(self, given: list[int]) -> int:
        if self._free:
            slot = self._free.pop()
            given.append(slot)
            return slot
        if self._next >= self._shared:
            return self._shared
        self._next += 1
        return self._next - 1
