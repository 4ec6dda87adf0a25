"""The controller, put together: caches, exporter, importer, election, and how they start and end.

Owns the wiring and the exit code: 0 when it was asked to stop, 1 when it cannot start or go on, or leads no more. A
follower keeps its caches and its mirror, and writes nothing. Leaving the clusterset is no part of stopping.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from discovery.kit.backoff import Backoff, Chance
from discovery.kit.clock import Clock
from discovery.kit.log import logger
from discovery.kit.metrics import CONTENT_TYPE, Metrics
from discovery.kit.service import CannotServe, health_routes, make_app, serve, stop_on_signals
from discovery.kit.tasks import background
from discovery.kube import labels
from discovery.kube.client import Access
from discovery.kube.election import Held
from discovery.kube.errors import BadKubeConfig, KubeError
from discovery.kube.lease_lock import LeadershipLost, LeaseLock
from discovery.kube.writes import KubeWriter
from discovery.mcs import names
from discovery.mcs.controller import exporting, importing
from discovery.mcs.controller.about import Identity, NoIdentity, identity, property_of, served_version
from discovery.mcs.controller.cluster import Cluster
from discovery.mcs.controller.exporter import Digest, Exporter, Fenced
from discovery.mcs.controller.importer import Importer
from discovery.mcs.controller.mirror import Mirror
from discovery.mcs.controller.settings import Settings
from discovery.mcs.model import Announcement, ServiceKey, Term
from discovery.mcs.registry import Registry

_log = logger(__name__)

T = TypeVar("T")
Connect = Callable[[Settings, Metrics], AbstractAsyncContextManager[Registry]]
"""Its client counts in the controller's own metrics."""

_AGAIN = Backoff(0.5, 30.0)
_LOOK = 60.0
_PREFIX = "dynamo_mcs_controller"


class IdentityChanged(Exception):
    """The cluster says it is another one. An id is for ever: somebody has to decide what that means."""


