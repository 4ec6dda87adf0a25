"""A simulated regional frontend: on the wire what a Dynamo Frontend with a mocker worker does.

Owns the answers of one region: chat and completions, unary and SSE, the model routes, liveness, the flat error bodies.
Refuses what the original refuses, in its shapes. It generates nothing: its text is ` <region>w<n>` for each token, so
that a body says which region wrote it.
Kept from the original: every POST answer is chunked, each SSE event is one chunk, the first one carries role and
content, `[DONE]` ends the stream, an unknown route has a JSON body and a disabled one none at all.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import msgspec
import orjson
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from discovery.kit.clock import SYSTEM_CLOCK, Clock

_DISABLED = ("/v1/messages", "/v1/rerank", "/v1/classify", "/v1/pooling", "/v1/images/generations", "/v1/audio/speech")
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_JSON = "application/json"
_UNKNOWN_MODEL = "Model not found"
_CANCELLATIONS = "dynamo_frontend_model_cancellation_total"


@dataclass(frozen=True, slots=True)
class Region:
    """What a simulated frontend is: `mark` is the word in its text, `pace_s` the time between two tokens in seconds."""

    mark: str
    model: str
    pace_s: float = 0.005
    context_window: int = 8192
    has_worker: bool = True


class _StreamOptions(msgspec.Struct):
    include_usage: bool = False


class _Ask(msgspec.Struct):
    """The part of a request body that decides about the answer."""

    model: str
    messages: list[dict[str, Any]] | None = None
    prompt: str | list[Any] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None

    @property
    def wanted(self) -> int | None:
        return self.max_completion_tokens if self.max_completion_tokens is not None else self.max_tokens


class _Refused(Exception):
    """An answer that is an error: status, and the words of its body."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message


def frontend_app(region: Region, *, clock: Clock = SYSTEM_CLOCK, new_id: Callable[[], str] | None = None) -> Starlette:
    """The ASGI application of one region's frontend. `new_id` makes the ids of answers."""
    frontend = _Frontend(region, clock, new_id or (lambda: str(uuid4())))
    return Starlette(routes=[Route("/{path:path}", frontend.answer, methods=list(_METHODS))])


