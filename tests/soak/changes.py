"""The changes of a soak, spread evenly over its time: settings, frontends, discovery, a worker.

Each change waits for its effect before it counts as done. Frontends go as Kubernetes lets them go: the slice says so
first, the process ends after a grace, and only when what it still served is over; now and then the new one comes late.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

from tests.e2e.children import wait_until
from tests.soak.stack import Directory, Fleet, Ingress, SliceFolder

RELOADS = 100
REPLACEMENTS = 100
RESTARTS = 10  # of discovery, in a soak that is long enough
RESTART_EVERY = 20.0  # seconds at least; more often it counts as one that keeps failing, and is asked more rarely
REFUSED_EVERY = 5  # so many reloads, then a file that must be refused
GRACE = 2.0  # seconds between the slice's word and the end of a frontend
EFFECT = 20.0  # seconds within which any change has its effect

_INVALID = (
    "models: [{id: x, alias: y}]\n",
    "discovery: {urls: [http://127.0.0.1:1], pools: []}\n",
    "timeouts: {idle: -1s}\ndiscovery: {urls: [http://127.0.0.1:1]}\n",
    "{ not yaml\n",
    "",
)


def restarts(seconds: float) -> int:
    """How often discovery is restarted in a soak of this length."""
    return max(1, min(RESTARTS, int(seconds / RESTART_EVERY)))


class Changes:
    """`run` makes all of them; `done` counts."""

    def __init__(
        self, slices: SliceFolder, directory: Directory, ingress: Ingress, fleet: Fleet, chance: random.Random
    ) -> None:
        self._slices = slices
        self._directory = directory
        self._ingress = ingress
        self._fleet = fleet
        self._chance = chance
        self._told = threading.Lock()  # of the fleet, which answers one at a time
        self.done: Counter[str] = Counter()
        self._faults: list[Exception] = []
        self._pools: dict[str, list[str]] = {}
        addresses = sorted(fleet.counts(), key=lambda address: tuple(map(int, address.split("."))))
        per_pool = len(addresses) // len(list(slices.folder.glob("*.json")))
        for n, path in enumerate(sorted(slices.folder.glob("*.json"))):
            self._pools[path.stem] = addresses[n * per_pool : (n + 1) * per_pool]

    def run(self, seconds: float, kill: Callable[[], None]) -> None:
        """Everything in `seconds`, or as soon after as it can be done; the first fault is raised."""
        rows: list[tuple[Callable[[], None], int]] = [
            (self._reload, RELOADS),
            (self._restart_directory, restarts(seconds)),
        ]
        for cluster in self._pools:
            rows.append((partial(self._replace, cluster), REPLACEMENTS // len(self._pools)))
        threads = [threading.Thread(target=self._row, args=(act, count, seconds), daemon=True) for act, count in rows]
        for thread in threads:
            thread.start()
        time.sleep(0.1 * seconds)  # early, so that the new worker lives long enough to be measured
        kill()
        self.done["killed"] += 1
        for thread in threads:
            thread.join()
        if self._faults:
            raise self._faults[0]

    def _row(self, act: Callable[[], None], count: int, seconds: float) -> None:
        began = time.monotonic()
        for n in range(count):
            time.sleep(max(0.0, began + n * seconds / count - time.monotonic()))
            if self._faults:
                return
            try:
                act()
            except Exception as fault:  # noqa: BLE001 - the thread's outermost frame: handed on, and the run ends
                self._faults.append(fault)
                return

    # ---- settings

    def _reload(self) -> None:
        n = self.done["reloads"] + 1
        if n % REFUSED_EVERY == 0:
            self._refuse()
        sections = {
            "headers": {"expose_pool": n % 3 > 0},
            "ejection": {"failures": 3 + n % 4},
            "limits": {"body": f"{16 + n % 16}MiB"},
            "models": [{"id": "soak-model", "aliases": [f"alias-{n}"]}, *([{"id": "soak-big"}] if n % 2 else [])],
        }
        if n == RELOADS:
            sections = {}
        if n % 4 < 2:
            self._ingress.settings.rename(n, **sections)
        else:
            self._ingress.settings.swap(n, **sections)
        if n % 2:
            self._ingress.hup()
        wait_until(lambda: self._ingress.marker() == n, f"settings {n} in force", EFFECT)
        self.done["reloads"] = n

    def _refuse(self) -> None:
        before = self._ingress.metric("config_reloads_total", result="refused")
        self._ingress.settings.write(_INVALID[self.done["refused"] % len(_INVALID)])
        refused = lambda: self._ingress.metric("config_reloads_total", result="refused") > before  # noqa: E731
        wait_until(refused, "an invalid file is refused", EFFECT)
        self.done["refused"] += 1

    # ---- frontends

    def _replace(self, cluster: str) -> None:
        old, *kept = self._pools[cluster]
        late = self._chance.random() < 0.3
        (new,) = self._open()
        self._slices.put(cluster, kept if late else [*kept, new], leaving=[old])
        time.sleep(GRACE)
        with self._told:
            self._fleet.tell("drain", address=old)
        self._slices.put(cluster, [*kept, new])
        self._pools[cluster] = [*kept, new]
        wait_until(lambda: self._gone(old), f"{old} has let its last request end", EFFECT)
        self.done["replaced"] += 1

    def _open(self) -> list[str]:
        with self._told:
            return self._fleet.open()

    def _gone(self, address: str) -> bool:
        with self._told:
            return bool(self._fleet.counts()[address]["gone"])

    # ---- discovery

    def _restart_directory(self) -> None:
        time.sleep(0.2)
        self._directory.restart()
        self.done["directory"] += 1
