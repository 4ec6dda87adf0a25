"""The pool table: what discovery knows, as frozen values; one snapshot, one swap.

Owns the values and their comparison (diff, apply). Refuses nothing: whoever makes a value has checked it. Sorting is
part of the value, so that equal content is equal, whatever order it came in.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import attrgetter

from discovery.identity import PoolKey, pool_id


@dataclass(frozen=True, slots=True)
class Pod:
    """The pod behind an endpoint, as its slice names it; uid is "" when the slice does not say."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Frontend:
    """A pool's OpenAI HTTP server: `url` is `scheme://host:port` without a path, `also` the same pod in the other
    address family. *Usable* is `ready` and nothing else (A21)."""

    url: str
    also: tuple[str, ...] = ()
    ready: bool = True
    serving: bool = True
    terminating: bool = False
    pod: Pod | None = None
    zone: str | None = None


@dataclass(frozen=True, slots=True)
class Relay:
    """The pool's event relay, for global routers: `identity` is `ip:…` when found by address."""

    identity: str
    url: str


@dataclass(frozen=True, slots=True)
class Router:
    """A global router replica."""

    id: str
    url: str
    cluster: str
    region: str


@dataclass(frozen=True, slots=True)
class Pool:
    """One deployment in one cluster. `sources` says who told: mcs, karmada, registration, file. `stale_since` is an
    RFC 3339 time when its control plane has lost touch with it, else None."""

    key: PoolKey
    region: str
    frontends: tuple[Frontend, ...] = ()
    relay: Relay | None = None
    sources: tuple[str, ...] = ()
    stale_since: str | None = None

    @property
    def id(self) -> str:
        return pool_id(self.key)


@dataclass(frozen=True, slots=True)
class PoolTable:
    """What is listed: `pools` sorted by key, `routers` by id. `revision` grows within an `epoch` exactly when content
    changes; `complete` is false while the list is only an estimate (empty is not unknown)."""

    epoch: str
    revision: int
    complete: bool
    pools: tuple[Pool, ...] = ()
    routers: tuple[Router, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Change:
    """What turns one table into a later one of the same epoch. `removed` holds pool ids. `routers` is the whole new
    list (it is short), or None when the routers are as they were; an empty tuple is the news that there are none."""

    upserted: tuple[Pool, ...]
    removed: tuple[str, ...]
    routers: tuple[Router, ...] | None
    complete: bool
    revision: int


_by_key = attrgetter("key")
_by_id = attrgetter("id", "cluster", "url", "region")


def make_table(
    epoch: str, revision: int, complete: bool, pools: Iterable[Pool], routers: Iterable[Router] = ()
) -> PoolTable:
    """The table of these, in any order. Raises ValueError when two pools have one key: then somebody upstream has
    not united them, and to choose would be a guess."""
    ordered = tuple(sorted(pools, key=_by_key))
    for left, right in itertools.pairwise(ordered):
        if left.key == right.key:
            raise ValueError(f"two pools are called {left.key}")
    return PoolTable(epoch, revision, complete, ordered, _sorted_routers(routers))


def next_table(previous: PoolTable, pools: Iterable[Pool], routers: Iterable[Router], complete: bool) -> PoolTable:
    """The table after `previous`: its revision is one more exactly when content or `complete` differs, else
    `previous` itself comes back. Pools equal to the ones before are the same objects, so that what hangs on a pool's
    identity (its encoded form) survives. Raises ValueError as `make_table`."""
    table = make_table(previous.epoch, previous.revision + 1, complete, pools, routers)
    if table.pools == previous.pools and table.routers == previous.routers and complete == previous.complete:
        return previous
    before = {pool.key: pool for pool in previous.pools}
    kept = tuple(_same(before.get(pool.key), pool) for pool in table.pools)
    return PoolTable(table.epoch, table.revision, complete, kept, table.routers)


def diff(a: PoolTable, b: PoolTable) -> Change:
    """What changed from `a` to `b`. Raises ValueError for different epochs: between those lies a reset, no change."""
    if a.epoch != b.epoch:
        raise ValueError(f"no change leads from epoch {a.epoch!r} to {b.epoch!r}")
    before = {pool.key: pool for pool in a.pools}
    upserted = []
    for pool in b.pools:
        old = before.pop(pool.key, None)
        if old is not pool and old != pool:
            upserted.append(pool)
    return Change(
        upserted=tuple(upserted),
        removed=tuple(pool.id for pool in before.values()),
        routers=None if a.routers == b.routers else b.routers,
        complete=b.complete,
        revision=b.revision,
    )


def apply(change: Change, a: PoolTable) -> PoolTable:
    """`a` with the change made: `apply(diff(a, b), a) == b`. Twice does nothing more; an id nobody has is no fault."""
    routers = a.routers if change.routers is None else _sorted_routers(change.routers)
    pools = a.pools
    if change.removed:
        gone = frozenset(change.removed)
        pools = tuple(pool for pool in pools if pool.id not in gone)
    if change.upserted:
        merged = {pool.key: pool for pool in pools}
        known = len(merged)
        merged.update((pool.key, pool) for pool in change.upserted)
        # Replacing keeps a dict's order; only a newcomer stands at the wrong place.
        values = merged.values()
        pools = tuple(values) if len(merged) == known else tuple(sorted(values, key=_by_key))
    return PoolTable(a.epoch, change.revision, change.complete, pools, routers)


def _same(old: Pool | None, new: Pool) -> Pool:
    return old if old is not None and old == new else new


def _sorted_routers(routers: Iterable[Router]) -> tuple[Router, ...]:
    return tuple(sorted(routers, key=_by_id))
