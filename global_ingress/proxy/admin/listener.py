"""The admin listener's routes: health, metrics, pools, status, settings. GET only, read from the overview.

Refuses the rest with the one JSON error shape of `discovery.kit.errors`. It answers while draining too.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from discovery.kit.errors import Refusal
from discovery.kit.metrics import CONTENT_TYPE
from discovery.kit.page import HEADERS as PAGE_HEADERS
from discovery.kit.service import make_app, refresh_of
from global_ingress.proxy.admin.openapi import document
from global_ingress.proxy.admin.overview import Overview
from global_ingress.proxy.admin.page import status_page

FRESH = 1.0  # seconds to wait for the workers' counts


def make_admin(overview: Overview, more: Sequence[BaseRoute] = ()) -> Starlette:
    """`more` are further routes, such as a page for people."""
    return make_app([*_Routes(overview).all(), *more])


class _Routes:
    def __init__(self, overview: Overview) -> None:
        self._overview = overview

    def all(self) -> list[BaseRoute]:
        return [
            Route("/livez", self._live),
            Route("/readyz", self._ready),
            Route("/healthz", self._ready),
            Route("/metrics", self._metrics),
            Route("/pools", self._pools),
            Route("/status", self._page),
            Route("/status.json", self._status),
            Route("/decisions/{request_id}", self._decision),
            Route("/config", self._config),
            Route("/openapi.json", self._openapi),
        ]

    async def _live(self, request: Request) -> Response:
        return _json({"status": "ok"})

    async def _ready(self, request: Request) -> Response:
        reason = self._overview.not_ready()
        warnings = self._overview.warnings()
        if reason is not None:
            return _json({"status": "not_ready", "reason": reason, "warnings": warnings}, 503, {"retry-after": "1"})
        return _json({"status": "ok", "warnings": warnings})

    async def _metrics(self, request: Request) -> Response:
        await self._overview.supervisor.refresh(FRESH)
        return Response(self._overview.exposition(), media_type=CONTENT_TYPE)

    async def _pools(self, request: Request) -> Response:
        return _json(self._overview.pools())

    async def _status(self, request: Request) -> Response:
        await self._overview.supervisor.refresh(FRESH)
        return _json(self._overview.status_document())

    async def _page(self, request: Request) -> Response:
        every = refresh_of(request)
        await self._overview.supervisor.refresh(FRESH)
        html = status_page(self._overview.status_document(), every)
        return Response(html, headers=PAGE_HEADERS, media_type="text/html")

    async def _decision(self, request: Request) -> Response:
        await self._overview.supervisor.refresh(FRESH)
        found = self._overview.decisions.find(request.path_params["request_id"])
        if found is None:
            raise Refusal(
                404,
                "not_found",
                "No record of this request is kept: it was plain and not in the sample, answered before a pool was to "
                "be chosen, or too long ago.",
            )
        return _json(found)

    async def _config(self, request: Request) -> Response:
        return _json(self._overview.settings_document())

    async def _openapi(self, request: Request) -> Response:
        return _json(document(self._overview.version))


def _json(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(value), status, {"cache-control": "no-store"} | (headers or {}), "application/json")
