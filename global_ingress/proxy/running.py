"""A running ingress: its parts, their background work, and how it starts, reloads, drains and ends (I51, I52).

Owns the parts' lifetimes. A part that dies of an error of ours ends the whole, with exit code 1: half an ingress that
looks alive is worse than a restart.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

import httpx

from discovery.kit.backoff import Chance
from discovery.kit.clock import Clock
from discovery.kit.log import logger
from discovery.kit.service import serve
from discovery.kit.tasks import background
from discovery.pool import PoolTable
from global_ingress import __version__, build
from global_ingress.proxy.admin.listener import make_admin
from global_ingress.proxy.admin.overview import Overview
from global_ingress.proxy.settings.file import Settings
from global_ingress.proxy.shared.decided import Decisions
from global_ingress.proxy.shared.ledger import SLOTS, Ledger, create_ledger
from global_ingress.proxy.shared.routes import Drain
from global_ingress.proxy.shared.tls import client_context
from global_ingress.proxy.shared.turns import new_turn
from global_ingress.proxy.supervising.config_file import ConfigFile
from global_ingress.proxy.supervising.exporting import Exporting, export_rules
from global_ingress.proxy.supervising.guarding import Guarding
from global_ingress.proxy.supervising.knowledge import Knowledge, new_client
from global_ingress.proxy.supervising.labels import Labels
from global_ingress.proxy.supervising.schedules import Schedules
from global_ingress.proxy.supervising.slots import Slots
from global_ingress.proxy.supervising.sources import Sources
from global_ingress.proxy.supervising.steering import Steering
from global_ingress.proxy.supervising.supervisor import Plan, Supervisor

TICK = 1.0
RETIRE = 60.0  # seconds after which nothing uses a client any more that another one has replaced
SOON = 0.05  # seconds in which what was learned is gathered before routes are made anew
ADMIN_DRAIN = 2

# -P: the folder we were started in is no place to import from.
WORKER = (sys.executable, "-P", "-m", "global_ingress.proxy.worker")

_log = logger("global_ingress")


def worker_arguments(settings: Settings, ledger_fd: int, *, terminal: bool) -> list[str]:
    """What every worker is told on its command line, beside its index and sockets."""
    form = settings.log.format
    if form == "auto":
        form = "text" if terminal else "json"
    return [
        "--workers",
        str(settings.workers),
        "--ledger-fd",
        str(ledger_fd),
        "--loop",
        "uvloop",
        "--log-format",
        form,
        "--log-level",
        settings.log.level,
        "--access-log",
        settings.log.access or "off",
    ]


def _plan(worker: Sequence[str], settings: Settings, ledger_fd: int) -> Plan:
    common = worker_arguments(settings, ledger_fd, terminal=sys.stdout.isatty())
    return Plan(lambda index, fd: [*worker, "--index", str(index), "--listen-fd", str(fd), *common], (ledger_fd,))


def most_counters(workers: int) -> int:
    """How many turns may have a descriptor here. On their way to the workers each has one more per worker, twice."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(64, (soft - 512) // (2 + 2 * workers))


