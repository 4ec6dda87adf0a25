"""The two C programs of the benchmark as Python values: built when needed, started, read.

Owns: compiling frontend.c and load.c into .bench/, one running set of mock frontends, one run of the load generator.
Refuses: a run with a single error in it. A figure taken while answers were wrong is worth nothing.
"""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench import machine

SOURCES = Path(__file__).parent
MODEL = "mock-model"
GRACE_SECONDS = 30.0


class BenchError(Exception):
    """The benchmark cannot go on, or what it measured is not to be believed."""


@dataclass(frozen=True)
class Programs:
    frontend: Path
    load: Path


def build(into: Path) -> Programs:
    """Compiles what is older than its source."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise BenchError("no C compiler: apt-get install gcc libc6-dev (the load generator and mock frontends are C)")
    into.mkdir(parents=True, exist_ok=True)
    for name in ("frontend", "load"):
        source, program = SOURCES / f"{name}.c", into / name
        if program.exists() and program.stat().st_mtime >= source.stat().st_mtime:
            continue
        command = [compiler, "-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-o", str(program), str(source)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise BenchError(f"{source.name} does not compile:\n{result.stderr}")
    return Programs(into / "frontend", into / "load")


@dataclass(frozen=True)
class FrontendCounts:
    """What the mock frontends counted since their start; requests per frontend, in port order."""

    requests: tuple[int, ...]
    unary: int
    streams: int
    events: int
    aborted: int
    connections: int
    open: int
    models: int

    def since(self, earlier: FrontendCounts) -> FrontendCounts:
        return FrontendCounts(
            requests=tuple(now - then for now, then in zip(self.requests, earlier.requests, strict=True)),
            unary=self.unary - earlier.unary,
            streams=self.streams - earlier.streams,
            events=self.events - earlier.events,
            aborted=self.aborted - earlier.aborted,
            connections=self.connections - earlier.connections,
            open=self.open,
            models=self.models - earlier.models,
        )


class Frontends:
    """Mock frontends on ports of their own; a context manager."""

    def __init__(self, program: Path, count: int = 4, core: int | None = None) -> None:
        self.ports = machine.free_ports(count)
        with machine.pinned(core):
            self._process = subprocess.Popen([str(program), *map(str, self.ports)], stdout=subprocess.PIPE)

    def __enter__(self) -> Frontends:
        stdout = self._process.stdout
        if stdout is None or stdout.readline() != b"ready\n":
            self._close()
            raise BenchError(f"the mock frontends do not listen on {self.ports}")
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        machine.end(self._process)
        if self._process.stdout is not None:
            self._process.stdout.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def counts(self) -> FrontendCounts:
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[0], timeout=10)
        try:
            connection.request("GET", "/stats")
            values = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        return FrontendCounts(**{**values, "requests": tuple(values["requests"])})


@dataclass(frozen=True)
class Load:
    """One task for the load generator: unary unless `chunks`; closed loop unless `rate`."""

    connections: int
    seconds: float
    rate: float = 0
    chunks: int | None = None
    every_us: int = 0

    def arguments(self) -> list[str]:
        words = ["--connections", str(self.connections), "--seconds", str(self.seconds)]
        if self.rate:
            words += ["--rate", str(self.rate)]
        if self.chunks is not None:
            words += ["--chunks", str(self.chunks), "--every", str(self.every_us)]
        return words


@dataclass(frozen=True)
class LoadResult:
    """What the load generator saw; latencies in microseconds."""

    asked: int
    good: int
    errors: int
    first_error: str
    connects: int
    seconds: float
    requests_per_second: float
    latency_p50: float
    latency_p90: float
    latency_p99: float
    events: int
    events_per_second: float
    delay_p50: float
    delay_p99: float
    first_chunk_p50: float
    first_chunk_p99: float
    body_min: int
    body_max: int


def start_load(program: Path, port: int, load: Load, core: int | None = None) -> subprocess.Popen[bytes]:
    with machine.pinned(core):
        command = [str(program), "--port", str(port), "--model", MODEL, *load.arguments()]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish_load(process: subprocess.Popen[bytes], load: Load) -> LoadResult:
    """Waits for the run; BenchError if a single answer was wrong."""
    try:
        out, err = process.communicate(timeout=load.seconds + GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise BenchError(f"the load generator did not end: {load}") from None
    if not out:
        raise BenchError(f"the load generator: {err.decode(errors='replace').strip() or 'said nothing'}")
    result = LoadResult(**json.loads(out))
    if result.errors or process.returncode:
        raise BenchError(f"{result.errors} of {result.asked} answers were wrong, the first: {result.first_error}")
    return result


def run_load(program: Path, port: int, load: Load, core: int | None = None) -> LoadResult:
    return finish_load(start_load(program, port, load, core), load)


def spread(requests: Sequence[int]) -> float:
    """The smallest share of a frontend against an even one: 1 is even, 0 is a frontend that got nothing."""
    total = sum(requests)
    return min(requests) * len(requests) / total if total else 0.0
