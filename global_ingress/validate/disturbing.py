"""Disturbances under traffic: a frontend replaced, a region cut, and what is seen meanwhile.

Owns the order: traffic first, then the deed, then looking until it has been got over or patience ends. The rule: what
was cut is restored, however this ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from discovery.kit.clock import Clock
from global_ingress.validate.checks.disturbed import SETTLED, replaced
from global_ingress.validate.evidence import (
    KINDS,
    Answered,
    Asked,
    Deed,
    Disturbance,
    Exchange,
    Listed,
    Listing,
    Reading,
    Task,
)
from global_ingress.validate.means import Means
from global_ingress.validate.probe import Probe

_BEFORE = 4
"""Requests of each region before anything is done."""
_POLL_S = 0.2
_PAUSE_S = 0.01
"""Between two requests of a region: a validation is no load test."""


class Traffic:
    """One request after another from every region, of every kind, while the block runs."""

    def __init__(self, probe: Probe, task: Task, clock: Clock) -> None:
        self._probe = probe
        self._task = task
        self._clock = clock
        self.exchanges: list[Exchange] = []

    async def run(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for name, url in self._task.ingresses:
                group.create_task(self._region(name, url), name=f"traffic of {name}")

    async def _region(self, name: str, url: str) -> None:
        number = 0
        while True:
            # A kind for each turn of the pools would meet the same pool with the same kind for ever.
            kind = KINDS[(number + number // len(KINDS)) % len(KINDS)]
            self.exchanges.append(await self._probe.exchange(Asked(name, 0, number, kind), url, self._task.model))
            number += 1
            await self._clock.sleep(_PAUSE_S)

    def of(self, name: str, since: float) -> list[Exchange]:
        """What a region has got of requests that were sent since then."""
        return [one for one in self.exchanges if one.asked.ingress == name and one.at >= since]

    def everywhere(self, since: float, enough: Callable[[list[Exchange]], bool]) -> bool:
        return all(enough(self.of(name, since)) for name, _ in self._task.ingresses)


class Disturber:
    """Does what was allowed, one thing after another. `patience_s` bounds the looking after each deed."""

    def __init__(self, probe: Probe, task: Task, means: Means, clock: Clock, patience_s: float) -> None:
        self._probe = probe
        self._task = task
        self._means = means
        self._clock = clock
        self._patience_s = patience_s

    async def replacement(self, pool: Listed) -> Disturbance:
        """One frontend of the pool is replaced; ends when every discovery lists the new one and no longer
        the old."""
        readings: list[Reading] = []
        with self._traffic() as traffic:
            await self._until(lambda: traffic.everywhere(0.0, lambda seen: len(seen) >= _BEFORE))
            deed = await self._do("replace", pool)
            if deed.failure is None:
                await self._learned(pool, deed.at, readings)
                since = self._clock.now().timestamp()
                await self._until(lambda: traffic.everywhere(since, lambda seen: len(seen) >= SETTLED))
        return Disturbance("replacement", pool, (deed,), tuple(traffic.exchanges), tuple(readings))

    async def region_cut(self, pool: Listed) -> Disturbance:
        """The pool's region is cut, and restored once the others have got over it."""
        with self._traffic() as traffic:
            await self._until(lambda: traffic.everywhere(0.0, lambda seen: len(seen) >= _BEFORE))
            try:
                cut = await self._do("cut", pool)
                if cut.failure is None:
                    await self._until(lambda: traffic.everywhere(cut.at, _recovered))
            finally:
                restored = await asyncio.shield(self._do("restore", pool))
            since = restored.at + restored.took_s
            if restored.failure is None:
                await self._until(lambda: traffic.everywhere(since, lambda seen: _used(seen, pool)))
        return Disturbance("region cut", pool, (cut, restored), tuple(traffic.exchanges), ())

    @contextmanager
    def _traffic(self) -> Iterator[Traffic]:
        traffic = Traffic(self._probe, self._task, self._clock)
        running = asyncio.create_task(traffic.run())
        try:
            yield traffic
        finally:
            running.cancel()

    async def _do(self, action: str, pool: Listed) -> Deed:
        cluster, _, name = pool.key.partition("/")
        at, began = self._clock.now().timestamp(), self._clock.monotonic()
        failure = await self._means.do(action, cluster, name)
        return Deed(action, cluster, name, at, self._clock.monotonic() - began, failure)

    async def _until(self, done: Callable[[], bool]) -> None:
        end = self._clock.monotonic() + self._patience_s
        while not done() and self._clock.monotonic() < end:
            await self._clock.sleep(_POLL_S)

    async def _learned(self, pool: Listed, since: float, readings: list[Reading]) -> None:
        end = self._clock.monotonic() + self._patience_s
        while self._clock.monotonic() < end:
            wave = await asyncio.gather(*(self._probe.list_pools(name, url) for name, url in self._task.discoveries))
            readings += wave
            if all(_lists_other(one, pool) for one in wave):
                return
            await self._clock.sleep(_POLL_S)


def _lists_other(reading: Reading, pool: Listed) -> bool:
    seen = reading.seen
    now = next((one.frontends for one in seen.pools if one.key == pool.key), ()) if isinstance(seen, Listing) else ()
    return replaced(pool.frontends, now)


def _recovered(seen: list[Exchange]) -> bool:
    last = seen[-SETTLED:]
    return len(last) == SETTLED and all(isinstance(one.seen, Answered) and one.seen.status == 200 for one in last)


def _used(seen: list[Exchange], pool: Listed) -> bool:
    return any(isinstance(one.seen, Answered) and one.seen.pool == pool.key for one in seen)
