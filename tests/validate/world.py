"""A small world to validate: simulated frontends, discoveries that list them, and plain round-robin forwarders in the
ingresses' place. Each can be told to do one thing wrong."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from discovery.identity import PoolKey
from discovery.kit.service import serve
from discovery.pool import Frontend, Pool, PoolTable
from discovery.wire import encode_routers, encode_table
from global_ingress.demo.frontend import Region
from global_ingress.demo.frontends import serving
from global_ingress.validate.evidence import Task

MODEL = "tiny"


@dataclass(slots=True)
class Wrong:
    """What is done wrong, at the ingress of ohio or its discovery. `at` counts requests from 0; None = never.

    `moved` and `cut` are what a disturbance does: ohio's frontend is listed at another address, oregon's does not
    answer; `keeps_old` and `no_failover` are how not to take it."""

    skew_at: int | None = None
    lose_done_at: int | None = None
    lie_at: int | None = None
    stale_at_discovery: bool = False
    stale_everywhere: bool = False
    moved: bool = False
    cut: bool = False
    keeps_old: bool = False
    no_failover: bool = False


@contextlib.asynccontextmanager
async def world(wrong: Wrong, *, per_pool: int = 4) -> AsyncIterator[Task]:
    """Two regions; gives the task that validates them."""
    names = ("ohio", "oregon")
    async with contextlib.AsyncExitStack() as stack:
        ports = await stack.enter_async_context(serving({Region(f"r{i}", MODEL, 0.0): 0 for i in range(2)}))
        pools = [
            Pool(PoolKey(name, "dynamo", "llama"), f"region-{name}", (Frontend(f"http://127.0.0.1:{port}"),))
            for name, port in zip(names, ports, strict=True)
        ]
        gone = replace(pools[0], frontends=(Frontend("http://127.0.0.1:1"),))
        client = await stack.enter_async_context(httpx.AsyncClient(trust_env=False))
        ingresses, discoveries = [], []
        for name in names:
            ours = wrong if name == "ohio" else Wrong()
            stale = wrong.stale_everywhere or ours.stale_at_discovery
            listed = [gone, pools[1]] if stale else pools
            routed = [gone, pools[1]] if wrong.stale_everywhere else pools
            discoveries.append((name, await _serve(stack, _discovery(listed, wrong))))
            ingresses.append((name, await _serve(stack, _ingress(client, routed, ours, wrong))))
        marks = tuple((str(pool.key), f" r{i}w") for i, pool in enumerate(pools))
        yield Task(MODEL, tuple(ingresses), tuple(discoveries), per_pool, marks=marks, expect_pools=2)


async def _serve(stack: contextlib.AsyncExitStack, app: Starlette) -> str:
    def failed(error: Exception) -> None:
        raise AssertionError from error

    return (await stack.enter_async_context(serve(app, "127.0.0.1", 0, on_failure=failed))).url


def _discovery(pools: list[Pool], wrong: Wrong) -> Starlette:
    moved = [replace(pools[0], frontends=(Frontend("http://localhost:1"),)), *pools[1:]]

    async def answer(request: Request) -> Response:
        listed = moved if wrong.moved and not wrong.keeps_old else pools
        table = PoolTable("e", 1 + wrong.moved, True, tuple(listed))
        encode = encode_table if request.url.path == "/pools" else encode_routers
        body = encode(table, observed_at="2026-01-01T00:00:00Z", sources=[])
        return Response(body, media_type="application/json")

    return Starlette(routes=[Route(path, answer) for path in ("/pools", "/routers")])


def _ingress(client: httpx.AsyncClient, pools: list[Pool], wrong: Wrong, everywhere: Wrong) -> Starlette:
    turns, numbers = itertools.cycle(range(len(pools))), itertools.count()

    async def forward(request: Request) -> Response:
        number = next(numbers)
        if number == wrong.skew_at:
            next(turns)
        pool = pools[next(turns)]
        if everywhere.cut and pool is pools[-1]:
            if everywhere.no_failover:
                return Response(status_code=502)
            pool = pools[0]
        named = pools[(pools.index(pool) + 1) % len(pools)] if number == wrong.lie_at else pool
        headers = {"x-dynamo-pool": str(named.key), "x-dynamo-target-region": named.region}
        ask = client.build_request(
            "POST",
            pool.frontends[0].url + request.url.path,
            content=await request.body(),
            headers={"content-type": "application/json"},
        )
        try:
            answer = await client.send(ask, stream=True)
        except httpx.ConnectError:
            return Response(status_code=502, headers=headers)
        return StreamingResponse(
            _body(answer, lambda piece: b"" if number == wrong.lose_done_at and b"[DONE]" in piece else piece),
            answer.status_code,
            headers | {"content-type": answer.headers["content-type"]},
        )

    return Starlette(routes=[Route("/{path:path}", forward, methods=["POST"])])


async def _body(answer: httpx.Response, change: Callable[[bytes], bytes]) -> AsyncIterator[bytes]:
    async with contextlib.aclosing(answer):
        async for line in answer.aiter_lines():
            if piece := change(f"{line}\n".encode()):
                yield piece
