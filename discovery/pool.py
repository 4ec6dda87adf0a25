"""The pool table: what discovery knows, as frozen values; one snapshot, one swap.

Owns the values and their comparison (diff, apply). Refuses nothing: whoever makes a value has checked it. Sorting is
part of the value, so that equal content is equal, whatever order it came in.
"""

from __future__ import annotations

from dataclasses import dataclass, field

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