class Controller:
    """One controller. `run` serves it until `stop`; the parts are open to those who embed it."""

    def __init__(
        self,
        settings: Settings,
        connect: Connect,
        digest: Digest,
        clock: Clock,
        chance: Chance,
        *,
        me: str,
        lease_namespace: str,
        clients: Callable[[], KubeWriter] | None = None,
    ) -> None:
        self._settings = settings
        self._connect = connect
        self._digest = digest
        self._clock = clock
        self._chance = chance
        self._me = me
        self._lease_namespace = lease_namespace
        access = Access(settings.kubeconfig, settings.context)
        self._clients = clients or (lambda: KubeWriter(access))
        self.metrics = Metrics()
        self._written = self.metrics.counter(f"{_PREFIX}_writes", "Writes to the cluster", ("verb", "kind", "outcome"))
        self._sent = self.metrics.counter(f"{_PREFIX}_registry_writes", "Writes to the registry", ("verb", "outcome"))
        self._told = self.metrics.counter(f"{_PREFIX}_registry_events", "What the registry's watch told", ("type",))
        self._stop = asyncio.Event()
        self._registry: Registry | None = None
        self._leads = False
        self.waiting = "The controller is starting."
        self.identity: Identity | None = None
        self.cluster: Cluster | None = None
        self.importer: Importer | None = None
        self.exporter: Exporter | None = None
        self.url = ""
        self._declare_metrics()

    def __repr__(self) -> str:
        return f"<Controller {self.identity.cluster if self.identity else '-'} leads={self._leads}>"

    @property
    def leads(self) -> bool:
        return self._leads

    def stop(self) -> None:
        self._stop.set()

    # Life

    async def run(self) -> int:
        """Serve until `stop`; the exit code. Raises BadKubeConfig, CannotServe."""
        failures: list[Exception] = []

        def fail(error: Exception) -> None:
            failures.append(error)
            self._stop.set()

        async with self._clients() as client:
            await client.open()  # what is wrong with the credentials is said before anything is served
        async with AsyncExitStack() as stack:
            listen = self._settings.listen
            bound = await stack.enter_async_context(serve(self._app(), listen.host, listen.port, on_failure=fail))
            self.url = bound.url
            _log.info("listening", url=bound.url)
            await stack.enter_async_context(background(self.work(), name="controller", on_failure=fail))
            await self._stop.wait()
            _log.info("stopping", leads=self._leads)
        return 1 if failures else 0

    async def work(self) -> None:
        """All but its listener, for ever or until something ends it: the one error, not a group of one."""
        try:
            async with AsyncExitStack() as stack:
                writer = await stack.enter_async_context(self._clients())
                registry = await stack.enter_async_context(self._connect(self._settings, self.metrics))
                await self._prepare(writer, registry)
                assert self.cluster is not None
                assert self.importer is not None
                async with asyncio.TaskGroup() as group:
                    group.create_task(self.cluster.run(), name="caches")
                    group.create_task(self.importer.follow(), name="registry watch")
                    if self._settings.cluster_id is None:
                        group.create_task(self._stay_the_same(writer), name="identity")
                    group.create_task(self._lead(writer), name="leadership")
        except* (LeadershipLost, Fenced, IdentityChanged, NoIdentity, BadKubeConfig) as errors:
            raise _first(errors) from None

    async def _prepare(self, writer: KubeWriter, registry: Registry) -> None:
        version = await self._version(writer)
        self.identity = await self._insist(
            lambda: identity(writer, self._settings.cluster_id, self._settings.clusterset)
        )
        settings, clock, chance = self._settings, self._clock, self._chance
        self.cluster = Cluster(writer, self._clients, version, settings.namespace, clock, chance, self._written)
        mirror = Mirror(self.identity.cluster, settings.stale_endpoints, settings.hold_down, settings.settle)
        self.importer = Importer(
            registry,
            self.cluster,
            mirror,
            importing.Rules(version, settings.adopt),
            clock,
            chance,
            brake_wait_s=settings.brake_wait,
            max_delete_ratio=settings.max_delete_ratio,
            told=self._told,
        )
        self._registry = registry
        self.waiting = ""

    async def _version(self, writer: KubeWriter) -> str:
        while True:
            found = await self._insist(lambda: served_version(writer))
            if found is not None:
                return found
            self.waiting = f"The cluster does not serve {names.GROUP}: its CustomResourceDefinitions are missing."
            _log.warning("waiting for custom resource definitions", group=names.GROUP)
            await self._clock.sleep(5.0)

    async def _insist(self, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer, however long the API server is away. Raises BadKubeConfig and what `ask` itself decides."""
        failures = 0
        while True:
            try:
                return await ask()
            except BadKubeConfig:
                raise
            except KubeError as error:
                failures += 1
                _log.warning("the API server does not answer", reason=str(error), failures=failures)
                await self._clock.sleep(_AGAIN.delay(failures, self._chance()))

    async def _stay_the_same(self, writer: KubeWriter) -> None:
        assert self.identity is not None
        while True:
            await self._clock.sleep(_LOOK)
            found = await self._insist(lambda: property_of(writer, names.CLUSTER_PROPERTY))
            if found != self.identity.cluster:
                raise IdentityChanged(f"the cluster was {self.identity.cluster!r} and says now it is {found!r}")

    async def _lead(self, writer: KubeWriter) -> None:
        while not self._synced:
            await self._clock.sleep(0.05)
        if not self._settings.leader_elect:
            await self._write(Held(0, int(self._clock.now().timestamp() * 1000)))
            return
        # Connections of its own: what the writers wait for must not keep a lease from being renewed.
        async with self._clients() as client:
            lock = LeaseLock(
                client, self._lease_namespace, names.CONTROLLER, self._me, self._clock, chance=self._chance
            )
            held = await lock.acquire()
            _log.info("leading", me=self._me, transitions=held.transitions)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(lock.keep(), name="lease")
                    group.create_task(self._write(held), name="writers")
            finally:
                # The writers have ended: the group has waited for them.
                await lock.release()

    @property
    def _synced(self) -> bool:
        return self.cluster is not None and self.cluster.synced

    async def _write(self, held: Held) -> None:
        """What only a leader does."""
        assert self.cluster is not None
        assert self.importer is not None
        assert self.identity is not None
        assert self._registry is not None
        settings, importer = self._settings, self.importer
        region = settings.region or self.identity.cluster
        who = Announcement(self.identity.cluster, self.identity.uid, region, Term(*held), self._labels())
        rules = exporting.Rules(
            self.identity.cluster, self.cluster.version, settings.export_label, settings.unexport_timeout
        )
        exporter = Exporter(
            self._registry,
            self.cluster,
            who,
            rules,
            importer.mirror.status,
            self._digest,
            self._clock,
            self._chance,
            self._sent,
        )
        self.exporter = exporter

        def heard(keys: set[ServiceKey] | None) -> None:
            exporter.queue.add(self.cluster.exports.keys if keys is None and self.cluster else keys or ())

        importer.listeners.append(heard)
        exporter.queue.add(self.cluster.exports.keys | self.cluster.services.keys)
        importer.look_at_everything()
        self._leads = True
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(exporter.run(), name="session")
                group.create_task(exporter.work(), name="exporter")
                group.create_task(importer.work(), name="importer")
        finally:
            self._leads = False

    def _labels(self) -> tuple[tuple[str, str], ...]:
        clusterset = self.identity.clusterset if self.identity else ""
        return ((labels.MCS_CLUSTERSET, clusterset),) if clusterset else ()

    # What is said of it

    def _not_ready(self) -> str | None:
        if self.waiting:
            return self.waiting
        if self.cluster is None or not self.cluster.synced:
            missing = [one.name for one in self.cluster.caches if not one.synced] if self.cluster else []
            return f"Not listed in full yet: {', '.join(missing)}."
        if self.importer is None or not self.importer.mirror.snapshots:
            return "No snapshot of the registry has been read yet."
        return None

    def _app(self) -> Any:
        async def metrics(request: Request) -> Response:
            return Response(self.metrics.exposition(), headers={"content-type": CONTENT_TYPE})

        async def status(request: Request) -> Response:
            return JSONResponse(self.document())

        routes = [Route("/metrics", metrics), Route("/status", status), *health_routes(self._not_ready)]
        return make_app(routes)

    def document(self) -> dict[str, Any]:
        """What `/status` says."""
        importer, exporter, cluster = self.importer, self.exporter, self.cluster
        return {
            "cluster": self.identity.cluster if self.identity else None,
            "clusterset": self.identity.clusterset if self.identity else None,
            "leads": self._leads,
            "not_ready": self._not_ready(),
            "api_version": f"{names.GROUP}/{cluster.version}" if cluster else None,
            "watches": [
                {
                    "name": one.name,
                    "objects": len(one),
                    "synced": one.synced,
                    "failing_for_s": round(one.failing_for, 3),
                }
                for one in (cluster.caches if cluster else ())
            ],
            "registry": None
            if importer is None
            else {
                "epoch": importer.mirror.epoch,
                "complete": importer.mirror.complete,
                "unreachable_for_s": round(importer.unreachable_for, 3),
                "clusters": {
                    one.id: {"live": one.live, "sync": one.sync, "region": one.region}
                    for one in importer.mirror.clusters.values()
                },
                "imports": len(importer.mirror.imports),
                "braked": {kind: brake.holds for kind, brake in importer.brakes.items()},
            },
            "exporter": None
            if exporter is None
            else {"synced": exporter.synced, "exports": len(exporter.told), "failing": exporter.queue.failing},
        }

    def _declare_metrics(self) -> None:
        metrics = self.metrics

        def of(read: Callable[[Importer], float]) -> Callable[[], float]:
            return lambda: read(self.importer) if self.importer is not None else 0.0

        metrics.gauge(f"{_PREFIX}_leader", "1 while this replica writes", lambda: self._leads)
        metrics.gauge(
            f"{_PREFIX}_registry_unreachable_seconds",
            "Since the registry's watch was last heard, 0 while it is",
            of(lambda one: one.unreachable_for),
        )
        metrics.gauge(f"{_PREFIX}_imports", "Imports that the registry tells", of(lambda one: len(one.mirror.imports)))
        metrics.gauge(
            f"{_PREFIX}_registry_complete",
            "1 while the registry's snapshot misses no cluster",
            of(lambda one: one.mirror.complete),
        )
        metrics.gauge(
            f"{_PREFIX}_exports", "Exports told", lambda: len(self.exporter.told) if self.exporter is not None else 0
        )
        metrics.gauge(
            f"{_PREFIX}_synced",
            "1 while the registry has been told everything",
            lambda: self.exporter is not None and self.exporter.synced,
        )
        self._declare_metrics_by_part()

    def _declare_metrics_by_part(self) -> None:
        metrics = self.metrics
        metrics.read(
            "gauge",
            f"{_PREFIX}_deletions_held",
            "1 while the brake holds deletions",
            ("kind",),
            lambda: [((kind,), brake.holds) for kind, brake in (self.importer.brakes if self.importer else {}).items()],
        )
        metrics.read(
            "gauge",
            f"{_PREFIX}_queue",
            "Services that wait for a look",
            ("queue",),
            lambda: [
                ((name,), len(part.queue))
                for name, part in (("exporter", self.exporter), ("importer", self.importer))
                if part is not None
            ],
        )


def _first(group: BaseExceptionGroup[Exception]) -> Exception:
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    assert isinstance(found, Exception)
    return found


async def run_controller(controller: Controller) -> int:
    """Run it in this loop until a signal; what keeps it from starting is one line on standard error and 1."""
    try:
        with stop_on_signals(controller.stop):
            return await controller.run()
    except (BadKubeConfig, CannotServe) as error:
        print(f"mcs-controller: {error}", file=sys.stderr)
        return 1
