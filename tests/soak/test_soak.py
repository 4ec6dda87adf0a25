"""The soak: constant load while everything that may change does change, again and again; nobody's request fails.

`--soak-seconds` spreads the same changes over more or less time. What may fail is only what a killed worker had
accepted; these requests are known by their connections and counted apart.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import httpx
import pytest

from tests.e2e.children import Children, wait_until
from tests.soak import machine
from tests.soak.changes import RELOADS, REPLACEMENTS, Changes, restarts
from tests.soak.stack import Directory, Fleet, Ingress, SliceFolder, Talker
from tests.soak.wire import MODEL, mark

POOLS = 4
FRONTENDS = 2  # of each pool
WORKERS = 2
SETTINGS: dict[str, Any] = {
    "models": [{"id": MODEL}],
    "probe": {"interval": "1s", "timeout": "2s"},
    "drain": {"delay": "100ms", "timeout": "5s"},
}
EXPECTED_ERRORS = {"settings refused, the old ones stay", "worker died"}
REST = 25.0  # seconds in which everything is back at rest


class Memory(threading.Thread):
    """The memory of processes, once a second; a worker is known by its seat, not by its pid."""

    def __init__(self, ingress: Ingress) -> None:
        super().__init__(daemon=True)
        self._ingress = ingress
        self.over = threading.Event()
        self.samples: dict[str, list[tuple[int, int]]] = {"supervisor": []}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.join()

    def run(self) -> None:
        while not self.over.wait(1.0):
            seats = {f"worker {seat['index']}": seat["pid"] for seat in self._ingress.get("/status.json")["workers"]}
            for name, pid in {"supervisor": self._ingress.pid, **seats}.items():
                if pid and machine.state(pid) in "RSD":
                    self.samples.setdefault(name, []).append((pid, machine.rss(pid)))

    def growth(self) -> dict[str, tuple[float, float]]:
        """Per process the medians of the second quarter and of the last (MiB), of the process that lived longest."""
        found = {}
        for name, samples in self.samples.items():
            (pid, count), *_ = Counter(pid for pid, _ in samples).most_common(1)
            values = [value / 2**20 for one, value in samples if one == pid]
            quarter = count // 4
            assert quarter > 2, f"{name} lived for {count} s only"
            found[name] = statistics.median(values[quarter : 2 * quarter]), statistics.median(values[-quarter:])
        return found


def at_rest(ingress: Ingress, fleet: Fleet) -> dict[str, float]:
    """What is not zero of all that must be."""
    found = {
        "in flight, by the gauge": ingress.metric("in_flight_requests"),
        "in flight, by the ledger": machine.in_flight(ingress.pid, WORKERS),
        "client connections": ingress.metric("client_connections"),
        "upstream connections": ingress.metric("upstream_connections"),
        "buffered bytes": ingress.metric("buffered_bytes"),
        "requests at frontends": fleet.total("active"),
    }
    return {name: value for name, value in found.items() if value}


def exactly(ingress: Ingress, url: str, members: int, rounds: int) -> dict[str, int]:
    """`members` × `rounds` requests in a row, each on a connection of its own; who answered."""
    answered: Counter[str] = Counter()
    with httpx.Client(trust_env=False, limits=httpx.Limits(max_keepalive_connections=0)) as client:
        for n in range(members * rounds):
            body = {"model": MODEL, "messages": [{"role": "user", "content": mark(f"x{n}")}]}
            answer = client.post(url, json=body)
            assert answer.status_code == 200
            answered[answer.json()["frontend"]] += 1
    return dict(answered)


def descriptors(ingress: Ingress) -> dict[str, dict[str, int]]:
    found = {"supervisor": machine.descriptors(ingress.pid)}
    for seat in ingress.get("/status.json")["workers"]:
        found[f"worker {seat['index']}"] = machine.descriptors(seat["pid"])
    return found


def more(before: dict[str, dict[str, int]], after: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Descriptors that were not there before."""
    grown = {
        name: {kind: count - before[name].get(kind, 0) for kind, count in kinds.items()}
        for name, kinds in after.items()
    }
    return {name: left for name, kinds in grown.items() if (left := {k: n for k, n in kinds.items() if n > 0})}


