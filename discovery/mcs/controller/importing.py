"""One imported service: what the registry tells, what stands here, and what to do about the difference.

Pure. Rules D21 to D32 and D40. What is not ours is not touched. What is ours goes only when `Mirror` has evidence, and
in the order slices, derived Service, ServiceImport; it comes in the other order. While a cluster that may export a
service has not told all of its own in this epoch, the ServiceImport and its addresses stay as they are: what is told
meanwhile may be half of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from discovery.kube import labels
from discovery.mcs import names
from discovery.mcs.controller import imports
from discovery.mcs.controller.changes import Apply, ApplyStatus, Change, Delete, Merge, Ref, Warn
from discovery.mcs.controller.conditions import Said, conditions
from discovery.mcs.controller.mirror import Mirror
from discovery.mcs.controller.objects import (
    Object,
    annotations_of,
    conditions_of,
    fits,
    is_deleting,
    is_ours,
    key_of,
    labels_of,
    metadata,
    spec_of,
    uid_of,
)
from discovery.mcs.model import EndpointSet, Import, ServiceKey, ServiceType

IMPORTS, SERVICES, SLICES = "serviceimports", "services", "endpointslices"
FOREIGN = "NotOurs"


@dataclass(frozen=True, slots=True)
class Rules:
    version: str
    adopt: bool = False


@dataclass(frozen=True, slots=True)
class Local:
    """One imported service as it stands in this cluster; `slices` by name, those of other makers too if they have a
    name that we would give. `namespace_open`: there is a namespace, and it is not ending."""

    namespace_open: bool = True
    service_import: Object | None = None
    derived: Object | None = None
    slices: Mapping[str, Object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refusals:
    """What the API server said no to, of this service, at the last try."""

    derived: str = ""


def sources_of(local: Local) -> frozenset[str]:
    """Who may export this service, by what stands here."""
    found = {labels_of(one).get(labels.MCS_SOURCE_CLUSTER, "") for one in local.slices.values() if is_ours(one)}
    if local.service_import is not None:
        found |= set(annotations_of(local.service_import).get(labels.MCS_SOURCES, "").split(","))
        found |= {str(one.get("cluster")) for one in (local.service_import.get("status") or {}).get("clusters") or ()}
    return frozenset(found - {""})


def plan(
    rules: Rules, key: ServiceKey, mirror: Mirror, local: Local, refusals: Refusals, *, now: float, date: datetime
) -> list[Change]:
    """What is left to do, in order; empty when all is as it should be."""
    if not mirror.snapshots:
        return []
    value = mirror.imports.get(key)
    if value is None:
        return _gone(key, mirror, local, now)
    if not local.namespace_open:
        return []
    if (foreign := _foreign(rules, key, local)) is not None:
        return [foreign]
    known = local.service_import
    before = sources_of(local)
    frozen = known is not None and not all(mirror.is_settled(one, now) for one in before)
    first = [] if frozen else _head(rules, value, mirror.sources(before, value, now), local, refusals)
    if first or known is None or is_deleting(known):
        return first
    owner = {"apiVersion": f"{names.GROUP}/{rules.version}", "kind": "ServiceImport", **known}
    slices = _slices(value, mirror, local, owner, now)
    return [*slices, *([] if frozen else _status(rules, value, local, refusals, date))]


def deletions(changes: list[Change]) -> frozenset[Ref]:
    """What a plan would delete for good: not what it makes anew at once."""
    return frozenset(one.ref for one in changes if isinstance(one, Delete))


def _foreign(rules: Rules, key: ServiceKey, local: Local) -> Warn | None:
    if rules.adopt:
        return None
    for resource, one in ((IMPORTS, local.service_import), (SERVICES, local.derived)):
        if one is not None and not is_ours(one):
            ref = Ref(resource, *key_of(one))
            message = f"An object of this name is in the way of importing {key}; it was not made by this controller."
            return Warn(ref, uid_of(one), FOREIGN, message)
    return None


def _head(rules: Rules, value: Import, sources: frozenset[str], local: Local, refusals: Refusals) -> list[Change]:
    """ServiceImport and derived Service: one step at a time, since each needs what the server answers to the last."""
    known, derived = local.service_import, local.derived
    if known is not None and is_deleting(known):
        return []
    body = imports.service_import(value, rules.version, sources, derived if imports.has_derived(value) else None)
    ref = Ref(IMPORTS, *value.service)
    if known is None or not fits(known, body, names.FIELD_OWNER):
        return [Apply(ref, body)]
    if extra := _extra(known, body):
        return [Merge(ref, extra)]
    below = Ref(SERVICES, value.service.namespace, names.derived_service(value.service))
    if not imports.has_derived(value):
        return [Delete(below, uid_of(derived))] if derived is not None and is_ours(derived) else []
    if derived is not None and is_deleting(derived):
        return []
    owner = {"apiVersion": f"{names.GROUP}/{rules.version}", "kind": "ServiceImport", **known}
    service = imports.derived_service(value, owner)
    if derived is not None and _is_another(derived, service):
        return [Delete(below, uid_of(derived))]
    if refusals.derived:
        return []
    # First, because a port that somebody put in may have a name that ours needs.
    if derived is not None and (extra := _extra_of_service(derived, service)):
        return [Merge(below, extra)]
    if derived is None or not fits(derived, service, names.FIELD_OWNER):
        return [Apply(below, service)]
    return []


def _is_another(derived: Object, wanted: Object) -> bool:
    """Whether what differs cannot be changed in place (D25)."""
    if spec_of(derived).get("clusterIP") in (None, "None"):
        return True
    families = spec_of(wanted).get("ipFamilies")
    return families is not None and spec_of(derived).get("ipFamilies") != families


def _extra(known: Object, wanted: Object) -> Object:
    """What others put into the spec, which is wholly ours."""
    more = [name for name in spec_of(known) if name not in spec_of(wanted)]
    return {"spec": dict.fromkeys(more)} if more else {}


def _extra_of_service(derived: Object, wanted: Object) -> Object:
    spec: Object = {}
    if spec_of(derived).get("selector"):
        spec["selector"] = None
    if not _port_numbers(derived) <= _port_numbers(wanted):
        spec["ports"] = spec_of(wanted)["ports"]
    return {"spec": spec} if spec else {}


def _port_numbers(service: Object) -> set[tuple[object, object]]:
    return {(one.get("port"), one.get("protocol")) for one in spec_of(service).get("ports") or ()}


def _slices(value: Import, mirror: Mirror, local: Local, owner: Object, now: float) -> list[Change]:
    key = value.service
    told = {names.imported_slice(key, *where): one for where, one in mirror.endpoints(key).items()}
    wanted = {name: one for name, one in sorted(told.items()) if imports.is_worth_a_slice(value, one)}
    changes: list[Change] = []
    for name, one in wanted.items():
        changes += _slice(value, one, Ref(SLICES, key.namespace, name), mirror, local.slices.get(name), owner)
    for name, known in sorted(local.slices.items()):
        if name in wanted or not is_ours(known) or is_deleting(known):
            continue
        if name in told or _slice_is_gone(key, known, mirror, now):
            changes.append(Delete(Ref(SLICES, key.namespace, name), uid_of(known)))
    return changes


def _slice(
    value: Import, one: EndpointSet, ref: Ref, mirror: Mirror, known: Object | None, owner: Object
) -> list[Change]:
    cluster = mirror.clusters.get(one.cluster)
    body = imports.endpoint_slice(value, one, cluster.region if cluster else "", owner)
    if known is None or is_deleting(known):
        return [Apply(ref, body)]
    if not is_ours(known):
        return [Warn(ref, uid_of(known), FOREIGN, f"A slice of this name is in the way of {value.service}.")]
    if known.get("addressType") != one.address_type:
        # Cannot be changed: the next look makes it anew.
        return [Delete(ref, uid_of(known))]
    return [] if fits(known, body, names.FIELD_OWNER) else [Apply(ref, body)]


def source_of(slice_: Object) -> str:
    """The cluster that an imported slice is of."""
    return labels_of(slice_).get(labels.MCS_SOURCE_CLUSTER, "")


def _slice_is_gone(service: ServiceKey, known: Object, mirror: Mirror, now: float) -> bool:
    # Which source slice it was made of is not said, and need not be: none of those told has this name.
    cluster, name = source_of(known), metadata(known)["name"]
    said = (one for one in mirror.gone_slices(service) if names.imported_slice(service, *one) == name)
    return mirror.slice_is_gone(service, next(said, (cluster, "")), now)


def _gone(key: ServiceKey, mirror: Mirror, local: Local, now: float) -> list[Change]:
    """Not told any more. Slices may go before the rest does."""
    whole = mirror.import_is_gone(key, sources_of(local), now)
    changes: list[Change] = []
    told = {names.imported_slice(key, *where) for where in mirror.endpoints(key)}
    for name, one in sorted(local.slices.items()):
        if (
            is_ours(one)
            and not is_deleting(one)
            and (whole or (name not in told and _slice_is_gone(key, one, mirror, now)))
        ):
            changes.append(Delete(Ref(SLICES, key.namespace, name), uid_of(one)))
    if not whole:
        return changes
    for resource, found in ((SERVICES, local.derived), (IMPORTS, local.service_import)):
        if found is not None and is_ours(found) and not is_deleting(found):
            changes.append(Delete(Ref(resource, *key_of(found)), uid_of(found)))
    return changes


def _status(rules: Rules, value: Import, local: Local, refusals: Refusals, date: datetime) -> list[Change]:
    known = local.service_import
    assert known is not None
    generation = metadata(known).get("generation")
    stamp = date.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    said = [_ready(value, local, refusals)]
    status: Object = {
        "clusters": [{"cluster": one} for one in sorted(set(value.clusters))],
        "conditions": conditions(said, conditions_of(known), generation if isinstance(generation, int) else 0, stamp),
    }
    if fits(known, {"status": status}, names.STATUS_FIELD_OWNER, "status"):
        return []
    body = {
        "apiVersion": f"{names.GROUP}/{rules.version}",
        "kind": "ServiceImport",
        "metadata": {"namespace": value.service.namespace, "name": value.service.name, "uid": uid_of(known)},
        "status": status,
    }
    return [ApplyStatus(Ref(IMPORTS, *value.service), body)]


def _ready(value: Import, local: Local, refusals: Refusals) -> Said:
    if refusals.derived:
        reason = "IPFamilyNotSupported" if "not configured on this cluster" in refusals.derived else "Pending"
        return Said("Ready", "False", reason, refusals.derived)
    if not value.clusters:
        return Said("Ready", "False", "Pending", "No cluster that exports this service is live.")
    if value.type is ServiceType.CLUSTER_SET_IP and not value.ports:
        return Said("Ready", "False", "Pending", "The exported Services have no ports.")
    if imports.has_derived(value) and local.derived is None:
        return Said("Ready", "False", "Pending", "The derived Service is not there yet.")
    return Said("Ready", "True", "Ready", "")
