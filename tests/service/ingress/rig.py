"""Frontends, an ingress in front of them, and clients; and the invariant that holds after every test."""

from __future__ import annotations

import asyncio
import contextlib
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


def static_pools(pools: Sequence[Sequence[Frontend]]) -> list[dict[str, Any]]:
    return [
        {
            "cluster": f"c{n}",
            "namespace": "serving",
            "name": "llm",
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
        self.ingress = ingress
        self.pools = pools
        self.frontends = [one for pool in pools for one in pool]
        self.spare = spare
        self.settings = settings
        self.loop = asyncio.get_running_loop()
        self._clients: list[Client] = []
        self._ids = 0

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
            total["discovery"] = {"pools": static_pools(pools)}
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
        self._ids += 1
        return f"test-{self.ingress.port}-{self._ids}"

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

    async def begin(self) -> None:
        for one in self.frontends + self.spare:
            one.forget()
            await one.start()

    async def settle(self) -> None:
        """Whatever a test did: nothing is in flight, no connection is in use, all that is open is kept and known as
        such; the process lives and has logged no traceback."""
        for client in self._clients:
            client.fin()
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
    """Keeps rigs by configuration, so that tests share a process; `most` at a time."""

    def __init__(self, folder: Path, most: int = 6) -> None:
        self._folder = folder
        self._most = most
        self._kept: dict[str, Rig] = {}
        self._made = 0

    async def take(self, pools: Sequence[int], spare: int, settings: Settings, *, fresh: bool) -> Rig:
        key = f"{list(pools)} {spare} {merged(BASE, settings)}"
        rig = None if fresh else self._kept.pop(key, None)
        if rig is None:
            rig = await self._new(pools, spare, settings)
        if not fresh:
            self._kept[key] = rig
        if len(self._kept) > self._most:
            await self.drop(next(iter(self._kept.values())))
        await rig.begin()
        return rig

    async def _new(self, pools: Sequence[int], spare: int, settings: Settings) -> Rig:
        self._made += 1
        folder = self._folder / str(self._made)
        folder.mkdir()
        total = merged(BASE, settings)
        listed = [{"id": model["id"], "object": "model"} for model in total["models"]]
        numbers = iter(range(1000))
        rows = [[Frontend(f"f{next(numbers)}", listed) for _ in range(size)] for size in pools]
        others = [Frontend(f"s{n}", listed) for n in range(spare)]
        for one in [one for row in rows for one in row] + others:
            one.forget()
            await one.start()
        ingress = Ingress(folder)
        rig = Rig(ingress, rows, others, {"discovery": {"pools": static_pools(rows)}} | total)
        ingress.write(rig.settings)
        try:
            await ingress.start()
        except BaseException:
            await self._stop(rig)
            raise
        return rig

    async def drop(self, rig: Rig) -> None:
        """End this one; the next test that wants it gets a new one."""
        self._kept = {key: one for key, one in self._kept.items() if one is not rig}
        await self._stop(rig)

    async def _stop(self, rig: Rig) -> None:
        await rig.ingress.stop()
        for one in rig.frontends + rig.spare:
            await one.stop()

    async def stop(self) -> None:
        for rig in list(self._kept.values()):
            await self.drop(rig)


class Start:
    """What a test is given: `rig = await start(pools=2, timeouts={…})`. One process per configuration, shared."""

    def __init__(self, rigs: Rigs) -> None:
        self._rigs = rigs
        self.used: list[tuple[Rig, bool]] = []

    async def __call__(
        self, pools: int | Sequence[int] = 1, *, spare: int = 0, fresh: bool = False, **settings: Any
    ) -> Rig:
        """`pools`: how many of one frontend each, or the number of frontends of each. `fresh`: a process of its own."""
        sizes = [1] * pools if isinstance(pools, int) else pools
        rig = await self._rigs.take(sizes, spare, settings, fresh=fresh)
        self.used.append((rig, fresh))
        return rig

    async def finish(self) -> None:
        """The invariant, for all that were used; what does not keep it is used no more."""
        broken = None
        for rig, fresh in self.used:
            try:
                await rig.settle()
            except AssertionError as error:
                broken = broken or error
                await self._rigs.drop(rig)
                continue
            if fresh or rig.ingress.may_end:
                await self._rigs.drop(rig)
        if broken is not None:
            raise broken
