"""Looks beside the traffic: routers, admin listeners, and clients that leave.

Owns which listener is asked for what. A thing that cannot be seen is evidence of that, never left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from discovery.kit.clock import Clock
from global_ingress.validate.checks.disturbed import NOTICED_S
from global_ingress.validate.evidence import Departure, Listed, Reading, RouterReading, Task, Viewing
from global_ingress.validate.probe import Probe
from global_ingress.validate.views import DISCONNECTS, cancellations, counted

_POLL_S = 0.02


class Looking:
    def __init__(self, probe: Probe, task: Task, clock: Clock) -> None:
        self._probe = probe
        self._task = task
        self._clock = clock

    async def pools(self) -> tuple[Reading, ...]:
        """What every discovery lists now."""
        return tuple(await asyncio.gather(*(self._probe.list_pools(*one) for one in self._task.discoveries)))

    async def routers(self) -> tuple[RouterReading, ...]:
        return tuple(await asyncio.gather(*(self._probe.list_routers(*one) for one in self._task.discoveries)))

    async def views(self) -> tuple[Viewing, ...]:
        return tuple(await asyncio.gather(*(self._probe.view(*one) for one in self._task.admins)))

    async def departures(self, pools: Sequence[Listed]) -> tuple[Departure, ...]:
        """At each ingress whose admin listener is known, one after another, since the frontends are the same."""
        ingresses = dict(self._task.ingresses)
        return tuple([await self._depart(name, ingresses[name], admin, pools) for name, admin in self._task.admins])

    async def _depart(self, name: str, url: str, admin: str, pools: Sequence[Listed]) -> Departure:
        before, told = await self._disconnects(admin), await self._cancellations(pools)
        at = self._clock.now().timestamp()
        why = await self._probe.leave(name, url, self._task.model)
        if why is not None:
            return Departure(name, False, why, at, None, None)
        left = self._clock.monotonic()
        noticed: float | None = None
        cancelled: float | None = None
        while self._clock.monotonic() - left < NOTICED_S:
            if noticed is None and (now := await self._disconnects(admin)) is not None:
                noticed = self._clock.monotonic() - left if now > (before or 0.0) else None
            after = await self._cancellations(pools) if told is not None else None
            cancelled = after - told if after is not None and told is not None else None
            if noticed is not None and (told is None or cancelled):
                break
            await self._clock.sleep(_POLL_S)
        reason = "" if noticed is not None else f"{DISCONNECTS} did not grow"
        return Departure(name, True, reason, at, noticed, cancelled)

    async def _disconnects(self, admin: str) -> float | None:
        text = await self._probe.metrics(admin)
        return None if text is None else counted(DISCONNECTS, text)

    async def _cancellations(self, pools: Sequence[Listed]) -> float | None:
        """Of all frontends together; None when one of them does not tell."""
        urls = [url for pool in pools for url in pool.frontends]
        texts = await asyncio.gather(*(self._probe.metrics(url) for url in urls))
        counts = [None if text is None else cancellations(text) for text in texts]
        return None if None in counts else sum(one or 0.0 for one in counts)
