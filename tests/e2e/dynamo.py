"""The venv of the real Dynamo frontends and mockers, made from its hash-locked requirements.

A venv of its own, since ai-dynamo pins libraries that this project uses in newer versions. It is made anew when the
lock has changed, and only then. By hand: `python -m tests.e2e.dynamo setup`.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from tests.e2e.children import ROOT

VENV = ROOT / ".venv-dynamo"
LOCK = ROOT / "requirements" / "dynamo.lock"
PYTHON = VENV / "bin" / "python"
_MADE_FROM = VENV / ".made-from"


def _uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        raise FileNotFoundError(f"uv is neither beside {sys.executable} nor on PATH: run `make .venv/.ok`")
    return found


def _digest() -> str:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return hashlib.sha256(LOCK.read_bytes()).hexdigest() + f" python {version}\n"


def ready() -> bool:
    return _MADE_FROM.exists() and _MADE_FROM.read_text() == _digest()


def setup() -> Path:
    """The interpreter of the venv, which is made first when it is missing or its lock has changed."""
    if ready():
        return PYTHON
    with LOCK.open() as guard:  # two runs at once make it once
        fcntl.flock(guard, fcntl.LOCK_EX)
        if not ready():
            uv = _uv()
            print(f"making {VENV.name} from {LOCK.relative_to(ROOT)} (some 300 MB on disk)", file=sys.stderr)
            subprocess.run([uv, "venv", "-q", "--clear", "--python", sys.executable, str(VENV)], check=True)
            sync = [uv, "pip", "sync", "-q", "--python", str(PYTHON), "--require-hashes", str(LOCK)]
            subprocess.run(sync, check=True)
            subprocess.run(
                [str(PYTHON), "-c", "import dynamo._core, uvloop, zmq, msgspec, yaml, packaging"], check=True
            )
            _MADE_FROM.write_text(_digest())
    return PYTHON


def main(argv: list[str]) -> int:
    if argv != ["setup"]:
        print("usage: python -m tests.e2e.dynamo setup", file=sys.stderr)
        return 2
    print(setup().relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
