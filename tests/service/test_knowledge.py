"""Asking real frontends: models, readiness, failures, many at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import orjson

from discovery.identity import PoolKey
from discovery.kit.clock import SYSTEM_CLOCK
from discovery.kit.tasks import background
from discovery.pool import Frontend, Pool
from global_ingress.proxy.settings.sections import Probe
from global_ingress.proxy.supervising.knowledge import Knowledge, Subject, new_client

# A busy machine may take its time over an answer; only who is never to answer is waited for briefly.
FAST = Probe.model_validate({"interval": "50ms", "timeout": "10s", "headers": {"x-probe": "yes"}})
HASTY = Probe.model_validate({"interval": "50ms", "timeout": "300ms"})


@dataclass
class Server:
    """A frontend on loopback: answers by path, counts what it was asked."""

    answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    silent: bool = False
    url: str = ""
    _server: asyncio.Server | None = None

    def models(self, *ids: str) -> None:
        self.answers["/v1/models"] = (200, orjson.dumps({"data": [{"id": id} for id in ids]}))

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        path = head.split(" ")[1]
        self.asked.append(path)
        self.heads.append(head)
        if self.silent:
            await reader.read()
        else:
            status, body = self.answers.get(path, (404, b"{}"))
            writer.write(
                b"HTTP/1.1 %d X\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body)
            )
        writer.close()


@dataclass
class Rig:
    knowledge: Knowledge
    recovered: list[str]
    changes: int = 0

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():  # noqa: ASYNC110 - the condition is in other tasks' state
                await asyncio.sleep(0.01)


@asynccontextmanager
async def asking() -> AsyncIterator[Rig]:
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(new_client())

        def changed() -> None:
            rig.changes += 1

        recovered: list[str] = []
        rig = Rig(Knowledge(client, SYSTEM_CLOCK, changed, recovered.append), recovered)
        failures: list[Exception] = []
        await stack.enter_async_context(background(rig.knowledge.run(), name="ask", on_failure=failures.append))
        yield rig
        assert not failures


async def servers(stack: AsyncExitStack, count: int) -> list[Server]:
    made = [Server() for _ in range(count)]
    for one in made:
        await one.start()
        stack.push_async_callback(one.stop)
    return made


def subject(cluster: str, *urls: str, models: tuple[str, ...] = ("m",)) -> Subject:
    return Subject(Pool(PoolKey(cluster, "n", "p"), "r", tuple(Frontend(url) for url in urls)), models)


async def test_the_list_of_the_first_frontend_that_answers_is_taken_with_probing_off() -> None:
    async with AsyncExitStack() as stack, asking() as rig:
        [good] = await servers(stack, 1)
        good.answers["/v1/models"] = (200, b'{"data":[{"id":"m","max_model_len":8}]}')
        one = subject("a", "http://127.0.0.1:1", good.url)
        rig.knowledge.follow([one], None)
        await rig.until(lambda: one.pool.key in rig.knowledge.models())
        assert rig.knowledge.models()[one.pool.key] == ({"id": "m", "max_model_len": 8},)
        assert (rig.knowledge.failing(), rig.changes, good.asked) == ({}, 1, ["/v1/models"])


async def test_a_pool_that_falls_silent_keeps_its_list_and_the_reason_is_told() -> None:
    async with AsyncExitStack() as stack, asking() as rig:
        [server] = await servers(stack, 1)
        server.models("m")
        one = subject("a", server.url)
        rig.knowledge.follow([one], FAST)
        await rig.until(lambda: one.pool.key in rig.knowledge.models())
        await server.stop()
        await rig.until(lambda: bool(rig.knowledge.said()[one.pool.key].reason))
        assert rig.knowledge.models()[one.pool.key] == ({"id": "m"},)
        await rig.until(lambda: server.url in rig.knowledge.failing())


async def test_a_frontend_that_is_not_ready_for_its_model_fails_and_recovers() -> None:
    async with AsyncExitStack() as stack, asking() as rig:
        [server] = await servers(stack, 1)
        server.models("org/m")
        server.answers["/v1/models/org/m/ready"] = (503, b"{}")
        rig.knowledge.follow([subject("a", server.url, models=("org/m",))], FAST)
        await rig.until(lambda: server.url in rig.knowledge.failing())
        assert rig.knowledge.failing()[server.url] == "answers 503 when asked whether it serves org/m"
        assert rig.recovered == []
        server.answers["/v1/models/org/m/ready"] = (200, b"{}")
        await rig.until(lambda: not rig.knowledge.failing())
        assert set(rig.recovered) == {server.url}
        assert all("x-probe: yes" in head for head in server.heads)


async def test_where_readiness_is_unknown_the_model_list_is_taken_for_life() -> None:
    async with AsyncExitStack() as stack, asking() as rig:
        [server] = await servers(stack, 1)
        server.models("m")
        rig.knowledge.follow([subject("a", server.url)], FAST)
        await rig.until(lambda: len(rig.recovered) >= 2)
        assert {"/v1/models", "/v1/models/m/ready"} <= set(server.asked)
        assert rig.knowledge.failing() == {}


async def test_a_frontend_that_never_answers_costs_its_timeout_and_holds_up_nobody() -> None:
    async with AsyncExitStack() as stack, asking() as rig:
        mute, good = await servers(stack, 2)
        mute.silent = True
        good.models("m")
        rig.knowledge.follow([subject("a", mute.url), subject("b", good.url)], HASTY)
        await rig.until(lambda: mute.url in rig.knowledge.failing())
        assert "no answer" in rig.knowledge.failing()[mute.url]
        assert good.asked.count("/v1/models") > 3


async def test_who_left_is_forgotten_and_asked_no_more() -> None:
    async with AsyncExitStack() as stack, asking() as rig:
        first, second = await servers(stack, 2)
        for one in (first, second):
            one.models("m")
        rig.knowledge.follow([subject("a", first.url)], FAST)
        await rig.until(lambda: bool(rig.knowledge.models()))
        rig.knowledge.follow([subject("b", second.url)], FAST)
        assert rig.knowledge.models() == {}
        await rig.until(lambda: bool(rig.knowledge.models()))
        asked = len(first.asked)
        await rig.until(lambda: len(second.asked) > 10)
        assert len(first.asked) <= asked + 2, "what was on its way may still arrive"


async def test_more_questions_than_allowed_stretch_the_interval() -> None:
    async with asking() as rig:
        await asyncio.sleep(0)
        rig.knowledge.follow([subject(f"c{n}", f"http://127.0.0.1:{n + 1}") for n in range(2)], FAST)
        assert rig.knowledge.interval == 0.05
        rig.knowledge.follow([subject(f"c{n}", f"http://127.0.0.1:{n % 9 + 1}") for n in range(200)], None)
        assert rig.knowledge.interval == 30
        many = [
            Subject(Pool(PoolKey(f"c{n}", "n", "p"), "r", (Frontend(f"http://127.0.0.1:1/{n}"),)), ())
            for n in range(99)
        ]
        rig.knowledge.follow(many, FAST)
        assert rig.knowledge.interval == 198 / 200
