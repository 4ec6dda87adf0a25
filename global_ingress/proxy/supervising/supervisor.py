"""The worker processes: started, told their routes, asked for counts, replaced when they die, drained at the end.

Owns the processes, their seats in the ledger and what the dead have counted. Keeps three rules: a dead worker is
replaced within a second (later only if it keeps dying); totals never fall; while draining nobody is replaced.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from discovery.kit.backoff import Backoff, Chance
from discovery.kit.clock import Clock
from discovery.kit.log import logger
from global_ingress.proxy.shared import control, sums
from global_ingress.proxy.shared.counts import Counts, Notice
from global_ingress.proxy.shared.decided import Decisions
from global_ingress.proxy.shared.ledger import Ledger
from global_ingress.proxy.shared.routes import Drain, Routes, encode_drain, encode_routes
from global_ingress.proxy.supervising.worker_process import Told, WorkerProcess

PATIENCE = 30.0  # seconds a worker may take until it listens
STEADY = 10.0  # seconds after which a worker counts as having lived
HUNG = (3, 10)  # looks in a row that a worker may leave without an answer until it is told of, and until it is killed
GIVE_UP = 5  # starts that may fail while no worker ever listened
GRACE = 5.0  # seconds beyond what was asked before a process is killed
_BACKOFF = Backoff(first=0.2, limit=10.0)

_log = logger("global_ingress.supervisor")


@dataclass(slots=True)
class Seat:
    """A worker's place: its listening socket and ledger row outlive the process that sits there."""

    index: int
    socket: socket.socket
    process: WorkerProcess | None = None
    told: frozenset[int] = frozenset()  # counters of the routes it was sent last
    started_at: float = 0.0
    failures: int = 0
    starts: int = 0
    missed: int = 0  # looks in a row without an answer
    ticket: int = 0  # of the last start, so that an old timer does not judge a new process
    timers: set[asyncio.TimerHandle] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Plan:
    """How workers are started: `command(seat index, listening fd)` without the control socket."""

    command: Callable[[int, int], Sequence[str]]
    fds: tuple[int, ...]


