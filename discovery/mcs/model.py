"""What clusters tell the registry, and what it tells them: closed sets of frozen values.

Pure. Owns the shapes and their defaults, so that what is unset and what is set to the default are one value before
anything is compared. Refuses nothing: `discovery.mcs.checks` does, at the edge. Moments are whole milliseconds since
1970 (UTC); durations say their unit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

Words = tuple[tuple[str, str], ...]
"""Labels or annotations: pairs in the order of their keys, each key once."""


class ServiceKey(NamedTuple):
    """A Service in every cluster that has it: names are the same across the clusterset."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class ServiceType(StrEnum):
    CLUSTER_SET_IP = "ClusterSetIP"
    HEADLESS = "Headless"


class ServicePort(NamedTuple):
    """A port of a Service: `number` is the one its clients use. The name "" is a name like any other."""

    name: str
    protocol: str
    number: int
    app_protocol: str = ""


class Term(NamedTuple):
    """Which leadership of a controller speaks: of two, the greater is the newer (`leaseTransitions`, `acquireTime`)."""

    transitions: int
    acquired_ms: int


class Session(NamedTuple):
    """The right to write for one cluster. The registry grants a greater `incarnation` with every registration."""

    cluster: str
    incarnation: int
    term: Term


class Stamp(NamedTuple):
    """One write of a session: `seq` is greater for every later write, a repeated write repeats it, so that of two
    that arrive in the wrong order the newer stands."""

    session: Session
    seq: int


class Sync(StrEnum):
    """Whether all that a cluster exports has been told by its present session."""

    SYNCING = "syncing"
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True)
class Export:
    """One ServiceExport with what counts of its Service. `exported_ms` is the creation of the ServiceExport `uid`."""

    cluster: str
    service: ServiceKey
    uid: str
    exported_ms: int
    type: ServiceType
    ports: tuple[ServicePort, ...]
    session_affinity: str = "None"
    affinity_seconds: int | None = None
    """`sessionAffinityConfig.clientIP.timeoutSeconds`: None exactly when the affinity is None (else 10800 if unset)."""
    ip_families: tuple[str, ...] = ()
    internal_traffic_policy: str = "Cluster"
    traffic_distribution: str = ""
    labels: Words = ()
    annotations: Words = ()


@dataclass(frozen=True, slots=True)
class Reference:
    """What an endpoint stands for, usually a Pod."""

    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint of a slice; a condition that the source left open (None) stays open."""

    addresses: tuple[str, ...]
    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None
    hostname: str = ""
    zone: str = ""
    node: str = ""
    target: Reference | None = None


class SlicePort(NamedTuple):
    """A port of a slice: the number that the endpoints listen on, None for every port."""

    name: str
    protocol: str
    number: int | None
    app_protocol: str = ""


@dataclass(frozen=True, slots=True)
class EndpointSet:
    """One source slice of an exported Service: at most 1,000 endpoints."""

    cluster: str
    service: ServiceKey
    slice: str
    address_type: str
    ports: tuple[SlicePort, ...]
    endpoints: tuple[Endpoint, ...]
    stale_since_ms: int | None = None
    """Since when this cluster has been silent: set by the registry, never sent by a controller, None while it lives.

    One behaviour on the wire serves both kinds of importers (C60): when a lease lapses, the registry says
    `EndpointsChanged` with this set for every slice of the cluster, and in snapshots likewise. An importer that
    withdraws (`--stale-endpoints withdraw`) takes such a set for gone, by `Gone.LEASE_EXPIRED`, and deletes its slice;
    one that keeps marks the slice. `EndpointsChanged` with None brings it back. The registry itself says
    `EndpointsGone` only when the export ends: unexported, removed, left, or its retention is over."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster as the registry shows it. `live`: its lease stands. `sync`: of its present session, in this epoch."""

    id: str
    uid: str
    region: str
    labels: Words = ()
    live: bool = True
    sync: Sync = Sync.SYNCING
    renewed_ms: int = 0


