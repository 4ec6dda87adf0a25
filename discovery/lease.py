"""The lease rule: who renews in time is there.

Pure. Owns one comparison, made by whoever reads, at the moment of reading, on the reader's own clock: nothing has to
happen for a lease to end, and nobody has to sweep. Readers whose clocks differ by d disagree about a lease for at most
d. Times are whole milliseconds, so that a lease is the same after it was stored and read back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

LONGEST_LEASE_S = 86_400


@dataclass(frozen=True, slots=True)
class Lease:
    """Granted for `duration_ms` at `renewed_ms` of the writer's clock."""

    renewed_ms: int
    duration_ms: int

    @property
    def expires_ms(self) -> int:
        """The first moment at which it has expired."""
        return self.renewed_ms + self.duration_ms

    def is_live(self, now_ms: int) -> bool:
        return now_ms < self.expires_ms


def renewed(lease: Lease, now_ms: int, duration_ms: int) -> Lease:
    """The lease after a renewal, which never shortens it: a writer whose clock is behind, or that grants less, leaves
    it as it was."""
    fresh = Lease(now_ms, duration_ms)
    return fresh if fresh.expires_ms >= lease.expires_ms else lease


def next_expiry(leases: Iterable[Lease], now_ms: int) -> int | None:
    """When the next live lease ends, None when none is live: the moment to look again."""
    return min((lease.expires_ms for lease in leases if lease.is_live(now_ms)), default=None)
