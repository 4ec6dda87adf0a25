"""The REST API, declared once: the calls that the server serves, and the document that describes them.

Pure. Owns paths, methods, parameters, bodies and refusals of every call; the schemas of bodies and answers are made
from the shapes of the model, as its JSON is. A call that is not declared here is not served.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import Enum
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from discovery.mcs import checks, wire
from discovery.mcs.model import Announcement, Cluster, EndpointSet, Export, ExportStatus, Import, Words
from discovery.mcs.registry import Reason

Json = dict[str, Any]

STATUS: Final = {
    Reason.INVALID: 400,
    Reason.UNAUTHENTICATED: 401,
    Reason.FORBIDDEN: 403,
    Reason.NOT_FOUND: 404,
    Reason.CLUSTER_ID_IN_USE: 409,
    Reason.STALE_SESSION: 409,
    Reason.REVISION_GONE: 410,
    Reason.DIGEST_MISMATCH: 412,
    Reason.TOO_LARGE: 413,
    Reason.BUSY: 429,
    Reason.STORE_AWAY: 503,
    Reason.TIMEOUT: 504,
}
_TEXT: Final[Json] = {"type": "string"}
_REVISION: Final[Json] = {"type": "object", "properties": {"revision": _TEXT}, "required": ["revision"]}
_SYNC_END: Final[Json] = {
    "type": "object",
    "properties": {
        "count": {"type": "integer", "minimum": 0},
        "digest": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
    },
    "required": ["count", "digest"],
    "additionalProperties": False,
}
_CLUSTER: Final = "/v1/clusters/{cluster}"
_SERVICE: Final = "/{namespace}/{name}"
_EXPORT: Final = f"{_CLUSTER}/exports{_SERVICE}"
_SLICE: Final = f"{_EXPORT}/slices/{{slice}}"


@dataclass(frozen=True, slots=True)
class Call:
    """`name`: of the function that serves it. `body`: a kind of the model, without what the path says, or a schema.
    `answer`: the schema of 200. `refused`: beside those that any call may meet."""

    name: str
    method: str
    path: str
    summary: str
    answer: Json
    body: type[Any] | Json | None = None
    refused: tuple[Reason, ...] = ()
    query: tuple[tuple[str, str], ...] = ()
    is_session: bool = False
    """It carries the session and its number."""
    media: str = field(default="application/json")

    @property
    def given(self) -> tuple[str, ...]:
        """Fields of the body's kind that the path says."""
        return tuple(one for one in ("cluster", "service", "slice") if f"{{{_IN_PATH[one]}}}" in self.path)


_IN_PATH: Final = {"cluster": "cluster", "service": "namespace", "slice": "slice"}


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _list(name: str) -> Json:
    items = {"type": "array", "items": _ref(name)}
    told = {"items": items, "revision": _TEXT, "complete": {"type": "boolean"}}
    return {"type": "object", "properties": told, "required": list(told)}


def _write(name: str, method: str, path: str, summary: str, *refused: Reason, **more: Any) -> Call:
    answer = more.pop("answer", _REVISION)
    refused = (Reason.NOT_FOUND, Reason.STALE_SESSION, *refused)
    return Call(name, method, path, summary, answer, refused=refused, is_session=True, **more)


def _read(name: str, path: str, summary: str, answer: Json, *refused: Reason, **more: Any) -> Call:
    return Call(name, "GET", path, summary, answer, refused=(Reason.TIMEOUT, *refused), **more)


