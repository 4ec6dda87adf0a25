"""The objects, one revision for all of them, and the past that is still known.

Owns the order of things: every write has the next revision and is an event; a state of the past is the present with
the later events taken back; what is older than the last compaction is refused (`Compacted`), never guessed.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from discovery.testing.cluster.kinds import Object

Where = tuple[str, str]
"""Namespace ("" for kinds without) and name."""


@dataclass(frozen=True, slots=True)
class Event:
    """One write: `before` None made the object, `after` None removed it."""

    revision: int
    resource: str
    where: Where
    before: Object | None
    after: Object | None


@dataclass(frozen=True, slots=True)
class Backup:
    """A moment of a store, to go back to."""

    revision: int
    compacted: int
    objects: Mapping[str, Mapping[Where, Object]]
    events: Sequence[Event]


class Compacted(Exception):
    """The past that was asked for is no longer known; `oldest` is the oldest revision that is."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"revision {asked} is compacted; the oldest known is {oldest}")
        self.asked = asked
        self.oldest = oldest


class Store:
    """`history` is how many events are kept at least; twice as many at most."""

    def __init__(self, *, history: int = 10_000, revision: int = 1) -> None:
        self.revision = revision
        self.compacted = revision
        self.listeners: list[Callable[[Event], None]] = []
        self._history = history
        self._objects: dict[str, dict[Where, Object]] = {}
        self._events: list[Event] = []

    def __repr__(self) -> str:
        count = sum(len(things) for things in self._objects.values())
        return f"<Store at {self.revision}, {count} objects, past from {self.compacted}>"

    def get(self, resource: str, where: Where) -> Object | None:
        return self._objects.get(resource, {}).get(where)

    def now(self, resource: str) -> Mapping[Where, Object]:
        return self._objects.get(resource, {})

    def resources(self) -> tuple[str, ...]:
        return tuple(self._objects)

    def at(self, resource: str, revision: int) -> Mapping[Where, Object]:
        """The objects as they were at `revision`. Raises Compacted."""
        later = self.after(revision)
        if not later:
            return self.now(resource)
        things = dict(self.now(resource))
        for event in reversed(later):
            if event.resource != resource:
                continue
            if event.before is None:
                del things[event.where]
            else:
                things[event.where] = event.before
        return things

    def after(self, revision: int) -> Sequence[Event]:
        """Every event later than `revision`, none if that is in the future. Raises Compacted."""
        if revision < self.compacted:
            raise Compacted(revision, self.compacted)
        first = bisect.bisect_right(self._events, revision, key=attrgetter("revision"))
        return self._events[first:]

    def put(self, resource: str, where: Where, thing: Object) -> Object:
        """Store `thing` (which is ours from here on) under the next revision, which it gets to carry."""
        before = self.get(resource, where)
        self.revision += 1
        thing["metadata"]["resourceVersion"] = str(self.revision)
        self._objects.setdefault(resource, {})[where] = thing
        self._happened(Event(self.revision, resource, where, before, thing))
        return thing

    def remove(self, resource: str, where: Where) -> None:
        before = self._objects[resource].pop(where)
        self.revision += 1
        self._happened(Event(self.revision, resource, where, before, None))

    def _happened(self, event: Event) -> None:
        self._events.append(event)
        if len(self._events) > 2 * self._history:
            self.compact(self._events[-self._history - 1].revision)
        for listener in self.listeners:
            listener(event)

    def compact(self, revision: int | None = None) -> None:
        """Forget what was before `revision` (None: before now)."""
        self.compacted = max(self.compacted, self.revision if revision is None else min(revision, self.revision))
        del self._events[: bisect.bisect_right(self._events, self.compacted, key=attrgetter("revision"))]

    def bump(self, revision: int) -> None:
        """Let the revision grow without an event, as writes to kinds that are not served here would."""
        self.revision = max(self.revision, revision)

    def backup(self) -> Backup:
        objects = {resource: dict(things) for resource, things in self._objects.items()}
        return Backup(self.revision, self.compacted, objects, tuple(self._events))

    def restore(self, backup: Backup) -> None:
        """Be as at the backup, revision and all. Nobody is told: what was written since has never been."""
        self.revision = backup.revision
        self.compacted = backup.compacted
        self._objects = {resource: dict(things) for resource, things in backup.objects.items()}
        self._events = list(backup.events)
