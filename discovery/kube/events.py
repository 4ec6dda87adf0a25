"""What the list/watch of one resource asks for and what it tells. Pure values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

T = TypeVar("T")

Query = tuple[tuple[str, str], ...]


class What(StrEnum):
    """The three kinds of request."""

    PAGE = "page"
    STREAM = "stream"
    """A watch that begins with the whole list (`sendInitialEvents`)."""
    WATCH = "watch"


class Cause(StrEnum):
    """Why everything is listed."""

    FIRST = "first"
    EXPIRED = "expired"
    SILENCE = "silence"
    SAFETY = "safety"
    ERROR = "error"
    CONFIRM = "confirm"


class Kind(StrEnum):
    """What kind of trouble: a closed set, for metrics and health."""

    CONNECTION = "connection"
    SILENCE = "silence"
    OVERDUE = "overdue"
    GARBAGE = "garbage"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    THROTTLED = "throttled"
    EXPIRED = "expired"
    SERVER = "server"
    REFUSED = "refused"
    SHORT = "short"


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why the last request was not what we wanted; `detail` is for people."""

    kind: Kind
    detail: str


@dataclass(frozen=True, slots=True)
class Ask:
    """The next request: its query, and what it is."""

    what: What
    query: Query


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing is to be asked for so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class RefusedItem:
    """An object that is there and cannot be read. Whoever keeps the last good form of it may go on doing so."""

    namespace: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Replaced(Generic[T]):
    """A whole list: what is not in it, read or refused, is gone. `after` is the version known before it, "" if none."""

    items: list[T]
    refused: list[RefusedItem]
    cause: Cause
    version: str
    after: str


@dataclass(frozen=True, slots=True)
class Upserted(Generic[T]):
    item: T


@dataclass(frozen=True, slots=True)
class Deleted:
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Gathered:
    """One more object of a list that is not whole yet: nothing to apply, a moment to let others run."""


@dataclass(frozen=True, slots=True)
class Bookmarked:
    """Nothing has changed up to this version."""

    version: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """An event of a type that is not known here; it was skipped."""

    type: str


Event = Replaced[T] | Upserted[T] | Deleted | RefusedItem | Gathered | Bookmarked | Unknown


@dataclass(frozen=True, slots=True)
class Policy:
    """Numbers of a list/watch, in seconds. `delay` is (failures in a row, chance) to the wait before the next try.

    70 s of silence: the server sends bookmarks every 60 s and keeps 75 s of events. 300 to 600 s: how long other
    clients let a watch run.
    """

    delay: Callable[[int, float], float]
    page_size: int = 500
    head: float = 30.0
    page: float = 60.0
    quiet_stream: float = 30.0
    whole_stream: float = 120.0
    quiet_watch: float = 70.0
    shortest_watch: float = 300.0
    longest_watch: float = 600.0
    grace: float = 30.0
    relist_every: float = 600.0
    healthy_after: float = 120.0
    short: float = 1.0
    longest_wait: float = 300.0
    max_line: int = 16 * 1024 * 1024
    max_page: int = 256 * 1024 * 1024