CALLS: Final = (
    # What a path's last part ends in comes before the path that ends with it.
    _write("renew", "POST", f"{_CLUSTER}:renew", "Renew the lease", answer=_ref("Registration")),
    _write("sync_begin", "POST", f"{_CLUSTER}:sync-begin", "All of this cluster follows"),
    _write(
        "sync_complete",
        "POST",
        f"{_CLUSTER}:sync-complete",
        "All of this cluster has been told",
        Reason.DIGEST_MISMATCH,
        body=_SYNC_END,
    ),
    Call(
        "register",
        "PUT",
        _CLUSTER,
        "A new session for a cluster",
        _ref("Registration"),
        body=Announcement,
        refused=(Reason.CLUSTER_ID_IN_USE, Reason.STALE_SESSION),
    ),
    _write("leave", "DELETE", _CLUSTER, "The cluster leaves"),
    _write("put_export", "PUT", _EXPORT, "A cluster exports a service", body=Export),
    _write("delete_export", "DELETE", _EXPORT, "And does so no longer"),
    _write("put_endpoints", "PUT", _SLICE, "A slice of an exported service", body=EndpointSet),
    _write("delete_endpoints", "DELETE", _SLICE, "It is gone"),
    _read("clusters", "/v1/clusters", "All clusters", _list("Cluster")),
    _read("exports", f"{_CLUSTER}/exports", "What a cluster exports", _list("Export"), Reason.NOT_FOUND),
    _read("status", f"{_EXPORT}/status", "The state of an export", _ref("ExportStatus"), Reason.NOT_FOUND),
    _read(
        "imports",
        "/v1/imports",
        "All imports",
        _list("Import"),
        query=(("namespace", "Only of this namespace"),),
    ),
    _read(
        "import", f"/v1/imports{_SERVICE}", "The merge of all exports of a service", _ref("Import"), Reason.NOT_FOUND
    ),
    _read(
        "watch",
        "/v1/imports:watch",
        "A line of JSON for each event: a snapshot, then changes",
        _ref("Event"),
        Reason.BUSY,
        query=(
            ("revision", "Only what came after it, where that is still known"),
            ("cluster", "Of the states of exports only those of this cluster"),
        ),
        media="application/x-ndjson",
    ),
)
_ANY: Final = (Reason.INVALID, Reason.UNAUTHENTICATED, Reason.FORBIDDEN, Reason.TOO_LARGE, Reason.STORE_AWAY)


class _Schemas:
    """Schemas of the model's kinds by name, as they are asked for."""

    def __init__(self) -> None:
        self.named: dict[str, Json] = {}

    def of(self, hint: Any, name: str = "") -> Json:
        if get_origin(hint) in (Union, types.UnionType):
            (kind,) = (one for one in get_args(hint) if one is not type(None))
            return {"anyOf": [self.of(kind, name), {"type": "null"}]}
        if name in wire.MOMENTS:
            return {"type": "string", "format": "date-time"}
        if hint == Words:
            return {"type": "object", "additionalProperties": _TEXT}
        if get_origin(hint) is tuple:
            return {"type": "array", "items": self.of(get_args(hint)[0])}
        scalar = {str: "string", int: "integer", bool: "boolean"}.get(hint)
        if scalar:
            return {"type": scalar}
        if issubclass(hint, Enum):
            return {"type": "string", "enum": [one.value for one in hint]}
        return self.ref(hint)

    def ref(self, kind: type[Any]) -> Json:
        name = kind.__name__.lstrip("_")
        if name not in self.named:
            self.named[name] = {}
            self.named[name] = self.object(kind)
        return _ref(name)

    def object(self, kind: type[Any], without: tuple[str, ...] = ()) -> Json:
        hints = get_type_hints(kind)
        properties, required = {}, []
        for name, default in _defaults(kind).items():
            if name in without:
                continue
            word = wire.MOMENTS.get(name, wire.camel(name))
            properties[word] = self.of(hints[name], name)
            if default is MISSING:
                required.append(word)
            elif isinstance(default, str | int | None):
                properties[word] = properties[word] | {"default": getattr(default, "value", default)}
        return {"type": "object", "properties": properties, "required": required}

    def event(self) -> Json:
        told = []
        for word, kind in wire.EVENTS.items():
            schema = self.object(kind)
            schema["properties"] = {"type": {"const": word}} | schema["properties"]
            schema["required"] = ["type", *schema["required"]]
            told.append(schema)
        return {"oneOf": told}


def _defaults(kind: type[Any]) -> dict[str, Any]:
    if is_dataclass(kind):
        return {one.name: one.default for one in fields(kind)}
    return {name: kind._field_defaults.get(name, MISSING) for name in kind._fields}


