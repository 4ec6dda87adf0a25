"""The registrations as a source of the table: what the store holds, judged now.

Owns the local copy of the store, the moment to look again, and what is said of the store's health. A lease ends
without any event: the source wakes at the next expiry. It lists the store at a steady pace; what was written here is
seen here at once, also by a list that began before the writing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from discovery.directory.hearing import begin, heard
from discovery.directory.items import MalformedItem
from discovery.directory.registration_store import RegistrationStore, StoreUnavailable
from discovery.directory.registrations import Held, Registration
from discovery.identity import PoolKey
from discovery.kit.backoff import SYSTEM_CHANCE, Backoff, Chance
from discovery.kit.clock import Clock
from discovery.kit.log import logger
from discovery.lease import next_expiry

_log = logger(__name__)

V = TypeVar("V")

_PACE = 1.0
_FRESH = 5.0
_SLOWEST = 5.0


@dataclass(frozen=True, slots=True)
class Policy:
    """What a Relay is told to keep to, in seconds."""

    heartbeat: int
    lease: int

    @property
    def fresh(self) -> float:
        """How long a list of the store holds: in that time no Relay that keeps to the heartbeat can expire."""
        return min(_FRESH, (self.lease - self.heartbeat) / 2)

    @property
    def pace(self) -> float:
        """Seconds between two lists of the store."""
        return min(_PACE, self.fresh / 2)


class RegisteredSource:
    """`on_change` is called, on the loop, after what is listed or `complete` may have changed; `on_failure` at every
    failed call of the store, with the operation and the kind."""

    name = "registrations"

    def __init__(
        self,
        store: RegistrationStore,
        policy: Policy,
        clock: Clock,
        on_change: Callable[[], None],
        on_failure: Callable[[str, str], None],
        *,
        chance: Chance = SYSTEM_CHANCE,
    ) -> None:
        self.store = store
        self.policy = policy
        self.fault: str | None = None
        self.malformed: tuple[MalformedItem, ...] = ()
        self._clock = clock
        self._on_change = on_change
        self._on_failure = on_failure
        self._chance = chance
        self._backoff = Backoff(policy.pace, max(_SLOWEST, policy.pace))
        self._held: dict[PoolKey, Held] = {}
        self._written: dict[PoolKey, tuple[float, Held | None]] = {}
        self._hearing = begin(clock.monotonic(), lease=policy.lease, fresh=policy.fresh)
        self._seen: tuple[dict[PoolKey, Registration], bool] = ({}, False)
        self._turn = asyncio.Event()

    def __repr__(self) -> str:
        return f"<RegisteredSource {self.store!r} held={len(self._held)} complete={self.complete}>"

    @property
    def listed(self) -> bool:
        """Whether the whole store has been read once."""
        return self._hearing.heard_at is not None

    @property
    def complete(self) -> bool:
        return self._hearing.complete(self._clock.monotonic()) and not self.malformed

    @property
    def age(self) -> float:
        """Seconds since the store was last read in full."""
        heard_at = self._hearing.heard_at
        since = self._hearing.settles_at - self._hearing.lease if heard_at is None else heard_at
        return self._clock.monotonic() - since

    @property
    def held(self) -> Mapping[PoolKey, Held]:
        """Everything that is known, live or not."""
        return self._held

    @property
    def clock_ahead(self) -> float:
        """Seconds by which the farthest writer's clock runs before ours: its leases end that much later for us."""
        now = self.store.now_ms()
        return max(0, *(one.lease.renewed_ms - now for one in self._held.values()), 0) / 1000

    def live(self) -> dict[PoolKey, Registration]:
        """What is listed, judged now."""
        moment = self._judged_ms()
        return {key: one.registration for key, one in self._held.items() if one.lease.is_live(moment)}

    def _judged_ms(self) -> int:
        now = self._clock.monotonic()
        return self.store.now_ms() - int((now - self._hearing.judged_at(now)) * 1000)

    async def register(self, registration: Registration) -> Held:
        """Raises Superseded, TooLarge, StoreUnavailable."""
        try:
            held = await self.store.put(registration, self.policy.lease * 1000)
        except StoreUnavailable as error:
            self._on_failure("put", error.kind)
            raise
        key = registration.key
        before = self._held.get(key)
        if before is None or not before.lease.is_live(self._judged_ms()):
            _log.info("pool registered", pool=str(key), incarnation=registration.incarnation)
        self._take(key, held)
        return held

    async def unregister(self, key: PoolKey, incarnation: int | None) -> bool:
        """False when none was live. Raises Superseded, StoreUnavailable."""
        try:
            was_live = await self.store.delete(key, incarnation)
        except StoreUnavailable as error:
            self._on_failure("delete", error.kind)
            raise
        self._take(key, None)
        if was_live:
            _log.info("pool unregistered", pool=str(key))
        return was_live

    def _take(self, key: PoolKey, held: Held | None) -> None:
        """What was just written here. Most are renewals, thousands of them in a heartbeat: nobody looks through the
        others for one. The lease is longer than the next look is far, so that none need be told of it."""
        self._written[key] = (self._clock.monotonic(), held)
        _put(self._held, key, held)
        listed = self._seen[0]
        now = None if held is None else held.registration
        if listed.get(key) != now:
            _put(listed, key, now)
            self._on_change()

    async def run(self) -> None:
        """List and wake for ever."""
        listing = asyncio.ensure_future(self._list_again_and_again())
        waking = asyncio.ensure_future(self._wake_again_and_again())
        try:
            done, _ = await asyncio.wait([listing, waking], return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
        finally:
            listing.cancel()
            waking.cancel()
            await asyncio.gather(listing, waking, return_exceptions=True)

    async def _list_again_and_again(self) -> None:
        failures = 0
        while True:
            failures = 0 if await self._list() else failures + 1
            wait = self._backoff.delay(failures, self._chance()) if failures else self.policy.pace
            await self._clock.sleep(wait)

    async def _list(self) -> bool:
        started = self._clock.monotonic()
        try:
            found = await self.store.list()
        except StoreUnavailable as error:
            self._on_failure("list", error.kind)
            if self.fault is None:
                _log.warning("registrations cannot be read, the last ones stay", reason=str(error), kind=error.kind)
            self.fault = str(error)
            return False
        if self.fault is not None:
            _log.info("registrations can be read again", after_s=round(self.age, 3))
            self.fault = None
        if found.malformed and found.malformed != self.malformed:
            _log.warning("items cannot be read, the list is incomplete", items=len(found.malformed))
        self.malformed = found.malformed
        self._written = {key: one for key, one in self._written.items() if one[0] >= started}
        self._held = dict(found.held)
        for key, (_, held) in self._written.items():
            _put(self._held, key, held)
        self._hearing = heard(self._hearing, started)
        self.store.forget(self._judged_ms())
        self._look()
        return True

    async def _wake_again_and_again(self) -> None:
        while True:
            self._turn.clear()
            wait = self._until_next_turn()
            if wait is None:
                await self._turn.wait()
            else:
                await self._until_turn_or(wait)
            self._look()

    async def _until_turn_or(self, seconds: float) -> None:
        turn = asyncio.ensure_future(self._turn.wait())
        pause = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait([turn, pause], return_when=asyncio.FIRST_COMPLETED)
        finally:
            turn.cancel()
            pause.cancel()

    def _until_next_turn(self) -> float | None:
        now = self._clock.monotonic()
        turn = self._hearing.next_turn(now)
        waits = [] if turn is None else [turn - now]
        if self._hearing.judged_at(now) == now:
            # Else time stands still for leases, and none ends.
            moment = self.store.now_ms()
            expiry = next_expiry((one.lease for one in self._held.values()), moment)
            waits += [] if expiry is None else [(expiry - moment) / 1000]
        # A little later than the moment itself, so that it has come for certain.
        return min(waits) + 0.001 if waits else None

    def _look(self) -> None:
        """Compare what is listed with what was; a moment without any event may make the difference."""
        before, _ = self._seen
        now = (self.live(), self.complete)
        self._turn.set()
        if now == self._seen:
            return
        self._seen = now
        for key in before.keys() - now[0].keys():
            if key in self._held:
                _log.info("lease expired", pool=str(key))
        self._on_change()


def _put(held: dict[PoolKey, V], key: PoolKey, one: V | None) -> None:
    if one is None:
        held.pop(key, None)
    else:
        held[key] = one
