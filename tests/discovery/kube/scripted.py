"""An API server without I/O for one resource, and whoever drives a ListWatch against it on virtual time.

The server keeps objects, versions and a history that can be compacted or lost; it answers queries with bytes. Faults
are put in its way one by one. Nothing here waits: time is a number that the driver moves.
"""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from discovery.errors import MalformedSlice
from discovery.kit.backoff import Backoff
from discovery.kube.events import Ask, Cause, Deleted, Event, Gathered, Policy, RefusedItem, Replaced, Upserted, What
from discovery.kube.watch import ListWatch

Json = dict[str, Any]
POLICY = Policy(delay=Backoff(0.8, 30.0).delay, page_size=2)
BOOKMARK_EVERY = 60.0


def decode(obj: object) -> tuple[str, int]:
    """An item is its name and number; a negative number cannot be read."""
    assert isinstance(obj, dict)
    if obj["number"] < 0:
        raise MalformedSlice("is negative", name=obj["metadata"]["name"])
    return obj["metadata"]["name"], obj["number"]


def status(code: int, reason: str = "", message: str = "", cause: str = "") -> Json:
    causes = {"details": {"causes": [{"reason": cause}]}} if cause else {}
    return {"kind": "Status", "code": code, "reason": reason, "message": message, **causes}


EXPIRED = status(410, "Expired", "too old resource version")
TOO_NEW = status(504, "Timeout", "Too large resource version", "ResourceVersionTooLarge")


def line(kind: str, obj: Json) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


