"""Thirty days of flapping, restarts, 410s and partitions on virtual time: after each quiet spell the table is true.

A failure prints its seed; WATCH_DAYS_SEED runs that one again.
"""

from __future__ import annotations

import os
import random
import tracemalloc

import pytest

from tests.discovery.kube.scripted import FAULTS, Driver, Server, cuts

DAY = 86_400.0
_SILENT = {"freeze", "half", "hang", "restore"}
"""What only time can tell: a peer that is gone, a version of the future."""


def seeds() -> list[int]:
    given = os.environ.get("WATCH_DAYS_SEED")
    return [int(given)] if given else [20261130, random.SystemRandom().randrange(1 << 32)]


def trouble(driver: Driver, chance: random.Random) -> str:
    """One thing that happens."""
    server = driver.server
    name = f"pool-{chance.randrange(12)}"
    what = chance.choice(
        ["put", "put", "put", "delete", "fault", "cut", "restart", "compact", "freeze", "away", "restore"]
    )
    match what:
        case "put":
            # A negative number is an object that cannot be read: it keeps its last good form, so none of that here.
            server.put(name, chance.randrange(100))
        case "delete":
            server.delete(name)
        case "fault":
            what = chance.choice(FAULTS)
            driver.faults.append(what)
        case "cut":
            driver.cut()
        case "restart":
            driver.cut()
            server.compact()
        case "compact":
            server.compact()
        case "freeze":
            driver.freeze()
        case "away":
            driver.cut()
            driver.faults.extend(["refused"] * chance.randrange(1, 8))
        case "restore" if chance.random() < 0.1:
            driver.cut()
            server.restore(chance.randrange(1, 30))
        case _:
            what = "nothing"
    return what


@pytest.mark.parametrize("seed", seeds())
@pytest.mark.parametrize("streams", [True, False])
def test_thirty_days(seed: int, streams: bool) -> None:
    print(f"WATCH_DAYS_SEED={seed}")
    chance = random.Random(seed)
    server = Server(streams=streams)
    driver = Driver(server, seed=seed, piece=cuts([chance.randrange(1, 2000) for _ in range(50)]))
    quiet_spells = 0
    warm = 0
    tracemalloc.start()
    try:
        while driver.now < 30 * DAY:
            happened = set()
            for _ in range(chance.randrange(1, 25)):
                happened.add(trouble(driver, chance))
                driver.run(chance.expovariate(1 / 20))
            driver.faults.clear()
            # Silence is noticed after 70 s, a version of the future after two silences, a version that was handed out
            # twice by the safety list alone.
            driver.run(750 if "restore" in happened else 200 if happened & _SILENT else 60)
            quiet_spells += 1
            assert driver.held == server.truth(), (seed, driver.now / DAY, happened, driver.machine)
            assert driver.machine.failing_for(driver.now) == 0
            driver.run(chance.expovariate(1 / 1800))
            if driver.now > 3 * DAY and not warm:
                warm = tracemalloc.get_traced_memory()[0]
        grown = tracemalloc.get_traced_memory()[0] - warm
    finally:
        tracemalloc.stop()
    assert quiet_spells > 500
    assert grown < 1_000_000, f"memory has grown by {grown} bytes"
