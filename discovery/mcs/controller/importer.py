"""The importer: follows the registry, and makes this cluster's imports what it tells.

Owns the watch of the registry and the order of work. The mirror is kept by followers, too; only `work` writes.
Deletions go through the brake as one set over all services, however they came to be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

from discovery.kit.backoff import Backoff, Chance
from discovery.kit.clock import Clock
from discovery.kit.log import logger
from discovery.kit.metrics import Counter
from discovery.mcs import names
from discovery.mcs.controller import importing
from discovery.mcs.controller.brake import Brake, Verdict
from discovery.mcs.controller.changes import Change, Delete, Ref, Warn
from discovery.mcs.controller.cluster import Cluster, Outcome
from discovery.mcs.controller.importing import IMPORTS, SERVICES, SLICES, Local, Refusals, Rules
from discovery.mcs.controller.mirror import EVERYTHING, Mirror
from discovery.mcs.controller.objects import is_ours, metadata
from discovery.mcs.controller.work import WorkQueue
from discovery.mcs.model import Event, ServiceKey
from discovery.mcs.registry import Reason, Refused, Registry, Unreachable

_log = logger(__name__)

WORKERS = 8
_STEPS = 12
"""More plans in a row than any service needs to be made; what is left then waits for the next look."""
_RECONNECT = Backoff(0.2, 10.0)


class Importer:
    def __init__(
        self,
        registry: Registry,
        cluster: Cluster,
        mirror: Mirror,
        rules: Rules,
        clock: Clock,
        chance: Chance,
        *,
        brake_wait_s: float,
        max_delete_ratio: float,
        told: Counter,
    ) -> None:
        self._registry = registry
        self._cluster = cluster
        self.mirror = mirror
        self._rules = rules
        self._clock = clock
        self._chance = chance
        self._brake_wait = brake_wait_s
        self._told = told
        self.queue: WorkQueue[ServiceKey] = WorkQueue(clock, chance)
        self.brakes = {name: Brake(max_delete_ratio, brake_wait_s) for name in (IMPORTS, SLICES)}
        self._doomed: dict[ServiceKey, frozenset[Ref]] = {}
        self._all_doomed: dict[str, set[Ref]] = {IMPORTS: set(), SLICES: set()}
        self._totals: dict[str, tuple[float, int]] = {}
        self._refusals: dict[ServiceKey, Refusals] = {}
        self._fresh = asyncio.Event()
        self.listeners: list[Callable[[set[ServiceKey] | None], None]] = []
        self.connected = False
        self._heard_at = clock.monotonic()
        cluster.listeners.append(self.queue.add)
        cluster.namespace_listeners.append(self.look_at_everything)

    def __repr__(self) -> str:
        return f"<Importer {self.mirror!r} {self.queue!r}>"

    @property
    def unreachable_for(self) -> float:
        """Seconds since the registry was last heard, 0 while it is."""
        return 0.0 if self.connected else self._clock.monotonic() - self._heard_at

    # The registry's side

    async def follow(self) -> None:
        """Keep the mirror, for ever."""
        failures = 0
        while True:
            try:
                await self._watch()
            except (Refused, Unreachable) as error:
                if isinstance(error, Refused) and error.reason is Reason.REVISION_GONE:
                    self.mirror.revision = ""
                    continue
                failures = 1 if self.connected else failures + 1
                self.connected = False
                self.mirror.interrupted()
                _log.warning("registry watch ended", reason=str(error), failures=failures)
                await self._clock.sleep(_RECONNECT.delay(failures, self._chance()))

    async def _watch(self) -> None:
        """One watch, until it ends or a fresh snapshot is wanted."""
        again = self._fresh.is_set()
        self._fresh.clear()
        events = self._registry.watch("" if again else self.mirror.revision)
        wanted = asyncio.create_task(self._fresh.wait())
        coming: asyncio.Future[Event] | None = None
        try:
            while True:
                coming = asyncio.ensure_future(anext(events))
                await asyncio.wait({coming, wanted}, return_when=asyncio.FIRST_COMPLETED)
                if not coming.done():
                    self.mirror.interrupted()
                    return
                self._hear(coming.result())
        except StopAsyncIteration:
            raise Unreachable("the watch ended") from None
        finally:
            wanted.cancel()
            if coming is not None and not coming.done():
                # A generator can only be closed while nobody waits for it.
                coming.cancel()
                await asyncio.wait([coming])
            await _close(events)

    def _hear(self, event: Event) -> None:
        self.connected = True
        self._heard_at = self._clock.monotonic()
        self._told.add(type(event).__name__)
        before = self.mirror.snapshots
        keys = self.mirror.hear(event, self._clock.monotonic(), int(self._clock.now().timestamp() * 1000))
        if self.mirror.snapshots != before:
            _log.info(
                "snapshot read",
                epoch=self.mirror.epoch,
                complete=self.mirror.complete,
                clusters=len(self.mirror.clusters),
                imports=len(self.mirror.imports),
            )
        if keys is EVERYTHING:
            self.look_at_everything()
        else:
            self.queue.add(keys)
        for listener in self.listeners:
            listener(keys)

    def ask_for_snapshot(self) -> None:
        self._fresh.set()

    # The cluster's side

    def look_at_everything(self) -> None:
        ours = self._cluster.imports.keys
        ours |= {key for key in self._cluster.slices.keys if any(is_ours(one) for one in self._cluster.slices.of(key))}
        keys = self.mirror.services | ours
        if self._cluster.synced:
            # What is to go is counted over all before the first one goes.
            for key in ours:
                self._plan(key)
        self.queue.add(keys)

    async def work(self) -> None:
        """Write, for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.queue.run(self._reconcile, workers=WORKERS))
            group.create_task(self._look_again())

    async def _look_again(self) -> None:
        """Time alone can be evidence, and a brake is not let go by itself."""
        while True:
            await self._clock.sleep(self._brake_wait)
            if not self.mirror.snapshots:
                continue
            # What was refused may be taken by now.
            self._refusals.clear()
            if not self.mirror.complete:
                # A registry that has just begun does not say by itself that it has heard everybody.
                self.ask_for_snapshot()
            self.look_at_everything()

    def _plan(self, key: ServiceKey) -> list[Change]:
        refusals = self._refusals.get(key, Refusals())
        now, date = self._clock.monotonic(), self._clock.now()
        changes = importing.plan(self._rules, key, self.mirror, self.local(key), refusals, now=now, date=date)
        doomed = importing.deletions(changes) if key not in self.mirror.imports else self._slices_doomed(changes)
        for ref in self._doomed.pop(key, frozenset()):
            self._all_doomed.get(ref.resource, set()).discard(ref)
        if doomed:
            self._doomed[key] = doomed
        for ref in doomed:
            self._all_doomed.get(ref.resource, set()).add(ref)
        return changes

    def _slices_doomed(self, changes: list[Change]) -> frozenset[Ref]:
        """Slices that go while their import stays; what a lapsed cluster had goes at once and is not counted."""
        found = set()
        for ref in importing.deletions(changes):
            one = self._cluster.slices.get(ref.namespace, ref.name)
            if ref.resource == SLICES and one is not None and not self.mirror.is_lapsed(importing.source_of(one)):
                found.add(ref)
        return frozenset(found)

    def local(self, key: ServiceKey) -> Local:
        cluster = self._cluster
        slices = {metadata(one)["name"]: one for one in cluster.slices.of(key)}
        for where in self.mirror.endpoints(key):
            name = names.imported_slice(key, *where)
            if name not in slices and (other := cluster.slices.get(key.namespace, name)) is not None:
                slices[name] = other
        return Local(
            namespace_open=cluster.is_open(key.namespace),
            service_import=cluster.imports.get(*key),
            derived=cluster.services.get(key.namespace, names.derived_service(key)),
            slices=slices,
        )

    async def _reconcile(self, key: ServiceKey) -> bool:
        if not self._cluster.synced or not self._cluster.serves(key.namespace):
            return True
        for _ in range(_STEPS):
            changes = self._plan(key)
            if not changes:
                return True
            done = False
            for change in changes:
                if isinstance(change, Warn):
                    await self._cluster.warn(change)
                    continue
                if isinstance(change, Delete) and change.ref in self._doomed.get(key, ()) and self._holds(change):
                    continue
                outcome, why = await self._cluster.carry_out(change)  # type: ignore[arg-type]
                if outcome is Outcome.FAILED:
                    return False
                if outcome is Outcome.REFUSED:
                    return self._refused(key, change, why)
                done = done or outcome is Outcome.DONE
            if not done:
                return True
        return False

    def _refused(self, key: ServiceKey, change: Change, why: str) -> bool:
        """A derived Service that this cluster cannot have is said in the import's status, anything else comes again."""
        is_derived = getattr(change, "ref", Ref("", "", "")).resource == SERVICES
        if is_derived and self._refusals.get(key) != Refusals(why):
            self._refusals[key] = Refusals(why)
            self.queue.add([key])
            return True
        return False

    def _holds(self, change: Delete) -> bool:
        """Whether the brake is on for this kind of thing; a derived Service goes with its import."""
        kind = SLICES if change.ref.resource == SLICES else IMPORTS
        brake, held_before = self.brakes[kind], self.brakes[kind].holds
        total, now = self._total(kind), self._clock.monotonic()
        verdict = brake.judge(self._all_doomed[kind], total, self.mirror.snapshots, now)
        if verdict is Verdict.ASK:
            self.ask_for_snapshot()
        if brake.holds and not held_before:
            count = len(self._all_doomed[kind])
            _log.error("too many deletions at once; held until a new snapshot agrees", count=count, of=total)
        return verdict is not Verdict.GO

    def _total(self, kind: str) -> int:
        """How many of ours there are; counted once a second at most."""
        now = self._clock.monotonic()
        known = self._totals.get(kind)
        if known is None or now - known[0] > 1:
            things = self._cluster.slices if kind == SLICES else self._cluster.imports
            known = self._totals[kind] = (now, sum(is_ours(one) for one in things.objects()))
        return known[1]


async def _close(events: Any) -> None:
    async with aclosing(events):
        pass
