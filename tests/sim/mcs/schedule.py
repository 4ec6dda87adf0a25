"""A schedule of troubles made of one seed, and the run of it.

Owns what may happen and when. A run ends in a `Fault` that carries the seed and every step, or in nothing.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass

from discovery.mcs.registry import Refused
from tests.sim.mcs.loop import VirtualLoop
from tests.sim.mcs.processes import HOLD_DOWN, SETTLE, Process
from tests.sim.mcs.replicas import RULES
from tests.sim.mcs.world import Fault, Kind, Standing, World

KINDS: tuple[Kind, ...] = ("memory", "shared", "regions")
PATIENCE_S = HOLD_DOWN + RULES.warmup_ms / 1000 + 180.0
"""In which everything has come right after the trouble."""
QUIET_S = 70.0
"""In which every part looks at everything once more."""


@dataclass(frozen=True)
class Outcome:
    seed: int
    kind: Kind
    virtual_s: float
    steps: int
    deletions: int
    trace: tuple[str, ...]


def run(seed: int, kind: Kind | None = None) -> Outcome:
    """Raises Fault."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(_run(loop, seed, kind))
    finally:
        _end(loop)


def _end(loop: VirtualLoop) -> None:
    while left := asyncio.all_tasks(loop):
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.wait(left))
    loop.close()


async def _run(loop: VirtualLoop, seed: int, kind: Kind | None) -> Outcome:
    chance = random.Random(seed)
    drawn: Kind = chance.choice(KINDS)
    chosen = kind or drawn
    world = World(loop, seed, chosen, elect=chance.random() < 0.4, clusters=chance.choice([2, 2, 3]))
    world.note(f"{chosen}, {len(world.members)} clusters, {world.stale}, lossy {world.lossy}, lag {world.lag}")
    steps = 0
    try:
        world.start()
        schedule = Schedule(world)
        await schedule.begin()
        while steps < schedule.length:
            steps += 1
            schedule.step()
            await asyncio.sleep(world.chance.expovariate(1 / schedule.pace))
            if world.broken:
                raise world.broken
        await schedule.heal()
        await _converge(world)
    except Fault as fault:
        raise Fault(f"{fault}\n" + "\n".join(world.notes)) from None
    finally:
        await world.stop()
    deletions = sum(what.startswith("DELETE") for _, _, what in world.writes)
    return Outcome(seed, chosen, world.now, steps, deletions, tuple(world.notes))


async def _converge(world: World) -> None:
    ends = world.now + PATIENCE_S
    while wrong := world.missing():
        if world.broken:
            raise world.broken
        if world.now > ends:
            raise Fault(f"after trouble ends all clusters converge: {PATIENCE_S:g} s later, {wrong}")
        await asyncio.sleep(2.0)
    world.note("all is as it should be")
    # A session begins anew with the next renewal; another registry's silence counts after the settling time.
    await asyncio.sleep(SETTLE + 15.0)
    begun, told = world.now, _counters(world)
    await asyncio.sleep(QUIET_S)
    if world.broken:
        raise world.broken
    if wrong := world.missing():
        raise Fault(f"what has come right stays so: {wrong}")
    if late := [one for one in world.writes if one[0] > begun]:
        raise Fault(f"a second reconcile changes nothing: {late[:5]}")
    if _counters(world) != told:
        raise Fault("a second reconcile changes nothing: the registry told changes")


def _counters(world: World) -> list[str]:
    return [replica.service.revision for replica in world.replicas if replica.service is not None]


