"""The cluster as exporter and importer work with it: caches of what is, and the carrying out of changes.

Owns the writes. What a write answers is taken into the cache at once, so that the next plan sees it. A refusal says in
one word what became of a change; trouble that may pass is for whoever asked to try again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC
from enum import StrEnum

from discovery.kit.backoff import Chance
from discovery.kit.clock import Clock
from discovery.kit.log import logger
from discovery.kit.metrics import Counter
from discovery.kube import labels
from discovery.kube.client import KubeClient
from discovery.kube.errors import BadKubeConfig, Refusal, Refused, Unreachable
from discovery.kube.writes import KubeWriter
from discovery.mcs import names
from discovery.mcs.controller import paths
from discovery.mcs.controller.caches import ObjectCache
from discovery.mcs.controller.changes import Apply, ApplyStatus, ClusterChange, Delete, Merge, Warn
from discovery.mcs.controller.objects import Object, is_deleting, is_ours, key_of, labels_of, metadata
from discovery.mcs.model import ServiceKey

_log = logger(__name__)


class Outcome(StrEnum):
    DONE = "done"
    DROPPED = "dropped"
    """The namespace is ending, or what was to be deleted is gone: nothing is left to do."""
    REFUSED = "refused"
    """The same again would be refused again."""
    FAILED = "failed"


class Cluster:
    """`version`: of the multi-cluster API. `namespaces`: only those, all of them when there are none."""

    def __init__(
        self,
        writer: KubeWriter,
        clients: Callable[[], KubeClient],
        version: str,
        namespaces: Sequence[str],
        clock: Clock,
        chance: Chance,
        written: Counter,
    ) -> None:
        self.version = version
        self._writer = writer
        self._clients = clients
        self._only = frozenset(namespaces)
        self._clock = clock
        self._written = written
        self._warned: set[tuple[str, str, str]] = set()
        self.listeners: list[Callable[[set[ServiceKey]], None]] = []

        def cache(resource: str, about: Callable[[Object], Iterable[ServiceKey]]) -> ObjectCache:
            places: list[str | None] = list(namespaces) or [None]
            found = [paths.collection(resource, version, one) for one in places]
            return ObjectCache(resource, found, about, self._changed, clock, chance)

        self.services = cache("services", _about_service)
        self.slices = cache("endpointslices", _about_slice)
        self.exports = cache("serviceexports", lambda thing: [key_of(thing)])
        self.imports = cache("serviceimports", lambda thing: [key_of(thing)])
        everywhere = [paths.collection("namespaces", version)]
        self.namespaces = ObjectCache("namespaces", everywhere, lambda _: (), self._namespaces_changed, clock, chance)
        self.namespace_listeners: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return f"<Cluster {self.version} synced={self.synced}>"

    @property
    def caches(self) -> list[ObjectCache]:
        return [self.services, self.slices, self.exports, self.imports, self.namespaces]

    @property
    def synced(self) -> bool:
        return all(one.synced for one in self.caches)

    def serves(self, namespace: str) -> bool:
        """Whether this namespace is one of ours to look at."""
        return not self._only or namespace in self._only

    def is_open(self, namespace: str) -> bool:
        """Whether things may be made in this namespace."""
        home = self.namespaces.get("", namespace)
        return self.serves(namespace) and home is not None and not is_deleting(home)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for one in self.caches:
                group.create_task(one.run(self._clients))

    def _changed(self, keys: set[ServiceKey]) -> None:
        if keys:
            for listener in self.listeners:
                listener(keys)

    def _namespaces_changed(self, keys: set[ServiceKey]) -> None:
        for listener in self.namespace_listeners:
            listener()

    # Writing

    async def carry_out(self, change: ClusterChange) -> tuple[Outcome, str]:
        """The change, and why it was refused or failed."""
        verb = type(change).__name__.lower()
        try:
            await self._write(change)
        except Refused as error:
            outcome = self._outcome(change, error)
            if outcome is not Outcome.DROPPED:
                _log.warning("write refused", verb=verb, object=_shown(change), reason=str(error)[:500])
            self._written.add(verb, change.ref.resource, outcome)
            return outcome, error.message
        except (Unreachable, BadKubeConfig) as error:
            _log.warning("write failed", verb=verb, object=_shown(change), reason=str(error))
            self._written.add(verb, change.ref.resource, Outcome.FAILED)
            return Outcome.FAILED, str(error)
        self._written.add(verb, change.ref.resource, Outcome.DONE)
        return Outcome.DONE, ""

    async def _write(self, change: ClusterChange) -> None:
        path = paths.one(change.ref, self.version)
        cache = next(one for one in self.caches if one.name == change.ref.resource)
        match change:
            case Apply(_, body):
                cache.put(await self._writer.apply(path, body, names.FIELD_OWNER))
            case ApplyStatus(_, body):
                cache.put(await self._writer.apply(f"{path}/status", body, names.STATUS_FIELD_OWNER))
            case Merge(_, body):
                cache.put(await self._writer.merge(path, body, names.FIELD_OWNER))
            case Delete(ref, uid):
                try:
                    await self._writer.delete(path, uid)
                except Refused as error:
                    # Gone already, or another by now: the watch tells which.
                    if error.refusal not in (Refusal.NOT_FOUND, Refusal.CONFLICT):
                        raise
                if not _has_finalizers(cache.get(ref.namespace, ref.name)):
                    cache.drop(ref.namespace, ref.name)

    def _outcome(self, change: ClusterChange, error: Refused) -> Outcome:
        match error.refusal:
            case Refusal.TERMINATING:
                return Outcome.DROPPED
            case Refusal.NOT_FOUND | Refusal.CONFLICT if not isinstance(change, Delete):
                # The object or its namespace went away, or became another: the watch tells.
                return Outcome.FAILED
            case Refusal.INVALID:
                return Outcome.REFUSED
        return Outcome.FAILED

    async def warn(self, warning: Warn) -> None:
        """An Event about the object, once for each object and reason."""
        known = (warning.ref.resource, warning.uid, warning.reason)
        if known in self._warned:
            return
        self._warned.add(known)
        stamp = self._clock.now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        _log.warning("object in the way", object=f"{warning.ref.namespace}/{warning.ref.name}", reason=warning.reason)
        kind = {"services": "Service", "endpointslices": "EndpointSlice"}.get(warning.ref.resource, "ServiceImport")
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"namespace": warning.ref.namespace, "generateName": f"{warning.ref.name[:200]}."},
            "involvedObject": {
                "kind": kind,
                "namespace": warning.ref.namespace,
                "name": warning.ref.name,
                "uid": warning.uid,
            },
            "type": "Warning",
            "reason": warning.reason,
            "message": warning.message[:1024],
            "source": {"component": names.CONTROLLER},
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
        }
        path = paths.collection("events", self.version, warning.ref.namespace)
        try:
            await self._writer.create(path, body)
        except (Refused, Unreachable, BadKubeConfig) as error:
            _log.warning("event not written", reason=str(error))


def _about_service(service: Object) -> list[ServiceKey]:
    """A Service is about itself; a derived one about its import, too."""
    key = key_of(service)
    owners = metadata(service).get("ownerReferences") or ()
    return [key, *(ServiceKey(key.namespace, one["name"]) for one in owners if one.get("kind") == "ServiceImport")]


def _about_slice(slice_: Object) -> list[ServiceKey]:
    """An imported slice is about its import, any other about the local Service."""
    namespace, found = key_of(slice_).namespace, labels_of(slice_)
    imported = is_ours(slice_) or labels.MCS_SOURCE_CLUSTER in found
    name = found.get(labels.MCS_SERVICE_NAME if imported else labels.SERVICE_NAME)
    return [ServiceKey(namespace, name)] if name else []


def _has_finalizers(thing: Object | None) -> bool:
    return thing is not None and bool(metadata(thing).get("finalizers"))


def _shown(change: ClusterChange) -> str:
    return f"{change.ref.resource} {change.ref.namespace}/{change.ref.name}"
