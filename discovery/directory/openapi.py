"""The OpenAPI document of the directory: every route, by hand, held to the routes by a test.

Pure.
"""

from __future__ import annotations

from typing import Any

from discovery.directory.registrations import MOST_FRONTENDS

_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_LONG = {"type": "string", "minLength": 1, "maxLength": 2048}
_COUNT = {"type": "integer", "minimum": 0}
_SECONDS = {"type": "integer", "minimum": 1}


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "object", "properties": required | (optional or {}), "required": list(required)}


def _closed(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    return _object(required, optional) | {"additionalProperties": False}


def _name(description: str) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": 253, "description": description}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


_SCHEMAS: dict[str, Any] = {
    "Error": _object(
        {"error": _object({"message": _TEXT, "type": _TEXT, "code": _nullable(_TEXT), "param": _nullable(_TEXT)})}
    ),
    "Health": _object({"status": _TEXT}),
    "Frontend": _object(
        {
            "url": _TEXT,
            "also": _list(_TEXT),
            "ready": _FLAG,
            "serving": _FLAG,
            "terminating": _FLAG,
            "pod": _nullable(_object({"name": _TEXT, "uid": _TEXT})),
            "zone": _nullable(_TEXT),
        }
    ),
    "Pool": _object(
        {
            "id": _TEXT,
            "cluster": _TEXT,
            "namespace": _TEXT,
            "name": _TEXT,
            "region": _TEXT,
            "frontends": _list(_ref("Frontend")),
            "relay": _nullable(_object({"identity": _TEXT, "url": _TEXT})),
            "sources": _list(_TEXT),
            "stale_since": _nullable({"type": "string", "format": "date-time"}),
        }
    ),
    "Registration": _object(
        {
            "cluster": _name("About-API id of the pool's cluster"),
            "namespace": _name("Kubernetes namespace"),
            "name": _name("The deployment's name"),
            "region": _name("The cluster's region"),
            "relay": _closed({"identity": _LONG, "url": _LONG | {"description": "http(s)://HOST:port"}}),
        },
        {
            "frontends": _nullable(_list(_ref("RegisteredFrontend")) | {"maxItems": MOST_FRONTENDS}),
            "incarnation": _COUNT | {"exclusiveMaximum": 2**53, "default": 0},
        },
    )
    | {"additionalProperties": False},
    "RegisteredFrontend": _object(
        {"url": _name("http(s)://IP:port/ inside --allow-cidr")},
        {
            "also": _list(_name("The same server in the other address family")) | {"maxItems": 8},
            "ready": _FLAG | {"default": True},
            "serving": _FLAG | {"default": True},
            "terminating": _FLAG | {"default": False},
            "pod": _nullable(_closed({"name": _name("Its name")}, {"uid": {"type": "string", "maxLength": 253}})),
            "zone": _nullable(_name("Its zone")),
        },
    )
    | {"additionalProperties": False},
    "Registered": _object(
        {
            "lease": _object({"heartbeat_interval_secs": _SECONDS, "lease_duration_secs": _SECONDS}),
            "routers": _list(_ref("Router")),
        }
    ),
    "Router": _object({"id": _TEXT, "url": _TEXT, "cluster": _TEXT, "region": _TEXT}),
}

_HEAD: dict[str, Any] = {
    "complete": _FLAG,
    "epoch": _TEXT,
    "revision": _COUNT,
    "observed_at": {"type": "string", "format": "date-time"},
    "sources": _list(_object({"name": _TEXT, "complete": _FLAG, "age_s": {"type": "number", "minimum": 0}})),
}
_SCHEMAS["PoolTable"] = _object(_HEAD | {"pools": _list(_ref("Pool"))})
_SCHEMAS["RouterList"] = _object(_HEAD | {"routers": _list(_ref("Router"))})
_SCHEMAS["Status"] = {"type": "object"}

_WATCH = (
    "With `watch=true`: a line of JSON each, first `reset`, then the elements, then `ready`, to be applied as one; "
    "afterwards `change` lines, and a `bookmark` every 10 seconds. A `reset` may come at any time."
)


def _answers(status: str, description: str, content: dict[str, Any] | None = None) -> dict[str, Any]:
    error = {"description": "Refused", "content": {"application/json": {"schema": _ref("Error")}}}
    success: dict[str, Any] = {"description": description}
    if content:
        success["content"] = content
    return {status: success, "default": error}


def _json(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": _ref(name)}}


def _query(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}


_TRUE = {"type": "string", "enum": ["true"]}
_BOTH = {"type": "string", "enum": ["true", "false"]}
_SEVERAL = {"type": "array", "items": {"type": "string", "minLength": 1}}

_LISTING = [
    _query("watch", "Stay and hear of changes", _BOTH),
    _query("since", "EPOCH.REVISION that a watcher has already", {"type": "string", "pattern": r"^.+\.[0-9]+$"}),
    {"name": "If-None-Match", "in": "header", "required": False, "schema": _TEXT},
]
_FILTERS = [
    *(_query(name, f"Only of this {name}; may be repeated", _SEVERAL) for name in ("namespace", "name", "cluster")),
    _query("region", "Only of this region; may be repeated", _SEVERAL),
    _query("ready", "Only pools with a usable frontend", _TRUE),
]


def _get(summary: str, answers: dict[str, Any], parameters: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"summary": summary, "parameters": parameters or [], "responses": answers}


def _listing(summary: str, schema: str, parameters: list[dict[str, Any]]) -> dict[str, Any]:
    content = _json(schema) | {"application/x-ndjson": {"schema": _TEXT}}
    answers = _answers("200", _WATCH, content) | {"304": {"description": "As `If-None-Match` says"}}
    return _get(summary, answers, parameters)


def _refusals(**statuses: str) -> dict[str, Any]:
    return {
        status.removeprefix("_"): {"description": said, "content": _json("Error")} for status, said in statuses.items()
    }


_WHO = {
    "_401": "No token, or one that is not known",
    "_403": "Nobody may register here, or not this cluster",
    "_409": "A newer incarnation of the Relay holds the registration",
    "_503": "The store did not answer as it should",
}
_TOKEN: dict[str, Any] = {"security": [{"token": []}, {}]}
_REGISTER = _TOKEN | {
    "summary": "Register a pool, or renew its lease",
    "requestBody": {"required": True, "content": _json("Registration")},
    "responses": _answers("200", "Held until the lease ends", _json("Registered"))
    | _refusals(
        _400="Not a registration; every fault is named", _413="More than 1 MiB, or than the store takes", **_WHO
    ),
}
_UNREGISTER = _TOKEN | {
    "summary": "Unregister a pool",
    "responses": {"204": {"description": "Gone"}}
    | _refusals(_400="A parameter is wrong", _404="No such pool is registered", **_WHO)
    | {"default": _answers("200", "")["default"]},
}
_INCARNATION = {
    "name": "incarnation",
    "in": "query",
    "required": False,
    "description": "Only if no newer incarnation holds it",
    "schema": {"type": "integer", "minimum": 0, "exclusiveMaximum": 2**53},
}


def document(release: str) -> dict[str, Any]:
    """OpenAPI 3.1 of this release."""
    parts = ("cluster", "namespace", "name")
    path = [{"name": part, "in": "path", "required": True, "schema": _TEXT} for part in parts]
    health = _answers("200", "Healthy", _json("Health"))
    return {
        "openapi": "3.1.0",
        "info": {"title": "Global discovery", "version": release},
        "paths": {
            "/pools": {
                "get": _listing("The pool table", "PoolTable", [*_FILTERS, *_LISTING]),
                "post": _REGISTER,
            },
            "/pools/{cluster}/{namespace}/{name}": {"delete": _UNREGISTER | {"parameters": [*path, _INCARNATION]}},
            "/routers": {"get": _listing("The global routers", "RouterList", _LISTING)},
            "/healthz": {"get": _get("As /readyz", health)},
            "/readyz": {"get": _get("Whether every source was read in full once", health)},
            "/livez": {"get": _get("Whether the process turns", health)},
            "/metrics": {"get": _get("Prometheus text", _answers("200", "Metrics", {"text/plain": {"schema": _TEXT}}))},
            "/status": {"get": _get("A page for people", _answers("200", "Page", {"text/html": {"schema": _TEXT}}))},
            "/status.json": {"get": _get("The page's document", _answers("200", "Status", _json("Status")))},
            "/openapi.json": {"get": _get("This", _answers("200", "OpenAPI", {"application/json": {}}))},
        },
        "components": {"schemas": _SCHEMAS, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }
