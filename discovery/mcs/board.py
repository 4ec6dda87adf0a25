"""What one replica shows: the present of every service and cluster, and the changes that led to it.

Pure: moments are arguments. Owns the revisions (C40): opaque words of this board's epoch and a counter that grows by
one for every change, and the recent changes, so that a reader who was away for a moment is told only what it missed
(C41). A reader from another epoch, or from too long ago, gets everything.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace

from discovery.mcs.knowledge import Knowledge
from discovery.mcs.leases import Leases, Verdict
from discovery.mcs.model import (
    Bookmark,
    Cluster,
    ClusterChanged,
    ClusterGone,
    EndpointsChanged,
    EndpointsGone,
    Event,
    Gone,
    ImportChanged,
    ImportGone,
    ServiceKey,
    SnapshotBegin,
    SnapshotEnd,
    StatusChanged,
    Sync,
)
from discovery.mcs.store import ClusterRecord, Removed
from discovery.mcs.view import UNSEEN, ServiceView, changes, service_view

_COUNTER = re.compile(r"[0-9]{1,18}")
_GONE = {Removed.LEFT: Gone.CLUSTER_LEFT, Removed.DELETED: Gone.CLUSTER_LEFT, Removed.RETENTION: Gone.RETENTION}

Key = tuple[object, ...]


def key_of(event: Event) -> Key:
    """What an event is about: of two about the same the later says all."""
    match event:
        case ClusterChanged(cluster):
            return ("cluster", cluster.id)
        case ClusterGone(cluster_id):
            return ("cluster", cluster_id)
        case ImportChanged(value):
            return ("import", value.service)
        case ImportGone(service):
            return ("import", service)
        case EndpointsChanged(value):
            return ("endpoints", value.service, value.cluster, value.slice)
        case EndpointsGone(cluster_name, service, slice_):
            return ("endpoints", service, cluster_name, slice_)
        case StatusChanged(value):
            return ("status", value.service, value.cluster)
        case SnapshotBegin() | SnapshotEnd() | Bookmark():
            return (type(event).__name__,)


class Board:
    """`history`: how many changes are remembered. `retention_ms`: how long a silent cluster's exports count (C61)."""

    def __init__(self, epoch: str, leases: Leases, *, retention_ms: int, history: int = 10_000) -> None:
        self.epoch = epoch
        self.knowledge = Knowledge()
        self.leases = leases
        self.views: dict[ServiceKey, ServiceView] = {}
        self.clusters: dict[str, Cluster] = {}
        self.retained_out: frozenset[str] = frozenset()
        """Silent for longer than the retention, and still recorded as standing."""
        self._retention_ms = retention_ms
        self._counter = 0
        self._past: deque[Event] = deque(maxlen=history)
        self._lapsed: Mapping[str, int] = {}

    def __repr__(self) -> str:
        return f"<Board {self.revision} clusters={len(self.clusters)} services={len(self.views)}>"

    @property
    def revision(self) -> str:
        return f"{self.epoch}.{self._counter}"

    @property
    def told(self) -> bool:
        """Every cluster that is shown has told all of its own."""
        return all(cluster.sync is Sync.COMPLETE for cluster in self.clusters.values())

    def is_live(self, cluster: str) -> bool:
        shown = self.clusters.get(cluster)
        return shown is not None and shown.live

    def see(self, record: ClusterRecord) -> None:
        """A record that was just read: its lease counts at the next refresh, its items when they have been read."""
        if record.id not in self.knowledge.clusters:
            self.knowledge.take_unfinished(record)
        known = self.knowledge.clusters[record.id]
        self.knowledge.take_record(record, whole=known.told.content == record.content)

    def refresh(self, now_ms: int, mono_ms: int) -> tuple[list[Event], Verdict]:
        """Make what is shown true at this moment; the changes, each with its revision."""
        known = self.knowledge.clusters
        verdict = self.leases.judge([one.record for one in known.values()], now_ms, mono_ms)
        self.retained_out = frozenset(
            cluster for cluster in verdict.lapsed if now_ms - known[cluster].record.renewed_ms > self._retention_ms
        )
        gone = {
            cluster: Gone.RETENTION if one.record.removed is None else _GONE[one.record.removed]
            for cluster, one in known.items()
            if one.record.removed is not None or cluster in self.retained_out
        }
        events: list[Event] = []
        ended: list[Event] = []
        self._show_clusters(verdict, gone, events, ended)
        for service in self.knowledge.changed():
            events += self._show_service(service, gone)
        # A cluster's coming and its last sync are told after its services, its end likewise: whoever hears it may
        # trust that all of it has been told.
        stamped = [self._stamped(event) for event in (*events, *ended)]
        self._past.extend(stamped)
        return stamped, verdict

    def _show_clusters(
        self, verdict: Verdict, gone: Mapping[str, Gone], events: list[Event], ended: list[Event]
    ) -> None:
        lapsed = {cluster: since for cluster, since in verdict.lapsed.items() if cluster not in gone}
        for cluster in lapsed.keys() ^ self._lapsed.keys():
            self.knowledge.touch(cluster)
        for cluster, since in lapsed.items():
            if self._lapsed.get(cluster, since) != since:
                self.knowledge.touch(cluster)
        self._lapsed = lapsed
        for cluster, known in self.knowledge.clusters.items():
            before = self.clusters.get(cluster)
            if cluster in gone:
                if before is not None:
                    del self.clusters[cluster]
                    self.knowledge.touch(cluster)
                    ended.append(ClusterGone(cluster))
                continue
            record = known.record
            # Another session's sync is not over because the session before had finished its own.
            sync = Sync.COMPLETE if Sync.SYNCING not in (record.sync, known.told.sync) else Sync.SYNCING
            shown = Cluster(
                cluster, record.uid, record.region, record.labels, cluster not in lapsed, sync, record.renewed_ms
            )
            if before is None:
                self.knowledge.touch(cluster)
            self.clusters[cluster] = shown
            if before is None or replace(before, renewed_ms=shown.renewed_ms) != shown:
                # What is worse is told first, what is better when it has become true for the services too.
                later = shown.live and shown.sync is Sync.COMPLETE
                (ended if later else events).append(ClusterChanged(shown))

    def _show_service(self, service: ServiceKey, gone: Mapping[str, Gone]) -> Iterator[Event]:
        old = self.views.get(service, UNSEEN)
        exports = self.knowledge.exports(service, gone.keys())
        new = service_view(exports, self.knowledge.endpoints(service, gone.keys()), self._lapsed)
        if new.value is None:
            self.views.pop(service, None)
        else:
            self.views[service] = new
        yield from changes(service, old, new, gone)

    def _stamped(self, event: Event) -> Event:
        self._counter += 1
        assert not isinstance(event, SnapshotBegin)
        return replace(event, revision=self.revision)

    def snapshot(self, *, complete: bool, resync: bool) -> Iterator[Event]:
        """Everything, as of now: to be taken to its end before anything else happens."""
        yield SnapshotBegin(self.epoch, complete, resync)
        for cluster in self.clusters.values():
            yield ClusterChanged(cluster)
        for gone in sorted(self.knowledge.clusters.keys() - self.clusters.keys()):
            yield ClusterGone(gone)
        for service in sorted(self.views):
            yield from self.views[service].told()
        yield SnapshotEnd(self.revision)

    def since(self, revision: str) -> list[Event] | None:
        """The changes after `revision`, the last about each thing; None when that is not known."""
        epoch, _, counter = revision.rpartition(".")
        if epoch != self.epoch or not _COUNTER.fullmatch(counter):
            return None
        missed = self._counter - int(counter)
        if not 0 <= missed <= len(self._past):
            return None
        newest: dict[Key, Event] = {}
        for index in range(len(self._past) - missed, len(self._past)):
            event = self._past[index]
            newest.pop(key_of(event), None)
            newest[key_of(event)] = event
        return list(newest.values())

    def counter_of(self, revision: str) -> int | None:
        """How many changes had been made at `revision`; None when it is of another epoch."""
        epoch, _, counter = revision.rpartition(".")
        return int(counter) if epoch == self.epoch and _COUNTER.fullmatch(counter) else None

    @property
    def counter(self) -> int:
        return self._counter
