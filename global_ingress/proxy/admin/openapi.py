"""The OpenAPI document of the admin listener: every route, by hand, held to the routes by a test. Pure."""

from __future__ import annotations

import re
from typing import Any

_TEXT = {"type": "string"}
_OBJECT = {"type": "object"}


def _answer(description: str, schema: dict[str, Any] | None = None, kind: str = "application/json") -> dict[str, Any]:
    return {"description": description, "content": {kind: {"schema": schema or _OBJECT}}}


_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "code", "param"],
            "properties": {
                "message": _TEXT,
                "type": _TEXT,
                "code": _TEXT,
                "param": {"anyOf": [_TEXT, {"type": "null"}]},
            },
        }
    },
}

_HEALTH = {
    "type": "object",
    "required": ["status"],
    "properties": {
        "status": {"enum": ["ok", "not_ready"]},
        "reason": _TEXT,
        "warnings": {"type": "array", "items": _TEXT},
    },
}

_OURS = ("routable", "state", "why", "in_flight", "ejected_until")

_POOLS = {
    "type": "object",
    "required": ["complete", "epoch", "revision", "observed_at", "pools"],
    "properties": {
        "complete": {"type": "boolean"},
        "epoch": _TEXT,
        "revision": {"type": "integer"},
        "observed_at": {"type": "string", "format": "date-time"},
        "pools": {
            "type": "array",
            "items": {
                "type": "object",
                "description": "The directory's pool object and what this ingress makes of it.",
                "required": ["id", "cluster", "namespace", "name", "region", "frontends", *_OURS],
            },
        },
    },
}

_READY = {
    "200": _answer("It serves; `warnings` are what an operator should look at.", _HEALTH),
    "503": _answer("It does not: no table yet, no model routable, no worker listening, or draining.", _HEALTH),
}

_ROUTES: dict[str, tuple[str, dict[str, Any]]] = {
    "/livez": ("Whether the supervisor's loop turns", {"200": _answer("It does.", _HEALTH)}),
    "/readyz": ("Whether requests should come here", _READY),
    "/healthz": ("The same as /readyz", _READY),
    "/metrics": ("Prometheus metrics of all workers", {"200": _answer("Metrics.", _TEXT, "text/plain")}),
    "/pools": ("The pools, and whether each is routable and why", {"200": _answer("The pools.", _POOLS)}),
    "/status": ("The same for people; refresh=SECONDS loads it again", {"200": _answer("A page.", _TEXT, "text/html")}),
    "/decisions/{request_id}": (
        "Why a request went where it went: candidates, tries, times",
        {"200": _answer("The record."), "404": _answer("None is kept.", _ERROR)},
    ),
    "/status.json": ("Everything this ingress knows of itself", {"200": _answer("The status.")}),
    "/config": ("The settings in force, secrets as ***", {"200": _answer("The settings.")}),
    "/openapi.json": ("This document", {"200": _answer("The document.")}),
}


def document(version: str) -> dict[str, Any]:
    return {
        "openapi": "3.1.0",
        "info": {"title": "global-ingress, admin listener", "version": version},
        "paths": {
            path: {
                "get": {
                    "summary": summary,
                    "parameters": [
                        {"name": name, "in": "path", "required": True, "schema": _TEXT}
                        for name in re.findall(r"\{(\w+)\}", path)
                    ],
                    "responses": answers | {"default": _answer("An error.", _ERROR)},
                }
            }
            for path, (summary, answers) in _ROUTES.items()
        },
        "components": {"schemas": {"Error": _ERROR}},
    }
