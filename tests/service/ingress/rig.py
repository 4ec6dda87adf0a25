"""Frontends, an ingress in front of them, and clients; and the invariant that holds after every test."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.service.ingress.client import MODEL, Answer, Client, request
from tests.service.ingress.frontend import Frontend, Request, Script
from tests.service.ingress.process import Ingress, Metrics, Settings, eventually, merged
from tests.service.ingress.wire import LIMIT

BASE: Settings = {
    "region": "r0",
    "models": [{"id": MODEL, "aliases": ["small"]}],
    "timeouts": {
        "connect": "3s",
        "first_byte": "20s",
        "idle": "20s",
        "client_header": "20s",
        "client_body": "20s",
        "client_write": "20s",
        "keep_alive": "30s",
        "upstream_keep_alive": "20s",
    },
    "retries": {"budget": 5, "first_event_gate": False},
    "ejection": {"failures": 100000},
    "probe": False,
    "drain": {"delay": "100ms", "timeout": "5s"},
    "log": {"format": "json"},
}


_IDS = itertools.count(1)


def static_pools(name: str, pools: Sequence[Sequence[Frontend]]) -> list[dict[str, Any]]:
    return [
        {
            "cluster": f"c{n}",
            "namespace": "serving",
            "name": name,
            "region": f"r{n}",
            "frontends": [one.url for one in frontends],
        }
        for n, frontends in enumerate(pools)
    ]


@asynccontextmanager
async def full_queue(frontend: Frontend) -> AsyncIterator[None]:
    """The frontend's address neither accepts nor refuses: the queue of its listener is full, so a connect hangs."""
    frontend.refuse()
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", frontend.port))
        listener.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", frontend.port))
        await asyncio.sleep(0.05)
        yield
    await frontend.start()


