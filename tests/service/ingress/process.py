"""The real command as a process, its settings file, its two outputs, and what its admin listener says."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

from tests.service.ingress.wire import LIMIT, free_port

ROOT = Path(__file__).resolve().parents[3]
Settings = dict[str, Any]


def merged(base: Settings, over: Settings) -> Settings:
    """`over` on top of `base`, section by section."""
    out = copy.deepcopy(base)
    for key, value in over.items():
        old = out.get(key)
        out[key] = merged(old, value) if isinstance(value, dict) and isinstance(old, dict) else copy.deepcopy(value)
    return out


async def eventually(test: Callable[[], object], what: str, limit: float = LIMIT) -> None:
    """Wait until `test`, which may be a coroutine function, is true."""
    loop = asyncio.get_running_loop()
    end = loop.time() + limit
    while True:
        value = test()
        found = await value if isinstance(value, Awaitable) else value
        if found:
            return
        assert loop.time() < end, f"not in {limit:g} s: {what} (last {found!r})"
        await asyncio.sleep(0.02)


class Metrics:
    """One scrape. Read by hand: a real parser is slow, and tests scrape often."""

    def __init__(self, text: str) -> None:
        self.text = text

    def samples(self, name: str) -> Iterator[tuple[dict[str, str], float]]:
        """Labels and value of each sample of `global_ingress_NAME`."""
        for found in re.finditer(rf"^global_ingress_{name}(?:{{(.*)}})? (\S+)$", self.text, re.MULTILINE):
            yield dict(_LABEL.findall(found[1] or "")), float(found[2])

    def value(self, name: str, **labels: str) -> float:
        """The sum of the samples whose labels match."""
        return sum(value for given, value in self.samples(name) if labels.items() <= given.items())

    def by(self, name: str, label: str) -> dict[str, float]:
        """The samples added up by one label, without zeros."""
        out: dict[str, float] = {}
        for given, value in self.samples(name):
            if value:
                out[given[label]] = out.get(given[label], 0.0) + value
        return out


_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Ingress:
    """One `global-ingress serve`. `log` is its standard error, `access` its standard output, both as JSON lines."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "ingress.yaml"
        self.port, self.admin_port = free_port(), free_port()
        self.started = False
        self.may_end = False  # the test ends it
        self._marks = {"out": 0, "err": 0}
        self.process: asyncio.subprocess.Process
        self._http = httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.admin_port}", timeout=LIMIT, trust_env=False)

    def write(self, settings: Settings | str) -> None:
        """The settings file, in one step."""
        new = self.config.with_suffix(".new")
        new.write_text(settings if isinstance(settings, str) else json.dumps(settings))
        new.replace(self.config)

    def arguments(self) -> list[str]:
        listen, admin = f"127.0.0.1:{self.port}", f"127.0.0.1:{self.admin_port}"
        return ["-m", "global_ingress", "serve", "--config", str(self.config), "--listen", listen, "--admin", admin]

    async def start(self) -> None:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("GLOBAL_INGRESS_")}
        with (self.folder / "out").open("ab") as out, (self.folder / "err").open("ab") as err:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-W", "error", *self.arguments(),
                cwd=ROOT, env=kept, stdin=asyncio.subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
            )  # fmt: skip
        self.started = True
        await eventually(self._listens, "the ingress is ready", 30)

    async def _listens(self) -> bool:
        assert self.alive, self.text()
        try:
            status = await self.status()
        except httpx.TransportError:
            return False
        ready: bool = status["ready"] and all(worker["listening"] for worker in status["workers"])
        return ready

    @property
    def alive(self) -> bool:
        return self.process.returncode is None

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def exit_code(self, limit: float = LIMIT) -> int:
        async with asyncio.timeout(limit):
            return await self.process.wait()

    async def stop(self) -> None:
        """End it and whatever it started: it leads a session of its own."""
        await self._http.aclose()
        if self.started:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            await self.process.wait()

    # What it says.

    def mark(self) -> None:
        """From now on only what is written from now on is told."""
        self._marks = {name: (self.folder / name).stat().st_size for name in self._marks}

    def written(self, name: str) -> str:
        """What was written to `out` or `err` since the mark, whole lines only."""
        with (self.folder / name).open("rb") as file:
            file.seek(self._marks[name])
            data = file.read()
        return data[: data.rfind(b"\n") + 1].decode(errors="replace")

    def text(self) -> str:
        """Its standard error."""
        return self.written("err")

    def log(self, message: str = "") -> list[dict[str, Any]]:
        """Its log lines, or those with this message."""
        lines = [json.loads(line) for line in self.text().splitlines() if line.startswith("{")]
        return [line for line in lines if message in ("", line["message"])]

    def access(self, request_id: str = "") -> list[dict[str, Any]]:
        """Its access log, or the lines of one request."""
        wanted = f'"request_id":"{request_id}'
        return [json.loads(line) for line in self.written("out").splitlines() if wanted in line]

    async def admin(self, path: str) -> httpx.Response:
        return await self._http.get(path)

    async def metrics(self) -> Metrics:
        return Metrics((await self.admin("/metrics")).text)

    async def status(self) -> dict[str, Any]:
        document: dict[str, Any] = (await self.admin("/status.json")).json()
        return document
