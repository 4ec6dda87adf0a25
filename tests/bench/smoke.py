"""`make bench-smoke`: fails when the ingress has become slower than the committed figures allow.

Owns: tests/bench/smoke.json and how it is judged, in two ways. CPU against nginx: both run all the time and are loaded
in turns, so what else the machine does meets both; a figure is the median over the turns of ours divided by nginx's,
and one that is too high is measured anew, twice at most. Where other programs share the core it says so and does not
judge, since they cost the larger program more. Instructions per request and per event below callgrind: they do not
wobble, and are judged where there are numbers for this build of Python. The ratio to nginx is one of a processor: what
costs 1.8 times as much on one costs 3 times as much on another, whose caches suit the interpreter less; so it is judged
where there are numbers for this processor and this build of Python.

Exit codes: 0 no worse, or not measurable here and why is printed; 1 worse, or an answer was wrong; 2 wrong usage.
"""

from __future__ import annotations

import json
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from tests.bench import driven, instruments, machine
from tests.bench.instruments import Frontends, Load, run_load
from tests.bench.peer import Peer, Unavailable
from tests.bench.peers import ROOT, Nginx, Ours
from tests.bench.rounds import Visit

COMMITTED = Path(__file__).with_name("smoke.json")
WORSE = 1.15
TRIES = 3
BUSY = 10  # percent of the core that others may have
KEYS = {"unary_cpu_32": "CPU per unary request", "chunk_cpu_paced": "CPU per SSE chunk"}

Samples = Sequence[Mapping[str, float]]


def ratios(ours: Samples, theirs: Samples) -> dict[str, float]:
    """Turn by turn, then the median: what happens in one turn does not reach the others."""
    pairs = list(zip(ours, theirs, strict=True))
    return {key: statistics.median(mine[key] / other[key] for mine, other in pairs) for key in KEYS}


def worse(found: Mapping[str, float], committed: Mapping[str, float]) -> dict[str, float]:
    """By how much the figures that have got too bad have risen: 1.2 is 20 % worse."""
    risen = {key: value / committed[key] for key, value in found.items()}
    return {key: rise for key, rise in risen.items() if rise > WORSE}


def judged(measure: Callable[[], dict[str, float]], committed: Mapping[str, float]) -> tuple[dict[str, float], bool]:
    """The best of up to three measurements, another only when those before are too bad; and whether that will do."""
    found = measure()
    for _ in range(TRIES - 1):
        if worse(found, committed):
            again = measure()
            found = {key: min(found[key], again[key]) for key in KEYS}
    return found, not worse(found, committed)


def build_of_python() -> str:
    """What instruction counts depend on beside our own code, whose libraries are locked."""
    name, version = platform.python_implementation(), platform.python_version()
    return f"{name} {version}, {platform.python_compiler()}, {platform.machine()}"


def kind_of_machine() -> str:
    """What the ratio to nginx depends on beside the code of both."""
    return f"{machine.describe()['processor']}; {build_of_python()}"


class Pair:
    """The ingress and nginx before the same frontends, both running."""

    def __init__(self, out: Path, turns: int, seconds: float) -> None:
        self._programs = instruments.build(out)
        self._home, self._turns, self._seconds = out / "smoke", turns, seconds
        self._cores = machine.pick_cores()
        self.others = 0.0

    def measure(self) -> dict[str, float]:
        load, cores = self._programs.load, self._cores
        with Frontends(self._programs.frontend, core=cores.load) as frontends:
            body = run_load(load, frontends.ports[0], Load(4, 0.2), cores.load).body_max
            peers = [kind(self._home / kind.name, frontends.ports, cores.proxy) for kind in (Ours, Nginx)]
            samples: list[list[dict[str, float]]] = [[], []]
            try:
                for peer in peers:
                    peer.version()
                    peer.start()
                    Visit(peer, frontends, load, cores, body).warm(0.5)
                for _ in range(self._turns):
                    for peer, mine in zip(peers, samples, strict=True):
                        mine.append(self._turn(Visit(peer, frontends, load, cores, body)))
            finally:
                stop(peers)
        self.others = statistics.median(one.get("others_32", 0.0) for one in (*samples[0], *samples[1]))
        return ratios(*samples)

    def _turn(self, visit: Visit) -> dict[str, float]:
        visit.unary(32, self._seconds)
        visit.paced(self._seconds)
        return visit.sample


def stop(peers: Sequence[Peer]) -> None:
    for peer in peers:
        peer.stop()


def main(
    turns: Annotated[int, typer.Option(min=1, help="how often each of the two is loaded")] = 5,
    seconds: Annotated[float, typer.Option(min=0.2, help="length of each load")] = 1.0,
    write: Annotated[bool, typer.Option(help="commit to what is measured now")] = False,
    out: Annotated[Path, typer.Option(help="where programs and logs go")] = ROOT / ".bench",
) -> None:
    """Measures CPU of the ingress against nginx and compares with the committed ratios."""
    committed = json.loads(COMMITTED.read_text())
    python, kind = build_of_python(), kind_of_machine()
    ratio = committed["ratios"].get(kind)
    fine = True
    try:
        pair = Pair(out, turns, seconds)
        found, fine = (pair.measure(), True) if write or ratio is None else judged(pair.measure, ratio)
    except Unavailable as reason:
        typer.echo(f"*** bench-smoke: not against nginx, {reason}")
    except instruments.BenchError as reason:
        typer.echo(f"bench-smoke: {reason}", err=True)
        raise typer.Exit(1) from None
    else:
        tell(found, ratio, "ingress / nginx")
        if write:
            committed["ratios"][kind] = found
        elif ratio is None:
            typer.echo(f"*** bench-smoke: the ratios are not judged, there are no numbers for {kind}")
        elif not fine and pair.others > BUSY:
            typer.echo(f"*** bench-smoke: not judged, others had {pair.others:.0f} % of the core")
            fine = True
    counted = driven.instructions()
    known = committed["instructions"].get(python)
    if counted is None:
        typer.echo("*** bench-smoke: instructions are not counted, there is no valgrind: apt-get install valgrind")
    elif write:
        committed["instructions"][python] = counted
    elif known is None:
        typer.echo(f"*** bench-smoke: instructions are not judged, there are no numbers for {python}")
    else:
        tell(counted, known, f"instructions, {python}")
        fine = fine and not worse(counted, known)
    if write:
        COMMITTED.write_text(json.dumps(committed, indent=1) + "\n")
    if not fine:
        typer.echo("bench-smoke: FAILED, the ingress has become slower", err=True)
        raise typer.Exit(1)


def tell(found: Mapping[str, float], committed: Mapping[str, float] | None, what: str) -> None:
    for key, value in found.items():
        bound = "" if committed is None else f", committed {committed[key]:,.2f}, allowed × {WORSE:.2f}"
        typer.echo(f"{KEYS.get(key, key)}, {what}: {value:,.2f}{bound}")


if __name__ == "__main__":
    typer.run(main)