class Rig:
    """`pools` are lists of frontends; `frontends` all of them in order; `spare` are outside the settings."""

    def __init__(
        self, ingress: Ingress, pools: list[list[Frontend]], spare: list[Frontend], settings: Settings
    ) -> None:
        self.name = f"llm-{next(_IDS)}"  # what was learned of one rig's pools is not another's
        self.ingress = ingress
        self.pools = pools
        self.frontends = [one for pool in pools for one in pool]
        self.spare = spare
        self.settings = {"discovery": {"pools": static_pools(self.name, pools)}} | settings
        self.loop = asyncio.get_running_loop()
        self._clients: list[Client] = []

    # Frontends.

    def play(self, *scripts: Script) -> None:
        """One row of scripts for all: whichever is asked first plays the first."""
        shared = list(scripts)
        for one in self.frontends:
            one.scripts = shared

    def each(self, *scripts: Script) -> None:
        """Every frontend has the row for itself."""
        for one in self.frontends:
            one.play(*scripts)

    def pool(self, number: int) -> str:
        """What the ingress calls the n-th pool."""
        return f"c{number}/serving/{self.name}"

    def counts(self) -> list[int]:
        """Requests per frontend."""
        return [len(one.requests) for one in self.frontends]

    @property
    def asked(self) -> int:
        return sum(self.counts())

    @property
    def requests(self) -> list[Request]:
        """All requests in the order in which they came."""
        return sorted((r for one in self.frontends + self.spare for r in one.requests), key=lambda r: r.at)

    async def reached(self, count: int = 1) -> Request:
        """Wait for this many requests at the frontends; the last of them."""
        await eventually(lambda: self.asked >= count, f"{count} requests at the frontends")
        return self.requests[-1]

    async def unkept(self) -> None:
        """Close all kept connections, so that the next request opens one."""
        for one in self.frontends:
            one.drop()

        async def none() -> bool:
            return (await self.ingress.metrics()).value("upstream_connections", state="idle") == 0

        await eventually(none, "no connection is kept")

    def reload(self, pools: Sequence[Sequence[Frontend]] | None = None, *, hup: bool = True, **settings: Any) -> None:
        """Other settings from now on; `hup` False leaves it to the watch of the file."""
        total = merged(self.settings, settings)
        if pools is not None:
            total["discovery"] = {"pools": static_pools(self.name, pools)}
        self.ingress.write(total)
        if hup:
            self.ingress.signal(signal.SIGHUP)

    # Clients.

    async def client(self, *, receive_buffer: int = 0) -> Client:
        client = await Client.connect(self.ingress.port, receive_buffer=receive_buffer)
        self._clients.append(client)
        return client

    async def ask(
        self, raw: bytes | None = None, *, on: Client | None = None, limit: float = LIMIT, **given: Any
    ) -> Answer:
        """One request and its answer, on a connection of its own or on the one given."""
        client = on or await self.client()
        await client.send(raw if raw is not None else request(**given))
        answer = await client.answer(limit, method=given.get("method", "POST"))
        if on is None:
            client.fin()
        return answer

    async def get(self, path: str, **given: Any) -> Answer:
        return await self.ask(path=path, method="GET", **given)

    async def streaming(self, mark: bytes = b"data: ", **given: Any) -> Client:
        """A client whose stream has begun."""
        client = await self.client()
        await client.send(request(stream=True, **given))
        await client.seen(mark)
        return client

    def fresh_id(self) -> str:
        return f"test-{next(_IDS)}"

    # What is said of them.

    async def metrics(self) -> Metrics:
        return await self.ingress.metrics()

    async def line(self, request_id: str) -> dict[str, Any]:
        """The access log's one line of this request."""
        await eventually(lambda: self.ingress.access(request_id + '"'), f"a line of {request_id} in the access log")
        (line,) = self.ingress.access(request_id + '"')
        return line

    async def grew(self, before: Metrics, name: str, by: float = 1, **labels: str) -> None:
        """The counter has grown by exactly so much."""

        async def grown() -> bool:
            return (await self.metrics()).value(name, **labels) - before.value(name, **labels) >= by

        await eventually(grown, f"{name}{labels} grows by {by:g}")
        after = await self.metrics()
        assert after.value(name, **labels) - before.value(name, **labels) == by, (name, labels)

    # The invariant.

    async def load(self) -> None:
        """Make the running process serve these settings and frontends."""
        self.ingress.write(self.settings)
        self.ingress.signal(signal.SIGHUP)
        wanted = {one.url for one in self.frontends}

        async def loaded() -> bool:
            pools = (await self.ingress.status())["pools"]
            return {one["url"] for pool in pools for one in pool["frontends"]} == wanted

        await eventually(loaded, "the settings are loaded")
        await self.metrics()  # a worker that answers has heard what it was told before

    async def begin(self) -> None:
        self.ingress.mark()
        for one in self.frontends + self.spare:
            one.forget()
            await one.start()

    async def settle(self) -> None:
        """Whatever a test did: nothing is in flight, no connection is in use, all that is open is kept and known as
        such; the process lives and has logged no traceback."""
        for client in self._clients:
            client.leave()
        self._clients.clear()
        faults = [fault for one in self.frontends + self.spare for fault in one.faults]
        assert not faults, faults
        assert "Traceback" not in self.ingress.text(), self.ingress.text()[-4000:]
        if self.ingress.may_end:
            return
        assert self.ingress.alive, self.ingress.text()[-4000:]
        await self.at_rest()

    async def at_rest(self) -> None:
        """Wait until nothing is in flight and no connection is in use; fails with what is left."""
        last: dict[str, Any] = {}

        async def none() -> bool:
            metrics = await self.metrics()
            everyone = self.frontends + self.spare
            last.clear()
            last.update(
                in_flight=metrics.value("in_flight_requests"),
                active=metrics.value("upstream_connections", state="active"),
                connecting=metrics.value("upstream_connections", state="connecting"),
                clients=metrics.value("client_connections") - sum(one.open for one in self._clients),
                buffered=metrics.value("buffered_bytes"),
                busy=sum(one.busy() for one in everyone),
                unknown=sum(len(one.kept) for one in everyone) - metrics.value("upstream_connections", state="idle"),
            )
            return not any(last.values())

        try:
            await eventually(none, "everything is at rest")
        except AssertionError as error:
            raise AssertionError(f"{error}: {last}") from None