class Schedule:
    def __init__(self, world: World) -> None:
        self.world = world
        self.length = world.chance.randrange(4, 14)
        self.pace = world.chance.choice([3.0, 10.0, 25.0])
        self._undo: list[Callable[[], None]] = []

    async def begin(self) -> None:
        """Something to lose."""
        for member in self.world.members:
            for service in self.world.services:
                if self.world.chance.random() < 0.5:
                    self.world.export(member, service)
        await asyncio.sleep(self.world.chance.choice([0.5, 10.0, 60.0]))

    def step(self) -> None:
        chance = self.world.chance
        what = chance.choices([one for one, _ in _TROUBLES], [weight for _, weight in _TROUBLES])[0]
        said = what(self)
        if said:
            self.world.note(said)

    def _for(self, seconds: float, undo: Callable[[], None]) -> None:
        """The trouble ends by itself, or with all others."""
        done = False

        def once() -> None:
            nonlocal done
            if not done:
                done = True
                undo()

        self._undo.append(once)
        self.world.loop.call_later(seconds, once)

    def _seconds(self) -> float:
        return self.world.chance.choice([2.0, 20.0, 50.0, 50.0, 150.0])

    async def heal(self) -> None:
        self.world.note("the trouble ends")
        self.world.trouble = False
        for undo in self._undo:
            undo()
        await asyncio.sleep(0)

    # People

    def people(self) -> str:
        world = self.world
        member, service = world.chance.choice(world.members), world.chance.choice(world.services)
        if (member.id, service) not in world.standing:
            if world.chance.random() < 0.7:
                live = member.api.get("serviceexports", *service)
                if live is not None:
                    return ""
                world.export(member, service)
                return f"{member.id} exports {service}"
            return ""
        if world.chance.random() < 0.5:
            world.slice(member, service, world.chance.choice("ab"))
            return f"{member.id} changes the endpoints of {service}"
        world.unexport(member, service)
        return f"{member.id} ends the export of {service}"

    # Controllers

    def _process(self) -> Process:
        return self.world.chance.choice(self.world.processes)

    def crash(self) -> str:
        process, seconds = self._process(), self._seconds()
        life = process.life
        process.kill()
        dead = process.life

        def again() -> None:
            if process.life == dead:
                process.start()

        self._for(seconds / 5, again)
        return f"{process.member.id}-{process.index} is killed in life {life} for {seconds / 5:g} s"

    def pause(self) -> str:
        process, seconds = self._process(), self._seconds()
        process.freeze()
        self._for(seconds, process.thaw)
        return f"{process.me} stands still for {seconds:g} s"

    def lose_api(self) -> str:
        process, seconds = self._process(), self._seconds()
        process.api_cut = True
        process.member.api.cut_watches(_cut())

        def undo() -> None:
            process.api_cut = False

        self._for(seconds, undo)
        return f"{process.me} is cut from its API server for {seconds:g} s"

    def api_away(self) -> str:
        member, seconds = self.world.chance.choice(self.world.members), self._seconds()
        member.api.away = True
        member.api.cut_watches(_cut())
        if self.world.chance.random() < 0.5:
            member.api.compact()

        def undo() -> None:
            member.api.away = False

        self._for(seconds, undo)
        return f"the API server of {member.id} is away for {seconds:g} s"

    # The registry

    def restart(self) -> str:
        replica = self.world.chance.choice(self.world.replicas)
        replica.stop()
        seconds = self._seconds() / 5
        dead = replica.life

        def again() -> None:
            if replica.life == dead:
                replica.start()

        self._for(seconds, again)
        return f"registry {replica.index} is killed for {seconds:g} s"

    def cut(self) -> str:
        """One cluster from one replica, or from all."""
        world = self.world
        member, seconds = world.chance.choice(world.members), self._seconds()
        some = world.replicas if world.chance.random() < 0.6 else [world.chance.choice(world.replicas)]
        for replica in some:
            replica.cut_from.add(member.id)
            if replica.service is not None:
                replica.service.watchers.close()

        def undo() -> None:
            for replica in some:
                replica.cut_from.discard(member.id)

        self._for(seconds, undo)
        return f"{member.id} is cut from registries {[one.index for one in some]} for {seconds:g} s"

    def store_away(self) -> str:
        world = self.world
        if world.kind == "memory":
            return ""
        some = world.replicas if world.chance.random() < 0.5 else [world.chance.choice(world.replicas)]
        seconds = self._seconds()
        for replica in some:
            replica.store_away = True

        def undo() -> None:
            for replica in some:
                replica.store_away = False

        self._for(seconds, undo)
        return f"the store is away from registries {[one.index for one in some]} for {seconds:g} s"

    def cut_regions(self) -> str:
        regions, seconds = self.world.regions, self._seconds()
        if regions is None:
            return ""
        regions.cut = True

        def undo() -> None:
            regions.cut = False

        self._for(seconds, undo)
        return f"the regions are cut for {seconds:g} s"

    def remove(self) -> str:
        """An operator removes a cluster that lives, by mistake."""
        world = self.world
        member, replica = world.chance.choice(world.members), world.chance.choice(world.replicas)
        if replica.service is None or world.chance.random() < 0.5:
            return ""
        service = replica.service

        async def go() -> None:
            try:
                await service.delete_cluster(member.id, force=True)
            except Refused:
                return

        for (cluster, _), standing in world.standing.items():
            if cluster == member.id:
                standing.removed = True
        world.later(0.0, go)
        return f"an operator removes {member.id} at registry {replica.index}"


def _cut() -> Exception:
    from discovery.kube.errors import Unreachable

    return Unreachable("cut")


_TROUBLES: list[tuple[Callable[[Schedule], str], float]] = [
    (Schedule.people, 6),
    (Schedule.crash, 2),
    (Schedule.pause, 1.5),
    (Schedule.lose_api, 1),
    (Schedule.api_away, 1),
    (Schedule.restart, 3),
    (Schedule.cut, 3),
    (Schedule.store_away, 1),
    (Schedule.cut_regions, 1.5),
    (Schedule.remove, 0.5),
]
__all__ = ["Fault", "Outcome", "Standing", "run"]
