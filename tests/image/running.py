"""Runs the image's programs as the cluster will: uid 65532, no capability, root file system read-only.

Owns the processes it starts. buildah of Debian 12 has no read-only flag, so the mounted container is bound onto itself
read-only in a mount namespace of the process, with a small /tmp in memory; that ends with the process.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.image.building import BuildFailed

UID = 65532
_PATIENCE_S = 30.0
_INSIDE = """
set -eu
root=$1 files=$2; shift 2
mount --bind "$root" "$root"
mount -o remount,ro,bind "$root"
mount -t tmpfs -o mode=1777,size=16m tmpfs "$root/tmp"
mkdir "$root/tmp/files"
mount --bind "$files" "$root/tmp/files"
mount -o remount,ro,bind "$root/tmp/files"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
exec chroot --userspec=65532:65532 --groups= "$root" "$@"
"""


class Inside:
    """Programs in a mounted container; `files` is seen there as /tmp/files."""

    def __init__(self, root: Path, files: Path, environment: Mapping[str, str]) -> None:
        shell = ["unshare", "-m", "--propagation", "private", "sh", "-c", _INSIDE, "sh", str(root), str(files)]
        inner = ["/usr/bin/env", "-i", *(f"{key}={value}" for key, value in environment.items())]
        self._before = [*shell, *inner]

    def run(self, *command: str) -> str:
        done = subprocess.run([*self._before, *command], capture_output=True, text=True, check=False, timeout=60)
        if done.returncode != 0:
            raise BuildFailed(f"{command[0]} in the image ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout.strip()

    @contextlib.contextmanager
    def program(self, log: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
        """Runs while the block does; must end by SIGTERM with exit code 0."""
        with running(log, [*self._before, *command]) as process:
            yield process
        if process.returncode != 0:
            raise BuildFailed(f"{command[0]} ended with {process.returncode}:\n{log.read_text()[-2000:]}")


@contextlib.contextmanager
def running(log: Path, command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def state_of(pid: int) -> dict[str, str]:
    """The process as the kernel sees it: its uids, its capabilities, its mounts."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    mounts = [line.split() for line in Path(f"/proc/{pid}/mounts").read_text().splitlines()]
    root = next((options.split(",")[0] for _, place, _, options, *_ in reversed(mounts) if place == "/"), "?")
    return {"uids": status["Uid"], "capabilities": status["CapEff"], "root": root}


def until_answers(
    ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path, seconds: float = 30.0
) -> float:
    """Seconds until `ready()` is true."""
    begun = time.monotonic()
    while not ready():
        if process.poll() is not None or time.monotonic() - begun > _PATIENCE_S:
            raise BuildFailed(f"a program of the image does not become ready:\n{log.read_text()[-2000:]}")
        time.sleep(0.01)
    return time.monotonic() - begun
