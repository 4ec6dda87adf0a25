"""The HTTP shell on real sockets."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from discovery.kit.certificate import Tls
from discovery.kit.errors import Refusal
from discovery.kit.service import CannotServe, health_routes, make_app, serve


def nothing_fails(error: Exception) -> None:
    raise AssertionError(error)


async def echo(request: Request) -> Response:
    return JSONResponse({"bytes": len(await request.body())})


async def refuse(request: Request) -> Response:
    raise Refusal(409, "taken", "It is taken.", param="name")


async def fail(request: Request) -> Response:
    raise RuntimeError("secret detail")


ROUTES = [Route("/echo", echo, methods=["POST"]), Route("/refuse", refuse), Route("/fail", fail)]


async def test_every_error_has_the_one_shape(caplog: pytest.LogCaptureFixture) -> None:
    async with (
        serve(make_app(ROUTES, body_limit=10), "127.0.0.1", 0, on_failure=nothing_fails) as bound,
        httpx.AsyncClient(base_url=bound.url) as client,
    ):
        answers = {
            (404, "unknown_url"): await client.get("/nothing"),
            (405, "method_not_allowed"): await client.get("/echo"),
            (409, "taken"): await client.get("/refuse"),
            (413, "request_too_large"): await client.post("/echo", content=b"x" * 11),
            (500, "internal_error"): await client.get("/fail"),
        }
        for (status, code), answer in answers.items():
            error = answer.json()["error"]
            assert (answer.status_code, error["code"]) == (status, code)
            assert error.keys() == {"message", "type", "code", "param"}
            assert answer.headers["content-type"] == "application/json"
        assert answers[405, "method_not_allowed"].headers["allow"] == "POST"
        assert answers[409, "taken"].json()["error"]["param"] == "name"
        assert "secret" not in answers[500, "internal_error"].text
        assert (await client.post("/echo", content=b"x" * 10)).json() == {"bytes": 10}
    assert "secret detail" in caplog.text


async def test_a_body_without_a_length_is_bounded_too() -> None:
    async def chunks() -> object:
        for _ in range(4):
            yield b"xxxx"

    async with (
        serve(make_app(ROUTES, body_limit=10), "127.0.0.1", 0, on_failure=nothing_fails) as bound,
        httpx.AsyncClient(base_url=bound.url) as client,
    ):
        answer = await client.post("/echo", content=chunks())  # type: ignore[arg-type]
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "request_too_large")


async def test_health_says_why_not() -> None:
    reason: list[str | None] = ["Not yet."]
    app = make_app(health_routes(lambda: reason[0]))
    async with (
        serve(app, "127.0.0.1", 0, on_failure=nothing_fails) as bound,
        httpx.AsyncClient(base_url=bound.url) as client,
    ):
        answer = await client.get("/readyz")
        assert (answer.status_code, answer.json()["error"]["message"]) == (503, "Not yet.")
        assert (await client.get("/livez")).status_code == 200
        reason[0] = None
        assert (await client.get("/healthz")).status_code == 200


async def test_a_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotServe, match=rf"cannot listen on 127\.0\.0\.1:{port}: Address already in use"):
            async with serve(make_app([]), "127.0.0.1", port, on_failure=nothing_fails):
                pass


async def test_a_missing_certificate_is_named(tmp_path: Path) -> None:
    tls = Tls(tmp_path / "cert.pem", tmp_path / "key.pem")
    with pytest.raises(CannotServe, match=r"cert\.pem"):
        async with serve(make_app([]), "127.0.0.1", 0, on_failure=nothing_fails, tls=tls):
            pass


async def test_two_services_in_one_loop_and_requests_may_end() -> None:
    entered, finish = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> Response:
        entered.set()
        await finish.wait()
        return JSONResponse({"done": True})

    async with (
        serve(make_app(ROUTES), "127.0.0.1", 0, on_failure=nothing_fails) as outer,
        httpx.AsyncClient() as client,
    ):
        async with serve(make_app([Route("/slow", slow)]), "127.0.0.1", 0, on_failure=nothing_fails) as inner:
            request = asyncio.create_task(client.get(f"{inner.url}/slow"))
            await entered.wait()
            asyncio.get_running_loop().call_later(0.2, finish.set)
        assert (await request).json() == {"done": True}
        with pytest.raises(httpx.ConnectError):
            await client.get(f"{inner.url}/slow")
        assert (await client.get(f"{outer.url}/nothing")).status_code == 404
