"""The data plane of one worker: the routes it was told last, as objects, and what all its connections share.

A new table is applied between two events of the loop as one swap; nothing in flight is touched. A frontend object lives
as long as it is listed or held by a request; its kept connections go when it leaves.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import ssl
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from global_ingress.proxy.carrying.accesslog import AccessLog
from global_ingress.proxy.carrying.choosing import Chooser, Frontend, Place, Pool, turn_of
from global_ingress.proxy.carrying.cors import CorsRules
from global_ingress.proxy.carrying.doors import Doors
from global_ingress.proxy.carrying.explaining import Explained
from global_ingress.proxy.carrying.headers import Answer, Peer
from global_ingress.proxy.carrying.keeping import close_idle
from global_ingress.proxy.carrying.lateness import Lateness
from global_ingress.proxy.carrying.tally import OTHER, Tally, bump
from global_ingress.proxy.carrying.tracing import Tracing
from global_ingress.proxy.carrying.wheel import Wheel
from global_ingress.proxy.shared.allowance import Allowance
from global_ingress.proxy.shared.attempt import UNCONNECTED, Budget, Trouble
from global_ingress.proxy.shared.counts import Notice
from global_ingress.proxy.shared.ejection import UNCONNECTED_WEIGHT, may_eject, sentence
from global_ingress.proxy.shared.ledger import Ledger
from global_ingress.proxy.shared.routes import Hedge, Limits, ModelRoute, PoolRoute, Retries, Routes, Timeouts, TlsFiles
from global_ingress.proxy.shared.tls import client_context
from global_ingress.proxy.shared.turns import Turn

if TYPE_CHECKING:
    from global_ingress.proxy.carrying.server import ClientConnection

# The bits of a uuid4 that are not chance: version 4, variant 1.
_VERSION = bytes(byte & 0x0F | 0x40 for byte in range(256))
_VARIANT = bytes(byte & 0x3F | 0x80 for byte in range(256))
_ANSWERS = 512  # heads of answers remembered
_IDS = 256  # request ids made at once


class Times(NamedTuple):
    """The clocks of a data plane: seconds and nanoseconds that only grow, and seconds since the epoch."""

    monotonic: Callable[[], float]
    monotonic_ns: Callable[[], int]
    wall: Callable[[], float]


class Plane:
    """What one worker knows and shares. Public attributes are read by its connections and exchanges."""

    doors: Doors | None = None  # who may come in, if not everybody
    cors: CorsRules | None = None
    tracing: Tracing | None = None
    upstream_tls: TlsFiles | None = None
    _ssl_context: ssl.SSLContext | None = None
    complete = False  # all workers accept connections: before that, one may wait in the queue of a worker that starts
    draining = False  # SIGTERM came: readiness is 503
    closing = False  # the delay is over: answers carry Connection: close

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        times: Times,
        ledger: Ledger,
        log: AccessLog | None,
        notify: Callable[[Notice], None],
        failed: Callable[[Exception], None],
        allowance: Allowance | None = None,
    ) -> None:
        self.loop = loop
        self.clock = times.monotonic
        self.clock_ns = times.monotonic_ns
        self.wall = times.wall
        self.ledger = ledger
        self.log = log
        self.notify = notify
        self.tally = Tally()
        self.explained = Explained()
        self.explain = False  # answers tell the tries
        self.wheel = Wheel(loop, self.clock, self._tick, failed)
        self.nowhere = self.tally.track(OTHER, "")
        self.turns: dict[int, Turn] = {}
        self.frontends: dict[str, Frontend] = {}
        self._pools: dict[str, Pool] = {}
        self._lateness: dict[tuple[str, str], Lateness] = {}
        self.choosers: dict[str, Chooser] = {}
        self.aliases: dict[str, str] = {}
        self.affinity_names: frozenset[bytes] = frozenset()
        self.budget = Budget(0.0)
        self.routes: Routes | None = None
        self.allowance = allowance
        self.answers: dict[bytes, Answer] = {}
        self.clients: set[ClientConnection] = set()
        self._deserted: asyncio.Event | None = None
        self.timeouts: Timeouts
        self.limits: Limits
        self.retries: Retries
        self.expose_pool = True
        self.silence = 0.0  # seconds after which a silent stream is looked at: its idle limit, or a heartbeat before
        self.hedging: Hedge | None = None
        self.hedges = Budget(0.0, 1.0)
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed = failed
        self.buffered = 0
        self._trusted: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()
        self._ids: list[bytes] = []
        self.send_spans: Callable[[bytes], bool] = lambda spans: False  # whoever runs this plane takes them
        self._second = self.clock()

    def apply(self, routes: Routes) -> None:
        """Swap to these routes. All counters they name have been given by `add_turns`."""
        wanted = {frontend.url: frontend for pool in routes.pools for frontend in pool.frontends}
        for url in self.frontends.keys() - wanted.keys():
            gone = self.frontends.pop(url)
            gone.gone = True
            close_idle(gone, self)
        for url, route in wanted.items():
            held = self.frontends.get(url)
            if held is None or held.slot != route.slot:
                self.frontends[url] = Frontend(route)
        pools = {pool.id: self._pool(pool) for pool in routes.pools}
        self._pools = pools
        self.choosers = {model.id: self._chooser(model, routes, pools) for model in routes.models}
        self.aliases = {alias: model.id for model in routes.models for alias in model.aliases}
        self.affinity_names = frozenset(c.affinity for c in self.choosers.values() if c.affinity is not None)
        self.timeouts, self.limits, self.retries = routes.timeouts, routes.limits, routes.retries
        self.expose_pool = routes.expose_pool
        self.explain = routes.explain
        beat = routes.heartbeat
        self.silence = routes.timeouts.idle if beat is None else min(beat, routes.timeouts.idle)
        self.hedging = routes.hedge
        self.hedges.share = routes.hedge.max_share if routes.hedge is not None else 0.0
        self.budget.share = routes.retries.budget
        self._guard(routes)
        kept = {(id, place.pool.id) for id, chooser in self.choosers.items() for place in chooser.places}
        self._lateness = {key: lateness for key, lateness in self._lateness.items() if key in kept}
        self.routes = routes
        self.answers.clear()
        self._drop_turns(routes)

    def _guard(self, routes: Routes) -> None:
        """Who may come in, and what is believed of whom."""
        before = self.routes
        if before is None or routes.auth != before.auth:
            self.doors = None
            if routes.auth is not None:
                assert self.allowance is not None, "a worker that is told keys has their shared memory"
                self.doors = Doors(routes.auth, self.allowance, self.wall, self.clock_ns)
        if before is None or routes.cors != before.cors:
            self.cors = None if routes.cors is None else CorsRules(routes.cors)
        if routes.upstream_tls != self.upstream_tls:
            self.upstream_tls, self._ssl_context = routes.upstream_tls, None
            for frontend in self.frontends.values():
                close_idle(frontend, self)
        if (before.trace if before is not None else None) != routes.trace:
            if self.tracing is not None:
                self.tracing.close()
            self.tracing = None if routes.trace is None else Tracing(routes.trace, self.send_spans, self.clock)
        self._trusted = tuple(ipaddress.ip_network(cidr) for cidr in routes.trusted_proxies)
        heads = routes.auth, routes.trusted_proxies, routes.trace is None
        if before is not None and heads != (before.auth, before.trusted_proxies, before.trace is None):
            for client in self.clients:
                client.meet()

    def _pool(self, route: PoolRoute) -> Pool:
        """The pool as it is, if nothing of it has changed."""
        held = self._pools.get(route.id)
        if held is not None and held.route == route and all(not frontend.gone for frontend in held.frontends):
            return held
        return Pool(route, self.frontends)

    def _chooser(self, model: ModelRoute, routes: Routes, pools: dict[str, Pool]) -> Chooser:
        places = tuple(
            Place(
                n,
                member,
                pools[member.pool],
                turn_of(self.turns, member.turn),
                self.tally.track(model.id, member.pool),
            )
            for n, member in enumerate(model.members)
        )
        for place in places:
            place.lateness = self._lateness.setdefault((model.id, place.pool.id), place.lateness)
        return Chooser(
            model,
            places,
            turn_of(self.turns, model.turn),
            turn_of(self.turns, model.spill),
            self.ledger,
            self.clock_ns,
            region=routes.region,
            in_flight_limit=routes.limits.in_flight_per_pool,
            tally=self.tally,
        )

    def remember(self, head: bytes, answer: Answer) -> None:
        """Keep what was read of a head for the next equal one."""
        if len(self.answers) >= _ANSWERS:
            self.answers.clear()
        self.answers[head] = answer

    def leave(self, client: ClientConnection) -> None:
        """A client's connection is closed."""
        self.clients.discard(client)
        self.tally.client_connections = len(self.clients)
        if self._deserted is not None and not self.clients:
            self._deserted.set()

    async def deserted(self) -> None:
        """Wait until no client is connected."""
        self._deserted = asyncio.Event()
        if self.clients:
            await self._deserted.wait()

    def ready(self) -> bool:
        """Whether this worker and its neighbours could serve a request now, as far as it was told."""
        known = self.complete and self.routes is not None and self.routes.known
        return known and not self.draining and any(chooser.places for chooser in self.choosers.values())

    def add_turns(self, numbers: Sequence[int], fds: Sequence[int]) -> None:
        """Counters that the next routes use."""
        for number, fd in zip(numbers, fds, strict=True):
            self.turns[number] = Turn(fd)

    def _drop_turns(self, routes: Routes) -> None:
        """Forget counters that these routes do not name; a running exchange may still draw from one that it holds."""
        used = {turn for model in routes.models for turn in (model.turn, model.spill)} | {
            m.turn for model in routes.models for m in model.members
        }
        self.turns = {number: turn for number, turn in self.turns.items() if number in used}

    def peer(self, address: str, *, tls: bool = False) -> Peer:
        """How a client at this address is treated."""
        trusted = False
        if self._trusted and address:
            ip = ipaddress.ip_address(address.partition("%")[0])
            trusted = any(ip in network for network in self._trusted)
        known = self.doors is not None and not self.doors.auth.forward_credentials
        traced = self.tracing is not None
        return Peer(address.encode(), b"https" if tls else b"http", trusted, known, traced)

    def request_id(self) -> bytes:
        """A fresh uuid4 as 32 hex digits; made many at a time."""
        if not self._ids:
            chance = bytearray(os.urandom(16 * _IDS))
            chance[6::16] = chance[6::16].translate(_VERSION)
            chance[8::16] = chance[8::16].translate(_VARIANT)
            digits = chance.hex().encode()
            self._ids = [digits[at : at + 32] for at in range(0, len(digits), 32)]
        return self._ids.pop()

    @property
    def ssl_context(self) -> ssl.SSLContext:
        """For https frontends; made when the first one is connected to."""
        if self._ssl_context is None:
            self._ssl_context = client_context(self.upstream_tls)
        return self._ssl_context

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task that is held until it ends; an error of ours in it is told."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self._failed(error)

    def trial_left(self, frontend: Frontend) -> None:
        """A client left before its request had shown anything of this frontend."""
        if self.ledger.on_trial(frontend.slot):
            self.ledger.leave_trial(frontend.slot, self.clock_ns())

    def praise(self, frontend: Frontend) -> None:
        """It answered as a living frontend does."""
        if self.ledger.streak(frontend.slot):
            if self.ledger.ejected_until(frontend.slot):
                self.notify(Notice("readmitted", frontend.url, "it answered again"))
            self.ledger.readmit(frontend.slot)

    def blame(self, frontend: Frontend, trouble: Trouble, chooser: Chooser) -> None:
        """A try failed by the frontend's fault; enough of them in a row, or a failed trial, put it out for a while."""
        ledger, slot = self.ledger, frontend.slot
        rules = self.routes.ejection if self.routes is not None else None
        if rules is None or frontend.gone:
            return
        unconnected = trouble in UNCONNECTED
        streak = ledger.streak(slot) + (UNCONNECTED_WEIGHT if unconnected else 1)
        ledger.set_streak(slot, streak)
        now = self.clock_ns()
        on_trial = ledger.on_trial(slot)
        if not on_trial and (streak < rules.failures or ledger.ejected_until(slot) > now):
            return
        listed = {
            f
            for place in chooser.places
            for f, ready in zip(place.pool.frontends, place.pool.ready, strict=True)
            if ready
        }
        out = sum(f is not frontend and ledger.ejected_until(f.slot) > now for f in listed)
        if not on_trial and not may_eject(out, len(listed), rules.max_share, unconnected=unconnected):
            self.tally.ejection_capped += 1
            return
        seconds = sentence(rules.base, rules.max, ledger.ejections(slot))
        ledger.eject(slot, now + int(seconds * 1e9))
        bump(self.tally.ejections, frontend.url)
        self.notify(Notice("ejected", frontend.url, f"{trouble.value}, out for {seconds:g} s"))

    def _tick(self, now: float) -> None:
        if self.log is not None:
            self.log.pass_on()
        if self.tracing is not None:
            self.tracing.pass_on()
        if now - self._second >= 1.0:
            self._second = now
            self.budget.second()
            self.hedges.second()
            self.explained.second()
