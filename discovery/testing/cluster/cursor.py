"""One watch: where it stands, and the lines that follow.

Owns the events that a selective watch makes of writes, bookmarks, and the end of the initial events. No I/O: the
stream that sends the lines asks for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from discovery.testing.cluster.failures import ApiFailure, too_old
from discovery.testing.cluster.kinds import Object
from discovery.testing.cluster.reading import order
from discovery.testing.cluster.selectors import Selector
from discovery.testing.cluster.store import Compacted, Event, Store

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Cursor:
    """`revision`: everything up to it has been told. None: the present objects come first, as ADDED."""

    def __init__(self, store: Store, selector: Selector, version: str, revision: int | None) -> None:
        self._store = store
        self._selector = selector
        self._type = {"kind": selector.kind.kind, "apiVersion": selector.kind.api_version(version)}
        self._initial = revision is None
        self.revision = store.revision if revision is None else revision

    @property
    def ahead(self) -> bool:
        """It stands in the future: of a revision that the store has not come to (or that it lost)."""
        return self.revision > self._store.revision

    @property
    def behind(self) -> bool:
        """Something has been written since, though perhaps nothing that this watch tells."""
        return self.revision < self._store.revision

    def initial(self) -> Iterator[bytes]:
        """The objects as they are now, if that is what the watch starts with."""
        if not self._initial:
            return
        self.revision = self._store.revision
        # A copy: the store goes on while the lines are sent.
        things = dict(self._store.now(self._selector.kind.resource))
        for where in sorted(things, key=order):
            if self._selector.admits(things[where]):
                yield self._line("ADDED", things[where])

    def news(self) -> Iterator[bytes]:
        """The lines of what has happened since. Raises ApiFailure 410 when that is no longer known."""
        try:
            events = self._store.after(self.revision)
        except Compacted as gone:
            raise too_old(gone.asked, gone.oldest) from gone
        if not self.ahead:
            self.revision = self._store.revision
        for event in events:
            if event.resource == self._selector.kind.resource and (line := self._told(event)):
                yield line

    def _told(self, event: Event) -> bytes | None:
        """A write as this watch sees it: what begins to match is added, what ceases to is deleted."""
        was, now = self._selector.admits(event.before), self._selector.admits(event.after)
        if now and event.after is not None:
            return self._line("MODIFIED" if was else "ADDED", event.after)
        if was and event.before is not None:
            # The last state that matched, under the version of the write that ended it.
            metadata = {**event.before["metadata"], "resourceVersion": str(event.revision)}
            return self._line("DELETED", {**event.before, "metadata": metadata})
        return None

    def bookmark(self, *, end: bool = False) -> bytes:
        """How far this watch has come; `end`: with the mark that all initial events have been sent."""
        metadata: Object = {"resourceVersion": str(self.revision), "creationTimestamp": None}
        if end:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        return self._line("BOOKMARK", {"metadata": metadata, **self._selector.kind.blank})

    def _line(self, kind: str, thing: Object) -> bytes:
        return line(kind, self._type | thing)


def line(kind: str, thing: Any) -> bytes:
    return orjson.dumps({"type": kind, "object": thing}) + b"\n"


def error_line(failure: ApiFailure) -> bytes:
    """A refusal within a stream that has begun with 200."""
    return line("ERROR", failure.status())
