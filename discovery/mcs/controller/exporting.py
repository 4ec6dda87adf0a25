"""One exported Service: what is, what the registry has acknowledged, and what to do about the difference.

Pure. Rules D10 to D18. The order is the point: a finalizer stands before the registry hears of an export, and goes only
after the registry has been told that it ended, or after it could not be told for `unexport_timeout`: one that waits for
ever would keep its namespace from ending.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from discovery.kube import labels
from discovery.mcs import names
from discovery.mcs.controller import exports
from discovery.mcs.controller.changes import (
    Apply,
    ApplyStatus,
    Change,
    Delete,
    DropEndpoints,
    DropExport,
    PutEndpoints,
    PutExport,
    Ref,
)
from discovery.mcs.controller.conditions import Said, conditions
from discovery.mcs.controller.objects import (
    Object,
    conditions_of,
    fits,
    is_deleting,
    is_ours,
    metadata,
    reference,
    uid_of,
)
from discovery.mcs.model import EndpointSet, Export, ExportStatus, ServiceKey

EXPORTS = "serviceexports"


@dataclass(frozen=True, slots=True)
class Told:
    """What the registry has acknowledged of one service in the present session. `refused`: it said no to what
    `attempt` was, and why."""

    export: Export | None = None
    endpoints: Mapping[str, EndpointSet] = field(default_factory=dict)
    refused: str = ""
    attempt: Export | None = None


NOTHING_TOLD = Told()


@dataclass(frozen=True, slots=True)
class Rules:
    """`version`: of the multi-cluster API that is served here."""

    cluster: str
    version: str
    export_label: str = labels.MCS_EXPORT
    unexport_timeout_s: float = 300.0


@dataclass(frozen=True, slots=True)
class Local:
    """One service as it stands in this cluster. `slices` are those of the Service, imported ones among them."""

    service: Object | None = None
    export: Object | None = None
    slices: tuple[Object, ...] = ()


def plan(
    rules: Rules,
    key: ServiceKey,
    local: Local,
    told: Told,
    status: ExportStatus | None,
    *,
    synced: bool,
    now: datetime,
) -> list[Change]:
    """What is left to do, in order; empty when all is as it should be. `synced`: everything of before this session
    is known to be gone from the registry, so that what is not told is not there."""
    wanted = exports.wants_export(local.service, rules.export_label)
    export = local.export
    if export is None:
        withdrawn: list[Change] = [DropExport(key)] if told.export is not None else []
        if wanted and local.service is not None:
            return [*withdrawn, Apply(_ref(key), _managed(rules, key, local.service))]
        return withdrawn
    if is_deleting(export):
        return _ended(rules, key, export, told, synced=synced, now=now)
    if is_ours(export) and not wanted:
        return [Delete(_ref(key), uid_of(export))]
    invalid = exports.check(local.service)
    if invalid is not None or local.service is None:
        assert invalid is not None
        gone: list[Change] = [DropExport(key)] if told.export is not None else []
        said = [Said("Valid", "False", invalid.reason, invalid.message), _pending("The export is not valid.")]
        return [*gone, *_status(rules, key, export, said, now)]
    return _exported(rules, key, local.service, export, local.slices, told, status, now)


def settled_wish(rules: Rules, local: Local) -> tuple[Export | None, dict[str, EndpointSet]]:
    """What the registry should hold of one service: for a sync of everything."""
    if local.export is None or is_deleting(local.export) or local.service is None or exports.check(local.service):
        return None, {}
    if is_ours(local.export) and not exports.wants_export(local.service, rules.export_label):
        return None, {}
    if labels.MCS_FINALIZER not in (metadata(local.export).get("finalizers") or ()):
        return None, {}
    export = exports.export_of(rules.cluster, local.service, local.export)
    return export, exports.endpoint_sets(rules.cluster, export.service, local.slices)


def _exported(
    rules: Rules,
    key: ServiceKey,
    service: Object,
    export: Object,
    slices: tuple[Object, ...],
    told: Told,
    status: ExportStatus | None,
    now: datetime,
) -> list[Change]:
    body = _managed(rules, key, service) if is_ours(export) else _finalized(rules, key, export)
    if not fits(export, body, names.FIELD_OWNER):
        return [Apply(_ref(key), body)]
    wanted = exports.export_of(rules.cluster, service, export)
    sets = exports.endpoint_sets(rules.cluster, key, slices)
    pushed: list[Change] = []
    if told.export != wanted and not (told.refused and told.attempt == wanted):
        pushed.append(PutExport(wanted))
    if not (told.refused and told.attempt == wanted):
        pushed += [PutEndpoints(one) for name, one in sets.items() if told.endpoints.get(name) != one]
        pushed += [DropEndpoints(key, name) for name in told.endpoints if name not in sets]
    said = [Said("Valid", "True", "Valid", ""), _ready(export, wanted, told, pending=bool(pushed))]
    conflict = _conflict(export, status)
    return [*pushed, *_status(rules, key, export, [*said, *conflict], now)]


def _ready(export: Object, wanted: Export, told: Told, *, pending: bool) -> Said:
    if told.refused and told.attempt == wanted:
        return Said("Ready", "False", "Failed", told.refused)
    if not pending:
        return Said("Ready", "True", "Exported", "")
    before = conditions_of(export).get("Ready") or {}
    if before.get("status") == "True" and before.get("observedGeneration") == metadata(export).get("generation"):
        # The registry had it and has it still, or will have it again: its restart is nobody's news.
        return Said("Ready", "True", "Exported", "")
    return _pending("The registry has not acknowledged the export yet.")


def _conflict(export: Object, status: ExportStatus | None) -> list[Said]:
    if status is None:
        # Not known yet, or not any more: what was said last stands.
        before = conditions_of(export).get("Conflict")
        if before is None:
            return []
        return [Said("Conflict", *(str(before.get(part, "")) for part in ("status", "reason", "message")))]
    if not status.conflicts:
        return [Said("Conflict", "False", "NoConflicts", status.message)]
    return [Said("Conflict", "True", ",".join(status.conflicts), status.message)]


def _pending(message: str) -> Said:
    return Said("Ready", "False", "Pending", message)


def _ended(rules: Rules, key: ServiceKey, export: Object, told: Told, *, synced: bool, now: datetime) -> list[Change]:
    """An export that was deleted: withdraw, then let it go."""
    if labels.MCS_FINALIZER not in (metadata(export).get("finalizers") or ()):
        return [DropExport(key)] if told.export is not None else []
    deleted = datetime.fromisoformat(str(metadata(export)["deletionTimestamp"]))
    is_late = (now - deleted).total_seconds() >= rules.unexport_timeout_s
    if told.export is not None and not is_late:
        return [DropExport(key)]
    if not synced and not is_late:
        return []
    return [Apply(_ref(key), _finalized(rules, key, export, finalizers=()))]


def _status(rules: Rules, key: ServiceKey, export: Object, said: list[Said], now: datetime) -> list[Change]:
    generation = metadata(export).get("generation")
    stamp = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    wanted = conditions(said, conditions_of(export), generation if isinstance(generation, int) else 0, stamp)
    body = {**_head(rules, key), "status": {"conditions": wanted}}
    body["metadata"]["uid"] = uid_of(export)
    compared = {"status": body["status"]}
    if fits(export, compared, names.STATUS_FIELD_OWNER, "status"):
        return []
    return [ApplyStatus(_ref(key), body)]


def _head(rules: Rules, key: ServiceKey) -> Object:
    return {
        "apiVersion": f"{names.GROUP}/{rules.version}",
        "kind": "ServiceExport",
        "metadata": {"namespace": key.namespace, "name": key.name},
    }


def _managed(rules: Rules, key: ServiceKey, service: Object) -> Object:
    """The ServiceExport that a label asks for: it goes with its Service."""
    body = _head(rules, key)
    owner = reference({"apiVersion": "v1", "kind": "Service", **service})
    body["metadata"] |= {"labels": {labels.MCS_OURS: names.CONTROLLER}, "ownerReferences": [owner]}
    body["metadata"]["finalizers"] = [labels.MCS_FINALIZER]
    return body


def _finalized(
    rules: Rules, key: ServiceKey, export: Object, finalizers: tuple[str, ...] = (labels.MCS_FINALIZER,)
) -> Object:
    """Our finalizer and nothing else of a ServiceExport that a user made. The uid: an apply would make another one."""
    body = _head(rules, key)
    body["metadata"]["uid"] = uid_of(export)
    if is_ours(export):
        body["metadata"] |= {
            "labels": {labels.MCS_OURS: names.CONTROLLER},
            "ownerReferences": metadata(export).get("ownerReferences") or [],
        }
    if finalizers:
        body["metadata"]["finalizers"] = list(finalizers)
    return body


def _ref(key: ServiceKey) -> Ref:
    return Ref(EXPORTS, key.namespace, key.name)
