"""What is shown of one service, and what has changed between two showings.

Pure. Owns the step from what clusters have told to imports, endpoints as imported and export statuses, and the events
that tell a reader the difference with the reason of every end. Each service is a value of its own: consistent in
itself, independent of all others (C46).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from discovery.mcs.merge import as_imported, merged, renaming, statuses
from discovery.mcs.model import (
    EndpointsChanged,
    EndpointSet,
    EndpointsGone,
    Event,
    Export,
    ExportStatus,
    Gone,
    Import,
    ImportChanged,
    ImportGone,
    ServiceKey,
    StatusChanged,
)

SliceKey = tuple[str, str]
"""Cluster and slice."""


@dataclass(frozen=True, slots=True)
class ServiceView:
    """One service as readers see it; `value` is None when nobody exports it."""

    value: Import | None = None
    endpoints: Mapping[SliceKey, EndpointSet] = field(default_factory=dict)
    statuses: Mapping[str, ExportStatus] = field(default_factory=dict)

    def told(self) -> Iterator[Event]:
        """All of it, as a snapshot tells it."""
        if self.value is not None:
            yield ImportChanged(self.value)
        for one in self.endpoints.values():
            yield EndpointsChanged(one)
        for status in self.statuses.values():
            yield StatusChanged(status)


UNSEEN = ServiceView()


def service_view(exports: Sequence[Export], sets: Iterable[EndpointSet], lapsed: Mapping[str, int]) -> ServiceView:
    """`exports` and `sets`: of one service, of all clusters that count, the lapsed ones (with since when) included:
    they keep their place in the merge and show their endpoints marked (C60 to C62)."""
    if not exports:
        return UNSEEN
    value = merged(exports, {export.cluster for export in exports} - lapsed.keys())
    names = {export.cluster: renaming(value, export) for export in exports}
    endpoints: dict[SliceKey, EndpointSet] = {}
    for given in sets:
        # Without its export a slice is not exported.
        shown = as_imported(given, names[given.cluster]) if given.cluster in names else None
        if shown is not None:
            since = lapsed.get(given.cluster)
            shown = shown if shown.stale_since_ms == since else replace(shown, stale_since_ms=since)
            endpoints[given.cluster, given.slice] = shown
    return ServiceView(value, endpoints, {status.cluster: status for status in statuses(exports, value)})


def changes(service: ServiceKey, old: ServiceView, new: ServiceView, removed: Mapping[str, Gone]) -> Iterator[Event]:
    """The events that make `new` of `old`: what comes before what goes, an import before its endpoints. `removed`: why
    a cluster is no more."""
    if new.value is not None and new.value != old.value:
        yield ImportChanged(new.value)
    for where, one in new.endpoints.items():
        if old.endpoints.get(where) != one:
            yield EndpointsChanged(one)
    for cluster, slice_ in sorted(old.endpoints.keys() - new.endpoints.keys()):
        ended = Gone.SLICE_REMOVED if cluster in new.statuses else Gone.UNEXPORTED
        yield EndpointsGone(cluster, service, slice_, removed.get(cluster, ended))
    for cluster, status in new.statuses.items():
        if old.statuses.get(cluster) != status:
            yield StatusChanged(status)
    if old.value is not None and new.value is None:
        yield ImportGone(service, _why_all(old.statuses.keys(), removed))


def _why_all(clusters: Iterable[str], removed: Mapping[str, Gone]) -> Gone:
    """Of several ends that of a cluster which is still there is the one to tell."""
    reasons = {removed.get(cluster, Gone.UNEXPORTED) for cluster in clusters}
    return next(
        (reason for reason in (Gone.UNEXPORTED, Gone.CLUSTER_LEFT, Gone.RETENTION) if reason in reasons),
        Gone.UNEXPORTED,
    )
