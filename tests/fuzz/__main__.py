"""`make fuzz`: atheris on each target in turn, for some seconds each, from examples and what earlier runs found.

Runs in .venv-fuzz. What it found interesting is kept in .fuzz/NAME, an input that breaks a target beside it, in
.fuzz/NAME-crash-….
Exit codes: 0 nothing broke, 1 something did, 2 wrong usage.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".fuzz"
_RUN = """
import sys
import atheris
with atheris.instrument_imports(include=["discovery", "global_ingress"]):
    from tests.fuzz.targets import TARGETS
atheris.Setup(sys.argv[:1] + sys.argv[2:], TARGETS[sys.argv[1]])
atheris.Fuzz()
"""


def main(arguments: list[str]) -> int:
    from tests.fuzz.targets import TARGETS

    seconds, *names = arguments or ["20"]
    unknown = sorted(set(names) - set(TARGETS))
    if not seconds.isdecimal() or unknown:
        print(f"usage: python -m tests.fuzz [SECONDS [TARGET…]]; targets are {', '.join(TARGETS)}", file=sys.stderr)
        return 2
    broken = [name for name in names or TARGETS if not _fuzz(name, seconds)]
    print(f"fuzz: {', '.join(broken)} broke, inputs in {KEPT.name}" if broken else "fuzz: nothing broke")
    return 1 if broken else 0


def _fuzz(name: str, seconds: str) -> bool:
    folder = KEPT / name
    folder.mkdir(parents=True, exist_ok=True)
    limits = [f"-max_total_time={seconds}", "-max_len=8192", "-timeout=10", "-rss_limit_mb=2048"]
    places = [f"-artifact_prefix={KEPT / name}-", str(folder), *map(str, _seeds(name))]
    print(f"fuzz: {name} for {seconds} s", flush=True)
    run = subprocess.run(
        [sys.executable, "-c", _RUN, name, *limits, "-print_final_stats=1", *places],
        cwd=ROOT,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    lines = run.stderr.splitlines() + run.stdout.splitlines()
    print("\n".join(lines[-40:] if run.returncode else [line for line in lines if "number_of_executed" in line]))
    return run.returncode == 0


def _seeds(name: str) -> list[Path]:
    """Folders of examples to start from."""
    found = {"files": ROOT / "examples" / "endpointslices", "settings_file": ROOT / "examples"}
    return [found[name]] if name in found else []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
