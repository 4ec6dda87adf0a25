"""Answers that are held back: a stream until its first event is known to be none of error (I34), an error answer that
may be repeated until it is whole (I30). Bounded; past the bound it opens and the answer is passed on as it is."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import orjson

from global_ingress.proxy.carrying.eventdata import ErrorEvent
from global_ingress.proxy.carrying.headers import Answer
from global_ingress.proxy.carrying.observer import Observer

if TYPE_CHECKING:
    from global_ingress.proxy.carrying.choosing import Place

HELD = 64 * 1024  # bytes held back

_STATUS_OF = {"invalid_request_error": 400, "timeout_error": 504, "service_unavailable": 503}


class Verdict(Enum):
    """What to do with a held answer."""

    WAIT = "wait"
    OPEN = "open"
    ERROR_EVENT = "error_event"
    REPEAT = "repeat"


class Gate:
    """One held answer. `stream`: an event stream of status 2xx; else an error status that another frontend may better.
    `pieces` is its body without framing."""

    __slots__ = ("_error", "_raw", "_size", "answer", "pieces", "place", "stream")

    def __init__(self, answer: Answer, place: Place, *, stream: bool) -> None:
        self.answer = answer
        self.place = place
        self.stream = stream
        self.pieces: list[bytes] = []
        self._raw: list[bytes] = []
        self._size = 0
        self._error: ErrorEvent | None = None

    def hold(self, raw: bytes, pieces: list[bytes]) -> None:
        """One more read of the answer's body."""
        if raw:
            self._raw.append(raw)
            self._size += len(raw)
            self.pieces += pieces

    def raw(self) -> bytes:
        """The body as far as it was held, as it came."""
        return b"".join(self._raw)

    def verdict(self, observer: Observer | None) -> Verdict:
        """What the answer shows so far."""
        if self._size > HELD:
            return Verdict.OPEN
        if not self.stream:
            return Verdict.OPEN if self.answer.status == 404 and self.pieces else Verdict.WAIT
        if observer is None or observer.lost:
            return Verdict.OPEN
        if observer.error_first:
            self._error = observer.error
            return Verdict.ERROR_EVENT
        return Verdict.OPEN if observer.events else Verdict.WAIT

    def at_end(self, observer: Observer | None) -> Verdict:
        """The answer is whole."""
        verdict = self.verdict(observer)
        if verdict is Verdict.WAIT:
            return Verdict.OPEN if self.stream else Verdict.REPEAT
        return verdict

    def status(self) -> int:
        """The status this answer stands for: its own, or that of the error event it began with."""
        error = self._error
        if error is None:
            return self.answer.status
        return error.code if error.code is not None else _STATUS_OF.get(error.type, 502)

    def error_body(self, *, anthropic: bool) -> bytes:
        """The error event as a plain JSON answer, in the frontend's words."""
        error = self._error
        message = error.message if error is not None else "the stream began with an error"
        kind = error.type if error is not None else "upstream_error"
        if anthropic:
            return orjson.dumps({"type": "error", "error": {"type": "api_error", "message": message}})
        return orjson.dumps({"error": {"message": message, "type": kind, "param": None, "code": str(self.status())}})
