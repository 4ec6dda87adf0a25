"""A `serve` process with fake workers, and the ways tests talk to it. Every process it starts ends with it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 30.0  # seconds for anything to happen

T = TypeVar("T")

STATIC: dict[str, Any] = {
    "discovery": {
        "pools": [
            {
                "cluster": f"c{n}",
                "namespace": "n",
                "name": "p",
                "region": f"r{n}",
                "frontends": [f"http://127.0.0.1:{n + 1}"],
            }
            for n in range(2)
        ]
    },
    "models": [{"id": "m"}],
    "probe": False,
    "drain": {"delay": "100ms", "timeout": "10s"},
    "log": {"format": "json"},
}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def eventually(test: Callable[[], T], what: str, limit: float = LIMIT) -> T:
    """The first true value of `test`."""
    end = time.monotonic() + limit
    while True:
        value = test()
        if value:
            return value
        assert time.monotonic() < end, f"not in {limit:g} s: {what}"
        time.sleep(0.02)


def get(port: int, path: str, timeout: float = 10.0) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


class Serve:
    """One supervisor. `folder` holds its settings and its output."""

    def __init__(self, folder: Path, settings: dict[str, Any] | str | None, *args: str, **environment: str) -> None:
        self.folder = folder
        self.port, self.admin = free_port(), free_port()
        self.config = folder / "ingress.yaml"
        if settings is not None:
            self.write(settings)
        argv = list(args) or [str(self.config), f"127.0.0.1:{self.port}", f"127.0.0.1:{self.admin}"]
        kept = {key: value for key, value in os.environ.items() if not key.startswith("GLOBAL_INGRESS_")}
        self.output = (folder / "output").open("w+b")
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", str(Path(__file__).with_name("serve_fake.py")), *argv],
            cwd=ROOT,
            env=kept | {"PYTHONPATH": str(ROOT)} | environment,
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=self.output,
            start_new_session=True,
        )

    def write(self, settings: dict[str, Any] | str) -> None:
        new = self.config.with_suffix(".new")
        new.write_text(settings if isinstance(settings, str) else json.dumps(settings))
        new.replace(self.config)

    def text(self) -> str:
        return (self.folder / "output").read_text()

    def lines(self, message: str) -> list[dict[str, Any]]:
        """The log lines with this message."""
        found = [json.loads(line) for line in self.text().splitlines() if line.startswith("{")]
        return [line for line in found if line["message"] == message]

    def ready(self) -> Serve:
        def answers() -> bool:
            assert self.process.poll() is None, self.text()
            with contextlib.suppress(OSError):
                return self.ask("/readyz")[0] == 200
            return False

        eventually(answers, "ready")
        return self

    def all_listening(self) -> Serve:
        eventually(lambda: all(worker["listening"] for worker in self.status()["workers"]), "all workers listen")
        return self

    def ask(self, path: str) -> tuple[int, bytes]:
        """The admin listener."""
        return get(self.admin, path)

    def request(self, path: str = "/") -> tuple[int, int, int]:
        """The data listener: the worker's pid, the number it drew, the generation of its routes."""
        status, body = get(self.port, path)
        assert status == 200
        pid, drawn, generation = map(int, body.split())
        return pid, drawn, generation

    def hold(self) -> socket.socket:
        """A connection that stays open as a stream does."""
        one = socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT)
        one.sendall(b"GET /hold HTTP/1.1\r\nhost: x\r\n\r\n")
        assert one.recv(1000).endswith(b"held")
        return one

    def status(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.ask("/status.json")[1])
        return document

    def workers(self) -> list[int]:
        return [worker["pid"] for worker in self.status()["workers"] if worker["pid"]]

    def metric(self, name: str, **labels: str) -> float:
        """The sum of the samples whose labels match."""
        total = 0.0
        for line in self.ask("/metrics")[1].decode().splitlines():
            found = re.fullmatch(r"(\w+)(\{.*\})? (\S+)", line)
            if found and found[1] == "global_ingress_" + name:
                given = dict(re.findall(r'(\w+)="([^"]*)"', found[2] or ""))
                if labels.items() <= given.items():
                    total += float(found[3])
        return total

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def exit_code(self, limit: float = LIMIT) -> int:
        return self.process.wait(limit)

    def close(self) -> None:
        """Kill the session of the process, which it leads."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(LIMIT)
        self.output.close()


@contextlib.contextmanager
def serving(folder: Path, settings: dict[str, Any] | str | None, *args: str, **environment: str) -> Iterator[Serve]:
    one = Serve(folder, settings, *args, **environment)
    try:
        yield one
        assert "Traceback" not in one.text()
    except BaseException:
        print(one.text()[-8000:])
        raise
    finally:
        one.close()


def alive(pid: int) -> bool:
    """Whether the process runs (one that ended and was not waited for does not)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
