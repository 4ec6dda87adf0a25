"""What the registry keeps, and the conditions under which it is written: the contract of every store.

Pure. Owns the records and the rules by which one write stands over another; holds nothing itself. A store keeps, for
each cluster, one record (`ClusterRecord`) and a partition of items (`Item`): its exports and endpoint sets. Nothing
that is derived is stored.

The rules (C51 to C53):

- Every item has one writer, the cluster's session. An item is written if nothing is there, or what is there has a
  smaller mark. `outcome` says what a failed condition means.
- A deletion is an item without a value, with a mark of its own: an old write that arrives late meets it and loses.
- A cluster's record is compared and swapped by its `version`.
- Items first, then the record with the next `rev` and the digest of what is visible: a reader that sees a new `rev`
  and items of another digest has not yet got everything.
- Visible are the items at or above the record's `floor`. Raising the floor drops all that a new session has not told
  again, in one write; `purge` only collects what cannot be seen any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from discovery.mcs.model import EndpointSet, Export, ServiceKey, Stamp, Sync, Term, Words


class Mark(NamedTuple):
    """Which write: of two the greater is the newer. A stamp without what only the registry needs to check."""

    incarnation: int
    seq: int


NOTHING: Final = Mark(0, 0)
"""Below every write."""


def mark_of(stamp: Stamp) -> Mark:
    return Mark(stamp.session.incarnation, stamp.seq)


class ItemKey(NamedTuple):
    """A place in a cluster's partition: the export itself has the slice ""."""

    service: ServiceKey
    slice: str = ""


Value = Export | EndpointSet


@dataclass(frozen=True, slots=True)
class Item:
    """What was last said about one key. `value` None: it was deleted, and stays deleted for older writes."""

    cluster: str
    key: ItemKey
    mark: Mark
    value: Value | None


class Removed(StrEnum):
    """Why a cluster is no more. Its record stays as evidence; a store may let it go after a week."""

    LEFT = "left"
    DELETED = "deleted"
    RETENTION = "retention"


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """A cluster, its lease, its session and how far it has told what is its own.

    `version`: grows by one with every write of this record. `seq`: of the newest renewal or sync call of the session.
    `begun`: the seq of the last `sync_begin` (0: none yet). `rev`: grows when items have changed; `digest` is that of
    the visible items (`discovery.mcs.digest`). Moments are those of the registry that wrote.
    """

    id: str
    uid: str
    region: str
    labels: Words
    incarnation: int
    term: Term
    renewed_ms: int
    ttl_ms: int
    created_ms: int
    sync: Sync = Sync.SYNCING
    seq: int = 0
    begun: int = 0
    floor: Mark = NOTHING
    rev: int = 0
    digest: str = ""
    version: int = 1
    removed: Removed | None = None
    removed_ms: int = 0

    @property
    def content(self) -> tuple[int, Mark, str]:
        """What tells one state of the cluster's items from another. `rev` alone does not: two regions that have not
        heard of each other count up to the same number."""
        return self.rev, self.floor, self.digest


class Outcome(StrEnum):
    """What became of a write. All three mean that the store holds this write or a newer one of the same session."""

    WRITTEN = "written"
    REPEATED = "repeated"
    SUPERSEDED = "superseded"


class Fenced(Exception):
    """A newer session has written this, or the same session has written something else under the same mark."""


class Moved(Exception):
    """The cluster's record is not of the version that was expected: `current` is the one that is there, if any."""

    def __init__(self, current: ClusterRecord | None) -> None:
        super().__init__(f"the record has moved to version {current.version if current else 'none'}")
        self.current = current


class StoreAway(Exception):
    """The store did not answer, refuses for now, or cannot be reached: nothing is known, nothing may be concluded."""


def outcome(there: Item | None, new: Item) -> Outcome:
    """The condition and its meaning: what becomes of `new` where `there` stands. Raises Fenced.

    Only WRITTEN changes the store. Of one session a late older write is no fault of anybody: the newer stands.
    """
    if there is None or there.mark < new.mark:
        return Outcome.WRITTEN
    if there.mark.incarnation > new.mark.incarnation:
        raise Fenced(f"{new.cluster} {new.key}: written by incarnation {there.mark.incarnation}")
    if there.mark.seq > new.mark.seq:
        return Outcome.SUPERSEDED
    if there.value == new.value:
        return Outcome.REPEATED
    raise Fenced(f"{new.cluster} {new.key}: another value has the mark {new.mark}")


def swapped(there: ClusterRecord | None, new: ClusterRecord, expected: int) -> bool:
    """Whether `new` replaces `there`; False when it is already there (a retry after a lost answer). Raises Moved."""
    if there == new:
        return False
    if (there.version if there else 0) != expected:
        raise Moved(there)
    return True


@dataclass(frozen=True, slots=True)
class Clusters:
    """All records. `unreadable`: ids whose record could not be understood (of a newer version): they are there."""

    records: tuple[ClusterRecord, ...]
    unreadable: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Partition:
    """All items of one cluster, deletions included. `unreadable` keys are there, but not understood: whoever knows a
    last good value keeps it, nobody takes them for deleted (C8.13)."""

    items: tuple[Item, ...]
    unreadable: frozenset[ItemKey] = frozenset()


class Store(Protocol):
    """Every call may raise StoreAway; a write may then have happened. Each read is as consistent as the store can."""

    @property
    def durable(self) -> bool:
        """What was written before this process began is still there. If not, an empty store proves nothing."""
        ...

    async def clusters(self) -> Clusters: ...

    async def cluster(self, cluster: str) -> ClusterRecord | None: ...

    async def partition(self, cluster: str) -> Partition: ...

    async def write(self, item: Item) -> Outcome:
        """Write under the condition of `outcome`. Raises Fenced; ValueError when the item is too large to keep."""
        ...

    async def save(self, record: ClusterRecord, expected: int) -> None:
        """Replace the record whose version is `expected` (0: none is there) by `record`, whose version is
        `expected + 1`. Raises Moved, as `swapped` says."""
        ...

    async def purge(self, cluster: str, below: Mark) -> None:
        """Collect items whose mark is smaller than `below`: what is below the floor is invisible already."""
        ...

    async def close(self) -> None: ...
