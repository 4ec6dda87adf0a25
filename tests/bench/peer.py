"""One thing that is measured: a proxy before the mock frontends, started, known to be ready, ended.

Owns: the process of a peer. A peer is ready when it answers a request with 200, and its CPU is that of its whole tree.
Refuses: to pass over a peer that cannot be had; that is Unavailable, with a reason for the report.
"""

from __future__ import annotations

import http.client
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.bench import machine
from tests.bench.instruments import MODEL, BenchError

READY_SECONDS = 30.0


class Unavailable(Exception):
    """This peer cannot be had on this machine; the text says why and what would help."""


class Peer:
    """A proxy before the mock frontends; `start` returns when it answers."""

    name = ""

    def __init__(self, home: Path, frontends: Sequence[int], core: int | None) -> None:
        self.home = home
        self.frontends = list(frontends)
        self.port = 0
        self._core = core
        self._process: subprocess.Popen[bytes] | None = None

    def version(self) -> str:
        """Asked once before anything runs; Unavailable when the peer cannot be had."""
        raise NotImplementedError

    def command(self) -> list[str]:
        """Writes the configuration for `self.port` and returns the command."""
        raise NotImplementedError

    def start(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        self.port = machine.free_ports(1)[0]
        command = self.command()
        with (self.home / "output.log").open("wb") as log, machine.pinned(self._core):
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=self.home)
        if not machine.wait_until(lambda: self._ended() or self._answers(), READY_SECONDS) or self._ended():
            self.stop()
            tail = (self.home / "output.log").read_text(errors="replace")[-2000:]
            raise BenchError(f"{self.name} did not answer within {READY_SECONDS:g} s:\n{tail}")

    def _ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "ready?"}]})
        try:
            connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def pids(self) -> list[int]:
        """The process tree whose CPU counts; empty for no proxy at all."""
        return [] if self._process is None else machine.tree(self._process.pid)

    def stop(self) -> None:
        if self._process is not None:
            machine.end(self._process)
            self._process = None


class Direct(Peer):
    """No proxy: the first mock frontend itself. What the instruments alone take."""

    name = "direct"

    def version(self) -> str:
        return "no proxy"

    def start(self) -> None:
        self.port = self.frontends[0]
        if not self._answers():
            raise BenchError("the mock frontend does not answer")