def excused(failure: dict[str, Any], kills: list[tuple[float, set[int]]]) -> bool:
    """Whether the failed request was on a connection that a killed worker had accepted."""
    return any(failure["at"] >= at and failure["port"] in ports for at, ports in kills)


def unexpected(log: str) -> list[str]:
    lines = [line for line in log.splitlines() if '"level":"error"' in line.replace(" ", "")]
    return [line for line in lines if not any(words in line for words in EXPECTED_ERRORS)]


@pytest.fixture
def stack(children: Children, fleet: Fleet, tmp_path: Path) -> tuple[SliceFolder, Directory, Ingress]:
    slices = SliceFolder(tmp_path / "slices", fleet.port)
    for n in range(POOLS):
        slices.put(f"c{n}", fleet.open(FRONTENDS))
    directory = Directory(slices, children)
    directory.start()
    ingress = Ingress("ingress", {"discovery": {"urls": [directory.url]}, **SETTINGS}, children, workers=WORKERS)
    ingress.start()
    wait_until(lambda: ingress.metric("pool_routable") == POOLS, "all pools routable", 20)
    return slices, directory, ingress


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_nothing_fails_while_everything_changes(
    stack: tuple[SliceFolder, Directory, Ingress], fleet: Fleet, soak_seconds: float, say: Callable[[str], None]
) -> None:
    slices, directory, ingress = stack
    url = f"http://127.0.0.1:{ingress.port}/v1/chat/completions"
    exactly(ingress, url, POOLS * FRONTENDS, 2)
    wait_until(lambda: not at_rest(ingress, fleet), "at rest before", REST)
    before = descriptors(ingress)
    kills: list[tuple[float, set[int]]] = []
    changes = Changes(slices, directory, ingress, fleet, random.Random(7))
    with Talker("tests.soak.clients", str(ingress.port)) as clients, Memory(ingress) as memory:

        def kill() -> None:
            pid = ingress.worker_pids()[len(kills) % WORKERS]
            ports = machine.stop_and_name(pid, ingress.port)
            kills.append((time.monotonic(), ports))
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: len(ingress.worker_pids()) == WORKERS, "the killed worker is replaced", 10)

        changes.run(soak_seconds, kill)
        told = clients.tell("stop")

    failures = [failure for failure in told["failures"] if not excused(failure, kills)]
    lost = len(told["failures"]) - len(failures)
    wait_until(lambda: not at_rest(ingress, fleet), f"at rest; last: {at_rest(ingress, fleet)}", REST)
    wait_until(lambda: ingress.metric("pool_routable") == POOLS, "all pools routable", 20)
    answered = exactly(ingress, url, POOLS * FRONTENDS, 10)
    wait_until(lambda: not at_rest(ingress, fleet), "at rest after", REST)
    log = ingress.child.log_text() if ingress.child else ""
    growth = memory.growth()
    say(
        f"{soak_seconds:g} s, {sum(told['good'].values())} good answers {told['good']}, {len(failures)} failed, "
        f"{lost} lost with {len(kills)} killed workers, {dict(changes.done)}; memory MiB second and last quarter: "
        + ", ".join(f"{name} {early:.1f} → {late:.1f}" for name, (early, late) in growth.items())
    )
    assert failures == [], failures[:20]
    assert (changes.done["reloads"], changes.done["replaced"]) == (RELOADS, REPLACEMENTS)
    assert (changes.done["directory"], changes.done["killed"]) == (restarts(soak_seconds), 1)
    assert set(answered.values()) == {10}, answered
    wait_until(
        lambda: not more(before, descriptors(ingress)), f"descriptors: {more(before, descriptors(ingress))}", REST
    )
    for name, (early, late) in growth.items():
        assert late <= 1.15 * early + 4, f"{name}: {early:.1f} → {late:.1f} MiB"
    assert "Traceback" not in log
    assert unexpected(log) == []
    ingress.stop()
