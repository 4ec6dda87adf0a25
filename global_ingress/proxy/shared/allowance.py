"""What the holders of keys have used up, in the memory that all workers map: a bucket and the requests in flight of
each key.

A key has a row: the bucket is common, in flight each worker counts for itself, so that the supervisor can clear what a
dead worker held. Look and take are one step for all workers, by a lock on the row that the kernel gives back when its
holder dies; it is held for a few instructions and never over anything that waits.
"""

from __future__ import annotations

import fcntl
import mmap
from collections.abc import Iterable

from global_ingress.proxy.shared.ledger import allowance_size, ledger_size
from global_ingress.proxy.shared.rate import KEYS, Verdict, look


class Allowance:
    """One process's view of the file, which is the ledger's. `worker` is the row it writes; the supervisor gives
    None."""

    __slots__ = ("_base", "_cells", "_fd", "_map", "_start", "_workers")

    def __init__(self, fd: int, workers: int, worker: int | None = None) -> None:
        self._fd = fd
        self._workers = workers
        self._start = ledger_size(workers)
        self._map = mmap.mmap(fd, allowance_size(workers), offset=self._start)
        self._cells = memoryview(self._map).cast("q")
        self._base = self._row(worker) if worker is not None else -1

    def _row(self, worker: int) -> int:
        return KEYS * (1 + worker)

    def peek(self, slot: int, now: int, count: int, window: int) -> Verdict:
        """What `take` would say of the rate."""
        return look(self._cells[slot], now, count, window)

    def take(self, slot: int, now: int, rate: tuple[int, int] | None, most: int | None) -> Verdict | None:
        """One request is to begin: counted in flight if `most` and the rate (count, nanoseconds) let it. None when too
        many are in flight."""
        if self._workers > 1:
            fcntl.lockf(self._fd, fcntl.LOCK_EX, 8, self._start + 8 * slot)
        try:
            return self._take(slot, now, rate, most)
        finally:
            if self._workers > 1:
                fcntl.lockf(self._fd, fcntl.LOCK_UN, 8, self._start + 8 * slot)

    def _take(self, slot: int, now: int, rate: tuple[int, int] | None, most: int | None) -> Verdict | None:
        if most is not None and self.in_flight(slot) >= most:
            return None
        verdict = Verdict(True, 0, 0, 0, 0)
        if rate is not None:
            verdict = look(self._cells[slot], now, *rate)
            if not verdict.allowed:
                return verdict
            self._cells[slot] = verdict.full_at
        self._cells[self._base + slot] += 1
        return verdict

    def end(self, slot: int) -> None:
        """A request that was taken is over."""
        self._cells[self._base + slot] -= 1

    def in_flight(self, slot: int) -> int:
        """Over all workers."""
        return sum(self._cells[self._row(n) + slot] for n in range(self._workers))

    def clear_worker(self, worker: int, slots: Iterable[int]) -> None:
        """A worker died: what it held is held no more."""
        for slot in slots:
            self._cells[self._row(worker) + slot] = 0

    def clear_slot(self, slot: int) -> None:
        """The row goes to another key."""
        self._cells[slot] = 0
        for worker in range(self._workers):
            self._cells[self._row(worker) + slot] = 0

    def close(self) -> None:
        self._cells.release()
        self._map.close()
