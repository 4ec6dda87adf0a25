"""What holders have used up, over all workers: exact, and given back when a worker dies (I60)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from global_ingress.proxy.shared.allowance import Allowance
from global_ingress.proxy.shared.ledger import Ledger, create_ledger

HOUR = 3600 * 10**9

WORKER = """
import sys
from global_ingress.proxy.shared.allowance import Allowance
own = Allowance(int(sys.argv[1]), 4, int(sys.argv[2]))
passed = 0
for _ in range(3000):
    verdict = own.take(7, 10**15, (1000, 3600 * 10**9), None)
    passed += verdict.allowed
print(passed)
"""


@pytest.fixture
def fd() -> Iterator[int]:
    made = create_ledger(4)
    yield made
    os.close(made)


def test_four_processes_at_once_let_exactly_the_rate_pass(fd: int) -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(fd), str(n)], pass_fds=(fd,), stdout=subprocess.PIPE, text=True
        )
        for n in range(4)
    ]
    passed = [int(one.communicate(timeout=60)[0]) for one in running]
    assert sum(passed) == 1000


def test_in_flight_is_that_of_all_workers(fd: int) -> None:
    one, other = Allowance(fd, 4, 0), Allowance(fd, 4, 3)
    assert one.take(5, 0, None, 2) is not None
    assert other.take(5, 0, None, 2) is not None
    assert one.take(5, 0, None, 2) is None
    other.end(5)
    assert one.take(5, 0, None, 2) is not None
    assert one.in_flight(5) == 2
    assert one.in_flight(6) == 0


def test_what_a_dead_worker_held_is_given_back(fd: int) -> None:
    worker, supervisor = Allowance(fd, 4, 2), Allowance(fd, 4)
    worker.take(1, 0, None, None)
    worker.take(2, 0, None, None)
    supervisor.clear_worker(2, [1, 2])
    assert (supervisor.in_flight(1), supervisor.in_flight(2)) == (0, 0)


def test_what_is_refused_for_its_rate_is_not_in_flight(fd: int) -> None:
    own = Allowance(fd, 4, 0)
    verdicts = [own.take(1, HOUR, (1, HOUR), 9) for _ in range(2)]
    assert [one is not None and one.allowed for one in verdicts] == [True, False]
    assert own.in_flight(1) == 1
    own.clear_slot(1)
    assert own.in_flight(1) == 0
    assert own.peek(1, HOUR, 1, HOUR).allowed


def test_the_ledger_beside_it_is_not_touched(fd: int) -> None:
    ledger, own = Ledger(fd, 4, 3), Allowance(fd, 4, 3)
    ledger.begin(65535)
    own.take(0, HOUR, (5, HOUR), None)
    assert ledger.in_flight(65535) == 1
    assert own.in_flight(0) == 1
