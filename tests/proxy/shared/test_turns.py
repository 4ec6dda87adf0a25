"""A turn is drawn once, whatever the number of processes, also when one is killed in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from global_ingress.proxy.shared.turns import Turn, new_turn, pack_numbers, unpack_numbers

DRAW = """
import sys
from global_ingress.proxy.shared.turns import Turn
turn = Turn(int(sys.argv[1]))
sys.stdin.readline()
print(*(turn.draw() for _ in range(int(sys.argv[2]))))
"""


def drawers(turn: Turn, count: int, each: int) -> list[subprocess.Popen[str]]:
    return [
        subprocess.Popen(
            [sys.executable, "-c", DRAW, str(turn.fd), str(each)],
            pass_fds=[turn.fd],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(count)
    ]


def test_processes_draw_each_number_once() -> None:
    turn = new_turn()
    processes = drawers(turn, 4, 5000)
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    drawn = [int(n) for process in processes for n in process.communicate(timeout=60)[0].split()]
    assert sorted(drawn) == list(range(1, 20001))
    assert turn.position() == 20000
    turn.close()


def test_a_killed_process_blocks_nobody() -> None:
    turn = new_turn()
    [process] = drawers(turn, 1, 100_000_000)
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    while turn.position() < 1000:
        pass
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    at = turn.position()
    assert [turn.draw(), turn.draw()] == [at + 1, at + 2]
    turn.close()


def test_two_counters_are_two() -> None:
    one, other = new_turn(), new_turn()
    assert [one.draw(), one.draw(), other.draw()] == [1, 2, 1]
    assert os.get_inheritable(one.fd) is False
    one.close()
    other.close()


@given(st.lists(st.integers(0, 2**32 - 1), max_size=200))
def test_numbers_survive_the_wire(numbers: list[int]) -> None:
    packed = pack_numbers(numbers)
    assert len(packed) == 4 * len(numbers)
    assert unpack_numbers(packed) == tuple(numbers)
