import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Term(_message.Message):
    __slots__ = ("transitions", "acquired_at")
    TRANSITIONS_FIELD_NUMBER: _ClassVar[int]
    ACQUIRED_AT_FIELD_NUMBER: _ClassVar[int]
    transitions: int
    acquired_at: _timestamp_pb2.Timestamp
    def __init__(self, transitions: _Optional[int] = ..., acquired_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Stamp(_message.Message):
    __slots__ = ("cluster", "session", "seq")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    session: str
    seq: int
    def __init__(self, cluster: _Optional[str] = ..., session: _Optional[str] = ..., seq: _Optional[int] = ...) -> None: ...

class ServiceKey(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ServicePort(_message.Message):
    __slots__ = ("name", "protocol", "number", "app_protocol")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    APP_PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    name: str
    protocol: str
    number: int
    app_protocol: str
    def __init__(self, name: _Optional[str] = ..., protocol: _Optional[str] = ..., number: _Optional[int] = ..., app_protocol: _Optional[str] = ...) -> None: ...

class SlicePort(_message.Message):
    __slots__ = ("name", "protocol", "number", "app_protocol")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    APP_PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    name: str
    protocol: str
    number: int
    app_protocol: str
    def __init__(self, name: _Optional[str] = ..., protocol: _Optional[str] = ..., number: _Optional[int] = ..., app_protocol: _Optional[str] = ...) -> None: ...

class Export(_message.Message):
    __slots__ = ("cluster", "service", "uid", "exported_at", "type", "ports", "session_affinity", "affinity_seconds", "ip_families", "internal_traffic_policy", "traffic_distribution", "labels", "annotations")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class AnnotationsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    EXPORTED_AT_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    SESSION_AFFINITY_FIELD_NUMBER: _ClassVar[int]
    AFFINITY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    IP_FAMILIES_FIELD_NUMBER: _ClassVar[int]
    INTERNAL_TRAFFIC_POLICY_FIELD_NUMBER: _ClassVar[int]
    TRAFFIC_DISTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    service: ServiceKey
    uid: str
    exported_at: _timestamp_pb2.Timestamp
    type: str
    ports: _containers.RepeatedCompositeFieldContainer[ServicePort]
    session_affinity: str
    affinity_seconds: int
    ip_families: _containers.RepeatedScalarFieldContainer[str]
    internal_traffic_policy: str
    traffic_distribution: str
    labels: _containers.ScalarMap[str, str]
    annotations: _containers.ScalarMap[str, str]
    def __init__(self, cluster: _Optional[str] = ..., service: _Optional[_Union[ServiceKey, _Mapping]] = ..., uid: _Optional[str] = ..., exported_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., type: _Optional[str] = ..., ports: _Optional[_Iterable[_Union[ServicePort, _Mapping]]] = ..., session_affinity: _Optional[str] = ..., affinity_seconds: _Optional[int] = ..., ip_families: _Optional[_Iterable[str]] = ..., internal_traffic_policy: _Optional[str] = ..., traffic_distribution: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., annotations: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Reference(_message.Message):
    __slots__ = ("kind", "namespace", "name", "uid")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    kind: str
    namespace: str
    name: str
    uid: str
    def __init__(self, kind: _Optional[str] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ..., uid: _Optional[str] = ...) -> None: ...

class Endpoint(_message.Message):
    __slots__ = ("addresses", "ready", "serving", "terminating", "hostname", "zone", "node", "target")
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    SERVING_FIELD_NUMBER: _ClassVar[int]
    TERMINATING_FIELD_NUMBER: _ClassVar[int]
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    addresses: _containers.RepeatedScalarFieldContainer[str]
    ready: bool
    serving: bool
    terminating: bool
    hostname: str
    zone: str
    node: str
    target: Reference
    def __init__(self, addresses: _Optional[_Iterable[str]] = ..., ready: _Optional[bool] = ..., serving: _Optional[bool] = ..., terminating: _Optional[bool] = ..., hostname: _Optional[str] = ..., zone: _Optional[str] = ..., node: _Optional[str] = ..., target: _Optional[_Union[Reference, _Mapping]] = ...) -> None: ...

class EndpointSet(_message.Message):
    __slots__ = ("cluster", "service", "slice", "address_type", "ports", "endpoints", "stale_since")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    SLICE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_TYPE_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    STALE_SINCE_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    service: ServiceKey
    slice: str
    address_type: str
    ports: _containers.RepeatedCompositeFieldContainer[SlicePort]
    endpoints: _containers.RepeatedCompositeFieldContainer[Endpoint]
    stale_since: _timestamp_pb2.Timestamp
    def __init__(self, cluster: _Optional[str] = ..., service: _Optional[_Union[ServiceKey, _Mapping]] = ..., slice: _Optional[str] = ..., address_type: _Optional[str] = ..., ports: _Optional[_Iterable[_Union[SlicePort, _Mapping]]] = ..., endpoints: _Optional[_Iterable[_Union[Endpoint, _Mapping]]] = ..., stale_since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Cluster(_message.Message):
    __slots__ = ("id", "uid", "region", "labels", "live", "sync", "renewed_at")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    SYNC_FIELD_NUMBER: _ClassVar[int]
    RENEWED_AT_FIELD_NUMBER: _ClassVar[int]
    id: str
    uid: str
    region: str
    labels: _containers.ScalarMap[str, str]
    live: bool
    sync: str
    renewed_at: _timestamp_pb2.Timestamp
    def __init__(self, id: _Optional[str] = ..., uid: _Optional[str] = ..., region: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., live: _Optional[bool] = ..., sync: _Optional[str] = ..., renewed_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Import(_message.Message):
    __slots__ = ("service", "type", "ports", "session_affinity", "affinity_seconds", "ip_families", "internal_traffic_policy", "traffic_distribution", "labels", "annotations", "clusters")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class AnnotationsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    SESSION_AFFINITY_FIELD_NUMBER: _ClassVar[int]
    AFFINITY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    IP_FAMILIES_FIELD_NUMBER: _ClassVar[int]
    INTERNAL_TRAFFIC_POLICY_FIELD_NUMBER: _ClassVar[int]
    TRAFFIC_DISTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    service: ServiceKey
    type: str
    ports: _containers.RepeatedCompositeFieldContainer[ServicePort]
    session_affinity: str
    affinity_seconds: int
    ip_families: _containers.RepeatedScalarFieldContainer[str]
    internal_traffic_policy: str
    traffic_distribution: str
    labels: _containers.ScalarMap[str, str]
    annotations: _containers.ScalarMap[str, str]
    clusters: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, service: _Optional[_Union[ServiceKey, _Mapping]] = ..., type: _Optional[str] = ..., ports: _Optional[_Iterable[_Union[ServicePort, _Mapping]]] = ..., session_affinity: _Optional[str] = ..., affinity_seconds: _Optional[int] = ..., ip_families: _Optional[_Iterable[str]] = ..., internal_traffic_policy: _Optional[str] = ..., traffic_distribution: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., annotations: _Optional[_Mapping[str, str]] = ..., clusters: _Optional[_Iterable[str]] = ...) -> None: ...

class ExportStatus(_message.Message):
    __slots__ = ("cluster", "service", "conflicts", "message")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    CONFLICTS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    service: ServiceKey
    conflicts: _containers.RepeatedScalarFieldContainer[str]
    message: str
    def __init__(self, cluster: _Optional[str] = ..., service: _Optional[_Union[ServiceKey, _Mapping]] = ..., conflicts: _Optional[_Iterable[str]] = ..., message: _Optional[str] = ...) -> None: ...

class RegisterRequest(_message.Message):
    __slots__ = ("cluster", "uid", "region", "term", "labels")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    uid: str
    region: str
    term: Term
    labels: _containers.ScalarMap[str, str]
    def __init__(self, cluster: _Optional[str] = ..., uid: _Optional[str] = ..., region: _Optional[str] = ..., term: _Optional[_Union[Term, _Mapping]] = ..., labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class RegisterResponse(_message.Message):
    __slots__ = ("cluster", "session", "epoch", "now", "ttl_ms", "renew_ms")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    RENEW_MS_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    session: str
    epoch: str
    now: _timestamp_pb2.Timestamp
    ttl_ms: int
    renew_ms: int
    def __init__(self, cluster: _Optional[str] = ..., session: _Optional[str] = ..., epoch: _Optional[str] = ..., now: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ttl_ms: _Optional[int] = ..., renew_ms: _Optional[int] = ...) -> None: ...

class RenewRequest(_message.Message):
    __slots__ = ("stamp",)
    STAMP_FIELD_NUMBER: _ClassVar[int]
    stamp: Stamp
    def __init__(self, stamp: _Optional[_Union[Stamp, _Mapping]] = ...) -> None: ...

class RenewResponse(_message.Message):
    __slots__ = ("cluster", "session", "epoch", "now", "ttl_ms", "renew_ms")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    RENEW_MS_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    session: str
    epoch: str
    now: _timestamp_pb2.Timestamp
    ttl_ms: int
    renew_ms: int
    def __init__(self, cluster: _Optional[str] = ..., session: _Optional[str] = ..., epoch: _Optional[str] = ..., now: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ttl_ms: _Optional[int] = ..., renew_ms: _Optional[int] = ...) -> None: ...

class LeaveRequest(_message.Message):
    __slots__ = ("stamp",)
    STAMP_FIELD_NUMBER: _ClassVar[int]
    stamp: Stamp
    def __init__(self, stamp: _Optional[_Union[Stamp, _Mapping]] = ...) -> None: ...

class LeaveResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: str
    def __init__(self, revision: _Optional[str] = ...) -> None: ...

class PutExportRequest(_message.Message):
    __slots__ = ("stamp", "export")
    STAMP_FIELD_NUMBER: _ClassVar[int]
    EXPORT_FIELD_NUMBER: _ClassVar[int]
    stamp: Stamp
    export: Export
    def __init__(self, stamp: _Optional[_Union[Stamp, _Mapping]] = ..., export: _Optional[_Union[Export, _Mapping]] = ...) -> None: ...

class PutExportResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: str
    def __init__(self, revision: _Optional[str] = ...) -> None: ...

class DeleteExportRequest(_message.Message):
    __slots__ = ("stamp", "service")
    STAMP_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    stamp: Stamp
    service: ServiceKey
    def __init__(self, stamp: _Optional[_Union[Stamp, _Mapping]] = ..., service: _Optional[_Union[ServiceKey, _Mapping]] = ...) -> None: ...

class DeleteExportResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: str
    def __init__(self, revision: _Optional[str] = ...) -> None: ...

class PutEndpointsRequest(_message.Message):
    __slots__ = ("stamp", "endpoints")
    STAMP_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    stamp: Stamp
    endpoints: EndpointSet
    def __init__(self, stamp: _Optional[_Union[Stamp, _Mapping]] = ..., endpoints: _Optional[_Union[EndpointSet, _Mapping]] = ...) -> None: ...

class PutEndpointsResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: str
    def __init__(self, revision: _Optional[str] = ...) -> None: ...

class DeleteEndpointsRequest(_message.Message):
    __slots__ = ("stamp", "service", "slice")
    STAMP_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    SLICE_FIELD_NUMBER: _ClassVar[int]
    stamp: Stamp
    service: ServiceKey
    slice: str
    def __init__(self, stamp: _Optional[_Union[Stamp, _Mapping]] = ..., service: _Optional[_Union[ServiceKey, _Mapping]] = ..., slice: _Optional[str] = ...) -> None: ...

class DeleteEndpointsResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: str
    def __init__(self, revision: _Optional[str] = ...) -> None: ...

class BeginSyncRequest(_message.Message):
    __slots__ = ("stamp",)
    STAMP_FIELD_NUMBER: _ClassVar[int]
    stamp: Stamp
    def __init__(self, stamp: _Optional[_Union[Stamp, _Mapping]] = ...) -> None: ...

class BeginSyncResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: str
    def __init__(self, revision: _Optional[str] = ...) -> None: ...

class CompleteSyncRequest(_message.Message):
    __slots__ = ("stamp", "count", "digest")
    STAMP_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    stamp: Stamp
    count: int
    digest: str
    def __init__(self, stamp: _Optional[_Union[Stamp, _Mapping]] = ..., count: _Optional[int] = ..., digest: _Optional[str] = ...) -> None: ...

class CompleteSyncResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: str
    def __init__(self, revision: _Optional[str] = ...) -> None: ...

class ListClustersRequest(_message.Message):
    __slots__ = ("min_revision",)
    MIN_REVISION_FIELD_NUMBER: _ClassVar[int]
    min_revision: str
    def __init__(self, min_revision: _Optional[str] = ...) -> None: ...

class ListClustersResponse(_message.Message):
    __slots__ = ("items", "revision", "complete")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Cluster]
    revision: str
    complete: bool
    def __init__(self, items: _Optional[_Iterable[_Union[Cluster, _Mapping]]] = ..., revision: _Optional[str] = ..., complete: _Optional[bool] = ...) -> None: ...

class ListExportsRequest(_message.Message):
    __slots__ = ("cluster", "min_revision")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    MIN_REVISION_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    min_revision: str
    def __init__(self, cluster: _Optional[str] = ..., min_revision: _Optional[str] = ...) -> None: ...

class ListExportsResponse(_message.Message):
    __slots__ = ("items", "revision", "complete")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Export]
    revision: str
    complete: bool
    def __init__(self, items: _Optional[_Iterable[_Union[Export, _Mapping]]] = ..., revision: _Optional[str] = ..., complete: _Optional[bool] = ...) -> None: ...

class ListImportsRequest(_message.Message):
    __slots__ = ("namespace", "min_revision")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    MIN_REVISION_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    min_revision: str
    def __init__(self, namespace: _Optional[str] = ..., min_revision: _Optional[str] = ...) -> None: ...

class ListImportsResponse(_message.Message):
    __slots__ = ("items", "revision", "complete")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Import]
    revision: str
    complete: bool
    def __init__(self, items: _Optional[_Iterable[_Union[Import, _Mapping]]] = ..., revision: _Optional[str] = ..., complete: _Optional[bool] = ...) -> None: ...

class GetImportRequest(_message.Message):
    __slots__ = ("service", "min_revision")
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    MIN_REVISION_FIELD_NUMBER: _ClassVar[int]
    service: ServiceKey
    min_revision: str
    def __init__(self, service: _Optional[_Union[ServiceKey, _Mapping]] = ..., min_revision: _Optional[str] = ...) -> None: ...

class GetImportResponse(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: Import
    def __init__(self, value: _Optional[_Union[Import, _Mapping]] = ...) -> None: ...

class GetExportStatusRequest(_message.Message):
    __slots__ = ("cluster", "service", "min_revision")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    MIN_REVISION_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    service: ServiceKey
    min_revision: str
    def __init__(self, cluster: _Optional[str] = ..., service: _Optional[_Union[ServiceKey, _Mapping]] = ..., min_revision: _Optional[str] = ...) -> None: ...

class GetExportStatusResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: ExportStatus
    def __init__(self, status: _Optional[_Union[ExportStatus, _Mapping]] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("revision", "cluster", "min_revision")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    MIN_REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: str
    cluster: str
    min_revision: str
    def __init__(self, revision: _Optional[str] = ..., cluster: _Optional[str] = ..., min_revision: _Optional[str] = ...) -> None: ...

class WatchResponse(_message.Message):
    __slots__ = ("snapshot_begin", "snapshot_end", "cluster", "delete_cluster", "upsert_import", "delete_import", "upsert_endpoints", "delete_endpoints", "export_status", "bookmark")
    SNAPSHOT_BEGIN_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_END_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    DELETE_CLUSTER_FIELD_NUMBER: _ClassVar[int]
    UPSERT_IMPORT_FIELD_NUMBER: _ClassVar[int]
    DELETE_IMPORT_FIELD_NUMBER: _ClassVar[int]
    UPSERT_ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    DELETE_ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    EXPORT_STATUS_FIELD_NUMBER: _ClassVar[int]
    BOOKMARK_FIELD_NUMBER: _ClassVar[int]
    snapshot_begin: SnapshotBegin
    snapshot_end: SnapshotEnd
    cluster: ClusterChanged
    delete_cluster: ClusterGone
    upsert_import: ImportChanged
    delete_import: ImportGone
    upsert_endpoints: EndpointsChanged
    delete_endpoints: EndpointsGone
    export_status: StatusChanged
    bookmark: Bookmark
    def __init__(self, snapshot_begin: _Optional[_Union[SnapshotBegin, _Mapping]] = ..., snapshot_end: _Optional[_Union[SnapshotEnd, _Mapping]] = ..., cluster: _Optional[_Union[ClusterChanged, _Mapping]] = ..., delete_cluster: _Optional[_Union[ClusterGone, _Mapping]] = ..., upsert_import: _Optional[_Union[ImportChanged, _Mapping]] = ..., delete_import: _Optional[_Union[ImportGone, _Mapping]] = ..., upsert_endpoints: _Optional[_Union[EndpointsChanged, _Mapping]] = ..., delete_endpoints: _Optional[_Union[EndpointsGone, _Mapping]] = ..., export_status: _Optional[_Union[StatusChanged, _Mapping]] = ..., bookmark: _Optional[_Union[Bookmark, _Mapping]] = ...) -> None: ...

class SnapshotBegin(_message.Message):
    __slots__ = ("epoch", "complete", "resync")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    RESYNC_FIELD_NUMBER: _ClassVar[int]
    epoch: str
    complete: bool
    resync: bool
    def __init__(self, epoch: _Optional[str] = ..., complete: _Optional[bool] = ..., resync: _Optional[bool] = ...) -> None: ...

class SnapshotEnd(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: str
    def __init__(self, revision: _Optional[str] = ...) -> None: ...

class ClusterChanged(_message.Message):
    __slots__ = ("cluster", "revision")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    cluster: Cluster
    revision: str
    def __init__(self, cluster: _Optional[_Union[Cluster, _Mapping]] = ..., revision: _Optional[str] = ...) -> None: ...

class ClusterGone(_message.Message):
    __slots__ = ("id", "revision")
    ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    id: str
    revision: str
    def __init__(self, id: _Optional[str] = ..., revision: _Optional[str] = ...) -> None: ...

class ImportChanged(_message.Message):
    __slots__ = ("value", "revision")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    value: Import
    revision: str
    def __init__(self, value: _Optional[_Union[Import, _Mapping]] = ..., revision: _Optional[str] = ...) -> None: ...

class ImportGone(_message.Message):
    __slots__ = ("service", "reason", "revision")
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    service: ServiceKey
    reason: str
    revision: str
    def __init__(self, service: _Optional[_Union[ServiceKey, _Mapping]] = ..., reason: _Optional[str] = ..., revision: _Optional[str] = ...) -> None: ...

class EndpointsChanged(_message.Message):
    __slots__ = ("value", "revision")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    value: EndpointSet
    revision: str
    def __init__(self, value: _Optional[_Union[EndpointSet, _Mapping]] = ..., revision: _Optional[str] = ...) -> None: ...

class EndpointsGone(_message.Message):
    __slots__ = ("cluster", "service", "slice", "reason", "revision")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    SLICE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    service: ServiceKey
    slice: str
    reason: str
    revision: str
    def __init__(self, cluster: _Optional[str] = ..., service: _Optional[_Union[ServiceKey, _Mapping]] = ..., slice: _Optional[str] = ..., reason: _Optional[str] = ..., revision: _Optional[str] = ...) -> None: ...

class StatusChanged(_message.Message):
    __slots__ = ("value", "revision")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    value: ExportStatus
    revision: str
    def __init__(self, value: _Optional[_Union[ExportStatus, _Mapping]] = ..., revision: _Optional[str] = ...) -> None: ...

class Bookmark(_message.Message):
    __slots__ = ("revision", "stale")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    STALE_FIELD_NUMBER: _ClassVar[int]
    revision: str
    stale: bool
    def __init__(self, revision: _Optional[str] = ..., stale: _Optional[bool] = ...) -> None: ...
