"""Two regions of a global table: a cluster that moves to the other one repairs whatever was lost (C57, C8.8, C8.9)."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from discovery.kit.testing import VirtualClock
from discovery.mcs.model import EndpointSet, Export
from discovery.mcs.service import RegistryService
from discovery.mcs.store import Mark, StoreAway
from discovery.testing.regions import Regions
from tests.discovery.mcs.keeping import endpoints, export, item, record
from tests.discovery.mcs.making import Member


class World:
    def __init__(self, seed: int) -> None:
        self.clock = VirtualClock()
        chance = random.Random(seed).random
        self.regions = Regions(self.clock.monotonic, chance, delay_s=1.0)
        self.first, self.second = (
            RegistryService(region, self.clock, epoch=region.name, chance=chance)
            for region in (self.regions.first, self.regions.second)
        )

    async def pass_time(self, seconds: int) -> None:
        for _ in range(seconds * 2):
            await self.clock.advance(0.5)
            self.regions.deliver()
            await self.first.step()
            await self.second.step()


async def shown(registry: RegistryService) -> object:
    return {
        service: (view.value, {key: (one.endpoints, one.ports) for key, one in view.endpoints.items()})
        for service, view in registry.board.views.items()
    }


@pytest.mark.parametrize("seed", range(20))
async def test_writes_of_one_region_arrive_in_the_other_in_any_order(seed: int) -> None:
    world = World(seed)
    await world.first.open()
    await world.second.open()
    member = Member(world.first, "c1")
    await member.join(export(), *(endpoints(slice_=f"s{number}", count=3) for number in range(5)))
    await world.pass_time(8)
    assert await shown(world.first) == await shown(world.second) != {}


@pytest.mark.parametrize("seed", range(20))
async def test_a_cluster_that_moves_repairs_what_was_lost(seed: int) -> None:
    world = World(seed)
    await world.first.open()
    await world.second.open()
    told: list[Export | EndpointSet] = [export(), *(endpoints(slice_=f"s{number}", count=3) for number in range(5))]
    member = Member(world.first, "c1")
    await member.join(*told)
    world.regions.cut = seed % 2 == 0
    await world.pass_time(1)
    # The region goes down with whatever it had not passed on.
    world.regions.forget()
    world.regions.first.away = True
    world.regions.cut = False
    moved = Member(world.second, "c1", term=2)
    await moved.join(*told)
    await world.pass_time(8)
    (view,) = world.second.board.views.values()
    assert len(view.endpoints) == 5
    world.regions.first.away = False
    await moved.renew()
    await moved.sync(*told)
    await world.pass_time(70)
    assert await shown(world.first) == await shown(world.second)
    (view,) = world.first.board.views.values()
    assert len(view.endpoints) == 5


async def test_the_later_write_wins_and_a_region_that_is_away_says_so() -> None:
    now = [0.0]
    regions = Regions(lambda: now[0], lambda: 0.5)
    await regions.first.write(item(export(number=1)))
    now[0] = 0.1
    await regions.second.write(item(export(number=2)))
    await regions.first.save(record(), 0)
    now[0] = 5.0
    assert (len(regions), regions.deliver(), len(regions)) == (3, 3, 0)
    for region in (regions.first, regions.second):
        assert (await region.partition("c1")).items == (item(export(number=2)),)
        assert await region.cluster("c1") == record()
    regions.first.away = True
    with pytest.raises(StoreAway):
        await regions.first.clusters()
    regions.cut = True
    await regions.second.write(item(export(number=3), 2))
    now[0] = 99.0
    assert regions.deliver() == 0


async def test_a_record_of_the_same_rev_may_be_about_other_items() -> None:
    """Two regions that have not heard of each other count up to the same number."""
    world = World(1)
    await world.first.open()
    await world.second.open()
    member = Member(world.first, "c1")
    await member.join(export(), endpoints())
    await world.pass_time(8)
    before = await shown(world.second)
    known = world.second.board.knowledge.clusters["c1"]
    newer = replace(
        known.record, floor=Mark(known.record.incarnation + 1, 1), digest="f" * 32, version=known.record.version + 1
    )
    await world.regions.second.save(newer, known.record.version)
    await world.second.step()
    assert world.second.board.knowledge.clusters["c1"].behind
    assert await shown(world.second) == before != {}
