"""The shared ledger: who has what in flight, and which frontends are ejected, in memory that all processes map.

Each worker writes its own row of counts, so there is no lock; everybody reads all rows. Per frontend (slot) there are
common cells: the streak of failures, how often it was ejected, until when. Those are written by whoever sees the
failure; two workers at the same instant may count one failure for two, which moves an ejection by one failure at most.
Times are monotonic nanoseconds, which all processes of one machine share.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable

from global_ingress.proxy.shared.rate import KEYS

SLOTS = 65536  # frontends known at once
TRIAL = 30_000_000_000  # nanoseconds that a trial request may take before another one is admitted
_COMMON = 4  # streak, ejections, ejected until, whether a trial request is out


def ledger_size(workers: int) -> int:
    """Bytes of the file; it is sparse, only touched pages cost memory."""
    return 8 * SLOTS * (_COMMON + workers)


def allowance_size(workers: int) -> int:
    """Bytes behind the ledger for what the holders of keys have used up."""
    return 8 * KEYS * (1 + workers)


def create_ledger(workers: int) -> int:
    """A new ledger; the descriptor is to be inherited by the workers."""
    fd = os.memfd_create("ledger", os.MFD_CLOEXEC)
    os.ftruncate(fd, ledger_size(workers) + allowance_size(workers))
    return fd


class Ledger:
    """One process's view. `worker` is the row it writes; the supervisor, which only reads counts, gives None."""

    __slots__ = ("_base", "_map", "cells", "workers")

    def __init__(self, fd: int, workers: int, worker: int | None = None) -> None:
        self.workers = workers
        self._map = mmap.mmap(fd, ledger_size(workers))
        self.cells = memoryview(self._map).cast("q")
        self._base = self._row(worker) if worker is not None else -1

    def _row(self, worker: int) -> int:
        return SLOTS * (_COMMON + worker)

    def begin(self, slot: int) -> None:
        """A request now holds this frontend."""
        self.cells[self._base + slot] += 1

    def end(self, slot: int) -> None:
        """It holds it no more, however it ended."""
        self.cells[self._base + slot] -= 1

    def in_flight(self, slot: int) -> int:
        """Requests that hold this frontend now, over all workers."""
        cells = self.cells
        at = SLOTS * _COMMON + slot
        if self.workers == 1:
            return cells[at]
        return sum(cells[at + SLOTS * n] for n in range(self.workers))

    def clear_worker(self, worker: int, slots: Iterable[int] = range(SLOTS)) -> None:
        """A worker died: what it held of these slots is held no more."""
        row = self._row(worker)
        for slot in slots:
            if self.cells[row + slot]:
                self.cells[row + slot] = 0

    def clear_slot(self, slot: int) -> None:
        """The slot goes to another frontend."""
        for n in range(_COMMON):
            self.cells[slot * _COMMON + n] = 0
        for worker in range(self.workers):
            self.cells[self._row(worker) + slot] = 0

    def streak(self, slot: int) -> int:
        """Failures in a row."""
        return self.cells[slot * _COMMON]

    def set_streak(self, slot: int, value: int) -> None:
        self.cells[slot * _COMMON] = value

    def ejections(self, slot: int) -> int:
        """How often it was ejected since it last proved itself."""
        return self.cells[slot * _COMMON + 1]

    def ejected_until(self, slot: int) -> int:
        """Monotonic nanoseconds; 0 when it is not ejected."""
        return self.cells[slot * _COMMON + 2]

    def eject(self, slot: int, until: int) -> None:
        at = slot * _COMMON
        self.cells[at + 1] += 1
        self.cells[at + 2] = until
        self.cells[at + 3] = 0

    def begin_trial(self, slot: int, now: int) -> None:
        """One request may try it; meanwhile it counts as ejected for everybody else."""
        self.cells[slot * _COMMON + 2] = now + TRIAL
        self.cells[slot * _COMMON + 3] = 1

    def leave_trial(self, slot: int, now: int) -> None:
        """The trial request proved nothing: another one may try at once."""
        self.cells[slot * _COMMON + 2] = now
        self.cells[slot * _COMMON + 3] = 0

    def on_trial(self, slot: int) -> bool:
        """Whether its next failure is that of a trial request."""
        return self.cells[slot * _COMMON + 3] != 0

    def shorten(self, slot: int, until: int) -> None:
        """An ejection ends at `until` if it would last longer; streak and ejections stay, so one more failure ejects
        again."""
        at = slot * _COMMON + 2
        self.cells[at] = min(self.cells[at], until)

    def readmit(self, slot: int) -> None:
        """It answered: streak, ejections and sentence are forgotten."""
        at = slot * _COMMON
        self.cells[at] = 0
        self.cells[at + 1] = 0
        self.cells[at + 2] = 0
        self.cells[at + 3] = 0

    def close(self) -> None:
        self.cells.release()
        self._map.close()
