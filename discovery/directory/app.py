"""The directory, put together: source, assembling, store, HTTP; and how they start and end.

Owns the wiring and the exit code: 0 when it was asked to stop, 1 when it cannot start or cannot go on.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any

from discovery.directory.assemble import Assembled, Verdict, assemble
from discovery.directory.files import CannotRead, FilesSource
from discovery.directory.naming import Reason
from discovery.directory.publisher import Publisher
from discovery.directory.registration_store import CannotKeep, MemoryStore, RegistrationStore
from discovery.directory.registrations import join
from discovery.directory.server import Server
from discovery.directory.settings import Listen, Settings
from discovery.directory.status import files_document, table_document
from discovery.directory.store import Store
from discovery.directory.taking import Taking, opened_store
from discovery.directory.watching import CannotWatch, watching
from discovery.kit.certificate import Tls
from discovery.kit.clock import SYSTEM_CLOCK, Clock
from discovery.kit.log import logger
from discovery.kit.metrics import Metrics
from discovery.kit.service import Bound, CannotServe, serve, stop_on_signals
from discovery.kit.tasks import background
from discovery.kube.errors import BadKubeConfig
from discovery.pool import Router
from discovery.slices import Slice
from discovery.tokens import BadTokens
from discovery.wire import SourceState

_log = logger(__name__)

_SHOWN_VERDICTS = 1000
_MOST_CONNECTIONS = 16_384


class DirectoryService:
    """One directory of one epoch. `run` serves it; the parts are open to those who embed it. `kept` is where
    registrations are kept, None for memory."""

    def __init__(
        self,
        settings: Settings,
        release: str,
        *,
        clock: Clock = SYSTEM_CLOCK,
        epoch: str,
        kept: RegistrationStore | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._rules = settings.naming_rules()
        self._namespaces = frozenset(settings.namespace)
        self._started = clock.monotonic()
        self._assembled: Assembled | None = None
        self.store = Store(epoch, clock)
        self.publisher = Publisher(self._publish, clock)
        self.metrics = Metrics()
        self.source: FilesSource | None = None
        if settings.files is not None:
            self.source = FilesSource(Path(settings.files), clock, self.publisher.touch)
        self.taking: Taking | None = None
        if settings.has_registrations:
            kept = kept or MemoryStore(clock)
            self.taking = Taking(settings, kept, clock, self.metrics, self.publisher.touch, self._routers)
        self.watching = watching(settings, self._rules, clock, self.metrics, self.publisher.touch)
        self._declare_metrics()
        registering = self.taking.registering if self.taking else None
        self.server = Server(
            self.store, clock, self.metrics, self._sources, self._status, self._not_ready, release, registering
        )

    def __repr__(self) -> str:
        return f"<DirectoryService {self.store!r}>"

    async def _publish(self) -> None:
        """The whole state of the sources becomes the next table."""
        directory = self.source.directory if self.source else None
        watching = self.watching
        # All of one moment: what comes while the table is made is published next.
        complete = (directory is None or directory.complete) and (watching is None or watching.complete)
        slices = list(self._told(directory.slices())) if directory else []
        slices.extend(watching.told() if watching else ())
        assembled = await asyncio.to_thread(assemble, slices, self._rules, self._assembled)
        self._assembled = assembled
        pools = assembled.pools
        if self.taking is not None:
            # Read and swapped in without a wait between: a lease may end at any moment.
            pools = join(pools, self.taking.source.live().values())
            complete = complete and self.taking.source.complete
        if self.store.publish(pools, (*assembled.routers, *self._settings.router), complete=complete):
            table = self.store.table
            _log.info(
                "table published",
                revision=table.revision,
                complete=table.complete,
                pools=len(table.pools),
                routers=len(table.routers),
            )
        if watching is not None and not watching.not_listed:
            watching.settled()

    def _told(self, slices: Iterator[Slice]) -> Iterator[tuple[str, Slice]]:
        return (("file", one) for one in slices if not self._namespaces or one.namespace in self._namespaces)

    def _sources(self) -> list[SourceState]:
        watched = self.watching.sources if self.watching else []
        sources = [self.source, self.taking.source if self.taking else None, *watched]
        return [SourceState(one.name, one.complete, round(one.age, 3)) for one in sources if one is not None]

    def _routers(self) -> tuple[Router, ...]:
        return self.store.table.routers

    def _not_ready(self) -> str | None:
        if self.store.closed:
            return "The directory is stopping."
        if self.source is not None and not self.source.listed:
            return f"The files of {self._settings.files} have not been read yet."
        if self.watching is not None and (waiting := self.watching.not_listed):
            return f"Not listed in full yet: {', '.join(waiting)}."
        if self.taking is not None and not self.taking.source.listed:
            return "The registrations have not been read yet."
        return None if self._assembled is not None else "The first table is not made yet."

    def _status(self) -> dict[str, Any]:
        unused = [verdict for verdict in self._verdicts() if verdict.reason is not None]
        warnings = self._assembled.warnings if self._assembled else ()
        return {
            "table": table_document(self.store.table),
            "uptime_s": round(self._clock.monotonic() - self._started, 3),
            "sources": [{"name": one.name, "complete": one.complete, "age_s": one.age_s} for one in self._sources()],
            "files": files_document(str(self._settings.files), self.source.directory) if self.source else None,
            "registrations": self.taking.document() if self.taking else None,
            "watches": self.watching.document() if self.watching else None,
            "verdicts": dict(self._verdict_counts()),
            "unused": [
                {
                    "namespace": one.namespace,
                    "name": one.name,
                    "state": one.state,
                    "reason": one.reason,
                    "detail": one.detail,
                }
                for one in unused[:_SHOWN_VERDICTS]
            ],
            "warnings": [
                {"kind": one.kind, "subject": one.subject, "detail": one.detail, "count": one.count}
                for one in warnings[:_SHOWN_VERDICTS]
            ],
            "address_conflicts": self._assembled.address_conflicts if self._assembled else 0,
        }

    def _verdicts(self) -> tuple[Verdict, ...]:
        return self._assembled.verdicts if self._assembled else ()

    def _verdict_counts(self) -> Counter[str]:
        counts = Counter(str(one.reason or one.state) for one in self._verdicts())
        if self.watching is not None and self.watching.malformed:
            counts[Reason.MALFORMED] += self.watching.malformed
        return counts

    def _declare_metrics(self) -> None:
        metrics, store, publisher = self.metrics, self.store, self.publisher
        metrics.gauge("global_discovery_pools", "Pools in the table", lambda: len(store.table.pools))
        metrics.gauge("global_discovery_routers", "Routers in the table", lambda: len(store.table.routers))
        metrics.gauge("global_discovery_revision", "Revision of the table", lambda: store.table.revision)
        metrics.gauge("global_discovery_complete", "1 while the list is complete", lambda: store.table.complete)
        metrics.gauge(
            "global_discovery_address_conflicts",
            "Addresses that are in several clusters",
            lambda: self._assembled.address_conflicts if self._assembled else 0,
        )
        metrics.read(
            "gauge",
            "global_discovery_slices",
            "Slices by what became of them",
            ("verdict",),
            lambda: [((key,), n) for key, n in self._verdict_counts().items()],
        )
        metrics.read("counter", "global_discovery_publishes", "Tables computed", (), lambda: [((), publisher.count)])
        metrics.read(
            "counter",
            "global_discovery_publish_latency_seconds",
            "From a change to its table, summed",
            (),
            lambda: [((), publisher.latency)],
        )
        if self.source is not None:
            self._declare_file_metrics(self.source)

    def _declare_file_metrics(self, source: FilesSource) -> None:
        metrics = self.metrics
        metrics.gauge("global_discovery_source_age_seconds", "Since the source was last right", lambda: source.age)
        metrics.gauge("global_discovery_files", "Files of slices", lambda: len(source.directory.files))
        metrics.gauge(
            "global_discovery_broken_files",
            "Files that cannot be used now and keep their last good slices",
            lambda: sum(one.fault is not None for one in source.directory.files.values()),
        )
        metrics.gauge(
            "global_discovery_refused_slices",
            "Objects in good files that are no good slices",
            lambda: sum(len(one.refused) for one in source.directory.files.values()),
        )
        metrics.gauge(
            "global_discovery_directory_fault",
            "1 while --files cannot be read",
            lambda: source.directory.fault is not None,
        )

    def _serving(
        self, listen: Listen, tls: Tls | None, fail: Callable[[Exception], None]
    ) -> AbstractAsyncContextManager[Bound]:
        app = self.server.app()
        return serve(app, listen.host, listen.port, tls=tls, on_failure=fail, connections=_MOST_CONNECTIONS)

    async def run(self) -> int:
        """Serve until SIGTERM or SIGINT; the exit code."""
        settings = self._settings
        stop = asyncio.Event()
        failures: list[Exception] = []

        def fail(error: Exception) -> None:
            failures.append(error)
            stop.set()

        tls = None
        if settings.tls_cert_path and settings.tls_key_path:
            tls = Tls(Path(settings.tls_cert_path), Path(settings.tls_key_path))
        if self.source is not None:
            await self.source.check()
        if self.watching is not None:
            await self.watching.check()
        async with AsyncExitStack() as stack:
            stack.enter_context(stop_on_signals(stop.set))
            if self.taking is not None:
                await stack.enter_async_context(self.taking.running(fail))
            serving = self._serving(settings.listen, tls, fail)
            bound = await stack.enter_async_context(serving)
            # Before the listener drains: watches have no end of their own.
            stack.callback(self.store.close)
            await stack.enter_async_context(background(self.publisher.run(), name="publisher", on_failure=fail))
            if self.source is not None:
                await stack.enter_async_context(background(self.source.run(), name="files", on_failure=fail))
            else:
                # No file will ever say that there is something to publish.
                self.publisher.touch()
            if self.watching is not None:
                await stack.enter_async_context(self.watching.running(fail))
            _log.info(
                "listening", url=bound.url, epoch=self.store.table.epoch, sources=[s.name for s in self._sources()]
            )
            await stop.wait()
            _log.info("stopping", watchers=self.server.watchers)
        return 1 if failures else 0


async def serve_directory(settings: Settings, release: str) -> int:
    """Run the directory in this loop; what keeps it from starting is one line on standard error and 1."""
    try:
        async with opened_store(settings, SYSTEM_CLOCK) as kept:
            service = DirectoryService(settings, release, epoch=secrets.token_hex(8), kept=kept)
            return await service.run()
    except (BadKubeConfig, BadTokens, CannotKeep, CannotRead, CannotServe, CannotWatch) as error:
        print(f"global-discovery-service: {error}", file=sys.stderr)
        return 1
