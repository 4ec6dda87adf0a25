"""Where pool tables come from: the operator's file, or a directory that is followed.

Owns the following and its replacement when a reload names other directories. Keeps the rule that the last table stays
whatever happens to the place it came from.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from discovery import client
from discovery.identity import PoolKey
from discovery.kit.clock import Clock
from discovery.pool import Frontend, Pool, PoolTable, make_table
from global_ingress.proxy.settings.sections import Discovery

STATIC = "file"  # the epoch and the source's name of pools that are written down


class Take(Protocol):
    """`obey`: it is the operator's own word."""

    def __call__(self, table: PoolTable, *, obey: bool) -> None: ...


def static_table(discovery: Discovery, revision: int) -> PoolTable:
    """The pools written down. The settings have seen to it that no two have one key."""
    pools = [
        Pool(
            PoolKey(given.cluster, given.namespace, given.name),
            given.region,
            tuple(Frontend(url) for url in dict.fromkeys(given.frontends)),
            sources=(STATIC,),
        )
        for given in discovery.pools or ()
    ]
    return make_table(STATIC, revision, True, pools)


class Sources:
    """`take(table, obey=…)` gets each table as it comes."""

    def __init__(self, clock: Clock, take: Take, moved: Callable[[], None]) -> None:
        self._clock = clock
        self._take = take
        self._moved = moved
        self._discovery: Discovery | None = None
        self._revision = 0
        self._following: client.Following | None = None
        self._bell = asyncio.Event()
        self._started = clock.monotonic()

    def use(self, discovery: Discovery) -> None:
        """From now on take tables from here; static ones come at once."""
        before, self._discovery = self._discovery, discovery
        if discovery == before:
            return
        if discovery.pools is not None:
            self._revision += 1
            self._take(static_table(discovery, self._revision), obey=True)
        elif before is not None and _where(before) != _where(discovery):
            self._moved()
        if before is None or _where(before) != _where(discovery):
            self._bell.set()

    async def run(self) -> None:
        """Follow the directories of the settings until cancelled."""
        while True:
            self._bell.clear()
            given = self._discovery
            if given is None or given.urls is None:
                await self._bell.wait()
                continue
            async with (
                client.follow(given.urls, hold_incomplete=given.hold_incomplete, clock=self._clock) as following,
                asyncio.TaskGroup() as group,
            ):
                self._following = following
                task = group.create_task(self._listen(following))
                await self._bell.wait()
                task.cancel()
            self._following = None

    async def _listen(self, following: client.Following) -> None:
        async for table in following:
            self._take(table, obey=False)

    def age(self) -> float:
        """Seconds since the table was last known to be right; since the start when there never was one."""
        if self._discovery is not None and self._discovery.pools is not None:
            return 0.0
        since_start = self._clock.monotonic() - self._started
        return min(self._following.age(), since_start) if self._following else since_start

    def document(self) -> dict[str, Any]:
        """How discovery does, for the status document."""
        following = self._following
        given = self._discovery
        return {
            "static": given is not None and given.pools is not None,
            "urls": list(given.urls) if given is not None and given.urls is not None else [],
            "url": following.url if following else None,
            "age_s": round(self.age(), 3),
            "errors": following.errors if following else 0,
            "last_error": following.last_error if following else None,
            "kept_beyond_an_incomplete_table": following.held if following else 0,
        }


def _where(discovery: Discovery) -> object:
    """What a connection depends on."""
    return discovery.urls, discovery.hold_incomplete