class _Frontend:
    def __init__(self, region: Region, clock: Clock, new_id: Callable[[], str]) -> None:
        self._region = region
        self._clock = clock
        self._new_id = new_id
        self._cancelled = 0

    async def answer(self, request: Request) -> Response:
        try:
            response = await self._route(request)
        except _Refused as refused:
            response = _refusal(refused, chunked=request.method == "POST")
        if request_id := request.headers.get("x-request-id"):
            response.headers["x-request-id"] = request_id
        return response

    async def _route(self, request: Request) -> Response:
        path = request.scope["path"]
        if path in ("/v1/chat/completions", "/v1/completions", "/v1/embeddings"):
            if path != "/v1/embeddings" and not self._region.has_worker:
                return Response(status_code=404)
            return await self._generate(request) if request.method == "POST" else _wrong_method("POST")
        if path in _DISABLED:
            return Response(status_code=404)
        known = self._read(path)
        if known is None:
            raise _Refused(404, "Not Found", f"Route not found: {request.method} {path}")
        return known if request.method in ("GET", "HEAD") else _wrong_method("GET, HEAD")

    def _read(self, path: str) -> Response | None:
        """The answers to GET; None = no such route."""
        region = self._region
        if path == "/live":
            return _json({"status": "live", "message": "Service is live"})
        if path == "/health":
            # Healthy without a worker too, as the original says it: this is what makes it no readiness probe.
            endpoints = ["dyn://dynamo.backend.generate"] if region.has_worker else []
            return _json({"status": "healthy", "endpoints": endpoints, "instances": []})
        if path == "/metrics":
            # Of the original's metrics the one by which a caller's departure is told.
            text = f'{_CANCELLATIONS}{{model="{region.model}"}} {self._cancelled}\n'
            return Response(f"# TYPE {_CANCELLATIONS} counter\n{text}", media_type="text/plain; version=0.0.4")
        if path == "/v1/models":
            return _json({"object": "list", "data": [self._model()] if region.has_worker else []})
        if not path.startswith("/v1/models/") or path == "/v1/models/":
            return None
        asked = path.removeprefix("/v1/models/")
        if asked == f"{region.model}/ready" and region.has_worker:
            worker = {"aggregated": {"workers": 1, "needs": []}}
            ready = {"dynamo": {"ready": True, "worker_types": worker}}
            return _json({"model": region.model, "ready": True, "namespaces": ready})
        if asked == region.model and region.has_worker:
            return _json(self._model())
        raise _Refused(404, "Not Found", _UNKNOWN_MODEL)

    def _model(self) -> dict[str, Any]:
        return {
            "id": self._region.model,
            "object": "model",
            "created": self._created(),
            "owned_by": "nvidia",
            "context_window": self._region.context_window,
        }

    def _created(self) -> int:
        return int(self._clock.now().timestamp())

    async def _generate(self, request: Request) -> Response:
        chat = request.scope["path"] == "/v1/chat/completions"
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type != _JSON and not (content_type.startswith("application/") and content_type.endswith("+json")):
            raise _Refused(415, "Unsupported Media Type", f"Expected request with Content-Type {_JSON}")
        try:
            ask = _understood(await request.body(), chat=chat)
        except ClientDisconnect:
            return Response(status_code=499)
        if ask.model != self._region.model or request.scope["path"] == "/v1/embeddings":
            raise _Refused(404, "Not Found", _UNKNOWN_MODEL)
        answer_id = request.headers.get("x-dynamo-request-id") or self._new_id()
        if ask.stream:
            events = self._told_to_the_end(self._stream(ask, answer_id, chat=chat))
            return StreamingResponse(events, media_type=None, headers=_SSE_HEADERS)
        if ask.wanted is None:
            raise _Refused(400, "Bad Request", "`max_output_tokens` (or `max_tokens`) is required by the mocker worker")
        return StreamingResponse(self._whole(ask, answer_id, ask.wanted, chat=chat), headers={"content-type": _JSON})

    async def _told_to_the_end(self, events: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
        """The events; a caller that leaves before the last is counted, as the original counts it."""
        whole = False
        try:
            async with contextlib.aclosing(events):
                async for event in events:
                    yield event
            whole = True
        finally:
            self._cancelled += not whole

    def _token(self, number: int) -> str:
        return f" {self._region.mark}w{1000 + number % 1000}"

    async def _whole(self, ask: _Ask, answer_id: str, wanted: int, *, chat: bool) -> AsyncIterator[bytes]:
        """The body of a unary answer, in one piece, after the time its tokens take."""
        await self._clock.sleep(self._region.pace_s * wanted)
        text = "".join(self._token(number) for number in range(wanted))
        said: dict[str, Any] = {"message": {"content": text, "role": "assistant"}} if chat else {"text": text}
        body = self._frame(answer_id, chat=chat, streamed=False)
        body["choices"] = [{"index": 0, **said, "finish_reason": "length", "logprobs": None}]
        body["usage"] = _usage(ask, wanted)
        yield orjson.dumps(body)

    async def _stream(self, ask: _Ask, answer_id: str, *, chat: bool) -> AsyncGenerator[bytes, None]:
        """The events of an SSE answer; each is one piece, and so one HTTP chunk."""
        frame = self._frame(answer_id, chat=chat, streamed=True)
        usage: dict[str, Any] = {} if chat else {"usage": None}
        if ask.wanted is None:
            # The original has sent its head by now: the refusal comes in the stream, and [DONE] after it.
            message = "`max_output_tokens` (or `max_tokens`) is required by the mocker worker"
            yield _event({"error": {"message": message, "type": "invalid_request_error", "code": 400}})
            yield _DONE
            return
        for number in range(ask.wanted):
            await self._clock.sleep(self._region.pace_s)
            token = self._token(number)
            delta = {"content": token, "role": "assistant"} if number == 0 else {"content": token}
            said: dict[str, Any] = {"delta": delta} if chat else {"text": token}
            yield _event({**frame, "choices": [{"index": 0, **said, "finish_reason": None}], **usage})
        ended: dict[str, Any] = {"delta": {}} if chat else {"text": ""}
        yield _event({**frame, "choices": [{"index": 0, **ended, "finish_reason": "length"}], **usage})
        if ask.stream_options is not None and ask.stream_options.include_usage:
            yield _event({**frame, "choices": [], "usage": _usage(ask, ask.wanted)})
        yield _DONE

    def _frame(self, answer_id: str, *, chat: bool, streamed: bool) -> dict[str, Any]:
        kind = ("chat.completion.chunk" if streamed else "chat.completion") if chat else "text_completion"
        return {
            "id": f"{'chatcmpl' if chat else 'cmpl'}-{answer_id}",
            "object": kind,
            "created": self._created(),
            "model": self._region.model,
        }


_SSE_HEADERS = {"content-type": "text/event-stream", "cache-control": "no-cache"}
_DONE = b"data: [DONE]\n\n"


def _understood(body: bytes, *, chat: bool) -> _Ask:
    try:
        ask = msgspec.json.decode(body, type=_Ask)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise _Refused(400, "Bad Request", f"Failed to deserialize the JSON body: {error}") from error
    if chat and ask.messages is None:
        raise _Refused(400, "Bad Request", "Failed to deserialize the JSON body: missing field `messages`")
    if not chat and ask.prompt is None:
        raise _Refused(400, "Bad Request", "Failed to deserialize the JSON body: missing field `prompt`")
    if (chat and not ask.messages) or not ask.model or (ask.wanted is not None and ask.wanted < 1):
        raise _Refused(400, "Bad Request", "Validation: messages, model and max_tokens must not be empty or zero")
    return ask


def _usage(ask: _Ask, wanted: int) -> dict[str, int]:
    words = " ".join(str(message.get("content", "")) for message in ask.messages or ()) or str(ask.prompt or "")
    asked = max(1, len(words.split()))
    return {"prompt_tokens": asked, "completion_tokens": wanted, "total_tokens": asked + wanted}


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"


def _json(value: dict[str, Any], status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, headers={"content-type": _JSON})


def _wrong_method(allowed: str) -> Response:
    return Response(status_code=405, headers={"allow": allowed})


def _refusal(refused: _Refused, *, chunked: bool) -> Response:
    value = {"message": refused.message, "type": refused.kind, "code": refused.status}
    if not chunked:
        return _json(value, refused.status)
    return StreamingResponse(_once(orjson.dumps(value)), refused.status, headers={"content-type": _JSON})


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body
