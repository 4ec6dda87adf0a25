"""`python -m tests.sim.mcs`: schedules by their seeds, one after the other or on several cores.

Each seed is a whole schedule; a failure prints it, the broken rule and every step, and the same seed does the same
again. Hashes of texts are fixed, since sets are walked in their order.
"""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
import time
from contextlib import nullcontext

from tests.sim.mcs.mutants import MUTANTS
from tests.sim.mcs.schedule import KINDS, run
from tests.sim.mcs.world import Fault


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.mcs", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--schedules", type=int, default=1, help="how many, each with the next seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--kind", choices=KINDS, help="memory: one registry that forgets; shared: two over one store")
    parser.add_argument("--mutant", choices=[one.name for one in MUTANTS], help="break this rule first")
    parser.add_argument("--trace", action="store_true", help="print the steps of every schedule")
    given = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        again = [sys.executable, "-m", "tests.sim.mcs", *sys.argv[1:]]
        return subprocess.run(again, env={**os.environ, "PYTHONHASHSEED": "0"}, check=False).returncode
    if given.jobs > 1:
        return _spread(given)
    return _run(given)


def _spread(given: argparse.Namespace) -> int:
    share, jobs = -(-given.schedules // given.jobs), []
    for first in range(given.seed, given.seed + given.schedules, share):
        count = min(share, given.seed + given.schedules - first)
        line = [sys.executable, "-m", "tests.sim.mcs", "--seed", str(first), "--schedules", str(count)]
        line += ["--kind", given.kind] if given.kind else []
        jobs.append(subprocess.Popen(line))
    return max([job.wait() for job in jobs])


def _run(given: argparse.Namespace) -> int:
    logging.disable(logging.CRITICAL)
    begun, virtual, failed = time.process_time(), 0.0, 0
    mutant = next((one for one in MUTANTS if one.name == given.mutant), None)
    kind = given.kind or (mutant.kind if mutant else None)
    with mutant.alive() if mutant else nullcontext():
        for seed in range(given.seed, given.seed + given.schedules):
            try:
                outcome = run(seed, kind)
            except Fault as fault:
                failed += 1
                print(f"SEED={seed} FAILED {fault}\nagain: make sim SEED={seed}", flush=True)
                if mutant:
                    break
                continue
            virtual += outcome.virtual_s
            if given.trace:
                print(f"SEED={seed} passed\n" + "\n".join(outcome.trace))
    cpu = time.process_time() - begun
    print(
        f"seeds {given.seed} to {given.seed + given.schedules - 1}: {failed} failed, "
        f"{virtual / 3600:.1f} virtual hours, {cpu:.1f} s of processor time",
        flush=True,
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
