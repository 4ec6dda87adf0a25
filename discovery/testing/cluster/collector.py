"""Garbage collection: what is to go because its owners have, and namespaces that empty themselves.

Owns the decision from the whole state, as plain functions of the store: run again, it finds nothing more to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from discovery.testing.cluster.kinds import NAMESPACES, Kind, Object, copied
from discovery.testing.cluster.store import Event, Where
from discovery.testing.cluster.writes import Target, Writes

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
_OURS = frozenset({FOREGROUND, ORPHAN})
Owned = tuple[str, Where]


@dataclass
class Collector:
    """Hears of every write, so that a pass need not look at objects that nobody owns."""

    writes: Writes
    kinds: Sequence[Kind]
    _owned: set[Owned] = field(default_factory=set)
    _ending: set[Owned] = field(default_factory=set)

    def heard(self, event: Event) -> bool:
        """Take note; True when a pass may have something to do."""
        what = event.resource, event.where
        metadata = event.after["metadata"] if event.after else {}
        self._owned.discard(what)
        self._ending.discard(what)
        if metadata.get("ownerReferences"):
            self._owned.add(what)
        if "deletionTimestamp" in metadata:
            self._ending.add(what)
        return what in self._owned or bool(self._ending) or (event.after is None and bool(self._owned))

    def restart(self) -> None:
        """Look at everything anew: the store has become another one."""
        self._owned.clear()
        self._ending.clear()
        store = self.writes.store
        for resource in store.resources():
            for where, thing in store.now(resource).items():
                self.heard(Event(0, resource, where, None, thing))

    def collect(self) -> bool:
        """One pass; True when it has done something, so that another may find more."""
        before = self.writes.store.revision
        for what in list(self._ending):
            self._end(what)
        for what in list(self._owned):
            self._collect(what)
        return self.writes.store.revision != before

    def _kind(self, resource: str) -> Kind:
        return next(kind for kind in self.kinds if kind.resource == resource)

    def _thing(self, what: Owned) -> Object | None:
        return self.writes.store.get(*what)

    def _collect(self, what: Owned) -> None:
        thing = self._thing(what)
        if thing is None or "deletionTimestamp" in thing["metadata"]:
            return
        if any(self._present(what[1][0], owner["uid"]) for owner in thing["metadata"]["ownerReferences"]):
            return
        kind = self._kind(what[0])
        target = Target(kind, kind.versions[0], *what[1])
        self.writes.delete(target, {"preconditions": {"uid": thing["metadata"]["uid"]}})

    def _present(self, namespace: str, uid: str) -> bool:
        """An owner is in the same namespace, or in none; by its uid, whatever its name and version are said to be."""
        store = self.writes.store
        return any(
            thing["metadata"]["uid"] == uid and not self._waits_for_dependents(thing)
            for kind in self.kinds
            for where, thing in store.now(kind.resource).items()
            if where[0] in {namespace, ""}
        )

    def _waits_for_dependents(self, thing: Object) -> bool:
        return "deletionTimestamp" in thing["metadata"] and FOREGROUND in thing["metadata"].get("finalizers", ())

    def _end(self, what: Owned) -> None:
        thing = self._thing(what)
        if thing is None:
            return
        kind = self._kind(what[0])
        finalizers = thing["metadata"].get("finalizers", [])
        if kind == NAMESPACES and not self._emptied(what[1][1]):
            return
        uid = thing["metadata"]["uid"]
        dependents = [other for other in self._owned if self._is_owned_by(other, uid)]
        if ORPHAN in finalizers:
            for other in dependents:
                self._disown(other, uid)
        elif FOREGROUND in finalizers and dependents:
            return
        left = [name for name in finalizers if name not in _OURS]
        if left == finalizers and left:
            return
        if not left:
            self.writes.finish(kind, what[1])
            return
        new = copied(thing)
        new["metadata"]["finalizers"] = left
        self.writes.store.put(kind.resource, what[1], new)

    def _is_owned_by(self, what: Owned, uid: str) -> bool:
        thing = self._thing(what)
        return thing is not None and any(one["uid"] == uid for one in thing["metadata"]["ownerReferences"])

    def _disown(self, what: Owned, uid: str) -> None:
        thing = self._thing(what)
        if thing is None:
            return
        new = copied(thing)
        new["metadata"]["ownerReferences"] = [one for one in new["metadata"]["ownerReferences"] if one["uid"] != uid]
        if not new["metadata"]["ownerReferences"]:
            del new["metadata"]["ownerReferences"]
        self.writes.store.put(*what, new)

    def _emptied(self, namespace: str) -> bool:
        """Delete what is in a namespace that ends; True when nothing is left."""
        left = False
        for kind in self.kinds:
            if not kind.namespaced:
                continue
            for where, thing in list(self.writes.store.now(kind.resource).items()):
                if where[0] != namespace:
                    continue
                if "deletionTimestamp" not in thing["metadata"]:
                    self.writes.delete(Target(kind, kind.versions[0], *where), {})
                left = left or self.writes.store.get(kind.resource, where) is not None
        return not left
