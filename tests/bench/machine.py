"""What the benchmark asks of the machine: CPU and memory of process trees, cores, free ports, its own description.

Linux only. CPU is user plus system time from /proc/PID/stat of a process, its living descendants and the dead children
each of them has waited for; the kernel counts in ticks of 1/SC_CLK_TCK s: a difference is true to a tick per process.
"""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cores:
    """Which core the proxy runs on and which the load; both None where there is only one core."""

    proxy: int | None
    load: int | None


def pick_cores() -> Cores:
    allowed = sorted(os.sched_getaffinity(0))
    return Cores(allowed[0], allowed[1]) if len(allowed) > 1 else Cores(None, None)


@contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """Children started inside inherit the core; the calling thread has its old cores back afterwards."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _stat_fields(pid: int) -> list[str] | None:
    """The fields after the command name (which may hold blanks and brackets); None when the process is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


def tree(root: int) -> list[int]:
    """The process and its living descendants."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields := _stat_fields(int(entry))) is not None:
            children.setdefault(int(fields[1]), []).append(int(entry))
    found = [root]
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def cpu_seconds(pids: Sequence[int]) -> float:
    """utime + stime + cutime + cstime of these processes."""
    ticks = 0
    for pid in pids:
        if (fields := _stat_fields(pid)) is not None:
            ticks += sum(int(field) for field in fields[11:15])
    return ticks / TICKS_PER_SECOND


def core_busy_seconds(core: int) -> float:
    """What the core has worked since boot, for whomever: user, nice, system, irq, softirq and stolen time."""
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name == f"cpu{core}":
            ticks = [int(field) for field in fields]
            return (sum(ticks[:3]) + sum(ticks[5:8])) / TICKS_PER_SECOND
    raise ValueError(f"/proc/stat has no cpu{core}")


def pss_kib(pids: Sequence[int]) -> int | None:
    """Proportional set size of these processes; None where the kernel does not let us read it."""
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            return None
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total


def free_ports(count: int) -> list[int]:
    """Ports nobody listened on just now; all held until the last is known, so no two are alike."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for held in sockets:
            held.bind(("127.0.0.1", 0))
        return [int(held.getsockname()[1]) for held in sockets]
    finally:
        for held in sockets:
            held.close()


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether the condition came true in time; asked 50 times a second."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def end(process: subprocess.Popen[bytes], seconds: float = 10) -> None:
    """Ends a process that we started and its descendants: asked first, forced after the time."""
    pids = tree(process.pid) if process.poll() is None else []
    if pids:
        process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        for pid in pids:
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                continue
        process.wait()


def describe() -> dict[str, str]:
    """Processor, cores, kernel, distribution and Python, in words for a report."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    system = platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    return {
        "processor": model,
        "cores": str(len(os.sched_getaffinity(0))),
        "kernel": platform.release(),
        "system": system,
        "python": platform.python_version(),
    }
