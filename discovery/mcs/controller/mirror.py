"""What the registry has told, and what may be believed of what it does not tell.

Pure: time is an argument. Folds the events of a watch into the present view, and answers the one question on which all
safe deletion rests (rules D40, D42): is there positive evidence that something is no more? Silence, a new epoch, an
unfinished snapshot or a cluster that has not told all of its own yet are none.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from discovery.mcs.model import (
    Bookmark,
    Cluster,
    ClusterChanged,
    ClusterGone,
    EndpointsChanged,
    EndpointSet,
    EndpointsGone,
    Event,
    ExportStatus,
    Gone,
    Import,
    ImportChanged,
    ImportGone,
    ServiceKey,
    SnapshotBegin,
    SnapshotEnd,
    StatusChanged,
    Sync,
)

Stale = Literal["withdraw", "keep"]
SliceKey = tuple[str, str]
"""Cluster and the name of the slice there."""
EVERYTHING = None
"""All services are to be looked at again."""


@dataclass
class _View:
    clusters: dict[str, Cluster] = field(default_factory=dict)
    imports: dict[ServiceKey, Import] = field(default_factory=dict)
    endpoints: dict[ServiceKey, dict[SliceKey, EndpointSet]] = field(default_factory=dict)
    statuses: dict[ServiceKey, ExportStatus] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    """Clusters that a snapshot says have left."""


class Mirror:
    """`cluster`: whose export statuses are kept. Times are seconds of a clock that never goes back.

    `settle_s`: another registry than the one before may lag behind it, so what it merely lacks counts only when it has
    been heard for so long and still hears the cluster: longer than a lease, or the cluster could be silent there.
    """

    def __init__(self, cluster: str, stale: Stale, hold_down_s: float, settle_s: float = 0.0) -> None:
        self._cluster = cluster
        self._stale = stale
        self._hold_down = hold_down_s
        self._settle = settle_s
        self._view = _View()
        self._next: _View | None = None
        self._begun: SnapshotBegin | None = None
        self._epoch_at = self._heard_at = 0.0
        self._gone_clusters: set[str] = set()
        self._gone_imports: set[ServiceKey] = set()
        self._gone_slices: dict[ServiceKey, set[SliceKey]] = {}
        self._vouched: set[str] = set()
        self.epoch = ""
        self.revision = ""
        self.complete = False
        self.snapshots = 0
        self.registry_is_stale = False

    def __repr__(self) -> str:
        state = "complete" if self.complete else "incomplete"
        return f"<Mirror epoch={self.epoch or '-'} {state} imports={len(self._view.imports)}>"

    # What there is

    @property
    def clusters(self) -> dict[str, Cluster]:
        return self._view.clusters

    @property
    def imports(self) -> dict[ServiceKey, Import]:
        return self._view.imports

    def endpoints(self, service: ServiceKey) -> dict[SliceKey, EndpointSet]:
        return self._view.endpoints.get(service, {})

    def gone_slices(self, service: ServiceKey) -> set[SliceKey]:
        """Those that this registry has said to be no more."""
        return self._gone_slices.get(service, set())

    def status(self, service: ServiceKey) -> ExportStatus | None:
        return self._view.statuses.get(service)

    @property
    def services(self) -> set[ServiceKey]:
        return self._view.imports.keys() | self._view.endpoints.keys()

    # What is told

    def hear(self, event: Event, now: float, date_ms: int) -> set[ServiceKey] | None:
        """The services to look at again; EVERYTHING when anything may have changed."""
        self._heard_at = max(self._heard_at, now)
        if isinstance(event, SnapshotBegin):
            self._begun, self._next = event, _View()
            return set()
        if isinstance(event, SnapshotEnd):
            return self._swap(event, now, date_ms)
        if self._next is not None:
            if isinstance(event, ClusterGone):
                self._next.gone.add(event.id)
            self._fold(self._next, event, date_ms)
            return set()
        if event.revision:
            self.revision = event.revision
        if isinstance(event, Bookmark):
            self.registry_is_stale = event.stale
            return set()
        self._note(event)
        return self._fold(self._view, event, date_ms)

    def interrupted(self) -> None:
        """The watch ended: half a snapshot is none."""
        self._begun = self._next = None

    def _note(self, event: Event) -> None:
        match event:
            case ClusterGone(id_):
                self._gone_clusters.add(id_)
            case ClusterChanged(cluster):
                self._gone_clusters.discard(cluster.id)
            case ImportGone(service):
                self._gone_imports.add(service)
            case ImportChanged(value):
                self._gone_imports.discard(value.service)
            case EndpointsGone(cluster_id, service, slice_, reason) if reason is not Gone.LEASE_EXPIRED:
                self._gone_slices.setdefault(service, set()).add((cluster_id, slice_))
            case EndpointsChanged(one):
                self.gone_slices(one.service).discard((one.cluster, one.slice))

    def _swap(self, end: SnapshotEnd, now: float, date_ms: int) -> set[ServiceKey] | None:
        if self._next is None or self._begun is None:
            return set()
        fresh, begun = self._next, self._begun
        self.interrupted()
        if begun.epoch != self.epoch:
            self._epoch_at = now
            self._gone_clusters.clear()
            self._gone_imports.clear()
            self._gone_slices.clear()
            self._vouched.clear()
        if self._stale == "keep":
            self._carry_over(fresh, date_ms)
        # What left and is told again has come back.
        self._gone_clusters = (self._gone_clusters | fresh.gone) - fresh.clusters.keys()
        self._gone_imports -= fresh.imports.keys()
        for service, sets in fresh.endpoints.items():
            self.gone_slices(service).difference_update(sets)
        self.epoch, self.revision, self.complete = begun.epoch, end.revision, begun.complete
        self._view = fresh
        self.snapshots += 1
        self.registry_is_stale = False
        return EVERYTHING

    def _carry_over(self, fresh: _View, date_ms: int) -> None:
        """What a lapsed cluster had and the snapshot leaves out: kept, and marked."""
        for service, sets in self._view.endpoints.items():
            for where, one in sets.items():
                cluster = fresh.clusters.get(where[0])
                known = fresh.endpoints.setdefault(service, {})
                if cluster is not None and not cluster.live and where not in known:
                    known[where] = _marked(one, date_ms)

    def _fold(self, view: _View, event: Event, date_ms: int) -> set[ServiceKey] | None:
        match event:
            case ClusterChanged(cluster):
                view.clusters[cluster.id] = cluster
                return EVERYTHING
            case ClusterGone(id_):
                view.clusters.pop(id_, None)
                for sets in view.endpoints.values():
                    for where in [where for where in sets if where[0] == id_]:
                        del sets[where]
                return EVERYTHING
            case ImportChanged(value):
                view.imports[value.service] = value
                return {value.service}
            case ImportGone(service):
                view.imports.pop(service, None)
                return {service}
            case EndpointsChanged(value):
                self._put(view, value)
                return {value.service}
            case EndpointsGone(cluster_id, service, slice_, reason):
                self._remove(view, service, (cluster_id, slice_), reason, date_ms)
                return {service}
            case StatusChanged(value) if value.cluster == self._cluster:
                view.statuses[value.service] = value
                return {value.service}
        return set()

    def _put(self, view: _View, value: EndpointSet) -> None:
        sets = view.endpoints.setdefault(value.service, {})
        where = (value.cluster, value.slice)
        if value.stale_since_ms is not None and self._stale == "withdraw":
            sets.pop(where, None)
        else:
            sets[where] = value

    def _remove(self, view: _View, service: ServiceKey, where: SliceKey, reason: Gone, date_ms: int) -> None:
        sets = view.endpoints.get(service, {})
        if reason is Gone.LEASE_EXPIRED and self._stale == "keep":
            if where in sets:
                sets[where] = _marked(sets[where], date_ms)
        else:
            sets.pop(where, None)

    # What may be believed

    def is_settled(self, cluster: str, now: float) -> bool:
        """Whether all that this cluster exports is known in this epoch, or it is known to export nothing more."""
        if cluster in self._gone_clusters:
            return True
        known = self._view.clusters.get(cluster)
        if known is not None and known.sync is Sync.COMPLETE:
            return True
        return (known is None or not known.live) and self._held_down(now)

    def import_is_gone(self, service: ServiceKey, sources: frozenset[str], now: float) -> bool:
        """Whether there is evidence that nobody exports this any more. `sources`: who may."""
        if not self.snapshots or service in self._view.imports:
            return False
        if not all(self.is_settled(one, now) for one in sources):
            return False
        if self._held_down(now):
            return True
        said = service in self._gone_imports
        if sources:
            return said or (self.complete and all(self._is_vouched(one, now) for one in sources))
        # Whose it was is not known: only the registry's word, in a view that misses nobody.
        return said and self.complete

    def slice_is_gone(self, service: ServiceKey, where: SliceKey, now: float) -> bool:
        """Whether there is evidence that this slice of a cluster is no more, or is to be withdrawn."""
        if not self.snapshots or where in self.endpoints(service):
            return False
        cluster = self._view.clusters.get(where[0])
        if cluster is not None and not cluster.live:
            return self._stale == "withdraw"
        if not self.is_settled(where[0], now):
            return False
        return self._is_vouched(where[0], now) or where in self._gone_slices.get(service, ())

    def is_lapsed(self, cluster: str) -> bool:
        known = self._view.clusters.get(cluster)
        return known is not None and not known.live

    def sources(self, before: frozenset[str], value: Import, now: float) -> frozenset[str]:
        """Who may export this: all that ever did, but for those that are known not to."""
        kept = {one for one in before - set(value.clusters) if not self._exports_no_more(one, now)}
        return frozenset(value.clusters) | kept

    def _exports_no_more(self, cluster: str, now: float) -> bool:
        if cluster in self._gone_clusters:
            return True
        known = self._view.clusters.get(cluster)
        # A live cluster that has told everything and is not named does not export it.
        return known is not None and known.live and known.sync is Sync.COMPLETE and self._is_vouched(cluster, now)

    def _is_vouched(self, cluster: str, now: float) -> bool:
        """Whether this registry's word of the cluster is as new as what any other has told us before."""
        if cluster in self._gone_clusters or cluster in self._vouched:
            return True
        known = self._view.clusters.get(cluster)
        if known is None or not known.live:
            return self._held_down(now)
        # A registry whose store is away shows what was; time in which it is not heard says nothing.
        heard = self._heard_at - self._epoch_at >= self._settle and not self.registry_is_stale
        if known.sync is Sync.COMPLETE and heard:
            self._vouched.add(cluster)
            return True
        return False

    def _held_down(self, now: float) -> bool:
        # What was last heard counts: a registry that cannot be reached says nothing more (D43).
        heard_for = min(now, self._heard_at) - self._epoch_at
        return self.snapshots > 0 and not self.registry_is_stale and heard_for >= self._hold_down

    def settles_at(self) -> float:
        """When silence becomes evidence: look at everything again then."""
        return self._epoch_at + self._hold_down


def _marked(one: EndpointSet, date_ms: int) -> EndpointSet:
    return one if one.stale_since_ms is not None else replace(one, stale_since_ms=date_ms)
