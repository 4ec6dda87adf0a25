"""What the registry's `/metrics` tells of its state, read when somebody asks.

Owns names and meanings. Counts of answers are declared where answers are made (`rest`, `rpc`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from discovery.kit.metrics import Metrics, Samples
from discovery.mcs.model import Cluster, Sync
from discovery.mcs.service import RegistryService

_PREFIX: Final = "dynamo_mcs_registry"
STATES: Final = ("live", "syncing", "silent")


def state_of(cluster: Cluster) -> str:
    """live: its lease stands and it has told all; syncing: it has not told all yet; silent: its lease is over."""
    if not cluster.live:
        return "silent"
    return "live" if cluster.sync is Sync.COMPLETE else "syncing"


def conflicts(service: RegistryService) -> int:
    """Services whose exports disagree."""
    return sum(any(one.conflicts for one in view.statuses.values()) for view in service.board.views.values())


def declare(metrics: Metrics, service: RegistryService) -> None:
    def gauge(name: str, meaning: str, value: Callable[[], float]) -> None:
        metrics.gauge(f"{_PREFIX}_{name}", meaning, value)

    def counter(name: str, meaning: str, value: Callable[[], float]) -> None:
        metrics.read("counter", f"{_PREFIX}_{name}", meaning, (), lambda: [((), value())])

    def clusters() -> Samples:
        found = [state_of(cluster) for cluster in service.board.clusters.values()]
        return [((state,), found.count(state)) for state in STATES]

    watchers, following, board = service.watchers, service.following, service.board
    gauge("ready", "Whether the store was read and calls are answered", lambda: service.ready)
    gauge("complete", "Whether no known cluster is missing, so that importers may delete", lambda: service.complete)
    gauge("store_away_seconds", "Since the store has not answered; 0 while it does", lambda: service.stale_for_s)
    counter("store_errors", "Calls of the store that failed", lambda: following.store_errors)
    gauge(
        "replication_lag_seconds",
        "Since the items of some cluster are behind its record; 0 if none are",
        lambda: following.lag_s,
    )
    counter("digest_mismatches", "Clusters shown though their items did not add up", lambda: following.mismatches)
    gauge("unreadable_items", "Records and items in the store that were not understood", lambda: following.unreadable)
    metrics.read("gauge", f"{_PREFIX}_clusters", "Clusters by what they are", ("state",), clusters)
    counter(
        "lease_mass_expiries", "Times so many leases ended at once that they were spared", lambda: service.mass_expiries
    )
    gauge("services", "Services exported", lambda: len(board.views))
    gauge("conflicts", "Services whose exports disagree", lambda: conflicts(service))
    counter(
        "exports_from_the_future",
        "Exports written that were made more than 5 minutes from now",
        lambda: service.exports_from_the_future,
    )
    counter("changes", "Changes shown since the start", lambda: board.counter)
    gauge("watchers", "Open watches", lambda: len(watchers))
    gauge("watch_queue_events", "Events that wait for their watches", lambda: watchers.waiting)
    gauge("watch_queue_bytes", "Bytes that wait for their watches", lambda: watchers.size)
    counter("watch_overflows", "Watches that fell behind and start over", lambda: watchers.overflows)
