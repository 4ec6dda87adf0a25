"""The API server of one simulated cluster: as much of one as the controller's own code asks for, and quick.

Owns the objects, their past, field ownership by manager, finalizers, owners and watches. What a real server does beyond
that is held to by the contract tests of `discovery.testing.cluster`; this one is for thousands of schedules.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import orjson

from tests.sim.mcs.loop import START, VirtualLoop
from tests.sim.mcs.ownership import fields_of, merged, without

Object = dict[str, Any]
Where = tuple[str, str]

_KINDS = {
    "services": ("v1", "Service"),
    "namespaces": ("v1", "Namespace"),
    "events": ("v1", "Event"),
    "endpointslices": ("discovery.k8s.io/v1", "EndpointSlice"),
    "serviceexports": ("multicluster.x-k8s.io/v1beta1", "ServiceExport"),
    "serviceimports": ("multicluster.x-k8s.io/v1beta1", "ServiceImport"),
    "leases": ("coordination.k8s.io/v1", "Lease"),
}
_COUNTED = ("serviceexports", "serviceimports")
BOOKMARK_S = 60.0
HISTORY = 400


class ApiError(Exception):
    def __init__(self, code: int, reason: str, cause: str = "") -> None:
        super().__init__(reason)
        self.code = code
        details = {"causes": [{"reason": cause, "message": cause}]} if cause else {}
        self.body = {"kind": "Status", "code": code, "reason": reason, "message": cause or reason, "details": details}


@dataclass(eq=False)
class Stream:
    """One open watch: what has arrived and was not read yet. None ends it, an error cuts it."""

    resource: str
    lag: Callable[[], float]
    loop: VirtualLoop
    last: float = 0.0
    waiting: asyncio.Queue[bytes | Exception | None] = field(default_factory=asyncio.Queue)
    timers: list[asyncio.TimerHandle] = field(default_factory=list)

    def send(self, line: bytes | Exception | None) -> None:
        """Later, but never before what was sent before."""
        # Timers of one moment run in no order.
        self.last = max(self.last + 1e-6, self.loop.time() + self.lag())
        self.loop.call_at(self.last, self.waiting.put_nowait, line)


def deep(thing: Object) -> Object:
    return orjson.loads(orjson.dumps(thing))  # type: ignore[no-any-return]


class Api:
    """`wrote` hears of each write of a controller: verb, resource, the object, who."""

    def __init__(self, name: str, loop: VirtualLoop, chance: random.Random, ahead: float) -> None:
        self.name = name
        self.away = False
        self.objects: dict[str, dict[Where, Object]] = {resource: {} for resource in _KINDS}
        self.written: list[tuple[float, str, str, str]] = []
        self.on_delete: Callable[[str, Object, object], None] = lambda resource, thing, who: None
        self._loop = loop
        self._chance = chance
        self._ahead = ahead
        self._applied: dict[tuple[str, Where], dict[tuple[str, str], Object]] = {}
        self._revision = 1
        self._past: list[tuple[int, str, bytes]] = []
        self._oldest = 1
        self._uids = itertools.count(1)
        self._ips = itertools.count(1)
        self._streams: dict[Stream, None] = {}
        for namespace in ("kube-system", "mcs"):
            self.put("namespaces", {"metadata": {"name": namespace}})

    # What people do

    def stamp(self) -> str:
        moment = START + timedelta(seconds=self._loop.time() + self._ahead)
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")

    def get(self, resource: str, namespace: str, name: str) -> Object | None:
        return self.objects[resource].get((namespace, name))

    def put(self, resource: str, body: Object) -> Object:
        """Create, or replace all but the metadata that the server owns."""
        metadata = body["metadata"]
        where = (metadata.get("namespace", ""), metadata["name"])
        live = self.objects[resource].get(where)
        if live is None:
            return self._store(resource, where, self._born(resource, deep(body)))
        new = {**deep(body), "metadata": {**live["metadata"], **deep(metadata)}}
        return self._store(resource, where, new)

    def remove(self, resource: str, namespace: str, name: str) -> None:
        """Delete; with finalizers only marked."""
        where = (namespace, name)
        live = self.objects[resource].get(where)
        if live is None:
            return
        if live["metadata"].get("finalizers"):
            if "deletionTimestamp" not in live["metadata"]:
                new = deep(live)
                new["metadata"]["deletionTimestamp"] = self.stamp()
                self._store(resource, where, new)
            return
        del self.objects[resource][where]
        self._applied.pop((resource, where), None)
        self._happened(resource, "DELETED", live)
        for other, things in self.objects.items():
            for owned in list(things.values()):
                owners = owned["metadata"].get("ownerReferences") or ()
                if any(one["uid"] == live["metadata"]["uid"] for one in owners):
                    self._collect_later(other, owned)

    def _collect_later(self, resource: str, thing: Object) -> None:
        metadata = thing["metadata"]

        def collect() -> None:
            live = self.get(resource, metadata["namespace"], metadata["name"])
            if live is not None and live["metadata"]["uid"] == metadata["uid"]:
                self.remove(resource, metadata["namespace"], metadata["name"])

        self._loop.call_later(self._chance.uniform(0.01, 2), collect)

    def cut_watches(self, error: Exception) -> None:
        for stream in list(self._streams):
            stream.send(error)
        self._streams.clear()

    def compact(self) -> None:
        self._past.clear()
        self._oldest = self._revision

    # The store

    def _born(self, resource: str, body: Object) -> Object:
        version, kind = _KINDS[resource]
        metadata = {**body["metadata"], "uid": f"{self.name}-{next(self._uids)}", "creationTimestamp": self.stamp()}
        if resource in _COUNTED:
            metadata["generation"] = 1
        new = {"apiVersion": version, "kind": kind, **body, "metadata": metadata}
        if resource == "services" and new["spec"].get("type") == "ClusterIP":
            spec = new["spec"]
            spec["clusterIP"] = f"10.96.0.{next(self._ips)}"
            spec |= {"clusterIPs": [spec["clusterIP"]], "ipFamilies": ["IPv4"]}
        return new

    def _store(self, resource: str, where: Where, new: Object) -> Object:
        live = self.objects[resource].get(where)
        if live is not None:
            if {**new, "metadata": {**new["metadata"], "resourceVersion": ""}} == {
                **live,
                "metadata": {**live["metadata"], "resourceVersion": ""},
            }:
                return live
            if resource in _COUNTED and new.get("spec") != live.get("spec"):
                new["metadata"]["generation"] = live["metadata"]["generation"] + 1
        self._revision += 1
        new["metadata"]["resourceVersion"] = str(self._revision)
        self.objects[resource][where] = new
        if "deletionTimestamp" in new["metadata"] and not new["metadata"].get("finalizers"):
            self.remove(resource, *where)
            return new
        self._happened(resource, "ADDED" if live is None else "MODIFIED", new, stored=True)
        owners = {one["uid"] for one in new["metadata"].get("ownerReferences") or ()}
        if live is None and owners and not owners & self._living():
            self._collect_later(resource, new)
        return new

    def _living(self) -> set[str]:
        return {one["metadata"]["uid"] for things in self.objects.values() for one in things.values()}

    def _happened(self, resource: str, what: str, thing: Object, *, stored: bool = False) -> None:
        if not stored:
            self._revision += 1
            thing = {**thing, "metadata": {**thing["metadata"], "resourceVersion": str(self._revision)}}
        line = orjson.dumps({"type": what, "object": thing}) + b"\n"
        self._past.append((self._revision, resource, line))
        if len(self._past) > 2 * HISTORY:
            self._oldest = self._past[-HISTORY][0]
            del self._past[:-HISTORY]
        for stream in self._streams:
            if stream.resource == resource:
                stream.send(line)

    # Requests

    def answer(self, method: str, path: str, query: dict[str, str], headers: Any, body: Object | None) -> Object:
        """One request for an object. Raises ApiError."""
        if path == "/apis/multicluster.x-k8s.io":
            return {"kind": "APIGroup", "versions": [{"version": "v1beta1"}]}
        resource, namespace, name, sub = _parts(path)
        where = (namespace, name)
        if method == "GET" and not name:
            items = list(self.objects[resource].values())
            kind = f"{_KINDS[resource][1]}List"
            return {"kind": kind, "metadata": {"resourceVersion": str(self._revision)}, "items": items}
        if method == "GET":
            live = self.objects[resource].get(where)
            if live is None:
                raise ApiError(404, "NotFound")
            return live
        assert body is not None
        if method == "POST":
            if resource == "events":
                return body
            place = (namespace, body["metadata"]["name"])
            if place in self.objects[resource]:
                raise ApiError(409, "AlreadyExists")
            return self._store(resource, place, self._born(resource, body))
        if method == "PUT":
            return self._replace(resource, where, body)
        if method == "DELETE":
            return self._delete(resource, where, body)
        if "apply" in headers["Content-Type"]:
            return self._apply(resource, where, sub, body, query["fieldManager"])
        live = self._live(resource, where)
        return self._store(resource, where, merged(deep(live), body, ""))

    def _live(self, resource: str, where: Where) -> Object:
        live = self.objects[resource].get(where)
        if live is None:
            raise ApiError(404, "NotFound")
        return live

    def _replace(self, resource: str, where: Where, body: Object) -> Object:
        live = self._live(resource, where)
        if body["metadata"].get("resourceVersion") != live["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict")
        return self._store(resource, where, {**body, "metadata": {**live["metadata"]}})

    def _delete(self, resource: str, where: Where, options: Object) -> Object:
        live = self._live(resource, where)
        if options["preconditions"]["uid"] != live["metadata"]["uid"]:
            raise ApiError(409, "Conflict")
        self.remove(resource, *where)
        return live

    def _apply(self, resource: str, where: Where, sub: str, body: Object, manager: str) -> Object:
        live = self.objects[resource].get(where)
        uid = body["metadata"].get("uid")
        if live is None:
            if sub:
                raise ApiError(404, "NotFound")
            if uid:
                raise ApiError(409, "Conflict")
            if ("", where[0]) not in self.objects["namespaces"]:
                raise ApiError(404, "NotFound")
        elif uid and uid != live["metadata"]["uid"]:
            raise ApiError(409, "Conflict")
        if live is not None and "deletionTimestamp" in live["metadata"]:
            # Finalizers may go from what is being deleted, and none may come.
            finalizers = body["metadata"].get("finalizers") or []
            if not set(finalizers) <= set(live["metadata"].get("finalizers") or ()):
                raise ApiError(422, "Invalid", "no new finalizers can be added if the object is being deleted")
        root = "Service" if resource == "services" else ""
        said = {key: value for key, value in deep(body).items() if key not in ("apiVersion", "kind")}
        said["metadata"] = {
            key: value for key, value in said["metadata"].items() if key not in ("name", "namespace", "uid")
        }
        if not said["metadata"]:
            del said["metadata"]
        if live is None:
            new = self._born(resource, {**deep(said), "metadata": {**said.get("metadata", {}), **_place(where)}})
        else:
            applied = self._applied.get((resource, where), {}).get((manager, sub), {})
            new = merged(without(deep(live), applied, said, root), said, root)
        known = self._applied.setdefault((resource, where), {})
        known[manager, sub] = said
        new["metadata"]["managedFields"] = [
            {"manager": one, "operation": "Apply", "subresource": part, "fieldsV1": fields_of(what, root)}
            for (one, part), what in sorted(known.items())
        ]
        return self._store(resource, where, new)

    # Watches

    def watch(self, path: str, query: dict[str, str], lag: Callable[[], float]) -> Stream:
        resource = path.rpartition("/")[2]
        stream = Stream(resource, lag, self._loop)
        if query.get("sendInitialEvents"):
            for thing in self.objects[resource].values():
                stream.send(orjson.dumps({"type": "ADDED", "object": thing}) + b"\n")
            stream.send(self._bookmark(resource, {"k8s.io/initial-events-end": "true"}))
        else:
            since = int(query["resourceVersion"])
            if since < self._oldest:
                status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
                stream.send(orjson.dumps({"type": "ERROR", "object": status}) + b"\n")
                stream.send(None)
                return stream
            for revision, which, line in self._past:
                if revision > since and which == resource:
                    stream.send(line)
        self._streams[stream] = None
        stream.timers.append(self._loop.call_later(float(query["timeoutSeconds"]), self._end, stream))
        self._mark_later(stream)
        return stream

    def _bookmark(self, resource: str, annotations: Object | None = None) -> bytes:
        version, kind = _KINDS[resource]
        metadata = {"resourceVersion": str(self._revision), "annotations": annotations or {}}
        thing = {"apiVersion": version, "kind": kind, "metadata": metadata}
        return orjson.dumps({"type": "BOOKMARK", "object": thing}) + b"\n"

    def _mark_later(self, stream: Stream) -> None:
        def mark() -> None:
            if stream in self._streams:
                stream.send(self._bookmark(stream.resource))
                self._mark_later(stream)

        stream.timers[1:] = [self._loop.call_later(BOOKMARK_S, mark)]

    def _end(self, stream: Stream) -> None:
        if stream in self._streams:
            del self._streams[stream]
            stream.send(None)

    def leave(self, stream: Stream) -> None:
        self._streams.pop(stream, None)
        for timer in stream.timers:
            timer.cancel()


def _place(where: Where) -> dict[str, str]:
    return {"namespace": where[0], "name": where[1]}


def _parts(path: str) -> tuple[str, str, str, str]:
    """Resource, namespace, name, subresource."""
    parts = path.split("/")
    parts = parts[3:] if parts[1] == "api" else parts[4:]
    if parts[0] != "namespaces" or len(parts) <= 2:
        return parts[0], "", parts[1] if len(parts) > 1 else "", ""
    rest = [*parts[2:], "", "", ""]
    return rest[0], parts[1], rest[1], rest[2]
