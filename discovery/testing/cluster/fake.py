"""The fake cluster as tests and demos hold it: a server in this loop, and hands on its inside.

Owns the life of the server (start, stop, restart, restore) and the ways to change, disturb and watch it from within.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from discovery.kit.certificate import Tls
from discovery.kit.clock import SYSTEM_CLOCK, Clock
from discovery.kit.service import serve
from discovery.kit.tasks import background
from discovery.testing.cluster.access import Access
from discovery.testing.cluster.collector import Collector
from discovery.testing.cluster.failures import no_such_path
from discovery.testing.cluster.faults import Faults
from discovery.testing.cluster.journal import Entry
from discovery.testing.cluster.kinds import KINDS, NAMESPACES, Kind, Object, copied
from discovery.testing.cluster.kubeconfig import kubeconfig
from discovery.testing.cluster.rules import RULES, Rule, Surroundings
from discovery.testing.cluster.server import ApiServer
from discovery.testing.cluster.settings import Settings
from discovery.testing.cluster.store import Backup, Event, Store
from discovery.testing.cluster.streams import Streams, WatchStream
from discovery.testing.cluster.writes import Target, Writer, Writes

_BORN_WITH = ("default", "kube-node-lease", "kube-public", "kube-system")
_DRAIN = 2
_MOST_CONNECTIONS = 4096
_INSIDE = Writer("inside")


class FakeCluster:
    """An API server at `url`, for as long as the block runs.

    `faults`, `access` and `requests` may be used at any time, and so may the methods below: they work on the inside,
    without a request, and are not logged. The objects they give must not be changed.
    """

    def __init__(
        self,
        *,
        settings: Settings | None = None,
        kinds: Sequence[Kind] = KINDS,
        rules: Mapping[str, Rule] = RULES,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: Tls | None = None,
        clock: Clock = SYSTEM_CLOCK,
        chance: Callable[[], float] = lambda: uuid.uuid4().int / 2**128,
        new_uid: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self.settings = settings or Settings()
        self.kinds = tuple(kinds)
        self.faults = Faults()
        self.access = Access()
        self.url = ""
        self._host = host
        self._port = port
        self._tls = tls
        self._clock = clock
        self._cached: int | None = None
        self._store = Store(history=self.settings.history, revision=self.settings.first_revision)
        around = Surroundings(self.settings.ip_families, self.settings.loopback)
        self._writes = Writes(self._store, rules, around, clock.now, new_uid)
        self._collector = Collector(self._writes, self.kinds)
        self._streams = Streams(clock, self.settings.bookmark_every, chance)
        self._server = ApiServer(
            self.settings,
            self.kinds,
            self._store,
            self._writes,
            self.access,
            self.faults,
            self._streams,
            clock,
            cached=lambda: self._cached,
        )
        self._collect = asyncio.Event()
        self._up = AsyncExitStack()
        self._around = AsyncExitStack()
        self._failed: Exception | None = None
        self._store.listeners.append(self._heard)
        self._born()

    def _born(self) -> None:
        for name in _BORN_WITH:
            self.create({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}})

    def __repr__(self) -> str:
        return f"<FakeCluster {self.url or 'down'} {self._store!r}>"

    # Life

    async def __aenter__(self) -> Self:
        await self._around.enter_async_context(
            background(self._collecting(), name="garbage collector", on_failure=self._fail)
        )
        try:
            await self.start()
        except BaseException:
            await self._around.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
        await self._around.aclose()
        if self._failed is not None and error is None:
            raise self._failed

    async def start(self) -> None:
        """Listen (again), at the same address once there has been one."""
        self._server.ended.clear()
        self._streams.closed = False
        stack = AsyncExitStack()
        bound = await stack.enter_async_context(
            serve(
                self._server,
                self._host,
                self._port,
                on_failure=self._fail,
                tls=self._tls,
                drain=_DRAIN,
                connections=_MOST_CONNECTIONS,
            )
        )
        self._up = stack
        self._port = bound.port
        self.url = bound.url

    async def stop(self) -> None:
        """Shut down in order: watches end, requests are answered, then nobody listens."""
        self._streams.end_all()
        self._server.ended.set()
        await self._up.aclose()

    async def restart(self, *, lose_history: bool = False) -> None:
        """Stop and start. `lose_history`: only what is, not what was, is still known (watches get 410)."""
        await self.stop()
        if lose_history:
            self._store.compact()
        await self.start()

    async def restore(self, backup: Backup) -> None:
        """Stop, go back to the backup as a restored etcd does, and start: revisions that were seen are future now."""
        await self.stop()
        self._store.restore(backup)
        self._collector.restart()
        await self.start()

    def backup(self) -> Backup:
        return self._store.backup()

    def _fail(self, error: Exception) -> None:
        self._failed = error

    async def _collecting(self) -> None:
        while True:
            await self._collect.wait()
            await self._clock.sleep(self.settings.gc_delay)
            self._collect.clear()
            while self._collector.collect():
                await self._clock.sleep(0)

    def _heard(self, event: Event) -> None:
        self._streams.happened()
        if self._collector.heard(event):
            self._collect.set()

    # Objects

    @property
    def revision(self) -> int:
        """The resourceVersion of the last write."""
        return self._store.revision

    def create(self, thing: Object) -> Object:
        """Make an object, and its namespace if there is none. Raises ApiFailure."""
        target = self._target(thing)
        self._home(target)
        made = self._writes.create(target, thing, _INSIDE)
        return self._with_status(Target(target.kind, target.version, target.namespace, made["metadata"]["name"]), thing)

    def put(self, thing: Object) -> Object:
        """Make or replace an object, whatever its version; status too. An equal object is not written."""
        target = self._target(thing)
        if self._store.get(target.kind.resource, target.where) is None:
            return self.create(thing)
        body = copied(thing)
        body["metadata"].pop("resourceVersion", None)
        self._writes.replace(target, self._writes.existing(target), self._stripped(body, target), _INSIDE)
        return self._with_status(target, thing)

    def put_all(self, things: Iterable[Object]) -> None:
        for thing in things:
            self.put(thing)

    def change(self, resource: str, namespace: str, name: str, change: Callable[[Object], None]) -> Object:
        """Let `change` alter a copy of the object, and put that in its place."""
        kind = self.kind(resource)
        target = Target(kind, kind.versions[0], namespace, name)

        def changed(thing: Object) -> Object:
            change(thing)
            return thing

        return self._writes.modify(target, changed, _INSIDE)

    def delete(self, resource: str, namespace: str, name: str) -> None:
        """Raises ApiFailure 404. An object with finalizers stays until they are gone."""
        kind = self.kind(resource)
        self._writes.delete(Target(kind, kind.versions[0], namespace, name), {})

    def get(self, resource: str, namespace: str, name: str) -> Object | None:
        return self._store.get(self.kind(resource).resource, (namespace, name))

    def objects(self, resource: str, namespace: str | None = None) -> list[Object]:
        """In the order of namespaces and names."""
        things = self._store.now(self.kind(resource).resource)
        return [things[where] for where in sorted(things) if namespace in {None, where[0]}]

    def kind(self, resource: str) -> Kind:
        """By `endpointslices` or `endpointslices.discovery.k8s.io`. Raises KeyError."""
        for kind in self.kinds:
            if resource in {kind.resource, kind.plural}:
                return kind
        raise KeyError(f"no kind {resource!r}; there are {', '.join(kind.resource for kind in self.kinds)}")

    def _target(self, thing: Object) -> Target:
        said = thing.get("kind"), thing.get("apiVersion")
        for kind in self.kinds:
            for version in kind.versions:
                if (kind.kind, kind.api_version(version)) == said:
                    metadata: Mapping[str, Any] = thing.get("metadata") or {}
                    home = metadata.get("namespace", "default") if kind.namespaced else ""
                    return Target(kind, version, home, metadata.get("name", ""))
        raise no_such_path()

    def _home(self, target: Target) -> None:
        if target.kind.namespaced and self._store.get(NAMESPACES.resource, ("", target.namespace)) is None:
            self.create({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": target.namespace}})

    def _stripped(self, body: Object, target: Target) -> Object:
        home = {"namespace": target.namespace} if target.kind.namespaced else {}
        metadata = {**body.get("metadata", {}), "name": target.name, **home}
        return {k: v for k, v in body.items() if k not in {"kind", "apiVersion"}} | {"metadata": metadata}

    def _with_status(self, target: Target, thing: Object) -> Object:
        if not target.kind.status or "status" not in thing:
            return self._writes.existing(target)
        status = Target(target.kind, target.version, target.namespace, target.name, "status")
        new = {"metadata": {}, "status": copied(thing["status"])}
        return self._writes.replace(status, self._writes.existing(target), new, _INSIDE)

    # Trouble

    def compact(self, revision: int | None = None) -> None:
        """Forget what was before `revision` (None: now): older watches and pages get 410."""
        self._store.compact(revision)
        self._streams.bell.ring()

    def bump(self, by: int = 1) -> None:
        """Let the revision grow without an event."""
        self._store.bump(self._store.revision + by)
        self._streams.bell.ring()

    def hold_cache(self) -> None:
        """From here on resourceVersion=0 sees this moment: a watch cache that lags."""
        self._cached = self._store.revision

    def release_cache(self) -> None:
        self._cached = None

    def silence_watches(self) -> None:
        """Open watches stay open and say nothing, not even bookmarks."""
        self._streams.silent = True

    def resume_watches(self) -> None:
        self._streams.silent = False
        self._streams.bell.ring()

    def end_watches(self) -> None:
        """End every open watch in order; new ones are served."""
        for stream in self._streams.open:
            stream.over = True
        self._streams.bell.ring()

    def cut_watches(self) -> None:
        """Cut the connection of every open watch."""
        for stream in self._streams.open:
            stream.cut()

    def send(self, raw: bytes) -> None:
        """Put bytes into every open watch, whatever they are."""
        self._streams.send_all(raw)

    # Sight

    @property
    def requests(self) -> list[Entry]:
        """Every request so far, oldest first (the last 100,000)."""
        return list(self._server.journal)

    def forget_requests(self) -> None:
        self._server.journal.clear()

    def asked(self, verb: str = "", resource: str = "") -> list[Entry]:
        """The requests of this verb and resource (`endpointslices.discovery.k8s.io`; "" any)."""
        return [
            entry
            for entry in self._server.journal
            if verb in {"", entry.verb} and resource in {"", entry.resource, entry.resource.partition(".")[0]}
        ]

    @property
    def watches(self) -> list[WatchStream]:
        """The watches that are open now."""
        return list(self._streams.open)

    async def until(self, true: Callable[[], bool], *, seconds: float = 10.0) -> None:
        """Wait until `true()`, looked at whenever something was asked, written or told. Raises TimeoutError."""
        if not await self._streams.moved.until(true, self._clock, seconds):
            raise TimeoutError(
                f"not so after {seconds} s; {len(self.watches)} watches, last asked: {self.requests[-5:]}"
            )

    async def watched(self, count: int = 1, *, seconds: float = 10.0) -> None:
        """Wait until `count` watches are open and have sent all there is."""
        await self.until(
            lambda: len(self.watches) == count and not any(w.cursor.behind for w in self.watches), seconds=seconds
        )

    # Addresses

    def kubeconfig_text(self, *, token: str = "", namespace: str = "default") -> str:
        ca = self._tls.cert.read_bytes() if self._tls else None
        return kubeconfig(self.url, token=token, ca=ca, namespace=namespace)

    def kubeconfig(self, path: Path, *, token: str = "", namespace: str = "default") -> Path:
        """Write a kubeconfig (context `fake`) and give its path."""
        path.write_text(self.kubeconfig_text(token=token, namespace=namespace))
        return path
