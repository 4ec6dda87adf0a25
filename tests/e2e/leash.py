"""The one process that outlives a killed test run: when its input ends, it kills what is still listed.

Owns nothing but the list it is told: lines `+PID TICKS` (a group leader and its start time) and `-PID`. Its own
session keeps Ctrl-C away from it. A pid whose start time differs belongs to somebody else and is left alone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path


def start_ticks(pid: int) -> str | None:
    """The kernel's start time of a process (field 22 of its stat line), or None when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[19]


def left_over(lines: Iterable[str]) -> dict[int, str]:
    """What the lines leave listed: pid to start time."""
    listed: dict[int, str] = {}
    for line in lines:
        word = line.split()
        if line.startswith("+"):
            listed[int(word[0][1:])] = word[1]
        elif line.startswith("-"):
            listed.pop(int(word[0][1:]), None)
    return listed


def main() -> None:
    for pid, ticks in left_over(sys.stdin).items():
        if start_ticks(pid) == ticks:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
