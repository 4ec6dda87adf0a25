"""The simulated frontends as the tests see them: a process that is told what to do by lines of JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from types import TracebackType
from typing import Any, Self

from tests.bench.machine import free_ports
from tests.e2e.children import ROOT


class Talker:
    """A process of ours that is told and answers lines of JSON; it ends with its standard input, and so with us."""

    def __init__(self, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def tell(self, do: str, **order: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, **order}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"{self._process.args!r} has ended"
        return json.loads(answer)


class Fleet(Talker):
    """Simulated frontends at addresses of 127.0.0.0/8, all with one port."""

    def __init__(self) -> None:
        super().__init__("tests.soak.frontend")
        (self.port,) = free_ports(1)
        self._given = 0

    def open(self, count: int = 1) -> list[str]:
        """Start that many frontends; their addresses, which were never used before."""
        first, self._given = self._given + 1, self._given + count
        addresses = [f"127.{10 + n // 62500}.{n // 250 % 250}.{n % 250 + 1}" for n in range(first, self._given + 1)]
        self.tell("open", addresses=addresses, port=self.port)
        return addresses

    def counts(self) -> dict[str, dict[str, Any]]:
        answer: dict[str, dict[str, Any]] = self.tell("counts")
        return answer

    def total(self, what: str) -> int:
        return sum(int(one[what]) for one in self.counts().values())

    def url(self, address: str) -> str:
        return f"http://{address}:{self.port}"
