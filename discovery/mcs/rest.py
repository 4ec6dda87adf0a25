"""The registry over HTTP: routes, headers, errors and watches of the table in `docs/mcs/wire.md`.

Owns what a request is and how an answer looks. Decides nothing of services: that does the registry behind it. Refuses
bodies over 1 MiB and whoever `allow` refuses. Every error is `{code, reason, message, details}`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from discovery.kit.errors import Refusal
from discovery.kit.metrics import CONTENT_TYPE, Metrics
from discovery.kit.service import BodyLimit, health_routes
from discovery.mcs import checks, wire
from discovery.mcs.model import Announcement, EndpointSet, Event, Export, ServiceKey, Stamp, StatusChanged
from discovery.mcs.openapi import CALLS, STATUS, Call, document
from discovery.mcs.registry import Allow, Reason, Refused, Served, Unreachable

BODY_LIMIT: Final = 1024 * 1024
_STREAM: Final = {"cache-control": "no-store", "x-accel-buffering": "no"}

T = TypeVar("T")


class _SyncEnd(msgspec.Struct, forbid_unknown_fields=True):
    count: int
    digest: str


def refused_response(error: Refused) -> Response:
    status = STATUS[error.reason]
    headers = {}
    if error.retry_after_s is not None or status == 429:
        headers["retry-after"] = str(max(1, round(error.retry_after_s or 1)))
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    details = [{"field": error.field}] if error.field else []
    body = {"code": status, "reason": error.reason.value, "message": error.message, "details": details}
    return _json(body, status, headers)


def _json(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(wire.encode(body), status, headers, "application/json")


async def _on_refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return refused_response(error)


async def _on_unreachable(request: Request, error: Exception) -> Response:
    return refused_response(Refused(Reason.STORE_AWAY, str(error), retry_after_s=1.0))


def _kit_refused(error: Refusal) -> Response:
    """What `kit` refuses: bodies that are too large."""
    reason = Reason.TOO_LARGE if error.status == 413 else Reason.INVALID
    body: dict[str, Any] = {"code": error.status, "reason": reason.value, "message": error.message, "details": []}
    return _json(body, error.status, error.headers)


async def _on_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return _kit_refused(error)


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    reason = "NOT_FOUND" if error.status_code == 404 else "INVALID_ARGUMENT"
    body = {"code": error.status_code, "reason": reason, "message": error.detail, "details": []}
    return _json(body, error.status_code, dict(error.headers or {}))


async def _on_failure(request: Request, error: Exception) -> Response:
    return _json({"code": 500, "reason": "INTERNAL", "message": "see the registry's log", "details": []}, 500)


async def _placed(call: Awaitable[T]) -> T:
    """The registry names fields of the model; who sent JSON looks for those of the wire."""
    try:
        return await call
    except Refused as error:
        place = wire.place(error.field)
        raise Refused(error.reason, error.message, field=place, retry_after_s=error.retry_after_s) from error


def _service(request: Request) -> ServiceKey:
    found = ServiceKey(request.path_params["namespace"], request.path_params["name"])
    checks.service(found)
    return found


class Rest:
    """`allow` and `not_ready` are asked at every request; each answer is counted by call and status."""

    def __init__(
        self,
        registry: Served,
        allow: Allow,
        metrics: Metrics,
        not_ready: Callable[[], str | None],
        *,
        release: str = "",
    ) -> None:
        self._release = release
        self._registry = registry
        self._allow = allow
        self._metrics = metrics
        self._not_ready = not_ready
        self._answers = metrics.counter("dynamo_mcs_registry_requests", "Answers", ("call", "status"))

    def app(self) -> Starlette:
        routes = [
            *(self._route(call) for call in CALLS),
            Route("/metrics", self._exposition),
            Route("/openapi.json", self._described),
            *health_routes(self._not_ready),
        ]
        app = Starlette(
            routes=routes,
            middleware=[Middleware(BodyLimit, limit=BODY_LIMIT, answer=_kit_refused)],
            exception_handlers={
                Refused: _on_refused,
                Unreachable: _on_unreachable,
                Refusal: _on_refusal,
                HTTPException: _on_http,
                Exception: _on_failure,
            },
        )
        # A redirect is no answer of this API, and a write would lose its body on the way.
        app.router.redirect_slashes = False
        return app

    def _route(self, declared: Call) -> Route:
        name = declared.name
        call: Callable[[Request], Awaitable[Response]] = getattr(self, f"_{name}")

        async def counted(request: Request) -> Response:
            try:
                if declared.method == "GET":
                    self._allow(request.headers.get("authorization"), None)
                    if wanted := request.query_params.get("minRevision"):
                        await self._registry.wait_visible(wanted)
                answer = await call(request)
            except Refused as error:
                answer = refused_response(error)
            self._answers.add(name, str(answer.status_code))
            return answer

        route = Route(declared.path, counted, methods=[declared.method])
        if name == "watch" and route.methods:
            # Which Starlette adds: without a body the stream would never end.
            route.methods.discard("HEAD")
        return route

    # Writing

    def _own(self, request: Request) -> str:
        cluster: str = request.path_params["cluster"]
        checks.cluster_id(cluster)
        self._allow(request.headers.get("authorization"), cluster)
        return cluster

    def _stamp(self, request: Request) -> Stamp:
        headers = request.headers
        return wire.read_stamp(self._own(request), headers.get("mcs-session", ""), headers.get("mcs-seq", ""))

    async def _register(self, request: Request) -> Response:
        given = {"cluster": self._own(request)}
        announced = wire.read(Announcement, wire.parse(await request.body()), given=given)
        return _json(wire.write_registration(await _placed(self._registry.register(announced))))

    async def _renew(self, request: Request) -> Response:
        return _json(wire.write_registration(await self._registry.renew(self._stamp(request))))

    async def _leave(self, request: Request) -> Response:
        return _json({"revision": await self._registry.leave(self._stamp(request))})

    async def _put_export(self, request: Request) -> Response:
        stamp, service = self._stamp(request), _service(request)
        given = {"cluster": stamp.session.cluster, "service": service._asdict()}
        export = wire.read(Export, wire.parse(await request.body()), given=given)
        return _json({"revision": await _placed(self._registry.put_export(stamp, export))})

    async def _delete_export(self, request: Request) -> Response:
        return _json({"revision": await self._registry.delete_export(self._stamp(request), _service(request))})

    async def _put_endpoints(self, request: Request) -> Response:
        stamp, service = self._stamp(request), _service(request)
        place = {"cluster": stamp.session.cluster, "service": service._asdict(), "slice": request.path_params["slice"]}
        told = wire.read(EndpointSet, wire.parse(await request.body()), given=place)
        return _json({"revision": await _placed(self._registry.put_endpoints(stamp, told))})

    async def _delete_endpoints(self, request: Request) -> Response:
        stamp, name = self._stamp(request), request.path_params["slice"]
        return _json({"revision": await self._registry.delete_endpoints(stamp, _service(request), name)})

    async def _sync_begin(self, request: Request) -> Response:
        return _json({"revision": await self._registry.sync_begin(self._stamp(request))})

    async def _sync_complete(self, request: Request) -> Response:
        stamp = self._stamp(request)
        try:
            end = msgspec.json.decode(await request.body(), type=_SyncEnd)
        except msgspec.DecodeError as error:
            raise Refused(Reason.INVALID, str(error), field="body") from None
        checks.sync_end(end.count, end.digest)
        return _json({"revision": await self._registry.sync_complete(stamp, end.count, end.digest)})

    # Reading

    def _list(self, values: tuple[Any, ...]) -> Response:
        registry = self._registry
        items = [wire.write(value) for value in values]
        return _json({"items": items, "revision": registry.revision, "complete": registry.complete})

    async def _clusters(self, request: Request) -> Response:
        return self._list(await self._registry.clusters())

    async def _exports(self, request: Request) -> Response:
        return self._list(self._registry.exports(request.path_params["cluster"]))

    async def _imports(self, request: Request) -> Response:
        return self._list(await self._registry.imports(request.query_params.get("namespace", "")))

    async def _import(self, request: Request) -> Response:
        service = _service(request)
        for found in await self._registry.imports(service.namespace):
            if found.service == service:
                return _json(wire.write(found))
        raise Refused(Reason.NOT_FOUND, f"no cluster exports {service}")

    async def _status(self, request: Request) -> Response:
        status = await self._registry.export_status(request.path_params["cluster"], _service(request))
        return _json(wire.write(status))

    async def _watch(self, request: Request) -> Response:
        query = request.query_params
        events = self._registry.watch(query.get("revision", ""))
        # The first event before the status: a refusal is an answer, not a broken stream.
        first = await anext(events)
        lines = _lines(first, events, query.get("cluster", ""))
        return StreamingResponse(lines, 200, _STREAM, "application/x-ndjson")

    async def _described(self, request: Request) -> Response:
        return _json(document(self._release))

    async def _exposition(self, request: Request) -> Response:
        return Response(self._metrics.exposition(), media_type=CONTENT_TYPE)


async def _lines(first: Event, events: Any, cluster: str) -> AsyncIterator[bytes]:
    """`cluster`: of the states of exports only those of this cluster."""
    async with aclosing(events):
        yield _line(first)
        try:
            async for event in events:
                if not (cluster and isinstance(event, StatusChanged) and event.value.cluster != cluster):
                    yield _line(event)
        except Unreachable:
            # The registry is closing: the stream ends, and whoever reads it goes on elsewhere.
            return


def _line(event: Event) -> bytes:
    return wire.encode(wire.write_event(event)) + b"\n"
