"""The shell of a control service: Starlette on uvicorn, in a loop that already runs.

Owns binding, health routes, the error shape, the body limit, the bounds of connections and draining. `serve` may be
entered several times in one loop (a service and its admin listener); it takes no signals: `stop_on_signals` does, for
a composition root.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from discovery.kit.certificate import BadCertificate, Certificate, Tls
from discovery.kit.clock import SYSTEM_CLOCK, Clock
from discovery.kit.connections import ARRIVAL_S, bounded, room
from discovery.kit.errors import Refusal, error_response, on_failure, on_http_exception, on_refusal, refusal_response
from discovery.kit.tasks import background

MIB = 1024 * 1024
MOST_CONNECTIONS = 256


class CannotServe(Exception):
    """The listener could not be opened; the message names the address and the reason, in one line."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Where a service really listens (port 0 asks for any free port)."""

    host: str
    port: int
    url: str


def make_app(routes: Sequence[BaseRoute], *, body_limit: int = MIB) -> Starlette:
    """An application whose every error has the one shape and whose request bodies are bounded."""
    return Starlette(
        routes=list(routes),
        middleware=[Middleware(BodyLimit, limit=body_limit)],
        exception_handlers={HTTPException: on_http_exception, Refusal: on_refusal, Exception: on_failure},
    )


def refresh_of(request: Request) -> int | None:
    """After how many seconds a page is to be loaded again: its query's `refresh`. Raises Refusal."""
    given = request.query_params.get("refresh", "")
    if not given:
        return None
    if not (given.isascii() and given.isdecimal() and len(given) <= 4 and 1 <= int(given) <= 3600):
        raise Refusal(400, "bad_request", "refresh is a number of seconds from 1 to 3600", param="refresh")
    return int(given)


def health_routes(not_ready: Callable[[], str | None]) -> list[BaseRoute]:
    """`/livez`: the loop turns. `/readyz` and `/healthz`: 200, or 503 with the reason that `not_ready` gives."""

    async def live(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(request: Request) -> Response:
        reason = not_ready()
        if reason is not None:
            return error_response(503, "not_ready", reason, headers={"retry-after": "1"})
        return JSONResponse({"status": "ok"})

    return [Route("/livez", live), Route("/readyz", ready), Route("/healthz", ready)]


class BodyLimit:
    """Refuses request bodies over `limit` bytes: by their declared length at once, else when they pass it."""

    def __init__(self, app: ASGIApp, limit: int, answer: Callable[[Refusal], Response] = refusal_response) -> None:
        self._app = app
        self._limit = limit
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        too_large = Refusal(413, "request_too_large", f"A request body may have at most {self._limit} bytes.")
        # The HTTP parser has seen to it that this is a number.
        if int(declared) > self._limit:
            # The connection stays open: closed with unread bytes in it, it would be reset and the answer lost.
            await self._answer(too_large)(scope, receive, send)
            return
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._limit:
                raise too_large
            return message

        await self._app(scope, counted, send)


class _Server(uvicorn.Server):
    """uvicorn that leaves the process's signals to the composition root."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serve(
    app: ASGIApp,
    host: str,
    port: int,
    *,
    on_failure: Callable[[Exception], None],
    tls: Tls | None = None,
    drain: int = 5,
    connections: int = MOST_CONNECTIONS,
    arrival_s: float = ARRIVAL_S,
    clock: Clock = SYSTEM_CLOCK,
) -> AsyncIterator[Bound]:
    """Serve `app` while the block runs; afterwards refuse new connections and let requests end for `drain` seconds.

    The certificate is read again when it changes. Connections beyond `connections`, and those whose request has not
    arrived whole after `arrival_s`, are closed. Streams without an end must be ended by their owner before the block is
    left. `on_failure` is called should the server end by itself. Raises CannotServe.
    """
    listener = await _listen(host, port)
    try:
        certificate = Certificate(tls, clock) if tls is not None else None
    except BadCertificate as error:
        listener.close()
        raise CannotServe(str(error)) from error
    server = _Server(_config(app, drain, bounded(room(connections), arrival_s)))
    server.config.load()
    bound = _bound(listener, tls)
    async with AsyncExitStack() as stack:
        if certificate is not None:
            server.config.ssl = certificate.context
            looking = background(certificate.run(), name=f"certificate of {bound.url}", on_failure=on_failure)
            await stack.enter_async_context(looking)
        serving = background(server.serve(sockets=[listener]), name=f"serve {bound.url}", on_failure=on_failure)
        task = await stack.enter_async_context(serving)
        try:
            yield bound
        finally:
            server.should_exit = True
            await asyncio.wait([task])
            listener.close()


def _config(app: ASGIApp, drain: int, http: type[asyncio.Protocol]) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
        http=http,
        timeout_graceful_shutdown=drain,
    )


async def _listen(host: str, port: int) -> socket.socket:
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, _, _, address = found[0]
        # Protocol 6 by name: asyncio sets TCP_NODELAY only on sockets that say so, and small lines must not wait.
        listener = socket.socket(family, kind, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(2048)
            listener.setblocking(False)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise CannotServe(f"cannot listen on {where}: {error.strerror or error}") from error
    return listener


def _bound(listener: socket.socket, tls: Tls | None) -> Bound:
    host, port = listener.getsockname()[:2]
    scheme = "https" if tls else "http"
    return Bound(host, port, f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}")


@contextlib.contextmanager
def stop_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at SIGTERM or SIGINT while the block runs; a second signal acts as if nobody had asked for it.

    SIGHUP, which tells others to read their files again, ends nothing: tokens and certificates are read anyway."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)

    def first() -> None:
        for one in signals:
            loop.remove_signal_handler(one)
        stop()

    for one in signals:
        loop.add_signal_handler(one, first)
    loop.add_signal_handler(signal.SIGHUP, lambda: None)
    try:
        yield
    finally:
        for one in (*signals, signal.SIGHUP):
            loop.remove_signal_handler(one)