class Conflict(StrEnum):
    """Why exports of one service disagree, in the order in which reasons are joined."""

    PORT = "PortConflict"
    TYPE = "TypeConflict"
    SESSION_AFFINITY = "SessionAffinityConflict"
    SESSION_AFFINITY_CONFIG = "SessionAffinityConfigConflict"
    INTERNAL_TRAFFIC_POLICY = "InternalTrafficPolicyConflict"
    TRAFFIC_DISTRIBUTION = "TrafficDistributionConflict"
    IP_FAMILY = "IPFamilyConflict"
    ANNOTATIONS = "AnnotationsConflict"
    LABELS = "LabelsConflict"


@dataclass(frozen=True, slots=True)
class Import:
    """The merge of all exports of one service. `clusters`: the live ones whose export counts, sorted."""

    service: ServiceKey
    type: ServiceType
    ports: tuple[ServicePort, ...]
    session_affinity: str = "None"
    affinity_seconds: int | None = None
    ip_families: tuple[str, ...] = ()
    internal_traffic_policy: str = "Cluster"
    traffic_distribution: str = ""
    labels: Words = ()
    annotations: Words = ()
    clusters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExportStatus:
    """What an exporting cluster writes into its ServiceExport: the same for all exports of the service."""

    cluster: str
    service: ServiceKey
    conflicts: tuple[Conflict, ...] = ()
    message: str = ""


class Gone(StrEnum):
    """Why something imported is no more: the evidence without which nothing is deleted. `LEASE_EXPIRED` is what an
    importer concludes from `EndpointSet.stale_since_ms`; the registry does not send it."""

    UNEXPORTED = "unexported"
    CLUSTER_LEFT = "cluster_left"
    RETENTION = "retention"
    LEASE_EXPIRED = "lease_expired"
    SLICE_REMOVED = "slice_removed"


@dataclass(frozen=True, slots=True)
class SnapshotBegin:
    """All that follows until `SnapshotEnd` is everything there is; of clusters that left while the registry still
    remembers them it says `ClusterGone`. `complete`: every known cluster has told all of its own; a reader of an
    incomplete snapshot is sent another when that has become true. `resync`: the reader asked for changes and must
    compare instead."""

    epoch: str
    complete: bool
    resync: bool = False


@dataclass(frozen=True, slots=True)
class SnapshotEnd:
    revision: str


@dataclass(frozen=True, slots=True)
class ClusterChanged:
    """A cluster came, went silent, came back or finished its sync."""

    cluster: Cluster
    revision: str = ""


@dataclass(frozen=True, slots=True)
class ClusterGone:
    """A cluster left, or was removed by an operator."""

    id: str
    revision: str = ""


@dataclass(frozen=True, slots=True)
class ImportChanged:
    value: Import
    revision: str = ""


@dataclass(frozen=True, slots=True)
class ImportGone:
    service: ServiceKey
    reason: Gone
    revision: str = ""


@dataclass(frozen=True, slots=True)
class EndpointsChanged:
    """`value.ports` are those of the import: renamed to it, and without what this cluster does not serve."""

    value: EndpointSet
    revision: str = ""


@dataclass(frozen=True, slots=True)
class EndpointsGone:
    cluster: str
    service: ServiceKey
    slice: str
    reason: Gone
    revision: str = ""


@dataclass(frozen=True, slots=True)
class StatusChanged:
    value: ExportStatus
    revision: str = ""


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Nothing new up to `revision`. `stale`: the registry cannot read its store, what it showed last still stands."""

    revision: str
    stale: bool = False


Event = (
    SnapshotBegin
    | SnapshotEnd
    | ClusterChanged
    | ClusterGone
    | ImportChanged
    | ImportGone
    | EndpointsChanged
    | EndpointsGone
    | StatusChanged
    | Bookmark
)
"""What a watch says. Within a snapshot events carry no revision; after it each carries the one it made."""


@dataclass(frozen=True, slots=True)
class Registration:
    """The answer to a registration: `session` goes with every write, `ttl_ms` is how long silence is forgiven,
    `renew_ms` how often to renew (0: a registry that does not say; a third of the ttl)."""

    session: Session
    epoch: str
    now_ms: int
    ttl_ms: int
    renew_ms: int = 0


@dataclass(frozen=True, slots=True)
class Announcement:
    """What a controller says of its cluster when it registers."""

    cluster: str
    uid: str
    region: str
    term: Term
    labels: Words = field(default=())
