"""What the cluster says now: one list/watch for each kind, indexed by the services it is about.

Owns the objects as they were last told, by the watch or by the answer to a write of ours. An object that cannot be read
keeps its last good form. Tells the log once what has gone wrong, and once that it is over.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from discovery.errors import DiscoveryError
from discovery.kit.backoff import Backoff, Chance
from discovery.kit.clock import Clock
from discovery.kit.log import logger
from discovery.kube.client import KubeClient
from discovery.kube.events import Deleted, Event, Policy, RefusedItem, Replaced, Trouble, Upserted
from discovery.kube.follow import follow_resource
from discovery.kube.watch import ListWatch
from discovery.mcs.controller.objects import Object, kept, metadata, uid_of
from discovery.mcs.model import ServiceKey

_log = logger(__name__)

POLICY = Policy(delay=Backoff(0.8, 30.0).delay)
Where = tuple[str, str]


class Unreadable(DiscoveryError):
    """An object without a name."""


def _decoded(thing: object) -> Object:
    try:
        return kept(thing)
    except ValueError as error:
        raise Unreadable(str(error)) from error


class ObjectCache:
    """Objects of one kind. `about` says which services an object is about; `on_change` hears which have changed."""

    def __init__(
        self,
        name: str,
        paths: Sequence[str],
        about: Callable[[Object], Iterable[ServiceKey]],
        on_change: Callable[[set[ServiceKey]], None],
        clock: Clock,
        chance: Chance,
        policy: Policy = POLICY,
    ) -> None:
        self.name = name
        self._about = about
        self._on_change = on_change
        self._clock = clock
        self._objects: dict[Where, Object] = {}
        self._index: dict[ServiceKey, set[Where]] = {}
        self._watches = [
            _Watch(path, self, ListWatch(_decoded, selector="", policy=policy, chance=chance, now=clock.monotonic()))
            for path in paths
        ]
        self.events: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<ObjectCache {self.name} {len(self._objects)} synced={self.synced}>"

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def synced(self) -> bool:
        """Whether everything has been listed once."""
        return all(one.listed for one in self._watches)

    @property
    def failing_for(self) -> float:
        return max(one.machine.failing_for(self._clock.monotonic()) for one in self._watches)

    @property
    def keys(self) -> set[ServiceKey]:
        return set(self._index)

    def get(self, namespace: str, name: str) -> Object | None:
        return self._objects.get((namespace, name))

    def of(self, service: ServiceKey) -> list[Object]:
        return [self._objects[where] for where in sorted(self._index.get(service, ()))]

    def objects(self) -> Iterable[Object]:
        return self._objects.values()

    async def run(self, clients: Callable[[], KubeClient]) -> None:
        """List and watch for ever, each path with its own connections."""
        async with asyncio.TaskGroup() as group:
            for one in self._watches:
                group.create_task(self._follow(one, clients), name=f"watch {self.name}")

    async def _follow(self, one: _Watch, clients: Callable[[], KubeClient]) -> None:
        async with clients() as client:
            await follow_resource(client, one.path, one.machine, self._clock, one.hear, one.tell)

    def put(self, thing: Object) -> None:
        """An answer to a write, which the watch will tell later."""
        self._on_change(self._upsert(kept(thing)))

    def drop(self, namespace: str, name: str) -> None:
        self._on_change(self._remove((namespace, name)))

    def _upsert(self, thing: Object) -> set[ServiceKey]:
        where = (str(metadata(thing).get("namespace", "")), str(metadata(thing)["name"]))
        changed = self._remove(where)
        self._objects[where] = thing
        for key in self._about(thing):
            self._index.setdefault(key, set()).add(where)
            changed.add(key)
        return changed

    def _remove(self, where: Where) -> set[ServiceKey]:
        before = self._objects.pop(where, None)
        changed = set(self._about(before)) if before is not None else set()
        for key in changed:
            if (places := self._index.get(key)) is not None:
                places.discard(where)
                if not places:
                    del self._index[key]
        return changed


class _Watch:
    """One path of a cache: where its own objects are, and how it goes."""

    def __init__(self, path: str, cache: ObjectCache, machine: ListWatch[Object]) -> None:
        self.path = path
        self.machine = machine
        self.listed = False
        self._cache = cache
        self._mine: set[Where] = set()
        self._told: Trouble | None = None

    def tell(self) -> None:
        trouble = self.machine.health.trouble
        if trouble is None and self._told is not None:
            _log.info("watch works again", watch=self._cache.name)
        elif trouble is not None and (self._told is None or self._told.kind is not trouble.kind):
            _log.warning("watch has trouble", watch=self._cache.name, kind=trouble.kind, reason=trouble.detail)
        self._told = trouble

    def hear(self, event: Event[Object]) -> None:
        cache = self._cache
        cache.events[type(event).__name__.lower()] += 1
        match event:
            case Upserted(item):
                self._mine.add(_where(item))
                cache._on_change(cache._upsert(item))
            case Deleted(namespace, name, uid):
                known = cache.get(namespace, name)
                self._mine.discard((namespace, name))
                # Another object of that name may have come with the answer to a write.
                if known is not None and uid in ("", uid_of(known)):
                    cache._on_change(cache._remove((namespace, name)))
            case Replaced(items, refused):
                self._replace(items, refused)
            case RefusedItem():
                _log.warning("object refused", watch=cache.name, namespace=event.namespace, name=event.name)

    def _replace(self, items: list[Object], refused: list[RefusedItem]) -> None:
        cache = self._cache
        now = {_where(one): one for one in items}
        unreadable = {(one.namespace, one.name) for one in refused}
        changed: set[ServiceKey] = set()
        for where in self._mine - now.keys() - unreadable:
            changed |= cache._remove(where)
        for one in now.values():
            changed |= cache._upsert(one)
        self._mine = set(now) | (self._mine & unreadable)
        if not self.listed:
            _log.info("objects listed", watch=cache.name, count=len(items))
        self.listed = True
        cache._on_change(changed)


def _where(thing: Object) -> Where:
    return str(metadata(thing).get("namespace", "")), str(metadata(thing)["name"])