class Supervisor:
    """`ended` is set when all processes have ended after a drain, or when none could ever be started (`failed`)."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        ledger: Ledger,
        plan: Plan,
        *,
        clock: Clock,
        chance: Chance,
        notice: Callable[[str, str, str], None],
        decisions: Callable[[Decisions], None] = lambda decisions: None,
        died: Callable[[int], None] = lambda index: None,
        spans: Callable[[bytes], None] = lambda payload: None,
    ) -> None:
        self.seats = [Seat(index, one) for index, one in enumerate(sockets)]
        self._ledger = ledger
        self._plan = plan
        self._clock = clock
        self._chance = chance
        self._notice = notice
        self._decisions = decisions
        self._died = died
        self._spans = spans
        self._loop = asyncio.get_running_loop()
        self._routes: bytes | None = None
        self._counters: dict[int, int] = {}
        self._used_slots: Callable[[], Sequence[int]] = lambda: ()
        self._dead = sums.nothing()
        self._drain: Drain | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._waited_for = set(range(len(sockets)))  # seats whose worker never accepted a connection yet
        self.failed = False
        self.ended = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Supervisor {self.listening} of {len(self.seats)} workers listening>"

    @property
    def draining(self) -> bool:
        return self._drain is not None

    @property
    def listening(self) -> int:
        """Workers that accept connections."""
        return sum(seat.process is not None and seat.process.listening for seat in self.seats)

    @property
    def complete(self) -> bool:
        """Every seat's worker has accepted connections once. Before that a connection may wait in the queue of a worker
        that is only starting, so the ingress is not ready; later only that of a dead one's replacement."""
        return not self._waited_for

    @property
    def replaced(self) -> int:
        return sum(max(0, seat.starts - 1) for seat in self.seats)

    def start(self, used_slots: Callable[[], Sequence[int]]) -> None:
        """`used_slots` are the ledger's rows that may hold something when a worker dies."""
        self._used_slots = used_slots
        for seat in self.seats:
            self._start(seat)

    # ---- what workers are told

    def route(self, routes: Routes, counters: Sequence[tuple[int, int]]) -> None:
        """Tell all workers these routes, and first the counters (number, descriptor) that are new to them."""
        self._routes = encode_routes(routes)
        self._counters = dict(counters)
        for seat in self.seats:
            self._tell(seat)

    def _tell(self, seat: Seat) -> None:
        if seat.process is None or self._routes is None:
            return
        fresh = [(number, fd) for number, fd in self._counters.items() if number not in seat.told]
        if fresh or not seat.told:
            seat.process.send_counters(fresh)
        seat.process.send(control.ROUTES, self._routes)
        seat.told = frozenset(self._counters)

    # ---- what workers have counted

    async def refresh(self, limit: float) -> None:
        """Ask all workers for their counts; whoever does not answer in `limit` seconds keeps the last known ones."""
        asked = [asyncio.ensure_future(seat.process.report()) for seat in self.seats if seat.process is not None]
        if not asked:
            return
        _, late = await asyncio.wait(asked, timeout=limit)
        for one in late:
            one.cancel()

    async def look_after(self, limit: float) -> None:
        """Refresh, and see who no longer answers: a worker that hangs keeps its share of the connections, so it is
        replaced like a dead one. Looks are counted, not seconds: when the whole machine stood still, so did we."""
        asked = [(seat, seat.process) for seat in self.seats if seat.process is not None and seat.process.listening]
        before = {seat.index: process.answered for seat, process in asked}
        await self.refresh(limit)
        for seat, process in asked:
            seat.missed = seat.missed + 1 if process.answered == before[seat.index] else 0
            if self.draining or seat.process is not process or seat.missed not in HUNG:
                continue
            kill = seat.missed == HUNG[1]
            detail = "does not answer and is killed" if kill else "does not answer"
            _log.error(f"worker {detail}", worker=seat.index, pid=process.pid, looks=seat.missed)
            self._notice("worker_hangs", f"worker {seat.index}", detail)
            if kill:
                process.kill()

    def totals(self) -> Counts:
        """The sum over all workers, the dead ones included."""
        alive = [seat.process.counts for seat in self.seats if seat.process is not None]
        return sums.total([self._dead, *(counts for counts in alive if counts is not None)])

    def reports(self) -> list[tuple[int, Counts]]:
        """The last report of each live worker, by seat."""
        found = [(seat.index, seat.process.counts) for seat in self.seats if seat.process is not None]
        return [(index, counts) for index, counts in found if counts is not None]

    # ---- life and death

    def _start(self, seat: Seat) -> None:
        seat.started_at = self._clock.monotonic()
        seat.starts += 1
        seat.missed = 0
        seat.ticket += 1
        seat.told = frozenset()
        told = Told(
            listening=lambda: self._listens(seat),
            notice=lambda event: self._event(seat, event),
            decisions=self._decisions,
            spans=self._spans,
            ended=lambda code: self._ended(seat, code),
        )
        command = self._plan.command(seat.index, seat.socket.fileno())
        try:
            seat.process = WorkerProcess(command, (seat.socket.fileno(), *self._plan.fds), self._loop, told)
        except OSError as error:
            _log.error("worker cannot be started", worker=seat.index, reason=str(error))
            self._again(seat)
            return
        self._tell(seat)
        if self.complete:
            seat.process.send(control.COMPLETE)
        ticket = seat.ticket
        self._later(seat, PATIENCE, lambda: self._too_slow(seat, ticket))

    def _listens(self, seat: Seat) -> None:
        assert seat.process is not None
        _log.info("worker listens", worker=seat.index, pid=seat.process.pid)
        first = seat.index in self._waited_for
        self._waited_for.discard(seat.index)
        if first and self.complete:
            self._send_all(control.COMPLETE, b"")

    def _event(self, seat: Seat, event: Notice) -> None:
        _log.warning("worker notices", worker=seat.index, kind=event.kind, subject=event.subject, detail=event.detail)
        self._notice(event.kind, event.subject, event.detail)

    def _too_slow(self, seat: Seat, ticket: int) -> None:
        if seat.ticket == ticket and seat.process is not None and not seat.process.listening:
            _log.error("worker does not listen in time and is killed", worker=seat.index, pid=seat.process.pid)
            seat.process.kill()

    def _ended(self, seat: Seat, code: int) -> None:
        process, seat.process = seat.process, None
        assert process is not None
        if process.counts is not None:
            self._dead = sums.total([self._dead, sums.of_the_dead(process.counts)])
        self._ledger.clear_worker(seat.index, self._used_slots())
        self._died(seat.index)
        if self.draining:
            say = _log.info if code == 0 else _log.warning
            say("worker ended", worker=seat.index, pid=process.pid, code=code)
            self._look_whether_all_ended()
        else:
            _log.error("worker died", worker=seat.index, pid=process.pid, code=code)
            self._notice("worker_died", f"worker {seat.index}", f"exit code {code}")
            self._again(seat)

    def _again(self, seat: Seat) -> None:
        """Replace it: at once after a steady life, later and later if it keeps dying."""
        if self._clock.monotonic() - seat.started_at >= STEADY:
            seat.failures = 0
        seat.failures += 1
        if len(self._waited_for) == len(self.seats) and seat.failures >= GIVE_UP:
            _log.error("no worker could be started", tries=seat.failures)
            self.failed = True
            self._drain = Drain(0.0, 0.0)
            self.kill()
            self._look_whether_all_ended()
            return
        delay = 0.0 if seat.failures == 1 else _BACKOFF.delay(seat.failures - 1, self._chance())
        self._later(seat, delay, lambda: None if self.draining else self._start(seat))

    def _later(self, seat: Seat, delay: float, act: Callable[[], None]) -> None:
        def due() -> None:
            seat.timers.discard(timer)
            act()

        timer = self._loop.call_later(delay, due)
        seat.timers.add(timer)

    # ---- the end

    def drain(self, drain: Drain) -> None:
        """Let the workers finish; after `delay` nothing is accepted any more."""
        if self.draining:
            return
        self._drain = drain
        self._send_all(control.DRAIN, encode_drain(drain))
        self._loop.call_later(drain.delay, self._close_sockets)
        self._kill_after(drain.delay + drain.timeout + GRACE)
        self._look_whether_all_ended()

    def end(self) -> None:
        """End now: streams are cut as the data plane cuts them, then the processes go."""
        self._close_sockets()
        self._send_all(control.END, b"")
        self._kill_after(GRACE)

    def kill(self) -> None:
        for seat in self.seats:
            if seat.process is not None:
                seat.process.kill()

    def close(self) -> None:
        """Give everything up, at the very end."""
        self.kill()
        self._close_sockets()
        if self._deadline is not None:
            self._deadline.cancel()
        for seat in self.seats:
            for timer in seat.timers:
                timer.cancel()

    def _send_all(self, kind: bytes, payload: bytes) -> None:
        for seat in self.seats:
            if seat.process is not None:
                seat.process.send(kind, payload)

    def _kill_after(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self._loop.call_later(seconds, self._overdue)

    def _overdue(self) -> None:
        for seat in self.seats:
            if seat.process is not None:
                _log.error("worker does not end and is killed", worker=seat.index, pid=seat.process.pid)
        self.kill()

    def _close_sockets(self) -> None:
        """Our copies: the address is free once the workers have closed theirs."""
        for seat in self.seats:
            seat.socket.close()

    def _look_whether_all_ended(self) -> None:
        if all(seat.process is None for seat in self.seats):
            self.ended.set()
