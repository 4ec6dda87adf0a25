"""What is read from the machine, against processes whose doings are known."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.bench import machine

BURN = "import time\nwhile time.process_time() < {seconds}: pass\n"
WAIT = "print('done', flush=True)\ninput()\n"


@contextmanager
def child(code: str) -> Iterator[subprocess.Popen[bytes]]:
    """A Python child that has said `done` and waits; ended afterwards."""
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        assert process.stdout.readline() == b"done\n"
        yield process
        machine.end(process)


def test_cpu_of_a_busy_child() -> None:
    with child(BURN.format(seconds=0.5) + WAIT) as process:
        assert 0.4 <= machine.cpu_seconds(machine.tree(process.pid)) <= 1.0


def test_cpu_of_living_and_of_dead_grandchildren() -> None:
    burn = BURN.format(seconds=0.4)
    dead = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {burn!r}])\n"
    living = f"""
inner = subprocess.Popen([sys.executable, '-c', {burn + WAIT!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
inner.stdout.readline()
"""
    with child(dead + living + WAIT) as process:
        pids = machine.tree(process.pid)
        assert len(pids) == 2
        assert 0.7 <= machine.cpu_seconds(pids) <= 1.6
        assert machine.cpu_seconds([process.pid]) >= 0.35  # the dead one is counted with its parent


def test_a_waiting_child_takes_nothing() -> None:
    with child(WAIT) as process:
        before = machine.cpu_seconds(machine.tree(process.pid))
        machine.wait_until(lambda: False, 0.3)
        assert machine.cpu_seconds(machine.tree(process.pid)) - before <= 0.05


def test_a_process_that_is_gone_counts_nothing() -> None:
    with child(WAIT) as process:
        pid = process.pid
    assert machine.cpu_seconds([pid]) == 0
    assert machine.tree(pid) == [pid]


def test_memory_of_a_child() -> None:
    with child("held = b'x' * 50_000_000\n" + WAIT) as process:
        pss = machine.pss_kib(machine.tree(process.pid))
    if pss is None:
        pytest.skip("this kernel does not show smaps_rollup")
    assert 48_000 <= pss <= 120_000


def test_pinning_is_inherited_and_taken_back() -> None:
    before = os.sched_getaffinity(0)
    core = min(before)
    with machine.pinned(core):
        code = "import os\nprint(*os.sched_getaffinity(0))"
        assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.split() == [
            str(core).encode()
        ]
    assert os.sched_getaffinity(0) == before


def test_pinning_to_nothing_changes_nothing() -> None:
    before = os.sched_getaffinity(0)
    with machine.pinned(None):
        assert os.sched_getaffinity(0) == before


def test_a_busy_core_is_seen() -> None:
    core = min(os.sched_getaffinity(0))
    before = machine.core_busy_seconds(core)
    with machine.pinned(core):
        subprocess.run([sys.executable, "-c", BURN.format(seconds=0.3)], check=True)
    assert machine.core_busy_seconds(core) - before >= 0.25


def test_a_deaf_child_is_ended_with_its_own_children() -> None:
    deaf = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    with child(deaf + WAIT) as process:
        machine.end(process, seconds=0.2)
        assert process.returncode == -9


def test_free_ports_differ() -> None:
    assert len(set(machine.free_ports(20))) == 20
