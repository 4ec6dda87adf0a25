"""The sources `mcs` and `karmada`: EndpointSlices of an API server, listed and watched.

Owns the records of each watch and what is said of its health. Trouble never makes fewer slices: only a whole list or
an object's own end removes, and an object that has become unreadable keeps its last good form. Tells the log once what
has gone wrong, and once that it is over.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from discovery.directory.naming import NamingRules
from discovery.directory.records import Records
from discovery.directory.watched import Target, missed, would_remove_most
from discovery.kit.backoff import SYSTEM_CHANCE, Backoff, Chance
from discovery.kit.clock import Clock
from discovery.kit.log import logger
from discovery.kube.client import Access, KubeClient
from discovery.kube.events import (
    Bookmarked,
    Cause,
    Deleted,
    Event,
    Gathered,
    Policy,
    RefusedItem,
    Replaced,
    Trouble,
    Unknown,
    Upserted,
)
from discovery.kube.follow import follow_resource
from discovery.kube.watch import ListWatch
from discovery.slices import Slice, parse_slice

_log = logger(__name__)

POLICY = Policy(delay=Backoff(0.8, 30.0).delay)
FAILING = 30.0
"""Seconds without anything going right, after which the list is only an estimate."""
_LOOK = 1.0


class SlicesWatch:
    """One target: its machine, its records, its counts."""

    def __init__(
        self,
        target: Target,
        rules: NamingRules,
        clock: Clock,
        on_change: Callable[[], None],
        *,
        policy: Policy,
        chance: Chance,
        brake: bool,
        failing: float,
    ) -> None:
        self.target = target
        self.machine = ListWatch(
            self._decode, selector=target.selector, policy=policy, chance=chance, now=clock.monotonic()
        )
        self.records = Records()
        self.refused: dict[tuple[str, str], RefusedItem] = {}
        self.listed = False
        self.confirming = False
        self.events: Counter[str] = Counter()
        self.relists: Counter[Cause] = Counter()
        self.missed: Counter[str] = Counter()
        self.braked = 0
        self._rules = rules
        self._clock = clock
        self._on_change = on_change
        self._brake = brake
        self._failing = failing
        self._started = clock.monotonic()
        self._told: Trouble | None = None

    def __repr__(self) -> str:
        return f"<SlicesWatch {self.target.name} listed={self.listed} slices={len(self.records)} {self.machine!r}>"

    @property
    def complete(self) -> bool:
        return self.listed and not self.confirming and self.failing_for <= self._failing

    @property
    def failing_for(self) -> float:
        """Seconds since nothing has gone right; 0 while things go well."""
        return self.machine.failing_for(self._clock.monotonic())

    @property
    def age(self) -> float:
        """Seconds since the server last told us something that we know to be right."""
        right_at = self.machine.health.right_at
        return self._clock.monotonic() - (self._started if right_at is None else right_at)

    async def run(self, client: KubeClient) -> None:
        await follow_resource(client, self.target.path, self.machine, self._clock, self.hear, self.tell)

    def tell(self) -> None:
        """Say in the log what has changed about our health."""
        trouble = self.machine.health.trouble
        if trouble is None and self._told is not None:
            _log.info("watch works again", watch=self.target.name)
        elif trouble is not None and (self._told is None or self._told.kind is not trouble.kind):
            _log.warning("watch has trouble", watch=self.target.name, kind=trouble.kind, reason=trouble.detail)
        self._told = trouble

    def hear(self, event: Event[Slice]) -> None:
        changed = False
        match event:
            case Gathered():
                return
            case Upserted(item):
                self.refused.pop((item.namespace, item.name), None)
                changed = self.records.upsert(self.target.name, item)
            case Deleted(namespace, name, uid):
                self.refused.pop((namespace, name), None)
                changed = self.records.remove(self.target.name, namespace, name, uid)
            case RefusedItem():
                self._refuse(event)
            case Replaced():
                changed = self._replace(event)
            case Bookmarked():
                pass
            case Unknown(kind):
                _log.debug("event of an unknown type skipped", watch=self.target.name, type=kind[:80])
        self.events[type(event).__name__.lower()] += 1
        if self._told is not None:
            self.tell()
        if changed:
            self._on_change()

    def _decode(self, obj: object) -> Slice:
        """Equal content is the object that is known: a list of all needs no second copy of all."""
        one = parse_slice(obj)
        known = self.records.get(self.target.name, one.namespace, one.name)
        return known if known == one else one

    def _refuse(self, item: RefusedItem) -> None:
        before = self.refused.get((item.namespace, item.name))
        if before != item:
            _log.warning(
                "slice refused", watch=self.target.name, namespace=item.namespace, slice=item.name, reason=item.reason
            )
        self.refused[item.namespace, item.name] = item

    def _replace(self, event: Replaced[Slice]) -> bool:
        before = self.records.of(self.target.name)
        kept = [before[one.namespace, one.name] for one in event.refused if (one.namespace, one.name) in before]
        now = [*event.items, *kept]
        if self._is_held(before.values(), now):
            return False
        self.relists[event.cause] += 1
        if event.cause is Cause.SAFETY:
            self._count_missed(before, now, event.after)
        names = {(one.namespace, one.name) for one in event.refused}
        self.refused = {key: item for key, item in self.refused.items() if key in names}
        for one in event.refused:
            self._refuse(one)
        self.records.replace_all(self.target.name, now)
        if not self.listed or not now:
            found = _log.info if now else _log.warning
            message = "slices listed" if now else "no slice fits the selector"
            found(message, watch=self.target.name, slices=len(now), selector=self.target.selector)
        self.listed = True
        return True

    def _is_held(self, known: Collection[Slice], now: list[Slice]) -> bool:
        too_many = self._brake and self.listed and would_remove_most(known, now, self._rules)
        if too_many and not self.confirming:
            _log.error(
                "a list would remove most pools; it is held until a second one says the same",
                watch=self.target.name,
                slices_before=len(known),
                slices_listed=len(now),
            )
            self.confirming = True
            self.braked += 1
            self.machine.list_again()
            self._on_change()
            return True
        self.confirming = False
        return False

    def _count_missed(self, before: Mapping[tuple[str, str], Slice], now: list[Slice], after: str) -> None:
        found = missed(before, now, after)
        if found:
            self.missed.update(found)
            _log.warning("the watch had missed something", watch=self.target.name, **found)


class WatchedSource:
    """One mode. `on_change` is called, on the loop, after what `told` gives or `complete` may have changed."""

    def __init__(
        self,
        name: str,
        targets: Sequence[Target],
        access: Access,
        rules: NamingRules,
        clock: Clock,
        on_change: Callable[[], None],
        *,
        policy: Policy = POLICY,
        chance: Chance = SYSTEM_CHANCE,
        brake: bool = False,
        failing: float = FAILING,
    ) -> None:
        self.name = name
        self._access = access
        self._clock = clock
        self._on_change = on_change
        self._said_complete = False
        self.watches = [
            SlicesWatch(one, rules, clock, self._changed, policy=policy, chance=chance, brake=brake, failing=failing)
            for one in targets
        ]

    def __repr__(self) -> str:
        return f"<WatchedSource {self.name} complete={self.complete} {self.watches}>"

    @property
    def listed(self) -> bool:
        """Whether everything has been listed once."""
        return all(one.listed for one in self.watches)

    @property
    def complete(self) -> bool:
        return all(one.complete for one in self.watches)

    @property
    def age(self) -> float:
        return max(one.age for one in self.watches)

    def told(self) -> Iterator[tuple[str, Slice]]:
        """Every slice, as `assemble` takes them."""
        for watch in self.watches:
            for _, one in watch.records:
                yield self.name, one

    async def check(self) -> None:
        """Raises BadKubeConfig when there are no usable credentials: for the start, where that is a wrong flag."""
        async with KubeClient(self._access) as client:
            await client.open()

    async def run(self) -> None:
        """List and watch for ever."""
        async with asyncio.TaskGroup() as group:
            for watch in self.watches:
                group.create_task(self._run(watch), name=watch.target.name)
            group.create_task(self._look(), name=f"{self.name} completeness")

    async def _run(self, watch: SlicesWatch) -> None:
        # Each its own connections: renewed credentials of one do not end the others' answers.
        async with KubeClient(self._access) as client:
            await watch.run(client)

    def _changed(self) -> None:
        self._said_complete = self.complete
        self._on_change()

    async def _look(self) -> None:
        """Completeness ends by nothing happening, so nobody else would say it."""
        while True:
            await self._clock.sleep(_LOOK)
            if (now := self.complete) != self._said_complete:
                if now:
                    _log.info("source is complete", source=self.name)
                else:
                    _log.warning("source is not complete, its last slices stay", source=self.name, age_s=self.age)
                self._changed()
