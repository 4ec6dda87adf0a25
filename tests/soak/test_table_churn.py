"""A thousand pools of ten frontends, and one change of the table each second: what requests and processes notice.

The same load runs in turns over a table that stands still and one that changes; the latencies of the two are compared,
and the CPU that a change costs is what each process took more. What is judged is the best round of each, since whatever
else the machine does only adds to it. All pools serve the one model, which is the most that routes can hold.
"""

from __future__ import annotations

import shutil
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench import machine
from tests.bench.instruments import MODEL, Load, Programs, build, run_load
from tests.e2e.children import Children, wait_until
from tests.soak.fleet import Fleet
from tests.soak.stack import Directory, Ingress, SliceFolder, settle

POOLS = 1_000
FRONTENDS = 10
ROUNDS = 3
SECONDS = 8.0
RATE = 300.0
WORKERS = 2
TIMES = 1.2
MARGIN_MS = 60.0  # wide: two cores run the load, the frontends, discovery and the ingress
# Per change, of all workers together, in the best round: what else runs on the machine makes the same work cost more.
# It is 19 to 27; one full garbage collection in each worker would double it.
WORKERS_CPU_MS = 40.0

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]


class Churn(threading.Thread):
    """One frontend of another pool replaced each second, while the block runs."""

    def __init__(self, slices: SliceFolder, pools: dict[str, list[str]], spare: list[str]) -> None:
        super().__init__(daemon=True)
        self._slices, self._pools, self._spare = slices, pools, spare
        self._over = threading.Event()
        self.changes = 0

    def __enter__(self) -> Churn:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        while not self._over.wait(1.0):
            name = f"c{self.changes * 37 % POOLS}"
            old, *kept = self._pools[name]
            self._pools[name] = [*kept, self._spare.pop(0)]
            self._spare.append(old)
            self._slices.put(name, self._pools[name])
            self.changes += 1


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    if shutil.which("gcc") is None and shutil.which("cc") is None:
        pytest.skip("no C compiler (apt-get install gcc libc6-dev): there is no load generator")
    return build(tmp_path / "programs")


def test_changes_of_a_large_table_are_not_felt(
    children: Children, fleet: Fleet, programs: Programs, tmp_path: Path, say: Callable[[str], None]
) -> None:
    slices = SliceFolder(tmp_path / "slices", fleet.port)
    addresses = fleet.open(POOLS * FRONTENDS + 10)
    pools = {f"c{n}": addresses[n * FRONTENDS : (n + 1) * FRONTENDS] for n in range(POOLS)}
    spare = addresses[POOLS * FRONTENDS :]
    for name, members in pools.items():
        slices.put(name, members)
    directory = Directory(slices, children)
    directory.start()
    settings = {"discovery": {"urls": [directory.url]}, "models": [{"id": MODEL}]}
    ingress = Ingress("ingress", settings, children, workers=WORKERS).start()
    wait_until(lambda: len(ingress.get("/pools")["pools"]) == POOLS, "all pools listed", 60)
    assert directory.child is not None
    pids = {"supervisor": [ingress.pid], "workers": ingress.worker_pids(), "discovery": [directory.child.pid]}
    load = Load(32, SECONDS, rate=RATE)
    run_load(programs.load, ingress.port, load)
    settle(2.0)

    def measured() -> tuple[float, float, dict[str, float]]:
        """p50 and p99 in ms, and CPU seconds by process."""
        before = {name: machine.cpu_seconds(of) for name, of in pids.items()}
        result = run_load(programs.load, ingress.port, load)
        cpu = {name: machine.cpu_seconds(of) - before[name] for name, of in pids.items()}
        return result.latency_p50 / 1000, result.latency_p99 / 1000, cpu

    still: list[tuple[float, float, dict[str, float]]] = []
    churned: list[tuple[float, float, dict[str, float]]] = []
    costs: list[dict[str, float]] = []
    for _ in range(ROUNDS):
        still.append(measured())
        generation = ingress.get("/status.json")["routes_generation"]
        began = time.monotonic()
        with Churn(slices, pools, spare) as churn:
            churned.append(measured())
        wait_until(
            lambda at=generation + churn.changes: ingress.get("/status.json")["routes_generation"] >= at,  # type: ignore[misc]
            "every change has reached the workers",
            20,
        )
        assert churn.changes >= SECONDS - 2, f"{churn.changes} changes in {time.monotonic() - began:.0f} s"
        costs.append({name: (churned[-1][2][name] - still[-1][2][name]) / churn.changes for name in pids})

    p50 = [statistics.median(row[0] for row in rows) for rows in (still, churned)]
    p99 = [statistics.median(row[1] for row in rows) for rows in (still, churned)]
    best = [min(row[1] for row in rows) for rows in (still, churned)]
    cost = {name: 1000 * statistics.median(row[name] for row in costs) for name in pids}
    say(
        f"{POOLS} pools × {FRONTENDS}, {RATE:g} requests/s: "
        f"still p50 {p50[0]:.2f} p99 {p99[0]:.1f} ms (best round {best[0]:.1f}), "
        f"a change a second p50 {p50[1]:.2f} p99 {p99[1]:.1f} ms (best round {best[1]:.1f}); CPU ms per change: "
        + ", ".join(f"{name} {ms:.0f}" for name, ms in cost.items())
        + f" (of {WORKERS} workers together); CPU while still: "
        + ", ".join(f"{name} {statistics.median(r[2][name] for r in still) / SECONDS:.0%}" for name in pids)
    )
    assert ingress.child is not None
    assert "Traceback" not in ingress.child.log_text()
    ingress.stop()
    assert 1000 * min(row["workers"] for row in costs) <= WORKERS_CPU_MS
    assert best[1] <= TIMES * best[0] + MARGIN_MS
