"""Registries that run, readers that hear them, and stores and clocks that are not as they should be."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import pytest

from discovery.kit.tasks import background
from discovery.kit.testing import VirtualClock, settle
from discovery.mcs.model import ClusterGone, EndpointsGone, Event, ImportGone
from discovery.mcs.registry import Reason, Refused
from discovery.mcs.service import RegistryService
from discovery.mcs.store import ItemKey, Partition
from discovery.testing.registry import FaultyStore
from tests.discovery.mcs.making import Reader


def never(error: Exception) -> None:
    raise error


@asynccontextmanager
async def running(registry: RegistryService) -> AsyncIterator[RegistryService]:
    await registry.open()
    async with background(registry.run(), name="registry", on_failure=never):
        await settle()
        yield registry


@asynccontextmanager
async def heard(registry: RegistryService, revision: str = "") -> AsyncIterator[Reader]:
    reader = Reader(registry, revision)
    async with background(reader.read(), name="reader", on_failure=never):
        await settle()
        yield reader


class FickleStore(FaultyStore):
    """A shared store that can be away, and can hold items that nobody understands."""

    def __init__(self) -> None:
        super().__init__(durable=True)
        self.strange: frozenset[ItemKey] = frozenset()

    async def partition(self, cluster: str) -> Partition:
        whole = await super().partition(cluster)
        return Partition(tuple(item for item in whole.items if item.key not in self.strange), self.strange)


class SkewedClock:
    """Another host's clock: the same time passes, the date is wrong."""

    def __init__(self, clock: VirtualClock, seconds: float) -> None:
        self._clock = clock
        self._ahead = timedelta(seconds=seconds)

    def monotonic(self) -> float:
        return self._clock.monotonic() + 1_000

    def now(self) -> datetime:
        return self._clock.now() + self._ahead

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)


def endings(events: list[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, EndpointsGone | ImportGone | ClusterGone)]


async def refused(reason: Reason, call: object) -> Refused:
    with pytest.raises(Refused) as caught:
        await call  # type: ignore[misc]
    assert caught.value.reason is reason
    return caught.value