_PATTERNS: Final[dict[str, Json]] = {
    "cluster": {"type": "string", "pattern": checks.CLUSTER_PATTERN, "maxLength": 63},
    "namespace": {"type": "string", "pattern": checks.LABEL_PATTERN},
    "name": {"type": "string", "pattern": checks.LABEL_PATTERN},
    "slice": {"type": "string", "pattern": checks.SUBDOMAIN_PATTERN, "maxLength": checks.LONGEST_TEXT},
}


def _parameters(call: Call) -> list[Json]:
    def one(name: str, place: str, schema: Json, said: str = "") -> Json:
        told = {"name": name, "in": place, "required": place != "query", "schema": schema}
        return told | ({"description": said} if said else {})

    found = [one(name, "path", schema) for name, schema in _PATTERNS.items() if f"{{{name}}}" in call.path]
    if call.is_session:
        found.append(one("mcs-session", "header", {"type": "string", "pattern": r"^[0-9]{1,18}(\.[0-9]{1,18}){2}$"}))
        found.append(one("mcs-seq", "header", {"type": "string", "pattern": "^[0-9]{1,18}$"}))
    if call.method == "GET":
        found += [one(name, "query", _TEXT, said) for name, said in call.query]
        found.append(one("minRevision", "query", _TEXT, "Wait for it, for at most 2 s"))
    return found


def _operation(call: Call, schemas: _Schemas) -> Json:
    answers: Json = {"200": {"description": "OK", "content": {call.media: {"schema": call.answer}}}}
    for reason in (*_ANY, *call.refused):
        status = str(STATUS[reason])
        told = answers.setdefault(status, {"description": reason.value, "content": _ERROR})
        if reason.value not in told["description"]:
            told["description"] += f", {reason.value}"
    made: Json = {
        "operationId": call.name,
        "summary": call.summary,
        "parameters": _parameters(call),
        "responses": answers,
        "security": [{"token": []}, {}],
    }
    if call.body is not None:
        schema = call.body
        if not isinstance(schema, dict):
            schema = schemas.object(schema, call.given) | {"additionalProperties": False}
        made["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return made


_ERROR: Final[Json] = {"application/json": {"schema": _ref("Error")}}
_ERROR_SCHEMA: Final[Json] = {
    "type": "object",
    "properties": {
        "code": {"type": "integer"},
        "reason": _TEXT,
        "message": _TEXT,
        "details": {
            "type": "array",
            "items": {"type": "object", "properties": {"field": _TEXT}, "required": ["field"]},
        },
    },
    "required": ["code", "reason", "message", "details"],
}


def _plain(summary: str, media: str, schema: Json, *, unhealthy: bool = False) -> Json:
    answers = {"200": {"description": "OK", "content": {media: {"schema": schema}}}}
    if unhealthy:
        answers["503"] = {"description": "Not ready", "content": {"application/json": {"schema": {"type": "object"}}}}
    return {"get": {"summary": summary, "responses": answers}}


PLAIN: Final[dict[str, Callable[[], Json]]] = {
    "/livez": lambda: _plain("Whether the process turns", "application/json", {"type": "object"}),
    "/readyz": lambda: _plain("Whether the store was read", "application/json", {"type": "object"}, unhealthy=True),
    "/healthz": lambda: _plain("As /readyz", "application/json", {"type": "object"}, unhealthy=True),
    "/metrics": lambda: _plain("Prometheus text", "text/plain", _TEXT),
    "/openapi.json": lambda: _plain("This", "application/json", {"type": "object"}),
}
"""What needs no token."""


def document(release: str) -> Json:
    """OpenAPI 3.1 of this release."""
    schemas = _Schemas()
    paths: dict[str, Json] = {}
    for call in CALLS:
        paths.setdefault(call.path, {})[call.method.lower()] = _operation(call, schemas)
    for kind in (Cluster, Export, Import, ExportStatus):
        schemas.ref(kind)
    schemas.named["Registration"] = schemas.object(wire.Registered)
    schemas.named["Event"] = schemas.event()
    schemas.named["Error"] = _ERROR_SCHEMA
    return {
        "openapi": "3.1.0",
        "info": {"title": "Registry of multi-cluster services", "version": release},
        "paths": paths | {path: made() for path, made in PLAIN.items()},
        "components": {
            "schemas": schemas.named,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
