"""Processes of one run: each in a group and with a log of its own, all of them ended by pid, whatever happens.

Signals go only to processes started here. A group is signalled while its leader is not yet reaped, so its number
cannot have passed to another. If this process is itself killed, the leash ends the groups.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from tests.e2e.leash import start_ticks

ROOT = Path(__file__).resolve().parents[2]
STOP_GRACE_S = 8.0
T = TypeVar("T")


class ConditionNotMet(AssertionError):
    """What was waited for did not come; the message says what, and what was seen last."""


def wait_until(probe: Callable[[], T], what: str, within_s: float, every_s: float = 0.05) -> T:
    """The first truthy value of `probe`, or ConditionNotMet naming `what` and the value seen last."""
    end = time.monotonic() + within_s
    while True:
        seen = probe()
        if seen:
            return seen
        if time.monotonic() >= end:
            raise ConditionNotMet(f"{what}: not within {within_s:g} s, last seen {seen!r}")
        time.sleep(every_s)


class Child:
    """One started process; `name` is also the name of its log."""

    def __init__(self, name: str, popen: subprocess.Popen[bytes], log: Path, cwd: Path) -> None:
        self.name = name
        self.cwd = cwd
        self.log = log
        self.pid = popen.pid
        self._popen = popen

    def __repr__(self) -> str:
        ended = self._ended()
        return f"<{self.name} pid {self.pid} {'running' if ended is None else f'ended with {ended}'}>"

    def alive(self) -> bool:
        return self._ended() is None

    def _ended(self) -> int | None:
        """Exit code or signal number of a leader that has ended; it is looked at, not reaped."""
        if self._popen.returncode is not None:
            return self._popen.returncode
        seen = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return None if seen is None else seen.si_status

    def signal(self, number: signal.Signals, *, group: bool = True) -> None:
        """Signal the group (or only its leader); a process that has ended is a fault of the caller."""
        if not self.alive():
            raise ProcessLookupError(f"{self!r} cannot be sent {number.name}")
        (os.killpg if group else os.kill)(self.pid, number)

    def wait(self, within_s: float) -> int:
        """Wait for the leader's end, kill what is left of its group, return the exit code."""
        if self._popen.returncode is None:
            wait_until(lambda: not self.alive(), f"end of {self.name} (pid {self.pid})", within_s, 0.02)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        return self._popen.wait()

    def kill(self) -> None:
        if self.alive():
            self.signal(signal.SIGKILL)
        self.wait(STOP_GRACE_S)

    def stop(self) -> int:
        """SIGTERM to the leader, after the grace SIGKILL to the group; returns the exit code."""
        if self.alive():
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM, group=False)
            with contextlib.suppress(ConditionNotMet):
                return self.wait(STOP_GRACE_S)
            self.kill()
        return self.wait(STOP_GRACE_S)

    def log_text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def tail(self, lines: int = 25) -> str:
        return "\n".join(line[:400] for line in self.log_text().splitlines()[-lines:])


class Children:
    """Starts processes and, on leaving the context, ends every one of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.all: list[Child] = []
        self._leash: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        argv = [sys.executable, "-m", "tests.e2e.leash"]
        self._leash = subprocess.Popen(argv, stdin=subprocess.PIPE, cwd=ROOT, start_new_session=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for child in self.all:
            if child.alive():
                child.signal(signal.SIGCONT)
                child.signal(signal.SIGTERM, group=False)
        for child in reversed(self.all):
            child.stop()
        if self._leash is not None and self._leash.stdin is not None:
            self._leash.stdin.close()
            self._leash.wait(STOP_GRACE_S)

    def start(self, name: str, argv: Sequence[str], env: Mapping[str, str], cwd: Path = ROOT) -> Child:
        """Start `argv` in a group of its own; output is appended to `<folder>/<name>.log`."""
        log = self.folder / f"{name}.log"
        with log.open("ab") as out:
            popen = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=dict(env), cwd=cwd, start_new_session=True
            )
        child = Child(name, popen, log, cwd)
        self._tell(f"+{child.pid} {start_ticks(child.pid)}")
        self.all.append(child)
        return child

    def forget(self, child: Child) -> None:
        """End a process for good and drop it from the list (a restarted one takes its place)."""
        child.kill()
        self.all.remove(child)
        self._tell(f"-{child.pid}")

    def tails(self) -> dict[str, str]:
        """State and last log lines of every process, for the report of a failed test; ours are the longer ones."""
        return {repr(child): child.tail(40 if child.cwd == ROOT else 8) for child in self.all}

    def _tell(self, line: str) -> None:
        if self._leash is None or self._leash.stdin is None:
            raise RuntimeError("processes are started inside `with Children(...)`, which ends them")
        self._leash.stdin.write(f"{line}\n".encode())
        self._leash.stdin.flush()
