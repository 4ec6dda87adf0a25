"""The demo: frontends, a discovery and an ingress per region, traffic from every region, the report.

Owns the composition and its order. Refuses to start when a port is taken. The rule: however it ends (done, failed,
Ctrl-C, a child that died), every process it started has ended and its folder is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec
import yaml

from discovery.kit.clock import SYSTEM_CLOCK, Clock
from global_ingress.demo.children import Children
from global_ingress.demo.disturbing import Disturbing
from global_ingress.demo.regions import HOST, MODEL, Place, taken_words
from global_ingress.demo.words import kept
from global_ingress.validate.evidence import Evidence
from global_ingress.validate.probe import new_client
from global_ingress.validate.report.judged import Report, exit_code, report_on
from global_ingress.validate.run import Patience, measure, task_of

READY_S = 60.0
_POLL_S = 0.1

Say = Callable[[str], None]
Result = TypeVar("Result")


class DemoFailed(Exception):
    """The demo could not be run; the message says what happened, with the log of whose fault it is."""


class Interrupted(Exception):
    """It was told to end before the report was there."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What was asked for: the regions, whether to stay, the environment of the children."""

    places: tuple[Place, ...]
    keep: bool
    environment: Mapping[str, str]
    model: str = MODEL


def ports_in_use(places: Sequence[Place]) -> str | None:
    """Which of the ports are taken, in words; None when all are free."""
    taken = []
    for place in places:
        for port, _ in place.ports():
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as attempt:
                attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    attempt.bind((HOST, port))
                except OSError:
                    taken.append(port)
    return taken_words(places, taken)


async def demo(wishes: Wishes, *, say: Say, show: Callable[[Report], None], clock: Clock = SYSTEM_CLOCK) -> int:
    """Runs the demo and gives its exit code. Raises DemoFailed, Interrupted."""
    if (words := ports_in_use(wishes.places)) is not None:
        raise DemoFailed(words)
    told_to_end = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, told_to_end.set)
    with tempfile.TemporaryDirectory(prefix="global-ingress-demo-") as folder:
        children = Children(Path(folder), wishes.environment)
        try:
            return await _Run(wishes, children, Path(folder), told_to_end, say, clock).whole(show)
        finally:
            await children.stop()


