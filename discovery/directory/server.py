"""The directory's HTTP: tables, watches, health and what it says of itself.

Owns routes and caching headers. Everything it answers is read from the store at one moment; it changes nothing itself:
registrations are handed on, where they are taken at all.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from discovery.directory.encoded import Encoded, pieces
from discovery.directory.openapi import document
from discovery.directory.page import status_page
from discovery.directory.query import BadQuery, Query, parse_query, version
from discovery.directory.registering import Registering, disabled
from discovery.directory.store import Store
from discovery.directory.watch import WatchResponse
from discovery.kit.clock import Clock, rfc3339
from discovery.kit.errors import Refusal
from discovery.kit.metrics import CONTENT_TYPE, Metrics
from discovery.kit.page import HEADERS as PAGE_HEADERS
from discovery.kit.service import health_routes, make_app, refresh_of
from discovery.pool import PoolTable
from discovery.wire import TAIL, SourceState, encode_head, encode_router_line


@dataclass
class Server:
    """`sources` and `status` are asked at each request; `not_ready` gives the reason why not, or None. `registering`
    is None where nobody may register."""

    store: Store
    clock: Clock
    metrics: Metrics
    sources: Callable[[], Sequence[SourceState]]
    status: Callable[[], dict[str, Any]]
    not_ready: Callable[[], str | None]
    release: str
    registering: Registering | None = None
    encoded: Encoded = field(default_factory=Encoded)
    watchers: int = 0

    def __post_init__(self) -> None:
        self._resets = self.metrics.counter("global_discovery_watch_resets", "Watchers that fell behind and were reset")
        self.metrics.gauge("global_discovery_watchers", "Open watches", lambda: self.watchers)

    def app(self) -> Starlette:
        pool = "/pools/{cluster}/{namespace}/{name}"
        return make_app(
            [
                Route("/pools", self._pools, methods=["GET", "POST"]),
                Route(pool, self._unregister, methods=["DELETE"]),
                Route("/routers", self._routers),
                Route("/metrics", self._metrics),
                Route("/status", self._status_page),
                Route("/status.json", self._status),
                Route("/openapi.json", self._openapi),
                *health_routes(self.not_ready),
            ]
        )

    async def _pools(self, request: Request) -> Response | WatchResponse:
        if request.method == "POST":
            return await self._taking().register(request)
        return self._answer(request, "pools")

    async def _routers(self, request: Request) -> Response | WatchResponse:
        return self._answer(request, "routers")

    async def _unregister(self, request: Request) -> Response:
        return await self._taking().unregister(request)

    def _taking(self) -> Registering:
        if self.registering is None:
            raise disabled()
        return self.registering

    async def _metrics(self, request: Request) -> Response:
        return Response(self.metrics.exposition(), media_type=CONTENT_TYPE)

    async def _status(self, request: Request) -> Response:
        return JSONResponse(self._status_document())

    async def _status_page(self, request: Request) -> Response:
        every = refresh_of(request)
        return HTMLResponse(status_page(self._status_document(), every), headers=PAGE_HEADERS)

    async def _openapi(self, request: Request) -> Response:
        return JSONResponse(document(self.release))

    def _status_document(self) -> dict[str, Any]:
        return self.status() | {"version": self.release, "watchers": self.watchers}

    def _answer(self, request: Request, of: str) -> Response | WatchResponse:
        try:
            query = parse_query(of, request.query_params.multi_items())
        except BadQuery as error:
            raise Refusal(400, "bad_request", f"{error.param} {error.message}", param=error.param) from error
        if query.watch:
            return WatchResponse(
                query,
                self.store,
                self.encoded,
                self.clock,
                count=self._count,
                on_reset=self._resets.add,
            )
        return self._list(request, query)

    def _count(self, by: int) -> None:
        self.watchers += by

    def _list(self, request: Request, query: Query) -> Response:
        table = self.store.table
        tag = f'"{version(table)}"'
        headers = {"etag": tag, "cache-control": "no-cache"}
        if _matches(request.headers.get("if-none-match"), tag):
            return Response(status_code=304, headers=headers)
        return StreamingResponse(
            _in_pieces(self._parts(table, query), self.clock), headers=headers, media_type="application/json"
        )

    def _parts(self, table: PoolTable, query: Query) -> Iterable[bytes]:
        selection = query.selection
        view = self.encoded.view(selection, table)
        yield encode_head(table, observed_at=rfc3339(self.clock.now()), sources=self.sources(), of=selection.of)
        if selection.of == "routers":
            elements = (_router_element(encode_router_line(router)) for router in view.routers)
        else:
            elements = (self.encoded.pool(pool, table) for pool in view.pools)
        between = b""
        for element in elements:
            yield between
            yield element
            between = b","
        yield TAIL


def _router_element(line: bytes) -> bytes:
    return b"{" + line[len(b'{"type":"router",') : -1]


async def _in_pieces(parts: Iterable[bytes], clock: Clock) -> AsyncIterator[bytes]:
    for piece in pieces(parts):
        yield piece
        # A big table is encoded bit by bit: others get their turn between two pieces.
        await clock.sleep(0)


def _matches(header: str | None, tag: str) -> bool:
    if header is None:
        return False
    tags = [part.strip().removeprefix("W/") for part in header.split(",")]
    return tag in tags or "*" in tags
