"""Requests that do not arrive, and connections beyond the bound, on real sockets."""

from __future__ import annotations

import asyncio
import resource

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from discovery.kit.connections import room
from discovery.kit.service import make_app, serve

HEAD = b"GET /echo HTTP/1.1\r\nHost: x\r\n"
ARRIVAL_S = 0.4


def nothing_fails(error: Exception) -> None:
    raise AssertionError(error)


async def echo(request: Request) -> Response:
    return JSONResponse({"bytes": len(await request.body())})


async def ticks(request: Request) -> Response:
    async def three() -> object:
        for _ in range(3):
            yield b"tick\n"
            await asyncio.sleep(ARRIVAL_S)

    return StreamingResponse(three())  # type: ignore[arg-type]


APP = make_app([Route("/echo", echo, methods=["GET", "POST"]), Route("/ticks", ticks)], body_limit=10)


async def ended(reader: asyncio.StreamReader) -> bytes:
    """What still comes until the other side has closed."""
    async with asyncio.timeout(20):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


@pytest.mark.parametrize(
    "sent",
    [b"", b"\r\n", HEAD, b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab"],
    ids=["nothing", "an empty line", "half a head", "half a body"],
)
@pytest.mark.parametrize("is_first", [True, False])
async def test_a_request_that_does_not_arrive_is_not_waited_for(sent: bytes, is_first: bool) -> None:
    async with serve(APP, "127.0.0.1", 0, on_failure=nothing_fails, arrival_s=ARRIVAL_S) as bound:
        reader, writer = await asyncio.open_connection(bound.host, bound.port)
        if not is_first:
            writer.write(HEAD + b"\r\n")
            assert await reader.readuntil(b'{"bytes":0}')
        writer.write(sent)
        assert b"200 OK" not in await ended(reader)
        writer.close()


async def test_a_long_answer_is_not_ended_and_the_next_half_head_is() -> None:
    async with serve(APP, "127.0.0.1", 0, on_failure=nothing_fails, arrival_s=ARRIVAL_S) as bound:
        reader, writer = await asyncio.open_connection(bound.host, bound.port)
        writer.write(b"GET /ticks HTTP/1.1\r\nHost: x\r\n\r\n" + HEAD)
        assert (await ended(reader)).count(b"tick\n") == 3
        writer.close()


async def test_a_body_that_comes_after_its_refusal_leaves_no_connection_behind() -> None:
    async with serve(APP, "127.0.0.1", 0, on_failure=nothing_fails, arrival_s=30) as bound:
        reader, writer = await asyncio.open_connection(bound.host, bound.port)
        writer.write(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n")
        assert b" 413 " in await reader.readline()
        writer.write(b"x" * 20)
        await ended(reader)
        writer.close()


async def test_a_connection_beyond_the_bound_is_closed_and_room_is_found_again() -> None:
    async with serve(APP, "127.0.0.1", 0, on_failure=nothing_fails, connections=2) as bound:

        async def asked() -> tuple[bytes, asyncio.StreamWriter]:
            reader, writer = await asyncio.open_connection(bound.host, bound.port)
            writer.write(HEAD + b"\r\n")
            try:
                async with asyncio.timeout(20):
                    return await reader.readline(), writer
            except ConnectionResetError:
                return b"", writer

        first, second, third = [await asked() for _ in range(3)]
        assert [bool(line) for line, _ in (first, second, third)] == [True, True, False]
        first[1].close()
        async with asyncio.timeout(20):
            while not (again := await asked())[0]:
                again[1].close()
        for _, writer in (second, third, again):
            writer.close()


def test_the_bound_leaves_descriptors_for_everything_else() -> None:
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(allowed, 1024), most))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        assert room(1_000_000) == max(soft // 2, soft - 256)
        assert room(16) == 16
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))
