"""The measuring itself: visits to peers, in interleaved rounds.

Owns: which load makes which figure, and the checks that make a figure worth believing: every answer was right, the mock
frontends saw exactly the requests and events the load generator saw, and every frontend had its share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench import machine
from tests.bench.instruments import (
    BenchError,
    FrontendCounts,
    Frontends,
    Load,
    LoadResult,
    Programs,
    finish_load,
    run_load,
    spread,
    start_load,
)
from tests.bench.peer import Peer, Unavailable
from tests.bench.report import PeerReport

STREAMS = 32
CHUNKS_PER_STREAM = 200
PACED_EVERY_US = 2000  # 32 streams, a chunk each 2 ms: 16,000 chunks/s
OPEN_LOOP_RATE = 300
IDLE_STREAMS = 500
IDLE_EVERY_US = 3_000_000
LEAST_SPREAD = 0.5
REQUESTS_FOR_SPREAD = 40


@dataclass(frozen=True)
class Plan:
    rounds: int = 3
    seconds: float = 3.0
    warm_seconds: float = 1.0
    full: bool = False


def check(result: LoadResult, seen: FrontendCounts, body: int, proxied: bool) -> None:
    """BenchError unless both ends tell the same story and the requests were spread."""
    total = sum(seen.requests)
    if total != result.good or seen.events != result.events:
        raise BenchError(
            f"the load generator counts {result.good} requests and {result.events} events, "
            f"the frontends {total} and {seen.events}"
        )
    if seen.unary and not body == result.body_min == result.body_max:
        raise BenchError(f"bodies of {result.body_min} to {result.body_max} bytes instead of {body}")
    if proxied and total >= REQUESTS_FOR_SPREAD and spread(seen.requests) < LEAST_SPREAD:
        raise BenchError(f"the requests were not spread over the frontends: {seen.requests}")


class Visit:
    """One peer, running, in one round."""

    def __init__(self, peer: Peer, frontends: Frontends, load: Path, cores: machine.Cores, body: int) -> None:
        self._peer, self._frontends, self._load, self._cores, self._body = peer, frontends, load, cores, body
        self.sample: dict[str, float] = {}

    def _run(self, load: Load) -> tuple[LoadResult, float]:
        """The result and the CPU seconds of the peer meanwhile."""
        counts = self._frontends.counts()
        before = machine.cpu_seconds(self._peer.pids())
        result = run_load(self._load, self._peer.port, load, self._cores.load)
        cpu = machine.cpu_seconds(self._peer.pids()) - before
        check(result, self._frontends.counts().since(counts), self._body, proxied=bool(self._peer.pids()))
        return result, cpu

    def _note(self, key: str, cpu: float, per: int) -> None:
        if self._peer.pids():
            self.sample[key] = cpu * 1e6 / per

    def warm(self, seconds: float) -> None:
        self._run(Load(32, seconds))
        self._run(Load(8, seconds / 2, chunks=50, every_us=1000))

    def idle_memory(self) -> None:
        pids = self._peer.pids()
        if pids and (pss := machine.pss_kib(pids)) is not None:
            self.sample["pss_idle"] = pss / 1024

    def unary(self, connections: int, seconds: float) -> None:
        core = self._cores.proxy
        busy = machine.core_busy_seconds(core) if core is not None else 0.0
        result, cpu = self._run(Load(connections, seconds))
        if core is not None and self._peer.pids():
            others = machine.core_busy_seconds(core) - busy - cpu
            self.sample[f"others_{connections}"] = 100 * max(0.0, others) / result.seconds
        self._note(f"unary_cpu_{connections}", cpu, result.good)
        self.sample[f"unary_rate_{connections}"] = result.requests_per_second

    def paced(self, seconds: float) -> None:
        result, cpu = self._run(Load(STREAMS, seconds, chunks=CHUNKS_PER_STREAM, every_us=PACED_EVERY_US))
        self._note("chunk_cpu_paced", cpu, result.events)
        self.sample["delay_p50"], self.sample["delay_p99"] = result.delay_p50, result.delay_p99
        self.sample["first_chunk_p50"] = result.first_chunk_p50
        self.sample["chunk_rate_paced"] = result.events_per_second

    def full_speed(self, seconds: float) -> None:
        result, cpu = self._run(Load(STREAMS, seconds, chunks=CHUNKS_PER_STREAM))
        self._note("chunk_cpu_full", cpu, result.events)
        self.sample["chunk_rate_full"] = result.events_per_second

    def open_loop(self, seconds: float) -> None:
        result, _ = self._run(Load(64, seconds, rate=OPEN_LOOP_RATE))
        self.sample["latency_p50"], self.sample["latency_p99"] = result.latency_p50, result.latency_p99

    def stream_memory(self) -> None:
        """PSS with many streams that have each had one event and wait for the next, against the moment before."""
        pids = self._peer.pids()
        before = machine.pss_kib(pids) if pids else None
        if before is None:
            return
        counts = self._frontends.counts()
        load = Load(IDLE_STREAMS, IDLE_EVERY_US / 1e6 + 0.1, chunks=2, every_us=IDLE_EVERY_US)
        process = start_load(self._load, self._peer.port, load, self._cores.load)
        machine.wait_until(lambda: self._frontends.counts().since(counts).streams >= IDLE_STREAMS, load.seconds + 2)
        during = machine.pss_kib(self._peer.pids())
        result = finish_load(process, load)
        check(result, self._frontends.counts().since(counts), self._body, proxied=True)
        if during is not None:
            self.sample["pss_stream"] = (during - before) / IDLE_STREAMS


def visit(
    peer: Peer, frontends: Frontends, load: Path, cores: machine.Cores, body: int, plan: Plan
) -> dict[str, float]:
    """Starts the peer, takes every figure once, ends the peer."""
    peer.start()
    try:
        v = Visit(peer, frontends, load, cores, body)
        v.warm(plan.warm_seconds)
        v.idle_memory()
        v.unary(32, plan.seconds)
        v.paced(plan.seconds)
        v.full_speed(plan.seconds)
        v.open_loop(plan.seconds)
        if plan.full:
            v.stream_memory()
            v.unary(1, plan.seconds)
            v.unary(256, plan.seconds)
        return v.sample
    finally:
        peer.stop()


def measure(
    kinds: Sequence[type[Peer]], programs: Programs, home: Path, plan: Plan, say: Callable[[str], None]
) -> dict[str, PeerReport]:
    """Rounds A B C, A B C ...; a peer that fails once is out of the report and its reason in it."""
    cores = machine.pick_cores()
    reports = {kind.name: PeerReport() for kind in kinds}
    with Frontends(programs.frontend, core=cores.load) as frontends:
        body = run_load(programs.load, frontends.ports[0], Load(4, 0.2), cores.load).body_max
        peers: list[Peer] = []
        for kind in kinds:
            peer = kind(home / kind.name, frontends.ports, cores.proxy)
            try:
                reports[kind.name].version = peer.version()
                peers.append(peer)
            except Unavailable as reason:
                reports[kind.name].trouble = str(reason)
                say(f"*** SKIPPED {kind.name}: {reason}")
        for number in range(1, plan.rounds + 1):
            for peer in [p for p in peers if not reports[p.name].trouble]:
                try:
                    sample = visit(peer, frontends, programs.load, cores, body, plan)
                except BenchError as reason:
                    reports[peer.name] = PeerReport(reports[peer.name].version, f"failed in round {number}: {reason}")
                    say(f"*** FAILED {peer.name}: {reason}")
                    continue
                reports[peer.name].samples.append(sample)
                say(f"round {number} {peer.name}: {_short(sample)}")
    return reports


def _short(sample: dict[str, float]) -> str:
    keys = ("unary_cpu_32", "unary_rate_32", "chunk_cpu_paced", "chunk_cpu_full", "latency_p50", "latency_p99")
    return ", ".join(f"{key} {sample[key]:,.1f}" for key in keys if key in sample)
