"""What the soak tests ask of the machine: memory, descriptors, sockets and the ledger of running processes, from /proc.

Linux only, like the ingress. Nothing here changes a process, but `stop_and_name`, which stops one so that the list of
its connections is exact.
"""

from __future__ import annotations

import os
import re
import resource
import signal
from pathlib import Path

from global_ingress.proxy.shared.ledger import SLOTS, allowance_size, ledger_size
from tests.e2e.children import wait_until

_COMMON = 4  # cells per frontend before the workers' own rows


def rss(pid: int) -> int:
    """Bytes of memory of its own that a process has resident."""
    return _status(pid, "RssAnon") * 1024


def _status(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise ValueError(f"process {pid} has no {name}")


def descriptors(pid: int) -> dict[str, int]:
    """Open descriptors by what they are: `socket`, `anon_inode:[eventpoll]`, a path."""
    found: dict[str, int] = {}
    for entry in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{entry}")
        except FileNotFoundError:
            continue
        kind = re.sub(r":\[\d+\]$", "", target)
        found[kind] = found.get(kind, 0) + 1
    return found


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "gone"


def stop_and_name(pid: int, port: int) -> set[int]:
    """Stop a worker and name the client ports of the connections it has accepted on `port`."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: state(pid) in ("T", "gone"), f"{pid} stopped", 5, 0.001)
    inodes = set()
    for entry in os.listdir(f"/proc/{pid}/fd"):
        target = os.readlink(f"/proc/{pid}/fd/{entry}")
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    clients = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[9] in inodes and int(fields[1].split(":")[1], 16) == port:
            clients.add(int(fields[2].split(":")[1], 16))
    return clients - {0}


def in_flight(supervisor: int, workers: int) -> int:
    """The sum of the workers' rows of the ledger itself, not of the gauge made from it; the keys' rows lie behind."""
    for entry in os.listdir(f"/proc/{supervisor}/fd"):
        path = f"/proc/{supervisor}/fd/{entry}"
        if os.readlink(path).startswith("/memfd:ledger"):
            data = memoryview(Path(path).read_bytes()).cast("q")
            assert 8 * len(data) == ledger_size(workers) + allowance_size(workers)
            return sum(map(abs, data[SLOTS * _COMMON : ledger_size(workers) // 8]))
    raise ValueError(f"process {supervisor} has no ledger")


def raise_limit() -> int:
    """As many descriptors as the machine allows, for us and for what we start; how many that is."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
