"""The API server's HTTP: from a request to an answer.

Owns routing, reading bodies, the order of things (logged, struck by a fault, let in, served) and how answers look.
What the answers are is decided by `reading`, `writes` and `patches`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from discovery.kit.clock import Clock
from discovery.testing.cluster import patching, reading, scaling
from discovery.testing.cluster.access import Access
from discovery.testing.cluster.cursor import Cursor
from discovery.testing.cluster.documents import document
from discovery.testing.cluster.failures import (
    ApiFailure,
    bad_request,
    from_the_future,
    internal,
    no_such_path,
    too_old,
    unsupported_media,
)
from discovery.testing.cluster.faults import Answer, Drop, Faults, Silence
from discovery.testing.cluster.journal import Entry
from discovery.testing.cluster.kinds import Kind, Object
from discovery.testing.cluster.paths import Asked, parse
from discovery.testing.cluster.rbac import reviewed
from discovery.testing.cluster.selectors import Selector, parse_selector
from discovery.testing.cluster.settings import Settings
from discovery.testing.cluster.store import Store
from discovery.testing.cluster.streams import Streams, WatchStream
from discovery.testing.cluster.text import NotText, read_json, read_yaml
from discovery.testing.cluster.wire_faults import ConnectionCut, Disturbed, refuse_service
from discovery.testing.cluster.writes import Target, Writer, Writes

MOST_BODY = 3 * 1024 * 1024
MOST_ENTRIES = 100_000
_ITEMS_IN_A_PIECE = 50


@dataclass
class ApiServer:
    """An ASGI application. `journal` hears of every request, `ended` is set when all must come to an end."""

    settings: Settings
    kinds: Sequence[Kind]
    store: Store
    writes: Writes
    access: Access
    faults: Faults
    streams: Streams
    clock: Clock
    cached: Callable[[], int | None]
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    journal: deque[Entry] = field(default_factory=lambda: deque(maxlen=MOST_ENTRIES))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        asked: Asked | None = None
        refusal: ApiFailure | None = None
        try:
            watch = reading.is_true(dict(request.query_params), "watch")
            asked = parse(request.method, request.url.path, watch, self.kinds)
        except ApiFailure as failure:
            refusal = failure
        entry = self._note(request, asked)
        fault = self.faults.next(entry)

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                entry.code = message["status"]
            await send(message)

        if isinstance(fault, (Answer, Silence, Drop)):
            await refuse_service(fault, scope, receive, noted, self.clock, self.ended)
            return
        disturbed = noted if fault is None else Disturbed(fault, receive, noted, self.clock, self.ended)
        response = await self._response(request, asked, refusal, entry)
        # A fault has cut the connection under the answer: that is how it had to end.
        with suppress(ConnectionCut):
            await response(scope, receive, disturbed)

    def _note(self, request: Request, asked: Asked | None) -> Entry:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        verb = asked.verb if asked else request.method.lower()
        entry = Entry(
            verb=verb,
            resource=asked.kind.resource if asked else "",
            version=asked.version if asked else "",
            namespace=asked.namespace if asked else None,
            name=asked.name if asked else "",
            subresource=asked.subresource if asked else "",
            token=token,
            path=request.url.path,
            query=dict(request.query_params),
            headers=dict(request.headers),
            at=self.clock.monotonic(),
        )
        self.journal.append(entry)
        self.streams.moved.ring()
        return entry

    async def _response(
        self, request: Request, asked: Asked | None, refusal: ApiFailure | None, entry: Entry
    ) -> ASGIApp:
        try:
            kind = asked.kind if asked else None
            self.access.check(entry.token, entry.verb, kind, entry.subresource, entry.namespace, entry.name)
            if refusal is not None:
                raise refusal
            if asked is None:
                return self._document(request)
            return await self._served(request, asked)
        except ApiFailure as failure:
            return _json(failure.status(), failure.code, failure.headers)

    def _document(self, request: Request) -> Response:
        path = request.url.path
        if path in {"/healthz", "/livez", "/readyz"}:
            return Response("ok", media_type="text/plain")
        found = document(path, self.kinds)
        if found is None or request.method != "GET":
            raise no_such_path()
        return _json(found)

    async def _served(self, request: Request, asked: Asked) -> ASGIApp:
        query = dict(request.query_params)
        if asked.verb in {"list", "watch", "deletecollection"}:
            labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
            namespace = asked.namespace if asked.kind.namespaced else None
            selector = parse_selector(asked.kind, namespace, labels, fields)
            return await self._many(request, asked, selector, query)
        target = Target(asked.kind, asked.version, asked.home, asked.name, asked.subresource)
        if asked.verb == "get":
            thing = self.writes.existing(target)
            return _json(scaling.scale_of(thing) if asked.subresource == "scale" else self._shown(asked, thing))
        writer = Writer(_manager(request), query.get("dryRun") == "All")
        body = await _body(request)
        if asked.kind.resource == "subjectaccessreviews.authorization.k8s.io" and asked.verb == "create":
            return _json(self._shown(asked, reviewed(self.store, _object(request, body))), 201)
        if asked.subresource == "scale":
            media = request.headers.get("content-type", "")
            return _json(scaling.rescale(self.writes, target, media, decode(body), writer))
        if asked.verb == "delete":
            return self._deleted(asked, target, _options(request, body), writer)
        if asked.verb == "patch":
            thing, new = patching.patch(
                self.writes, target, request.headers.get("content-type", ""), body, query, writer
            )
        elif asked.verb == "update":
            thing, new = self.writes.update(target, _object(request, body), writer)
        else:
            thing, new = self.writes.create(target, _object(request, body), writer), True
        return _json(self._shown(asked, thing), 201 if new else 200)

    def _shown(self, asked: Asked, thing: Object) -> Object:
        return {"kind": asked.kind.kind, "apiVersion": asked.kind.api_version(asked.version), **thing}

    def _deleted(self, asked: Asked, target: Target, options: Object, writer: Writer) -> Response:
        thing, gone = self.writes.delete(target, options, dry_run=writer.dry_run)
        if not gone:
            return _json(self._shown(asked, thing))
        details = {"name": target.name, "group": asked.kind.group, "kind": asked.kind.plural}
        details |= {"uid": thing["metadata"]["uid"]}
        return _json({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})

    async def _many(self, request: Request, asked: Asked, selector: Selector, query: dict[str, str]) -> ASGIApp:
        options = reading.parse_options(query, streaming_lists=self.settings.streaming_lists != "off")
        if options.watch:
            return self._watch(asked, selector, options)
        if asked.verb == "deletecollection":
            return await self._delete_all(request, asked, selector)
        await self._reached(options)
        page = reading.read_page(self.store, selector, options, self.cached())
        metadata: Object = {"resourceVersion": str(page.revision)}
        if page.token:
            metadata["continue"] = page.token
        if page.remaining is not None:
            metadata["remainingItemCount"] = page.remaining
        kind = asked.kind
        own = {"apiVersion": kind.api_version(asked.version), "kind": kind.kind} if kind.custom else {}
        head = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version(asked.version), "metadata": metadata}
        return StreamingResponse(self._pieces(head, [own | item for item in page.items]), media_type="application/json")

    async def _pieces(self, head: Object, items: Sequence[Object]) -> AsyncIterator[bytes]:
        yield orjson.dumps(head)[:-1] + b',"items":['
        for at in range(0, len(items), _ITEMS_IN_A_PIECE):
            piece = orjson.dumps(items[at : at + _ITEMS_IN_A_PIECE])[1:-1]
            yield (b"," if at else b"") + piece
            # Others get their turn: the cluster may live in the process of the client that is tested.
            await self.clock.sleep(0)
        yield b"]}\n"

    async def _reached(self, options: reading.Options) -> None:
        """Wait for the version that is asked for, as long as the server waits. Raises ApiFailure 504."""
        wanted = options.wait_for
        patience = self.settings.future_wait
        if not await self.streams.bell.until(lambda: self.store.revision >= wanted, self.clock, patience):
            raise from_the_future(wanted, self.store.revision)

    def _watch(self, asked: Asked, selector: Selector, options: reading.Options) -> WatchStream:
        revision = options.version or None
        failure: ApiFailure | None = None
        if options.initial:
            revision = None
            if self.settings.streaming_lists == "broken":
                failure = internal("RequestWatchProgress is disabled")
        elif revision is not None and revision < self.store.compacted:
            failure = too_old(revision, self.store.compacted)
            if self.settings.gone_as_http:
                raise failure

        async def first() -> None:
            await self._reached(options)

        return WatchStream(
            self.streams,
            asked.kind.resource,
            Cursor(self.store, selector, asked.version, revision),
            options.timeout,
            options.bookmarks,
            end_mark=options.initial,
            failure=failure,
            wait_first=first if options.initial else None,
        )

    async def _delete_all(self, request: Request, asked: Asked, selector: Selector) -> Response:
        options = _options(request, await _body(request))
        things = dict(self.store.now(asked.kind.resource))
        for (namespace, name), thing in things.items():
            if selector.admits(thing):
                self.writes.delete(Target(asked.kind, asked.version, namespace, name), options)
        return _json({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})


def _json(thing: Any, code: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(thing) + b"\n", code, headers, media_type="application/json")


def _manager(request: Request) -> str:
    named = request.query_params.get("fieldManager", "")
    return named or request.headers.get("user-agent", "").partition("/")[0] or "unknown"


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BODY:
            raise ApiFailure(413, "RequestEntityTooLarge", f"Request entity too large: limit is {MOST_BODY}")
    return bytes(body)


def _object(request: Request, body: bytes) -> Object:
    media = request.headers.get("content-type", "application/json").partition(";")[0].strip()
    if media not in {"application/json", "application/yaml"}:
        raise unsupported_media(media, ["application/json", "application/yaml"])
    return decode(body, as_yaml=media == "application/yaml")


def _options(request: Request, body: bytes) -> Object:
    options = decode(body) if body else {}
    policy = request.query_params.get("propagationPolicy")
    return options | ({"propagationPolicy": policy} if policy else {})


def decode(body: bytes, *, as_yaml: bool = False) -> Object:
    """Raises ApiFailure 400."""
    try:
        thing = read_yaml(body) if as_yaml else read_json(body)
    except NotText as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from error
    if not isinstance(thing, dict):
        raise bad_request("the object provided is unrecognized: it is no object")
    return thing
