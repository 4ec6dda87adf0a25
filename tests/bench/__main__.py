"""`make bench`: CPU per request and per chunk of the ingress beside nginx and Envoy, in one run on one machine.

Exit codes: 0 everything was measured or skipped with a reason, 1 a peer answered wrongly or nothing was measured,
2 wrong usage.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from tests.bench import instruments, machine, plots, report, rounds
from tests.bench.peers import DEFAULT, FULL, PEERS, ROOT

DOCUMENT = ROOT / "docs" / "benchmarks.md"
PLOT = ROOT / "docs" / "benchmarks.svg"


def choose(only: str, full: bool) -> list[str]:
    """Names in the order of measuring; typer.BadParameter for one nobody knows."""
    if not only:
        return list(FULL if full else DEFAULT)
    names = [name for name in only.replace(",", " ").split() if name]
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        raise typer.BadParameter(f"unknown: {', '.join(unknown)}; there are {', '.join(PEERS)}")
    return list(dict.fromkeys(names))


def main(
    rounds_: Annotated[int, typer.Option("--rounds", min=1, help="how often each peer is visited")] = 3,
    seconds: Annotated[float, typer.Option(min=0.1, help="length of each load")] = 3.0,
    only: Annotated[str, typer.Option(help=f"peers, by comma: {', '.join(PEERS)}")] = "",
    full: Annotated[bool, typer.Option(help="also 1 and 256 connections, memory per stream, access logs")] = False,
    quick: Annotated[bool, typer.Option(help="one short round: shows that it works, says little")] = False,
    write_docs: Annotated[bool, typer.Option(help="put the table into docs/benchmarks.md")] = False,
    out: Annotated[Path, typer.Option(help="where programs, logs and report.json go")] = ROOT / ".bench",
) -> None:
    """Measures CPU per unary request and per SSE chunk, latency and memory; prints a table."""
    names = choose(only, full)
    if write_docs:
        report.replace_section(DOCUMENT.read_text(), "")  # fails now rather than after minutes of measuring
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that peers and frontends are ended with us
    plan = rounds.Plan(rounds_, seconds, full=full)
    if quick:
        plan = replace(plan, rounds=1, seconds=min(seconds, 0.5), warm_seconds=0.2)
    about = describe()
    try:
        programs = instruments.build(out)
        peers = rounds.measure([PEERS[name] for name in names], programs, out / "run", plan, typer.echo)
    except instruments.BenchError as reason:
        typer.echo(f"bench: {reason}", err=True)
        raise typer.Exit(1) from None
    publish(peers, about, {"rounds": plan.rounds, "seconds": plan.seconds}, out, write_docs)
    failed = any(peer.version and peer.trouble for peer in peers.values())
    raise typer.Exit(1 if failed or not any(peer.samples for peer in peers.values()) else 0)


def describe() -> dict[str, str]:
    """The machine as it is before the first load."""
    about = machine.describe()
    about["load average before"] = f"{os.getloadavg()[0]:.2f}"
    about["pinned"] = "yes"
    if machine.pick_cores().proxy is None:
        about["pinned"] = "no"
        typer.echo("*** one core only: proxy and load share it, latencies and rates say little")
    return about


def publish(
    peers: dict[str, report.PeerReport], about: dict[str, str], options: dict[str, object], out: Path, write_docs: bool
) -> None:
    """Table on stdout, everything in report.json, bars in report.svg; table and bars in the document if asked for."""
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    report.add_differences(peers)
    text = report.section(peers, "ingress", about, options, date)
    told = report.as_json(peers, "ingress", about, options, date)
    (out / "report.json").write_text(json.dumps(told, indent=1) + "\n")
    typer.echo(f"\n{text}\n\nevery sample: {out / 'report.json'}")
    (out / "report.svg").write_text(drawn := plots.svg(peers, "ingress"))
    if write_docs:
        DOCUMENT.write_text(report.replace_section(DOCUMENT.read_text(), f"{text}\n\n![The same as bars]({PLOT.name})"))
        PLOT.write_text(drawn)
        typer.echo(f"written: {DOCUMENT} and {PLOT}")


if __name__ == "__main__":
    typer.run(main)