class Rigs:
    """Rigs by configuration. They share a process as far as settings can be changed while it runs: it is reloaded when
    another one is wanted. Frontends of two rigs never have the same address."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rigs: dict[str, Rig] = {}
        self._processes: dict[str, Ingress] = {}
        self._loaded: dict[Ingress, Rig] = {}
        self._made = 0

    async def take(self, pools: Sequence[int], spare: int, settings: Settings, *, fresh: bool, alone: bool) -> Rig:
        total = merged(BASE, settings)
        key = f"{list(pools)} {spare} {total}"
        rig = None if fresh or alone else self._rigs.get(key)
        if rig is None:
            ingress = None if alone else self._processes.get(_process_key(total))
            rig = await self._new(pools, spare, total, ingress)
        if not (fresh or alone):
            self._rigs[key] = rig
        if not alone:
            self._processes[_process_key(total)] = rig.ingress
        if self._loaded.get(rig.ingress) is not rig:
            await rig.load()
            self._loaded[rig.ingress] = rig
        await rig.begin()
        return rig

    async def _new(self, pools: Sequence[int], spare: int, total: Settings, ingress: Ingress | None) -> Rig:
        listed = [{"id": model["id"], "object": "model"} for model in total["models"]]
        numbers = itertools.count()
        rows = [[Frontend(f"f{next(numbers)}", listed) for _ in range(size)] for size in pools]
        others = [Frontend(f"s{n}", listed) for n in range(spare)]
        for one in [one for row in rows for one in row] + others:
            one.forget()
            await one.start()
        if ingress is None:
            self._made += 1
            folder = self._folder / str(self._made)
            folder.mkdir()
            ingress = Ingress(folder)
        rig = Rig(ingress, rows, others, total)
        if not ingress.started:
            ingress.write(rig.settings)
            try:
                await ingress.start()
            except BaseException:
                await self._end(ingress)
                raise
            self._loaded[ingress] = rig
        return rig

    async def drop(self, rig: Rig) -> None:
        """Use this one no more, but its process."""
        self._rigs = {key: one for key, one in self._rigs.items() if one is not rig}
        if self._loaded.get(rig.ingress) is rig:
            del self._loaded[rig.ingress]
        for one in rig.frontends + rig.spare:
            await one.stop()

    async def end(self, rig: Rig) -> None:
        """Use neither it nor its process any more, nor what else is served by that."""
        for one in [one for one in self._rigs.values() if one.ingress is rig.ingress] + [rig]:
            await self.drop(one)
        await self._end(rig.ingress)

    async def _end(self, ingress: Ingress) -> None:
        self._processes = {key: one for key, one in self._processes.items() if one is not ingress}
        await ingress.stop()

    async def stop(self) -> None:
        for rig in list(self._rigs.values()):
            await self.drop(rig)
        for ingress in list(self._processes.values()):
            await self._end(ingress)


def _process_key(settings: Settings) -> str:
    """What cannot be changed while the process runs."""
    return f"{settings.get('workers', 1)} {settings['log']}"


class Start:
    """What a test is given: `rig = await start(pools=2, timeouts={…})`."""

    def __init__(self, rigs: Rigs) -> None:
        self._rigs = rigs
        self.used: list[tuple[Rig, bool, bool]] = []

    async def __call__(
        self,
        pools: int | Sequence[int] = 1,
        *,
        spare: int = 0,
        fresh: bool = False,
        alone: bool = False,
        **settings: Any,
    ) -> Rig:
        """`pools`: how many of one frontend each, or the number of frontends of each. `fresh`: frontends that no test
        has used, to begin without a history and to change the settings; `alone`: a process of its own too."""
        sizes = [1] * pools if isinstance(pools, int) else pools
        rig = await self._rigs.take(sizes, spare, settings, fresh=fresh, alone=alone)
        self.used.append((rig, fresh, alone))
        return rig

    async def finish(self) -> None:
        """The invariant, for all that were used; what does not keep it is used no more."""
        broken = None
        for rig, fresh, alone in self.used:
            try:
                await rig.settle()
            except AssertionError as error:
                broken = broken or error
                alone = True
            if alone:
                await self._rigs.end(rig)
            elif fresh:
                await self._rigs.drop(rig)
        if broken is not None:
            raise broken