class Running:
    """An async context manager inside which the ingress serves; `until_ended` gives the exit code when it is over."""

    def __init__(
        self,
        file: ConfigFile,
        settings: Settings,
        listeners: Sequence[socket.socket],
        *,
        clock: Clock,
        chance: Chance,
        worker: Sequence[str] = WORKER,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._file = file
        self._settings = settings
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._stack = AsyncExitStack()
        self._failed = False
        self._stops = 0
        self._due: asyncio.TimerHandle | None = None
        self._reloads: set[asyncio.Task[None]] = set()
        self._environment = environment or {}
        self.exporting: Exporting | None = None
        self._ledger_fd = create_ledger(settings.workers)
        self.ledger = Ledger(self._ledger_fd, settings.workers)
        self.schedules = Schedules(new_turn, most_counters(settings.workers))
        self.guarding = Guarding(self._ledger_fd, settings.workers, clock, self._notice)
        self.guarding.use(settings)
        self._shown = self.guarding.guards.upstream_tls
        self._client = new_client(client_context(self._shown))
        self.knowledge = Knowledge(self._client, clock, self._touch, self._recovered)
        self.knowledge.use(self._client, self._server_name())
        self.supervisor = self._supervise(listeners, _plan(worker, settings, self._ledger_fd), chance)
        self._labels = Labels()
        self.steering = Steering(
            settings,
            self.ledger,
            self.schedules,
            self.knowledge,
            slots=Slots(SLOTS),
            labels=self._labels,
            clock=clock,
            send=self.supervisor.route,
            notice=self._notice,
        )
        self.steering.guards = self.guarding.guards
        self.sources = Sources(clock, self._take, self.steering.forget_table)
        self.overview = self._overview()

    def _supervise(self, listeners: Sequence[socket.socket], plan: Plan, chance: Chance) -> Supervisor:
        return Supervisor(
            listeners,
            self.ledger,
            plan,
            clock=self._clock,
            chance=chance,
            notice=self._notice,
            decisions=self._take_decisions,
            died=self.guarding.died,
            spans=self._take_spans,
        )

    def _overview(self) -> Overview:
        return Overview(
            version=__version__,
            build=build(),
            clock=self._clock,
            config=self._file,
            sources=self.sources,
            steering=self.steering,
            knowledge=self.knowledge,
            schedules=self.schedules,
            supervisor=self.supervisor,
            labels=self._labels,
            started=self._clock.now(),
        )

    async def __aenter__(self) -> Self:
        """Raises CannotServe when the admin address cannot be used."""
        try:
            await self._start(self._stack)
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def _start(self, stack: AsyncExitStack) -> None:
        stack.push_async_callback(self._close_client)
        admin = self._settings.admin
        bound = None
        if admin is not None:
            app = make_admin(self.overview)
            bound = await stack.enter_async_context(
                serve(app, admin.host, admin.port, on_failure=self._on_failure, drain=ADMIN_DRAIN)
            )
        self.sources.use(self._settings.discovery)
        self._trace(self._settings)
        self.steering.recompute()
        self.supervisor.start(lambda: [slot for _, slot in self.steering.slots])
        for name, work in (
            ("watch settings", self._file.watch(self._apply)),
            ("follow discovery", self.sources.run()),
            ("ask frontends", self.knowledge.run()),
            ("tick", self._tick()),
        ):
            await stack.enter_async_context(background(work, name=name, on_failure=self._on_failure))
        host, port = self.supervisor.seats[0].socket.getsockname()[:2]
        _log.info(
            "ingress started",
            version=__version__,
            build=build(),
            listen=f"{host}:{port}",
            admin=bound.url if bound else "off",
            workers=self._settings.workers,
        )

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._reloads:
            task.cancel()
        await self._stack.aclose()

    async def _close_client(self) -> None:
        await self._client.aclose()

    def close(self) -> None:
        """Give back what was opened; every process is gone afterwards."""
        if self._due is not None:
            self._due.cancel()
        self.supervisor.close()
        self.guarding.close()
        self.schedules.close()
        self.ledger.close()
        os.close(self._ledger_fd)

    async def until_ended(self) -> int:
        await self.supervisor.ended.wait()
        if self.exporting is not None:
            await asyncio.to_thread(self.exporting.close)
        code = 1 if self._failed or self.supervisor.failed else 0
        _log.info("ingress ended", code=code)
        return code

    # ---- what happens

    def stop(self) -> None:
        """The first time: drain. The second: end now. After that: kill."""
        self._stops += 1
        if self._stops == 1:
            given = self.steering.settings.drain
            _log.info("draining", delay_s=given.delay, timeout_s=given.timeout)
            self.supervisor.drain(Drain(given.delay, given.timeout))
        elif self._stops == 2:
            _log.warning("asked again to stop: ending now")
            self.supervisor.end()
        else:
            self.supervisor.kill()

    def reload(self) -> None:
        self._keep(self._loop.create_task(self._file.reload(self._apply, asked=True), name="reload"))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._reloads.add(task)
        task.add_done_callback(self._reload_done)

    def _reload_done(self, task: asyncio.Task[None]) -> None:
        self._reloads.discard(task)
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            _log.exception("reload failed", error)
            self._on_failure(error)

    def _apply(self, settings: Settings) -> None:
        """New settings, and the table they may bring, as one swap."""
        self.steering.settings = settings
        self.sources.use(settings.discovery)
        self.guarding.use(settings)
        self._trace(settings)
        self._guard()

    def _trace(self, settings: Settings) -> None:
        """With the first `trace: on` there is an exporter, and it stays; who is sampled is for the workers."""
        if settings.trace and self.exporting is None:
            rules = export_rules(self._environment)
            if not rules.disabled:
                self.exporting = Exporting(rules, __version__, self._clock.monotonic)
                self.steering.sampling = rules.sampling
                self.overview.spans = self.exporting.counted

    def _take_spans(self, payload: bytes) -> None:
        if self.exporting is not None:
            self.exporting.put(payload)

    def _guard(self) -> None:
        """Keys and certificates as they are now, and all that they may change."""
        self.steering.guards = self.guarding.guards
        if self.guarding.guards.upstream_tls != self._shown:
            self._shown = self.guarding.guards.upstream_tls
            fresh = new_client(client_context(self._shown))
            self._keep(self._loop.create_task(self._retire(self.knowledge.use(fresh, self._server_name()))))
            self._client = fresh
        self.steering.recompute()

    def _server_name(self) -> str | None:
        return None if self._shown is None else self._shown.server_name

    async def _retire(self, client: httpx.AsyncClient) -> None:
        """Close it when no question can be under way with it any more."""
        try:
            await self._clock.sleep(RETIRE)
        finally:
            await client.aclose()

    def _take(self, table: PoolTable, *, obey: bool) -> None:
        _log.info(
            "pool table", epoch=table.epoch, revision=table.revision, complete=table.complete, pools=len(table.pools)
        )
        self.steering.change(table=table, obey=obey)

    def _touch(self) -> None:
        """Something was learned: look at everything soon."""
        if self._due is None:
            self._due = self._loop.call_later(SOON, self._look)

    def _look(self) -> None:
        self._due = None
        try:
            self.steering.recompute()
        except Exception as error:  # noqa: BLE001 - a timer's outermost frame: half an ingress must not look alive
            _log.exception("routes cannot be made", error)
            self._on_failure(error)

    def _recovered(self, url: str) -> None:
        self.steering.recovered(url)

    def _notice(self, kind: str, subject: str, detail: str) -> None:
        self.overview.notice(kind, subject, detail)

    def _take_decisions(self, decisions: Decisions) -> None:
        self.overview.take_decisions(decisions)

    def _on_failure(self, error: Exception) -> None:
        """A part has died of an error that nobody foresaw (it is in the log)."""
        self._failed = True
        if not self.supervisor.draining:
            self.stop()

    async def _tick(self) -> None:
        """Once a second: counts, holds and rows that wait, and how late this loop is."""
        while True:
            due = self._clock.monotonic() + TICK
            await self._clock.sleep(TICK)
            self.overview.pulse.lag = max(0.0, self._clock.monotonic() - due)
            self.overview.pulse.tick = self._clock.now().timestamp()
            if await self.guarding.look(self.steering.settings):
                self._guard()
            elif self.steering.restless:
                self.steering.recompute()
            await self._file.again(self._apply)
            await self.supervisor.look_after(TICK)
            self.overview.look_back()
