"""Where registrations are kept: what every store owes, and the one in memory.

Owns the seam between the directory and its stores. A store keeps and gives back; whether a lease is live is judged by
whoever reads. The one in memory knows what this process was told, and forgets it with the process.
"""

from __future__ import annotations

from typing import Protocol

from discovery.directory.items import Listed
from discovery.directory.registrations import Held, Registration, after_writing, check_deletion
from discovery.errors import CannotKeep as CannotKeep
from discovery.errors import DiscoveryError
from discovery.errors import StoreUnavailable as StoreUnavailable
from discovery.identity import PoolKey
from discovery.kit.clock import Clock


class TooLarge(DiscoveryError):
    """A registration that this store has no room for."""


class RegistrationStore(Protocol):
    name: str

    def now_ms(self) -> int:
        """The clock that the leases of this store are written and judged by."""

    async def put(self, registration: Registration, duration_ms: int) -> Held:
        """Register or renew; what is held then. Raises Superseded, TooLarge, StoreUnavailable."""

    async def delete(self, key: PoolKey, incarnation: int | None) -> bool:
        """Forget a registration; False when none was live. Raises Superseded when `incarnation` is given and a newer
        one holds it, StoreUnavailable."""

    async def list(self) -> Listed:
        """All of them, live or not. Raises StoreUnavailable."""

    def forget(self, before_ms: int) -> None:
        """What had expired by then is of no use to this process any more."""


class MemoryStore:
    """Leases run on the monotonic clock: setting the machine's time ends none of them."""

    name = "memory"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: dict[PoolKey, Held] = {}

    def __repr__(self) -> str:
        return f"<MemoryStore {len(self._held)} held>"

    def now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)

    async def put(self, registration: Registration, duration_ms: int) -> Held:
        now = self.now_ms()
        held = after_writing(self._held.get(registration.key), registration, now_ms=now, duration_ms=duration_ms)
        self._held[registration.key] = held
        return held

    async def delete(self, key: PoolKey, incarnation: int | None) -> bool:
        held = self._held.get(key)
        if held is None:
            return False
        check_deletion(held, incarnation, self.now_ms())
        del self._held[key]
        return held.lease.is_live(self.now_ms())

    async def list(self) -> Listed:
        return Listed(dict(self._held))

    def forget(self, before_ms: int) -> None:
        # Names that come and go must not cost memory for ever.
        self._held = {key: held for key, held in self._held.items() if held.lease.is_live(before_ms)}
