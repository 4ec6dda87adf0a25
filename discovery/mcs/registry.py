"""The registry as its callers see it: one protocol, and the errors it answers with.

The service itself, its client over the network and the fake in memory all keep it, so that a controller, the admin
command and a simulation are the same code over any of them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from enum import StrEnum
from typing import Protocol

from discovery.mcs.model import (
    Announcement,
    Cluster,
    EndpointSet,
    Event,
    Export,
    ExportStatus,
    Import,
    Registration,
    ServiceKey,
    Stamp,
)


class Reason(StrEnum):
    """Why the registry said no: the same word in REST's `reason` and in gRPC's error details."""

    INVALID = "INVALID_ARGUMENT"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    FORBIDDEN = "PERMISSION_DENIED"
    NOT_FOUND = "NOT_FOUND"
    CLUSTER_ID_IN_USE = "CLUSTER_ID_IN_USE"
    STALE_SESSION = "STALE_SESSION"
    DIGEST_MISMATCH = "DIGEST_MISMATCH"
    REVISION_GONE = "REVISION_GONE"
    TOO_LARGE = "TOO_LARGE"
    BUSY = "RESOURCE_EXHAUSTED"
    STORE_AWAY = "STORE_UNAVAILABLE"
    TIMEOUT = "DEADLINE_EXCEEDED"


class Refused(Exception):
    """The registry answered, and the answer is no. `field` is the path of what was wrong, if it was one thing."""

    def __init__(self, reason: Reason, message: str, *, field: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.reason = reason
        self.message = message
        self.field = field
        self.retry_after_s = retry_after_s

    def __repr__(self) -> str:
        return f"<Refused {self.reason} {self}>"


class Unreachable(Exception):
    """Nobody answered, or the answer was none: whether a write took effect is not known."""


class Registry(Protocol):
    """Every call raises Refused or Unreachable. Writes are full states: repeating one is harmless, and an equal one
    makes no new revision. Each answers with the revision in which it can be seen."""

    async def register(self, cluster: Announcement) -> Registration: ...

    async def renew(self, stamp: Stamp) -> Registration:
        """Refused NOT_FOUND: register again. Refused STALE_SESSION: another one writes now, stop."""
        ...

    async def leave(self, stamp: Stamp) -> str: ...

    async def put_export(self, stamp: Stamp, export: Export) -> str: ...

    async def delete_export(self, stamp: Stamp, service: ServiceKey) -> str: ...

    async def put_endpoints(self, stamp: Stamp, endpoints: EndpointSet) -> str: ...

    async def delete_endpoints(self, stamp: Stamp, service: ServiceKey, slice_: str) -> str: ...

    async def sync_begin(self, stamp: Stamp) -> str:
        """All of this cluster follows. What is not put again before `sync_complete` is dropped by it."""
        ...

    async def sync_complete(self, stamp: Stamp, count: int, digest: str) -> str:
        """Refused DIGEST_MISMATCH when the registry has not `count` items of that digest: begin again."""
        ...

    async def clusters(self) -> tuple[Cluster, ...]: ...

    async def imports(self, namespace: str = "") -> tuple[Import, ...]: ...

    async def export_status(self, cluster: str, service: ServiceKey) -> ExportStatus: ...

    def watch(self, revision: str = "") -> AsyncIterator[Event]:
        """A snapshot, then changes; with a revision of this epoch that is still known, only the changes after it.
        Ends only by Refused or Unreachable; leave it with `aclose`."""
        ...


class Served(Registry, Protocol):
    """A registry as it is served: what it says of itself beside the calls."""

    @property
    def revision(self) -> str: ...

    @property
    def complete(self) -> bool: ...

    async def wait_visible(self, revision: str) -> None: ...

    def exports(self, cluster: str) -> tuple[Export, ...]: ...

    def watch(self, revision: str = "") -> AsyncGenerator[Event, None]: ...


Allow = Callable[[str | None, str | None], None]
"""Raises Refused unless this Authorization header allows to write this cluster, or (None) to read."""
