"""The multi-cluster services under seeded schedules of trouble, on virtual time; each broken rule must be noticed.

Schedules run in processes of their own, where the hashes of texts are fixed, so that a seed does the same again:
`make sim SEED=…`. MCS_SIM_SCHEDULES and MCS_SIM_SEED say how many there are and where they begin; by default the same
ones each time, since a run that fails by chance says nothing of the change before it.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.sim.mcs.mutants import MUTANTS

SCHEDULES = int(os.environ.get("MCS_SIM_SCHEDULES", "2000"))
ENOUGH = 120
"""Schedules in which a mutant must be caught."""

pytestmark = pytest.mark.timeout(900)


def simulate(*given: str, timeout: float = 850) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "tests.sim.mcs", *given]
    fixed = {**os.environ, "PYTHONHASHSEED": "0"}
    return subprocess.run(line, capture_output=True, text=True, env=fixed, timeout=timeout, check=False)


def test_no_schedule_breaks_a_rule() -> None:
    seed = int(os.environ.get("MCS_SIM_SEED", "1"))
    print(f"MCS_SIM_SEED={seed}")
    jobs = str(min(os.cpu_count() or 1, 8))
    done = simulate("--seed", str(seed), "--schedules", str(SCHEDULES), "--jobs", jobs)
    assert done.returncode == 0, f"MCS_SIM_SEED={seed}\n{done.stdout[-20_000:]}{done.stderr[-5_000:]}"
    assert "0 failed" in done.stdout


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.name)
def test_a_broken_rule_is_caught(mutant: object) -> None:
    name = getattr(mutant, "name", "")
    done = simulate("--seed", "1", "--schedules", str(ENOUGH), "--mutant", name)
    assert done.returncode == 1, f"not noticed in {ENOUGH} schedules: {name}\n{done.stdout}"
    assert "make sim SEED=" in done.stdout, done.stderr


def test_a_seed_does_the_same_again() -> None:
    first, second = (simulate("--seed", "7", "--schedules", "6", "--trace").stdout for _ in range(2))
    assert first.splitlines()[:-1] == second.splitlines()[:-1]
    assert "all is as it should be" in first
