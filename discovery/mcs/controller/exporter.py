"""The exporter: this cluster's word to the registry, and the registry's word into the ServiceExports.

Owns the session: registering, telling everything (the sync barrier), renewing, and beginning anew when the registry
does not know us or is another one. What it was told by the registry is what `told` says, and nothing else counts as
acknowledged. A registry that says another leader writes for this cluster ends the process: `Fenced`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from discovery.kit.backoff import Backoff, Chance
from discovery.kit.clock import Clock
from discovery.kit.log import logger
from discovery.kit.metrics import Counter
from discovery.mcs.controller import exporting
from discovery.mcs.controller.changes import (
    Change,
    DropEndpoints,
    DropExport,
    PutEndpoints,
    PutExport,
    RegistryChange,
    Warn,
)
from discovery.mcs.controller.cluster import Cluster, Outcome
from discovery.mcs.controller.exporting import NOTHING_TOLD, Local, Rules, Told
from discovery.mcs.controller.work import WorkQueue
from discovery.mcs.model import (
    Announcement,
    EndpointSet,
    Export,
    ExportStatus,
    Registration,
    ServiceKey,
    Stamp,
)
from discovery.mcs.registry import Reason, Refused, Registry, Unreachable

_log = logger(__name__)

Digest = Callable[[Iterable[Export | EndpointSet]], str]

WORKERS = 4
_STEPS = 8
_AGAIN = Backoff(0.2, 10.0)
_FINAL = frozenset({Reason.INVALID, Reason.TOO_LARGE})
"""The same would be refused again."""


class Fenced(Exception):
    """Another leadership writes for this cluster by now."""


class Exporter:
    """`status_of` gives what the registry's watch has said of a service."""

    def __init__(
        self,
        registry: Registry,
        cluster: Cluster,
        announcement: Announcement,
        rules: Rules,
        status_of: Callable[[ServiceKey], ExportStatus | None],
        digest: Digest,
        clock: Clock,
        chance: Chance,
        sent: Counter,
    ) -> None:
        self._registry = registry
        self._cluster = cluster
        self._announcement = announcement
        self._rules = rules
        self._status_of = status_of
        self._digest = digest
        self._clock = clock
        self._chance = chance
        self._sent = sent
        self._registration: Registration | None = None
        self._seq = 0
        self._anew = asyncio.Event()
        self._statuses: dict[ServiceKey, ExportStatus] = {}
        self.told: dict[ServiceKey, Told] = {}
        self.synced = False
        self.queue: WorkQueue[ServiceKey] = WorkQueue(clock, chance)
        cluster.listeners.append(self.queue.add)

    def __repr__(self) -> str:
        return f"<Exporter synced={self.synced} exports={len(self.told)} {self.queue!r}>"

    def _stamp(self) -> Stamp:
        assert self._registration is not None
        self._seq += 1
        return Stamp(self._registration.session, self._seq)

    # The session

    async def run(self) -> None:
        """Register, tell everything, renew; for ever. Raises Fenced."""
        failures = 0
        while True:
            try:
                await self._join()
                failures = 0
                await self._renew()
            except (Refused, Unreachable) as error:
                self._check_fence(error)
                failures += 1
                _log.warning("no session with the registry", reason=str(error), failures=failures)
                await self._clock.sleep(_AGAIN.delay(failures, self._chance()))

    async def _join(self) -> None:
        self.synced = False
        self._anew.clear()
        registration = await self._registry.register(self._announcement)
        self._registration, self._seq = registration, 0
        self.told = {}
        await self._registry.sync_begin(self._stamp())
        items: list[Export | EndpointSet] = []
        for key in sorted(self._cluster.exports.keys):
            export, endpoints = exporting.settled_wish(self._rules, self.local(key))
            if export is None:
                continue
            self.told[key] = Told()
            if not await self._push(PutExport(export)):
                continue
            items.append(export)
            items += [one for one in endpoints.values() if await self._push(PutEndpoints(one))]
        await self._registry.sync_complete(self._stamp(), len(items), self._digest(items))
        self.synced = True
        _log.info("registered", epoch=registration.epoch, ttl_ms=registration.ttl_ms, items=len(items))
        self.queue.add(self._cluster.exports.keys | self._cluster.services.keys)

    async def _renew(self) -> None:
        """Until the registry does not know us, or is another one than it was."""
        assert self._registration is not None
        every = (self._registration.renew_ms or self._registration.ttl_ms / 3) / 1000
        failures = 0
        while True:
            wait = every * (0.8 + 0.2 * self._chance())
            await self._pause(min(wait, _AGAIN.delay(failures, self._chance())) if failures else wait)
            if self._anew.is_set():
                return
            try:
                renewed = await self._registry.renew(self._stamp())
            except Unreachable as error:
                failures += 1
                _log.warning("lease not renewed", reason=str(error), failures=failures)
            except Refused as error:
                if error.reason is Reason.NOT_FOUND:
                    return
                self._check_fence(error)
                failures += 1
                _log.warning("lease not renewed", reason=str(error), failures=failures)
            else:
                failures = 0
                if renewed.epoch != self._registration.epoch:
                    _log.info("the registry is another one", epoch=renewed.epoch)
                    return

    async def _pause(self, seconds: float) -> None:
        sleeping = asyncio.ensure_future(self._clock.sleep(seconds))
        waiting = asyncio.ensure_future(self._anew.wait())
        try:
            await asyncio.wait({sleeping, waiting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waiting.cancel()

    def _check_fence(self, error: Refused | Unreachable) -> None:
        if isinstance(error, Refused) and error.reason is Reason.STALE_SESSION:
            raise Fenced(str(error)) from error

    # One change

    async def _push(self, change: RegistryChange) -> bool:
        """Tell the registry; whether it took it. Raises Refused or Unreachable for what may pass."""
        verb = type(change).__name__.lower()
        registry, stamp = self._registry, self._stamp()
        try:
            match change:
                case PutExport(value):
                    await registry.put_export(stamp, value)
                case DropExport(service):
                    await registry.delete_export(stamp, service)
                case PutEndpoints(value):
                    await registry.put_endpoints(stamp, value)
                case DropEndpoints(service, slice_):
                    await registry.delete_endpoints(stamp, service, slice_)
        except Refused as error:
            self._sent.add(verb, error.reason)
            if error.reason not in _FINAL:
                raise
            self._refuse(change, str(error))
            return False
        except Unreachable:
            self._sent.add(verb, "unreachable")
            raise
        self._sent.add(verb, "ok")
        self._acknowledge(change)
        return True

    def _acknowledge(self, change: RegistryChange) -> None:
        match change:
            case PutExport(value):
                before = self.told.get(value.service, NOTHING_TOLD)
                self.told[value.service] = Told(value, before.endpoints)
            case PutEndpoints(one):
                before = self.told.get(one.service, NOTHING_TOLD)
                sets = {**before.endpoints, one.slice: one}
                self.told[one.service] = Told(before.export, sets, before.refused, before.attempt)
            case DropEndpoints(service, slice_):
                before = self.told.get(service, NOTHING_TOLD)
                sets = {name: one for name, one in before.endpoints.items() if name != slice_}
                self.told[service] = Told(before.export, sets, before.refused, before.attempt)
            case DropExport(service):
                self.told.pop(service, None)
                self._statuses.pop(service, None)

    def _refuse(self, change: RegistryChange, why: str) -> None:
        attempt: Export | None
        match change:
            case PutExport(value):
                service, attempt = value.service, value
            case PutEndpoints(one):
                service, attempt = one.service, self.told.get(one.service, NOTHING_TOLD).export
            case DropExport(service) | DropEndpoints(service, _):
                attempt = self.told.get(service, NOTHING_TOLD).export
        before = self.told.get(service, NOTHING_TOLD)
        _log.warning("refused by the registry", service=str(service), reason=why)
        self.told[service] = Told(before.export, before.endpoints, why, attempt)

    # One service

    def local(self, key: ServiceKey) -> Local:
        cluster = self._cluster
        return Local(cluster.services.get(*key), cluster.exports.get(*key), tuple(cluster.slices.of(key)))

    async def work(self) -> None:
        """Write, for ever. Raises Fenced."""
        await self.queue.run(self._reconcile, workers=WORKERS)

    def _plan(self, key: ServiceKey) -> list[Change]:
        return exporting.plan(
            self._rules,
            key,
            self.local(key),
            self.told.get(key, NOTHING_TOLD),
            self._status_of(key) or self._statuses.get(key),
            synced=self.synced,
            now=self._clock.now(),
        )

    async def _reconcile(self, key: ServiceKey) -> bool:
        if not self._cluster.synced or not self._cluster.serves(key.namespace):
            return True
        for _ in range(_STEPS):
            changes = self._plan(key)
            told = [one for one in changes if isinstance(one, RegistryChange)]
            # What waits for a session is done by the sync that begins it.
            if told and self.synced and await self._tell(key, told):
                continue
            well, done = True, False
            for one in changes:
                if isinstance(one, RegistryChange | Warn):
                    continue
                outcome, _ = await self._cluster.carry_out(one)
                done = done or outcome is Outcome.DONE
                well = well and outcome in (Outcome.DONE, Outcome.DROPPED)
            if not well or (told and self.synced):
                return False
            if not done:
                return self._come_back(key)
        return False

    def _come_back(self, key: ServiceKey) -> bool:
        """What waits for the registry's answer or for its time is looked at again by and by."""
        export = self._cluster.exports.get(*key)
        if export is not None and "deletionTimestamp" in export["metadata"]:
            self.queue.add_later(key, 5.0)
        return True

    async def _tell(self, key: ServiceKey, changes: list[RegistryChange]) -> bool:
        """Whether the registry has answered to all of them, whatever it said."""
        registration = self._registration
        try:
            for one in changes:
                await self._push(one)
                if registration is not self._registration:
                    # Another session began meanwhile: what was told, was told to the one before.
                    return True
            if self._status_of(key) is None and key in self.told and key not in self._statuses:
                self._statuses[key] = await self._registry.export_status(self._rules.cluster, key)
        except (Refused, Unreachable) as error:
            self._check_fence(error)
            if isinstance(error, Refused) and error.reason is Reason.NOT_FOUND:
                self.synced = False
                self._anew.set()
            else:
                _log.warning("registry not told", service=str(key), reason=str(error))
            return False
        return True