@dataclass
class Server:
    """`streams` off refuses streaming lists by 422, as servers without the feature do."""

    streams: bool = True
    revision: int = 10
    objects: dict[str, Json] = field(default_factory=dict)
    history: deque[tuple[int, str, Json]] = field(default_factory=lambda: deque(maxlen=5000))
    compacted: int = 0
    tokens: dict[str, tuple[int, list[Json]]] = field(default_factory=dict)
    queries: deque[Json] = field(default_factory=lambda: deque(maxlen=200))

    def put(self, name: str, number: int) -> None:
        self.revision += 1
        kind = "MODIFIED" if name in self.objects else "ADDED"
        metadata = {"namespace": "n", "name": name, "uid": f"u-{name}", "resourceVersion": str(self.revision)}
        self.objects[name] = {"metadata": metadata, "number": number}
        self.history.append((self.revision, kind, self.objects[name]))

    def delete(self, name: str) -> None:
        if (obj := self.objects.pop(name, None)) is not None:
            self.revision += 1
            gone = obj | {"metadata": obj["metadata"] | {"resourceVersion": str(self.revision)}}
            self.history.append((self.revision, "DELETED", gone))

    def compact(self) -> None:
        """Forget the past and every token, for whoever asks anew; an open watch still gets what it was owed."""
        self.compacted = self.revision
        self.tokens.clear()

    def restore(self, back: int) -> None:
        """Come back from a backup that is `back` changes old: versions are handed out again."""
        self.revision = max(1, self.revision - back)
        self.objects = {n: o for n, o in self.objects.items() if int(o["metadata"]["resourceVersion"]) <= self.revision}
        self.history.clear()
        self.compact()

    def truth(self) -> dict[str, int]:
        return {name: obj["number"] for name, obj in self.objects.items()}

    def answer(self, ask: Ask) -> tuple[int, bytes, int | None]:
        """Status, the bytes at once, and the version from which a stream goes on (None: the body ends)."""
        query = dict(ask.query)
        self.queries.append(query)
        if query.get("watch") == "true":
            return self._streaming(query) if "sendInitialEvents" in query else self._watching(query)
        return self._paged(query)

    def since(self, version: int) -> tuple[bytes, int]:
        """The events after a version, and the version they lead to."""
        found = [(kind, obj) for revision, kind, obj in self.history if revision > version]
        return b"".join(line(kind, obj) for kind, obj in found), max(version, self.revision)

    def bookmark(self, version: int) -> bytes:
        return line("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})

    def _watching(self, query: Json) -> tuple[int, bytes, int | None]:
        version = int(query["resourceVersion"])
        assert query["allowWatchBookmarks"] == "true"
        assert 1 <= int(query["timeoutSeconds"]) <= 600
        if version > self.revision:
            # As real servers do it: 200, and silence for ever.
            return 200, b"", 1 << 62
        if version < self.compacted:
            return 200, line("ERROR", EXPIRED), None
        data, version = self.since(version)
        return 200, data, version

    def _streaming(self, query: Json) -> tuple[int, bytes, int | None]:
        if not self.streams:
            return 422, json.dumps(status(422, "Invalid", "sendInitialEvents is forbidden")).encode(), None
        assert query["resourceVersionMatch"] == "NotOlderThan"
        if int(query.get("resourceVersion", 0)) > self.revision:
            return 200, line("ERROR", TOO_NEW), None
        whole = b"".join(line("ADDED", obj) for obj in self.objects.values())
        ends = {
            "metadata": {"resourceVersion": str(self.revision), "annotations": {"k8s.io/initial-events-end": "true"}}
        }
        return 200, whole + line("BOOKMARK", ends), self.revision

    def _paged(self, query: Json) -> tuple[int, bytes, int | None]:
        limit = int(query["limit"])
        if token := query.get("continue"):
            assert "resourceVersion" not in query
            if token not in self.tokens:
                return 410, json.dumps(EXPIRED).encode(), None
            revision, left = self.tokens.pop(token)
        else:
            if int(query.get("resourceVersion", 0)) > self.revision:
                return 504, json.dumps(TOO_NEW).encode(), None
            revision, left = self.revision, list(self.objects.values())
        metadata: Json = {"resourceVersion": str(revision)}
        if len(left) > limit:
            metadata["continue"] = f"{revision}-{len(left)}-{len(self.tokens)}"
            self.tokens[metadata["continue"]] = (revision, left[limit:])
        page = {"kind": "ThingList", "metadata": metadata, "items": left[:limit] or None}
        return 200, json.dumps(page).encode(), None


FAULTS = ("refused", "500", "503html", "429", "403", "401", "410", "html", "garbage", "cut", "half", "hang", "empty")


class Driver:
    """Drives one machine. `faults` are put in the way of the next requests, one each; `held` is what was told."""

    def __init__(
        self,
        server: Server,
        policy: Policy = POLICY,
        *,
        seed: int = 0,
        piece: Callable[[], int] = lambda: 1 << 20,
        watching: Callable[[Event[tuple[str, int]]], None] = lambda event: None,
    ) -> None:
        self.server = server
        self.now = 0.0
        self.faults: list[str] = []
        self.held: dict[str, int] = {}
        self.causes: deque[Cause] = deque(maxlen=100)
        self.events = 0
        self.machine = ListWatch(
            decode, selector="a in (b)", policy=policy, chance=random.Random(seed).random, now=self.now
        )
        self._piece = piece
        self._watching = watching
        self._open: _Open | None = None
        self._wake = 0.0

    def run(self, seconds: float) -> None:
        """Let so much time pass."""
        end = self.now + seconds
        while self._turn(end):
            pass
        self.now = end

    def poke(self) -> None:
        """Bring what the server has to say now, without time passing."""
        if self._open is not None and self._open.version is not None and not self._open.dead:
            data, self._open.version = self.server.since(self._open.version)
            self._feed(data)
            self._after()

    def cut(self) -> None:
        """Break the connection that is open now."""
        if self._open is not None:
            self._open = None
            self.machine.cut("reset by peer", self.now)
            self._drain()

    def freeze(self) -> None:
        """From now on nothing comes over the connection that is open, and nobody says so."""
        if self._open is not None:
            self._open.dead = True

    def _turn(self, end: float) -> bool:
        """One thing that happens at or before `end`; False when nothing does."""
        if self._open is None:
            if self._wake > end:
                return False
            self.now = max(self.now, self._wake)
            step = self.machine.next(self.now)
            if isinstance(step, Ask):
                self._send(step)
            else:
                assert step.seconds > 0
                self._wake = self.now + step.seconds
            return True
        self.poke()
        if not self._is_open():
            return True
        moments = [(self.machine.deadline, "overdue")]
        if not self._open.dead and self._open.version is not None:
            moments += [(self._open.ends_at, "end"), (self._open.bookmark_at, "bookmark")]
        moment, what = min(moments)
        if moment > end:
            return False
        self.now = max(self.now, moment)
        if what == "overdue":
            self.machine.overdue(self.now)
        elif what == "end":
            self.machine.end(self.now)
        else:
            self._open.bookmark_at = self.now + BOOKMARK_EVERY
            # A version from the future has no bookmark.
            if self._open.version is not None and self._open.version <= self.server.revision:
                self._feed(self.server.bookmark(self._open.version))
        self._after()
        return True

    def _is_open(self) -> bool:
        return self._open is not None

    def _send(self, ask: Ask) -> None:
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "refused":
            self.machine.cut("connection refused", self.now)
        elif fault == "hang":
            self._open = _Open(None, self.now, dead=True)
            return
        elif fault in _ANSWERS:
            code, body = _ANSWERS[fault]
            self.machine.head(code, "7" if code == 429 else None, self.now)
            self.machine.body(body, self.now)
            self._drain()
            if self.machine.reading:
                self.machine.end(self.now)
        else:
            self._answer(ask, fault)
            return
        self._drain()

    def _answer(self, ask: Ask, fault: str) -> None:
        code, data, version = self.server.answer(ask)
        self.machine.head(code, None, self.now)
        self._open = _Open(version, self.now + float(dict(ask.query).get("timeoutSeconds", 0)))
        self._open.bookmark_at = self.now + BOOKMARK_EVERY
        if fault == "empty":
            data, version = b"", None
        self._feed(data[: len(data) * 2 // 3] if fault in ("cut", "half") else data)
        if fault == "cut" and self._open is not None:
            self.cut()
        elif fault == "half" and self._open is not None:
            self._open.dead = True
        elif version is None and self.machine.reading:
            self.machine.end(self.now)
            self._drain()
            self._open = None
        self._after()

    def _feed(self, data: bytes) -> None:
        while data and self.machine.reading:
            size = max(1, self._piece())
            self.machine.body(data[:size], self.now)
            data = data[size:]
            self._drain()

    def _after(self) -> None:
        self._drain()
        if not self.machine.reading:
            self._open = None
            self._wake = self.now

    def _drain(self) -> None:
        while (event := self.machine.next_event(self.now)) is not None:
            self._apply(event)

    def _apply(self, event: Event[tuple[str, int]]) -> None:
        self.events += 1
        match event:
            case Replaced(items, refused, cause, _, _):
                kept = {one.name: self.held[one.name] for one in refused if one.name in self.held}
                self.held = dict(items) | kept
                self.causes.append(cause)
            case Upserted((name, number)):
                self.held[name] = number
            case Deleted(_, name, _):
                self.held.pop(name, None)
            case Gathered() | RefusedItem():
                pass
        self._watching(event)


@dataclass
class _Open:
    version: int | None
    ends_at: float
    dead: bool = False
    bookmark_at: float = 0.0


_ANSWERS: dict[str, tuple[int, bytes]] = {
    "500": (500, json.dumps(status(500, "InternalError")).encode()),
    "503html": (503, b"<html>\n<body>busy</body>\n</html>\n"),
    "429": (429, json.dumps(status(429, "TooManyRequests")).encode()),
    "403": (403, json.dumps(status(403, "Forbidden")).encode()),
    "401": (401, b"Unauthorized"),
    "410": (410, json.dumps(EXPIRED).encode()),
    "html": (200, b"<html>\n<body>login</body>\n</html>\n"),
    "garbage": (200, b'{"type":"ADDED","object":{"metadata":\n'),
}


def cuts(numbers: list[int]) -> Callable[[], int]:
    """The sizes of pieces, over and over."""

    def endless() -> Iterator[int]:
        while True:
            yield from numbers

    return endless().__next__


__all__ = ["EXPIRED", "FAULTS", "POLICY", "TOO_NEW", "Driver", "Server", "What", "cuts", "decode", "line", "status"]
