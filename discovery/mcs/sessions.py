"""Who may write for a cluster, and what each call makes of the cluster's record.

Pure. Rules C2 and C10: of two leaderships the newer one writes, a cluster id belongs to one cluster while it lives, and
whoever was overtaken is told so. Raises Refused: STALE_SESSION (another one writes now), NOT_FOUND (register again),
CLUSTER_ID_IN_USE.
"""

from __future__ import annotations

from dataclasses import replace

from discovery.mcs.digest import digest
from discovery.mcs.model import Announcement, Stamp, Sync
from discovery.mcs.registry import Reason, Refused
from discovery.mcs.store import NOTHING, ClusterRecord, Mark, Removed

_EMPTY = digest(())


def checked(record: ClusterRecord | None, stamp: Stamp) -> ClusterRecord:
    """The record, if this session is the one that writes it."""
    session = stamp.session
    if record is None or record.removed is not None or session.incarnation > record.incarnation:
        raise Refused(Reason.NOT_FOUND, f"cluster {session.cluster} is not registered")
    if session.incarnation < record.incarnation or session.term != record.term:
        raise Refused(
            Reason.STALE_SESSION,
            f"cluster {session.cluster} is written by incarnation {record.incarnation}, "
            f"term {record.term.transitions}; this is incarnation {session.incarnation}, "
            f"term {session.term.transitions}",
        )
    return record


def registered(
    record: ClusterRecord | None, announced: Announcement, *, live: bool, now_ms: int, ttl_ms: int
) -> ClusterRecord:
    """A new session. `live`: the lease of `record` stands, so that its uid and term bind.

    A term below a lapsed one is accepted: a Lease that was deleted and made anew counts from 0 again.
    """
    there = record is not None and record.removed is None
    if record is not None and there and live:
        if record.uid != announced.uid:
            raise Refused(
                Reason.CLUSTER_ID_IN_USE, f"cluster id {announced.cluster} belongs to a cluster with another uid"
            )
        if announced.term < record.term:
            raise Refused(
                Reason.STALE_SESSION,
                f"cluster {announced.cluster} is led by term {record.term.transitions}, "
                f"this is term {announced.term.transitions}",
            )
    # Greater than any before, also than those of a store that was lost with its process.
    incarnation = max(record.incarnation + 1 if record else 0, now_ms)
    kept = record is not None and there and record.uid == announced.uid
    return ClusterRecord(
        id=announced.cluster,
        uid=announced.uid,
        region=announced.region,
        labels=announced.labels,
        incarnation=incarnation,
        term=announced.term,
        renewed_ms=now_ms,
        ttl_ms=ttl_ms,
        created_ms=record.created_ms if record is not None and kept else now_ms,
        floor=record.floor if record is not None and kept else Mark(incarnation, 0),
        rev=record.rev if record is not None and kept else (record.rev + 1 if record else 1),
        digest=record.digest if record is not None and kept else _EMPTY,
        version=record.version + 1 if record else 1,
    )


def is_same_leadership(record: ClusterRecord | None, announced: Announcement) -> bool:
    return (
        record is not None and record.removed is None and (record.uid, record.term) == (announced.uid, announced.term)
    )


def renewed(record: ClusterRecord, stamp: Stamp, now_ms: int, ttl_ms: int) -> ClusterRecord:
    return replace(
        record,
        # A registry whose clock is behind shortens nothing.
        renewed_ms=max(record.renewed_ms, now_ms),
        ttl_ms=ttl_ms,
        seq=max(record.seq, stamp.seq),
        version=record.version + 1,
    )


def begun(record: ClusterRecord, stamp: Stamp) -> ClusterRecord:
    """The cluster starts to tell everything; unchanged when this was said before."""
    if stamp.seq <= record.begun:
        return record
    return replace(
        record,
        sync=Sync.SYNCING,
        begun=stamp.seq,
        seq=max(record.seq, stamp.seq),
        version=record.version + 1,
    )


def is_completed(record: ClusterRecord, stamp: Stamp) -> bool:
    """Whether this very sync was completed before (a retry after a lost answer)."""
    if not record.begun or stamp.seq <= record.begun:
        raise Refused(Reason.INVALID, "sync_complete without the sync_begin before it")
    return record.sync is Sync.COMPLETE


def completed(record: ClusterRecord, stamp: Stamp, found: str) -> ClusterRecord:
    """All has been told; what was not, is below the floor from now on."""
    return replace(
        record,
        sync=Sync.COMPLETE,
        floor=Mark(record.incarnation, record.begun),
        rev=record.rev + 1,
        digest=found,
        seq=max(record.seq, stamp.seq),
        version=record.version + 1,
    )


def changed(record: ClusterRecord, found: str) -> ClusterRecord:
    """Items have changed; unchanged when they add up to the same."""
    if found == record.digest:
        return record
    return replace(record, rev=record.rev + 1, digest=found, version=record.version + 1)


def removed(record: ClusterRecord, why: Removed, now_ms: int) -> ClusterRecord:
    """The cluster is no more; the record stays as evidence."""
    return replace(
        record,
        removed=why,
        removed_ms=now_ms,
        floor=NOTHING,
        sync=Sync.SYNCING,
        rev=record.rev + 1,
        version=record.version + 1,
    )