class _Run:
    """One demo between the start of its first child and the moment they are stopped."""

    def __init__(
        self, wishes: Wishes, children: Children, folder: Path, told_to_end: asyncio.Event, say: Say, clock: Clock
    ) -> None:
        self._wishes = wishes
        self._children = children
        self._folder = folder
        self._told_to_end = told_to_end
        self._say = say
        self._clock = clock
        self._disturbing = Disturbing(wishes.places, wishes.model, children, folder / "files", clock)

    async def whole(self, show: Callable[[Report], None]) -> int:
        places = self._wishes.places
        self._say(f"starting {len(places)} simulated regions: {', '.join(place.cluster for place in places)}")
        await self._start_regions()
        await self._unless_ended(
            self._all_answer([(p.frontend, f"/v1/models/{self._wishes.model}/ready") for p in places])
        )
        await self._unless_ended(self._all_answer([(place.discovery, "/readyz") for place in places]))
        self._say("frontends and discoveries are ready; starting an ingress in each region")
        await self._start_ingresses()
        await self._unless_ended(self._all_answer([(place.admin, "/readyz") for place in places]))
        await self._unless_ended(self._all_see_all())
        report = report_on(await self._unless_ended(self._traffic()))
        show(report)
        if self._wishes.keep:
            self._say(kept(places, self._wishes.model, self._files))
            with contextlib.suppress(Interrupted):
                await self._unless_ended(self._told_to_end.wait())
            self._say("ending")
        return exit_code(report)

    async def _unless_ended(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The work's result, unless a child dies or the demo is told to end before it is there."""
        doing = asyncio.create_task(work)
        death = asyncio.create_task(self._children.first_death())
        told = asyncio.create_task(self._told_to_end.wait())
        tasks = (doing, death, told)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                return doing.result()
            if told.done():
                raise Interrupted
            child = death.result()
            raise DemoFailed(f"{child.name} ended with {child.process.returncode}; its last lines:\n{child.tail()}")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def _files(self) -> Path:
        return self._folder / "files"

    async def _start_regions(self) -> None:
        """The frontends, and each region's discovery over the slices that its cluster has."""
        places, python = self._wishes.places, sys.executable
        await self._disturbing.start()
        for place in places:
            files = self._files / place.cluster
            listen = f"{HOST}:{place.discovery_port}"
            directory = [python, "-m", "discovery", "directory", "--pool-discovery", "files", "--files", str(files)]
            await self._children.start(f"discovery of {place.cluster}", [*directory, "--listen", listen])

    async def _start_ingresses(self) -> None:
        for place in self._wishes.places:
            file = self._folder / f"{place.cluster}.ingress.yaml"
            file.write_text(ingress_file(place, self._wishes.model), encoding="utf-8")
            serve = [sys.executable, "-m", "global_ingress", "serve", "--config", str(file)]
            listen = ["--listen", f"{HOST}:{place.ingress_port}", "--admin", f"{HOST}:{place.admin_port}"]
            await self._children.start(f"ingress of {place.cluster}", [*serve, *listen])

    async def _all_answer(self, wanted: Sequence[tuple[str, str]]) -> None:
        """Waits until each URL answers 200."""
        async with new_client(timeout_s=5.0) as client:
            for base, path in wanted:
                await self._until(client, base + path, lambda answer: answer.status_code == 200)

    async def _all_see_all(self) -> None:
        """Waits until each ingress says that it can route to every pool: a table that is still coming is no fault of
        the round robin."""
        count = len(self._wishes.places)
        async with new_client(timeout_s=5.0) as client:
            for place in self._wishes.places:
                await self._until(client, f"{place.admin}/pools", lambda answer: routable(answer.content) == count)

    async def _until(self, client: httpx.AsyncClient, url: str, wanted: Callable[[httpx.Response], bool]) -> None:
        end = self._clock.monotonic() + READY_S
        seen = "nothing"
        while True:
            try:
                answer = await client.get(url)
                if wanted(answer):
                    return
                seen = f"{answer.status_code} {answer.text[:300]}"
            except httpx.HTTPError as error:
                seen = f"{type(error).__name__}: {error}"
            if self._clock.monotonic() >= end:
                raise DemoFailed(f"{url} was not ready in {READY_S:g} s; last seen: {seen}")
            await self._clock.sleep(_POLL_S)

    async def _traffic(self) -> Evidence:
        places = self._wishes.places
        task = task_of(
            self._wishes.model,
            {place.cluster: place.ingress for place in places},
            {place.cluster: place.discovery for place in places},
            {place.cluster: place.admin for place in places},
            expect_pools=len(places),
            disturb=("the demo itself",),
            marks={place.pool: f" {place.mark}w" for place in places},
        )
        patience = Patience(interval_s=0.2)
        return await measure(task, say=self._say, clock=self._clock, patience=patience, means=self._disturbing)


def ingress_file(place: Place, model: str) -> str:
    """The `ingress.yaml` of a region: its own discovery, one model, and an end that does not keep people waiting."""
    settings = {
        "region": place.region,
        "discovery": {"urls": [place.discovery]},
        "models": [{"id": model}],
        "drain": {"delay": "100ms", "timeout": "3s"},
    }
    return yaml.safe_dump(settings, sort_keys=False)


class _Routable(msgspec.Struct):
    routable: bool


class _Pools(msgspec.Struct):
    pools: list[_Routable]


def routable(body: bytes) -> int | None:
    """How many pools an ingress's `/pools` calls routable; None when it is no such list."""
    try:
        return sum(pool.routable for pool in msgspec.json.decode(body, type=_Pools).pools)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
