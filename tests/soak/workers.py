"""CPU per request and per chunk with 1, 2 and 4 workers, in one run and in turns; a table for docs/benchmarks.md.

    python -m tests.soak.workers [--rounds 3] [--seconds 3] [--out .bench]

Uses the instruments of the benchmark and its checks: every answer right, both ends counting the same, every frontend
with its share. Exit codes: 0 measured, 1 an answer was wrong, 2 wrong usage.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Annotated

import typer

from tests.bench import instruments, machine, rounds
from tests.bench.peers import ROOT, Ours

COUNTS = (1, 2, 4)
FIGURES = (
    ("unary_cpu_32", "CPU per request, 32 connections (µs)"),
    ("unary_rate_32", "requests/s"),
    ("chunk_cpu_paced", "CPU per chunk, 16,000 chunks/s (µs)"),
    ("latency_p50", "latency at 300/s, p50 (µs)"),
    ("latency_p99", "latency at 300/s, p99 (µs)"),
    ("pss", "memory after load, PSS of the tree (MiB)"),
)


def kind(count: int) -> type[Ours]:
    """The ingress with so many workers, as a peer of the benchmark."""
    return type(f"Ours{count}", (Ours,), {"name": f"workers-{count}", "workers": count})


def visit(
    peer: Ours, frontends: instruments.Frontends, load: Path, cores: machine.Cores, seconds: float, body: int
) -> dict[str, float]:
    """Every figure once."""
    peer.start()
    try:
        one = rounds.Visit(peer, frontends, load, cores, body)
        one.warm(1.0)
        one.unary(32, seconds)
        one.paced(seconds)
        one.open_loop(seconds)
        pss = machine.pss_kib(peer.pids())
        return one.sample | ({"pss": pss / 1024} if pss is not None else {})
    finally:
        peer.stop()


def table(samples: dict[int, list[dict[str, float]]]) -> str:
    """Medians with their range, and against one worker."""
    lines = ["| | " + " | ".join(f"{n} worker{'s' * (n > 1)}" for n in samples) + " |", "|---|" + "---|" * len(samples)]
    for key, words in FIGURES:
        cells = []
        for count, rows in samples.items():
            values = [row[key] for row in rows if key in row]
            if not values:
                cells.append("-")
                continue
            middle = statistics.median(values)
            against = statistics.median(row[key] for row in samples[COUNTS[0]] if key in row)
            times = "" if count == COUNTS[0] else f", {middle / against:.2f} ×"
            cells.append(f"{middle:,.1f} ({min(values):,.1f} to {max(values):,.1f}){times}")
        lines.append(f"| {words} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(
    rounds_: Annotated[int, typer.Option("--rounds", min=1, help="how often each number of workers is visited")] = 3,
    seconds: Annotated[float, typer.Option(min=0.1, help="length of each load")] = 3.0,
    pinned: Annotated[bool, typer.Option(help="all workers on one core, as the benchmark has its peers")] = False,
    out: Annotated[Path, typer.Option(help="where programs and logs go")] = ROOT / ".bench",
) -> None:
    """Measures 1, 2 and 4 workers in turns and prints a table."""
    cores = machine.pick_cores()
    if not pinned:
        cores = machine.Cores(None, cores.load)
    samples: dict[int, list[dict[str, float]]] = {count: [] for count in COUNTS}
    try:
        programs = instruments.build(out)
        with instruments.Frontends(programs.frontend, core=cores.load) as frontends:
            body = instruments.run_load(
                programs.load, frontends.ports[0], instruments.Load(4, 0.2), cores.load
            ).body_max
            for number in range(1, rounds_ + 1):
                for count in COUNTS:
                    peer = kind(count)(out / "run" / f"workers-{count}", frontends.ports, cores.proxy)
                    samples[count].append(visit(peer, frontends, programs.load, cores, seconds, body))
                    sample = samples[count][-1]
                    typer.echo(f"round {number}, {count} workers: {sample['unary_cpu_32']:.1f} µs per request")
    except instruments.BenchError as reason:
        typer.echo(f"workers: {reason}", err=True)
        raise typer.Exit(1) from None
    about = machine.describe()
    where = "all workers on one core" if pinned else "workers on any core"
    typer.echo(f"\n{about['processor']}, {about['cores']} cores, Python {about['python']}; {where}, the load on one.\n")
    typer.echo(table(samples))


if __name__ == "__main__":
    typer.run(main)
