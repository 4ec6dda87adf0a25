"""Creating, replacing and deleting objects as the API server does it.

Owns what happens to an object between the request and the store: names, uids, generations, which part a request may
change (status or the rest), optimistic concurrency, finalizers. Patches come here as functions from old to new.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from discovery.testing.cluster import names
from discovery.testing.cluster.failures import (
    ApiFailure,
    Cause,
    already_exists,
    bad_request,
    conflict,
    invalid,
    modified,
    not_found,
    wrong,
)
from discovery.testing.cluster.kinds import NAMESPACES, Kind, Object, copied
from discovery.testing.cluster.ownership import drop_managed_times, record_update
from discovery.testing.cluster.rules import Rule, Surroundings
from discovery.testing.cluster.shapes import check_shape
from discovery.testing.cluster.store import Store


@dataclass(frozen=True, slots=True)
class Target:
    """One object, in the words of a request. `subresource` is "" or "status"."""

    kind: Kind
    version: str
    namespace: str
    name: str
    subresource: str = ""

    @property
    def where(self) -> tuple[str, str]:
        return self.namespace, self.name


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes: the field manager that the request names, whether it only wants to know what would happen."""

    manager: str = "unknown"
    dry_run: bool = False


@dataclass
class Writes:
    """Every write to `store` goes through here. `now` and `new_uid` are where time and chance come from."""

    store: Store
    rules: Mapping[str, Rule]
    around: Surroundings
    now: Callable[[], datetime]
    new_uid: Callable[[], str]

    def stamp(self) -> str:
        return self.now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def existing(self, target: Target) -> Object:
        thing = self.store.get(target.kind.resource, target.where)
        if thing is None:
            raise not_found(target.kind, target.name)
        return thing

    def create(self, target: Target, body: Object, writer: Writer) -> Object:
        """Make the object that `body` describes; its name is the body's, or is made from generateName."""
        kind = target.kind
        new = self._from_body(target, body)
        metadata = new["metadata"]
        if metadata.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = names.generated(metadata["generateName"], self.new_uid())
        where = (target.namespace, metadata.get("name", ""))
        self.namespace_takes(target.namespace, kind, where[1])
        if self.store.get(kind.resource, where) is not None:
            raise already_exists(kind, where[1])
        for key in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields"):
            metadata.pop(key, None)
        if kind.status:
            new.pop("status", None)
        return self.make(kind, where, new, writer, record=(target.version, writer.manager))

    def make(
        self, kind: Kind, where: tuple[str, str], new: Object, writer: Writer, record: tuple[str, str] | None
    ) -> Object:
        """Store a new object; `record` (version, manager) says who gets to own its fields, None: already known."""
        metadata = new["metadata"]
        metadata |= {"uid": self.new_uid(), "creationTimestamp": self.stamp()}
        if kind.generation:
            metadata["generation"] = 1
        self._check(kind, new, None)
        if record is not None:
            record_update(kind, *record, "", None, new, self.stamp())
        return new if writer.dry_run else self.store.put(kind.resource, where, new)

    def update(self, target: Target, body: Object, writer: Writer) -> tuple[Object, bool]:
        """PUT: the object, and whether it is new. Raises 409 for an old version, 404 if the kind is not made so."""
        before = self.store.get(target.kind.resource, target.where)
        if before is None:
            if not target.kind.create_on_update or target.subresource:
                raise not_found(target.kind, target.name)
            check_shape(target.kind, body)
            body = {**body, "metadata": {**(body.get("metadata") or {}), "name": target.name}}
            body["metadata"].pop("resourceVersion", None)
            return self.create(target, body, writer), True
        new = self._from_body(target, body)
        if new["metadata"].get("name", target.name) != target.name:
            raise bad_request("the name of the object does not match the name on the URL")
        if not new["metadata"].get("resourceVersion") and not target.kind.unconditional_update:
            cause = wrong(
                "metadata.resourceVersion", "0x0" if target.kind.custom else "", "must be specified for an update"
            )
            raise invalid(target.kind.kind, target.kind.group, target.name, [cause])
        return self.replace(target, before, new, writer), False

    def modify(self, target: Target, change: Callable[[Object], Object], writer: Writer) -> Object:
        """PATCH: `change` gets a copy of the object, with kind and apiVersion, and gives the new one."""
        before = self.existing(target)
        shown = {"kind": target.kind.kind, "apiVersion": target.kind.api_version(target.version), **before}
        new = self._from_body(target, change(copied(shown)))
        return self.replace(target, before, new, writer)

    def replace(self, target: Target, before: Object, new: Object, writer: Writer, *, owned: bool = False) -> Object:
        """Put `new` in the place of `before`, if it may be. An equal object is not written: its version stays.

        `owned`: metadata.managedFields of `new` is right already (server-side apply has seen to it).
        """
        kind = target.kind
        self._same_object(kind, target.name, before, new)
        merged = self._changeable(target, before, new, owned=owned)
        self._check(kind, merged, before)
        if kind.generation and _content(kind, merged) != _content(kind, before):
            merged["metadata"]["generation"] = before["metadata"].get("generation", 0) + 1
        if not owned:
            record_update(kind, target.version, writer.manager, target.subresource, before, merged, self.stamp())
        if drop_managed_times(merged) == drop_managed_times(before):
            return before
        if writer.dry_run:
            return merged
        over = "deletionTimestamp" in merged["metadata"] and not merged["metadata"].get("finalizers")
        # A namespace ends when it is empty: the collector sees to that.
        if over and kind != NAMESPACES:
            self.finish(kind, target.where)
            return merged
        return self.store.put(kind.resource, target.where, merged)

    def _from_body(self, target: Target, body: Object) -> Object:
        """A copy of the body without kind and apiVersion, which are the path's."""
        kind = target.kind
        check_shape(kind, body)
        said = body.get("kind", kind.kind), body.get("apiVersion", kind.api_version(target.version))
        if said != (kind.kind, kind.api_version(target.version)):
            raise bad_request(
                f"{said[0]} in {said[1]} does not fit the path's {kind.kind} in {kind.api_version(target.version)}"
            )
        new = copied({key: value for key, value in body.items() if key not in {"kind", "apiVersion"}})
        metadata = new["metadata"] = new.get("metadata") or {}
        for key in [key for key, value in metadata.items() if value in (None, {}, [], "")]:
            del metadata[key]
        if kind.namespaced:
            if metadata.setdefault("namespace", target.namespace) != target.namespace:
                raise bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request"
                )
        else:
            metadata.pop("namespace", None)
        return new

    def namespace_takes(self, namespace: str, kind: Kind, name: str) -> None:
        if not kind.namespaced:
            return
        home = self.store.get(NAMESPACES.resource, ("", namespace))
        if home is None:
            raise not_found(NAMESPACES, namespace)
        if "deletionTimestamp" in home["metadata"]:
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            cause = {"reason": "NamespaceTerminating", "message": f"namespace {namespace} is being terminated"}
            details = {"name": name, "kind": kind.plural, "causes": [cause | {"field": "metadata.namespace"}]}
            raise ApiFailure(403, "Forbidden", f'{kind.resource} "{name}" is forbidden: {why}', details=details)

    def _same_object(self, kind: Kind, name: str, before: Object, new: Object) -> None:
        uid, version = new["metadata"].get("uid"), new["metadata"].get("resourceVersion")
        if uid not in (None, before["metadata"]["uid"]):
            raise conflict(kind, name, _precondition(uid, before["metadata"]["uid"]))
        if version not in (None, before["metadata"]["resourceVersion"]):
            raise modified(kind, name)

    def _changeable(self, target: Target, before: Object, new: Object, *, owned: bool) -> Object:
        """The old object with that part of the new one that a request to this path may change."""
        if target.subresource == "status":
            merged = copied(before)
            merged["status"] = new.get("status", {})
            if owned:
                merged["metadata"]["managedFields"] = new["metadata"]["managedFields"]
            return merged
        merged = copied(new)
        if target.kind.status:
            merged.pop("status", None)
            if "status" in before:
                merged["status"] = copied(before["status"])
        for key in _SERVERS_OWN:
            merged["metadata"].pop(key, None)
            if key in before["metadata"]:
                merged["metadata"][key] = before["metadata"][key]
        if not owned:
            merged["metadata"].pop("managedFields", None)
            if "managedFields" in before["metadata"]:
                merged["metadata"]["managedFields"] = copied(before["metadata"]["managedFields"])
        if "deletionTimestamp" in before["metadata"]:
            self._no_new_finalizers(target, before, merged)
        return merged

    def _no_new_finalizers(self, target: Target, before: Object, new: Object) -> None:
        added = set(new["metadata"].get("finalizers", ())) - set(before["metadata"].get("finalizers", ()))
        if added:
            message = (
                f"Forbidden: no new finalizers can be added if the object is being deleted, found new {sorted(added)}"
            )
            cause = Cause("metadata.finalizers", "FieldValueForbidden", message)
            raise invalid(target.kind.kind, target.kind.group, target.name, [cause])

    def _check(self, kind: Kind, new: Object, before: Object | None) -> None:
        causes = names.causes(new["metadata"], path_names=kind.path_names)
        rule = self.rules.get(kind.resource)
        if rule is not None:
            causes += rule(self.around, new, before)
        if causes:
            raise invalid(kind.kind, kind.group, new["metadata"].get("name", ""), causes)

    def delete(self, target: Target, options: Object, *, dry_run: bool = False) -> tuple[Object, bool]:
        """The object, and whether it is gone already; with finalizers it only gets to know that it must go.

        Raises 409 when a precondition (uid, resourceVersion) names another object.
        """
        kind = target.kind
        before = self.existing(target)
        for key, wanted in (options.get("preconditions") or {}).items():
            if before["metadata"].get(key) != wanted:
                raise conflict(kind, target.name, _precondition(wanted, before["metadata"].get(key), key))
        if dry_run:
            return before, False
        finalizers = list(before["metadata"].get("finalizers", ()))
        wait = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}.get(options.get("propagationPolicy") or "")
        if wait is not None and wait not in finalizers:
            finalizers.append(wait)
        if kind == NAMESPACES or finalizers:
            if "deletionTimestamp" in before["metadata"]:
                return before, False
            return self._mark_deleted(kind, target, before, finalizers), False
        self.finish(kind, target.where)
        return before, True

    def _mark_deleted(self, kind: Kind, target: Target, before: Object, finalizers: list[str]) -> Object:
        new = copied(before)
        new["metadata"] |= {"deletionTimestamp": self.stamp(), "deletionGracePeriodSeconds": 0}
        if finalizers:
            new["metadata"]["finalizers"] = finalizers
        if kind.generation:
            new["metadata"]["generation"] = before["metadata"].get("generation", 0) + 1
        if kind == NAMESPACES:
            new["status"] = {**new.get("status", {}), "phase": "Terminating"}
        return self.store.put(kind.resource, target.where, new)

    def finish(self, kind: Kind, where: tuple[str, str]) -> None:
        """Remove the object now, whatever it says."""
        self.store.remove(kind.resource, where)


_SERVERS_OWN = (
    "uid",
    "creationTimestamp",
    "resourceVersion",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generateName",
    "selfLink",
)


def _precondition(wanted: object, found: object, key: str = "uid") -> str:
    what = {"uid": "UID", "resourceVersion": "ResourceVersion"}.get(key, key)
    return f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"


def _content(kind: Kind, thing: Object) -> Object:
    """What a new generation is for: all but metadata and, where it is apart, status."""
    return {key: value for key, value in thing.items() if key not in {"metadata", "status" if kind.status else ""}}
