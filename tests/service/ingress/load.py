"""Requests without a pause through an ingress: who answers them, and that none fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from tests.service.ingress.client import Client, request
from tests.service.ingress.process import eventually

PATIENCE = 50.0
"""Seconds until a change is seen that has to wait for a list to be asked for again."""


async def served_by(client: Client) -> str:
    """Who answers one request; anything but a whole answer 200 fails."""
    await client.send(request())
    answer = await client.answer()
    assert (answer.status, answer.whole) == (200, True), answer
    name: str = answer.json()["served_by"]
    return name


class Load:
    """Clients that ask without a pause, each on one kept connection. `failed` says what was not a whole answer 200."""

    def __init__(self, clients: Sequence[Client]) -> None:
        self.asked = 0
        self.by: dict[str, int] = {}
        self.failed: list[str] = []
        self._clients = clients
        self._over = False

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for client in self._clients:
                group.create_task(self._ask(client))

    async def _ask(self, client: Client) -> None:
        while not self._over:
            self.asked += 1
            try:
                name = await served_by(client)
            except (AssertionError, ConnectionError) as error:
                self.failed.append(str(error))
                return
            self.by[name] = self.by.get(name, 0) + 1
            await asyncio.sleep(0.01)  # some 300 requests a second of all clients: the machine is for the others too

    def end(self) -> None:
        self._over = True

    async def goes_on(self, more: int = 100) -> None:
        """So many more requests are answered, or one has failed."""
        wanted = self.asked + more
        await eventually(lambda: self.failed or self.asked >= wanted, f"{more} more requests")

    async def reaches(self, *names: str) -> None:
        """From some moment on these answer, and no others."""

        async def only() -> bool:
            before = dict(self.by)
            await self.goes_on(40)
            return bool(self.failed) or {n for n, count in self.by.items() if count > before.get(n, 0)} == set(names)

        await eventually(only, f"only {names} answer", PATIENCE)


@asynccontextmanager
async def loaded(port: int, count: int = 4) -> AsyncIterator[Load]:
    """Constant load while the block runs. Not one request may have failed."""
    clients = [await Client.connect(port) for _ in range(count)]
    load = Load(clients)
    task = asyncio.create_task(load.run())
    try:
        await load.goes_on()
        yield load
        await load.goes_on()
    finally:
        load.end()
        await task
        for client in clients:
            client.leave()
    print(f"{load.asked} requests, {len(load.failed)} failed, answered by {load.by}")
    assert load.failed == []
    assert sum(load.by.values()) == load.asked
