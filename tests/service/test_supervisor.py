"""The supervisor with real processes: workers that die, drains, signals (I52, I53)."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time
from pathlib import Path

from tests.service.supervised import LIMIT, STATIC, alive, eventually, get, serving

TWO = STATIC | {"workers": 2}


def test_several_workers_take_turns_as_one(tmp_path: Path) -> None:
    with serving(tmp_path, TWO) as serve:
        serve.ready()
        answers = [serve.request() for _ in range(40)]
        assert sorted(drawn for _, drawn, _ in answers) == list(range(1, 41))
        assert {pid for pid, _, _ in answers} <= set(serve.workers())
        assert serve.metric("requests_total", model="m", code="200") == 40
        assert serve.metric("workers_listening") == 2


def test_it_is_ready_when_no_connection_would_wait_for_a_worker_that_is_starting(tmp_path: Path) -> None:
    marker = tmp_path / "late"
    marker.touch()
    with serving(tmp_path, TWO, FAKE_WORKER_LATE=str(marker)) as serve:
        eventually(lambda: serve.lines("worker listens"), "the first worker listens")
        status, body = serve.ask("/readyz")
        assert (status, json.loads(body)["reason"]) == (503, "1 of 2 workers are listening")
        waiting = [socket.create_connection(("127.0.0.1", serve.port), timeout=LIMIT) for _ in range(20)]
        for one in waiting:
            one.sendall(b"GET /complete HTTP/1.1\r\nhost: x\r\n\r\n")
        answered, _, _ = select.select(waiting, [], [], LIMIT)
        assert answered, "the first worker serves meanwhile"
        assert answered[0].recv(1000).endswith(b"False")
        marker.unlink()
        serve.ready()
        for one in waiting:
            assert one is answered[0] or one.recv(1000).startswith(b"HTTP/1.1 200")
            one.close()
        assert {get(serve.port, "/complete")[1] for _ in range(20)} == {b"True"}
        os.kill(serve.workers()[0], signal.SIGKILL)
        eventually(lambda: len(serve.lines("worker listens")) == 3, "it is replaced")
        assert {get(serve.port, "/complete")[1] for _ in range(20)} == {b"True"}, "the replacement was told"


def test_a_killed_worker_is_replaced_and_nobody_waits_in_vain(tmp_path: Path) -> None:
    with serving(tmp_path, TWO) as serve:
        serve.ready()
        before = serve.workers()
        for _ in range(20):
            serve.request()
        assert serve.metric("requests_total") == 20
        os.kill(before[0], signal.SIGKILL)
        killed = time.monotonic()
        # Every connection is answered, those in the dead worker's queue by its replacement.
        waiting = [socket.create_connection(("127.0.0.1", serve.port), timeout=LIMIT) for _ in range(30)]
        for one in waiting:
            one.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        for one in waiting:
            assert one.recv(1000).startswith(b"HTTP/1.1 200")
            one.close()
        assert time.monotonic() - killed < 10
        serve.all_listening()
        after = serve.workers()
        assert before[1] in after
        assert before[0] not in after
        assert len(after) == 2
        assert serve.metric("requests_total") == 50, "what the dead one counted stays"
        assert serve.metric("workers_replaced_total") == 1
        assert [event["kind"] for event in serve.status()["events"]] == ["worker_died"]


def test_what_a_dead_worker_held_is_held_no_more(tmp_path: Path) -> None:
    with serving(tmp_path, STATIC) as serve:
        serve.ready()
        held = serve.hold()
        assert serve.metric("in_flight_requests") == 1
        os.kill(serve.workers()[0], signal.SIGKILL)
        eventually(lambda: serve.metric("in_flight_requests") == 0, "nothing in flight")
        held.close()


def test_a_worker_that_keeps_dying_is_started_later_and_later(tmp_path: Path) -> None:
    marker = tmp_path / "die"
    with serving(tmp_path, STATIC, FAKE_WORKER_DIE=str(marker)) as serve:
        serve.ready()
        marker.touch()
        os.kill(serve.workers()[0], signal.SIGKILL)
        eventually(lambda: serve.status()["workers"][0]["starts"] >= 4, "several starts")
        assert serve.ask("/readyz")[0] == 503
        assert json.loads(serve.ask("/readyz")[1])["reason"] == "no worker is listening"
        marker.unlink()
        serve.ready()
        serve.request()


def test_a_worker_that_can_never_start_ends_the_whole(tmp_path: Path) -> None:
    marker = tmp_path / "die"
    marker.touch()
    with serving(tmp_path, STATIC, FAKE_WORKER_DIE=str(marker)) as serve:
        assert serve.exit_code() == 1
        assert serve.lines("no worker could be started")


def test_drain(tmp_path: Path) -> None:
    with serving(tmp_path, TWO) as serve:
        serve.ready()
        held = serve.hold()
        serve.signal(signal.SIGTERM)
        eventually(lambda: serve.ask("/readyz")[0] == 503, "/readyz says no")
        assert json.loads(serve.ask("/readyz")[1])["reason"] == "draining"
        assert serve.ask("/livez")[0] == 200
        assert serve.metric("draining") == 1
        eventually(lambda: refused(serve.port), "the port is closed after the delay")
        assert serve.process.poll() is None, "a stream is still running"
        assert serve.metric("in_flight_requests") == 1
        eventually(lambda: len(serve.workers()) == 1, "the other worker has ended, and is not replaced")
        held.close()
        assert serve.exit_code() == 0


def test_a_worker_that_dies_while_draining_is_not_replaced(tmp_path: Path) -> None:
    with serving(tmp_path, STATIC) as serve:
        serve.ready()
        held = serve.hold()
        serve.signal(signal.SIGTERM)
        eventually(lambda: refused(serve.port), "the port is closed after the delay")
        os.kill(serve.workers()[0], signal.SIGKILL)
        assert serve.exit_code() == 0
        assert len(serve.lines("worker listens")) == 1
        held.close()


def test_a_worker_that_does_not_end_is_killed(tmp_path: Path) -> None:
    with serving(tmp_path, STATIC) as serve:
        serve.ready()
        os.kill(serve.workers()[0], signal.SIGSTOP)
        for _ in range(2):
            serve.signal(signal.SIGTERM)
            assert serve.ask("/livez")[0] == 200  # so that signals do not become one
        serve.signal(signal.SIGTERM)
        assert serve.exit_code(15) == 0
        assert serve.lines("worker ended")[0]["code"] == -signal.SIGKILL


def test_a_worker_that_hangs_is_told_of_and_replaced(tmp_path: Path) -> None:
    with serving(tmp_path, TWO) as serve:
        serve.ready()
        hung, other = serve.workers()
        os.kill(hung, signal.SIGSTOP)
        eventually(lambda: serve.lines("worker does not answer"), "it is told of", 30)
        eventually(lambda: hung not in serve.workers() and len(serve.workers()) == 2, "it is replaced", 60)
        assert other in serve.workers()
        serve.all_listening()
        assert all(serve.request()[0] in serve.workers() for _ in range(20))
        assert [event["kind"] for event in serve.status()["events"]] == ["worker_died", "worker_hangs", "worker_hangs"]


def refused(port: int) -> bool:
    try:
        get(port, "/", timeout=1)
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return False


def test_an_idle_ingress_ends_by_itself_with_0(tmp_path: Path) -> None:
    with serving(tmp_path, TWO) as serve:
        serve.ready()
        workers = serve.workers()
        serve.signal(signal.SIGINT)
        assert serve.exit_code() == 0
        assert not any(map(alive, workers))


def test_a_second_signal_ends_now(tmp_path: Path) -> None:
    slow = TWO | {"drain": {"delay": "60s", "timeout": "60s"}}
    with serving(tmp_path, slow) as serve:
        serve.ready()
        held, workers = serve.hold(), serve.workers()
        serve.signal(signal.SIGTERM)
        eventually(lambda: serve.ask("/readyz")[0] == 503, "/readyz says no")
        serve.request()
        serve.signal(signal.SIGTERM)
        assert serve.exit_code(10) == 0
        assert held.recv(1000) == b""
        assert not any(map(alive, workers))
        held.close()


def test_workers_end_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    with serving(tmp_path, TWO) as serve:
        serve.ready()
        workers = serve.workers()
        serve.signal(signal.SIGKILL)
        eventually(lambda: not any(map(alive, workers)), "the workers are gone")


def test_signals_to_the_whole_group_drain_once(tmp_path: Path) -> None:
    """Ctrl-C in a terminal reaches the workers too."""
    with serving(tmp_path, TWO) as serve:
        serve.ready()
        os.killpg(serve.process.pid, signal.SIGINT)
        assert serve.exit_code() == 0
        assert not serve.lines("worker died")


def test_what_a_worker_notices_is_shown(tmp_path: Path) -> None:
    with serving(tmp_path, STATIC) as serve:
        serve.ready()
        serve.request("/notice")
        [event] = eventually(lambda: serve.status()["events"], "an event")
        assert (event["kind"], event["detail"]) == ("ejected", "5 failures")
        serve.request("/eject")
        pools = json.loads(serve.ask("/pools")[1])["pools"]
        [out] = [pool for pool in pools if not pool["routable"]]
        assert (out["state"], out["frontends"][0]["state"]) == ("all_ejected", "ejected")
        assert out["ejected_until"] is not None
        assert serve.metric("pool_routable") == 1
        assert serve.metric("frontends", state="ejected") == 1
