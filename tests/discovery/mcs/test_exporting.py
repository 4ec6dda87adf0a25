"""Plans of exports: what comes before what, and what never happens."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from discovery.kube import labels
from discovery.mcs import names
from discovery.mcs.controller.changes import Apply, ApplyStatus, Change, Delete, DropExport, PutEndpoints, PutExport
from discovery.mcs.controller.exporting import NOTHING_TOLD, Local, Rules, Told, plan, settled_wish
from discovery.mcs.model import Conflict, ExportStatus, ServiceKey
from tests.discovery.mcs.controllers import export, service, source_slice

KEY = ServiceKey("dynamo", "hello")
RULES = Rules("c1", "v1beta1")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def born(thing: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    made = {"uid": "u1", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return thing | {"metadata": thing["metadata"] | made | metadata}


def with_finalizer(thing: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    owned: dict[str, Any] = {"f:metadata": {"f:finalizers": {f'v:"{labels.MCS_FINALIZER}"': {}}}}
    manager = {"manager": names.FIELD_OWNER, "operation": "Apply", "fieldsV1": owned}
    return born(thing, finalizers=[labels.MCS_FINALIZER], managedFields=[manager], **metadata)


def look(local: Local, told: Told = NOTHING_TOLD, *, synced: bool = True, now: datetime = NOW) -> list[Change]:
    return plan(RULES, KEY, local, told, ExportStatus("c1", KEY), synced=synced, now=now)


def kinds(changes: list[Change]) -> list[type[Change]]:
    return [type(one) for one in changes]


def test_the_finalizer_comes_before_the_registry_hears_of_it() -> None:
    local = Local(born(service()), born(export()), (born(source_slice("10.0.0.1")),))
    [first] = look(local)
    assert isinstance(first, Apply)
    assert first.body["metadata"]["finalizers"] == [labels.MCS_FINALIZER]
    assert first.body["metadata"]["uid"] == "u1"
    assert settled_wish(RULES, local) == (None, {})
    local = Local(born(service()), with_finalizer(export()), local.slices)
    assert kinds(look(local)) == [PutExport, PutEndpoints, ApplyStatus]
    wanted, sets = settled_wish(RULES, local)
    assert wanted is not None
    [status] = look(local, Told(wanted, sets))
    assert isinstance(status, ApplyStatus)
    said = {one["type"]: (one["status"], one["reason"]) for one in status.body["status"]["conditions"]}
    assert said == {"Valid": ("True", "Valid"), "Ready": ("True", "Exported"), "Conflict": ("False", "NoConflicts")}


def test_an_end_is_told_before_the_finalizer_goes() -> None:
    gone = with_finalizer(export(), deletionTimestamp="2026-01-01T00:00:00Z")
    local = Local(born(service()), gone)
    wanted, _ = settled_wish(RULES, Local(born(service()), with_finalizer(export())))
    assert kinds(look(local, Told(wanted))) == [DropExport]
    assert look(local, synced=False) == []
    [released] = look(local)
    assert isinstance(released, Apply)
    assert "finalizers" not in released.body["metadata"]
    late = NOW + timedelta(seconds=RULES.unexport_timeout_s)
    assert kinds(look(local, Told(wanted), synced=False, now=late)) == [Apply]


@pytest.mark.parametrize("value", ["True", "1", "", "false"])
def test_only_true_is_true(value: str) -> None:
    one = born(service())
    one["metadata"]["labels"] = {labels.MCS_EXPORT: value}
    assert look(Local(one)) == []
    one["metadata"]["labels"] = {labels.MCS_EXPORT: "true"}
    assert kinds(look(Local(one))) == [Apply]


def test_what_was_imported_is_never_exported() -> None:
    derived = born(service(exported=True))
    derived["metadata"]["labels"][labels.MCS_OURS] = names.CONTROLLER
    assert look(Local(derived)) == []
    owned = born(service(exported=True), ownerReferences=[{"kind": "ServiceImport", "name": "hello"}])
    assert look(Local(owned)) == []
    imported = born(source_slice("10.0.0.1"))
    imported["metadata"]["labels"][labels.MCS_SOURCE_CLUSTER] = "c2"
    assert settled_wish(RULES, Local(born(service()), with_finalizer(export()), (imported,)))[1] == {}


def test_only_our_own_exports_go_with_the_label() -> None:
    ours = with_finalizer(export(), labels={labels.MCS_OURS: names.CONTROLLER})
    [change] = look(Local(born(service()), ours))
    assert change == Delete(change.ref, "u1")  # type: ignore[union-attr]
    assert Delete not in kinds(look(Local(born(service()), with_finalizer(export()))))


def test_a_registry_that_began_anew_does_not_unsay_ready() -> None:
    conditions = [{"type": "Ready", "status": "True", "observedGeneration": 1, "lastTransitionTime": "then"}]
    exported = with_finalizer(export()) | {"status": {"conditions": conditions}}
    changes = look(Local(born(service()), exported), synced=False)
    status = next(one for one in changes if isinstance(one, ApplyStatus))
    [ready] = [one for one in status.body["status"]["conditions"] if one["type"] == "Ready"]
    assert (ready["status"], ready["lastTransitionTime"]) == ("True", "then")


def test_reasons_are_joined_without_a_blank() -> None:
    said = ExportStatus("c1", KEY, (Conflict.PORT, Conflict.TYPE), "why")
    local = Local(born(service()), with_finalizer(export()))
    changes = plan(RULES, KEY, local, NOTHING_TOLD, said, synced=True, now=NOW)
    status = next(one for one in changes if isinstance(one, ApplyStatus))
    [conflict] = [one for one in status.body["status"]["conditions"] if one["type"] == "Conflict"]
    assert conflict["reason"] == "PortConflict,TypeConflict"


def test_what_was_refused_is_said_and_not_sent_again() -> None:
    local = Local(born(service()), with_finalizer(export()))
    wanted, _ = settled_wish(RULES, local)
    changes = look(local, Told(None, {}, "ports: too many", wanted))
    assert kinds(changes) == [ApplyStatus]
    [ready] = [one for one in changes[0].body["status"]["conditions"] if one["type"] == "Ready"]  # type: ignore[union-attr]
    assert (ready["status"], ready["reason"], ready["message"]) == ("False", "Failed", "ports: too many")
