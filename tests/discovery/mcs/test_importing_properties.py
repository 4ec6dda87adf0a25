"""Plans of imports: applied they give what is wanted, a second one is empty, and nothing goes without evidence."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discovery.kube import labels
from discovery.mcs import names
from discovery.mcs.controller import importing
from discovery.mcs.controller.brake import Brake, Verdict
from discovery.mcs.controller.importing import Refusals, Rules
from discovery.mcs.controller.mirror import Mirror
from discovery.mcs.model import (
    Bookmark,
    Cluster,
    ClusterChanged,
    ClusterGone,
    EndpointsChanged,
    EndpointSet,
    EndpointsGone,
    Event,
    Gone,
    Import,
    ImportChanged,
    ImportGone,
    ServiceType,
    SnapshotBegin,
    SnapshotEnd,
    Sync,
)
from discovery.testing.cluster.kinds import SERVICE_IMPORTS
from tests.discovery.mcs.worlds import DATE, KEY, World, endpoint_sets, import_values

RULES = Rules("v1beta1")
HOLD_DOWN = 600.0
SETS = st.lists(st.one_of(endpoint_sets("c1"), endpoint_sets("c2")), max_size=4)


def cluster(id_: str, sync: Sync = Sync.COMPLETE, *, live: bool = True) -> ClusterChanged:
    return ClusterChanged(Cluster(id_, f"uid-{id_}", "west", live=live, sync=sync))


def told(mirror: Mirror, *events: Event, epoch: str = "e1", complete: bool = True, now: float = 0.0) -> None:
    """A whole snapshot."""
    for event in (SnapshotBegin(epoch, complete), *events, SnapshotEnd(f"{epoch}.1")):
        mirror.hear(event, now, 0)


def settle(world: World, mirror: Mirror, now: float = 0.0) -> None:
    """Plan and carry out until nothing is left."""
    for _ in range(12):
        if not world.carry_out(importing.plan(RULES, KEY, mirror, world.local(), Refusals(), now=now, date=DATE)):
            return
    raise AssertionError("it does not come to an end")


@given(import_values(), SETS, import_values(), SETS)
@settings(max_examples=60, deadline=None)
def test_a_plan_applied_leaves_nothing_to_plan(
    first: Import, before: list[EndpointSet], second: Import, after: list[EndpointSet]
) -> None:
    world, mirror = World(), Mirror("c1", "keep", HOLD_DOWN)
    both = (cluster("c1"), cluster("c2"))
    for value, sets in ((first, before), (second, after), (first, after)):
        told(mirror, *both, ImportChanged(value), *map(EndpointsChanged, sets))
        settle(world, mirror)
        local = world.local()
        assert local.service_import is not None
        assert local.service_import["spec"]["type"] == value.type
        assert (local.derived is not None) == (value.type == "ClusterSetIP" and bool(value.ports))
        worth = [one for one in _last(sets) if one.ports or not value.ports]
        wanted = {names.imported_slice(KEY, one.cluster, one.slice) for one in worth}
        assert set(local.slices) == wanted
    told(mirror, *both)
    # Whose it was may not be known: then only time is evidence, in which the registry was heard.
    mirror.hear(Bookmark("e1.2"), HOLD_DOWN, 0)
    settle(world, mirror, HOLD_DOWN)
    gone = world.local()
    assert (gone.service_import, gone.derived, dict(gone.slices)) == (None, None, {})


def _last(sets: list[EndpointSet]) -> list[EndpointSet]:
    """Of several that are one slice the last one stands."""
    return list({(one.cluster, one.slice): one for one in sets}.values())


@given(import_values(), SETS)
@settings(max_examples=30, deadline=None)
def test_foreign_objects_are_not_touched(value: Import, sets: list[EndpointSet]) -> None:
    world, mirror = World(), Mirror("c1", "withdraw", HOLD_DOWN)
    foreign = {
        "apiVersion": "multicluster.x-k8s.io/v1beta1",
        "kind": "ServiceImport",
        "metadata": {"namespace": KEY.namespace, "name": KEY.name},
        "spec": {"type": "Headless", "ports": []},
    }
    world.put(SERVICE_IMPORTS, foreign)
    before = world.store.revision
    told(mirror, cluster("c1"), ImportChanged(value), *map(EndpointsChanged, sets))
    changes = importing.plan(RULES, KEY, mirror, world.local(), Refusals(), now=0.0, date=DATE)
    assert [type(one).__name__ for one in changes] == ["Warn"]
    told(mirror, cluster("c1"))
    assert importing.plan(RULES, KEY, mirror, world.local(), Refusals(), now=9e9, date=DATE) == []
    assert world.store.revision == before


HELD = Import(KEY, type=ServiceType.CLUSTER_SET_IP, ports=(), clusters=("c1", "c2"))


def _exported(state: dict[str, Any]) -> list[Event]:
    """What a registry shows whose members have told so much: an import of those that have told theirs."""
    known = [id_ for id_ in ("c1", "c2") if state[id_] == "told"]
    events: list[Event] = [
        cluster(id_, Sync.COMPLETE if state[id_] == "told" else Sync.SYNCING, live=state["live"])
        for id_ in ("c1", "c2")
        if state[id_] != "unknown"
    ]
    if known:
        events.append(ImportChanged(Import(KEY, type=ServiceType.CLUSTER_SET_IP, ports=(), clusters=tuple(known))))
    return events


STATES = st.fixed_dictionaries(
    {
        "c1": st.sampled_from(["unknown", "syncing", "told"]),
        "c2": st.sampled_from(["unknown", "syncing", "told"]),
        "live": st.booleans(),
        "complete": st.booleans(),
        "lost": st.booleans(),
    }
)


@given(st.lists(STATES, max_size=12))
@settings(max_examples=200, deadline=None)
def test_no_import_goes_while_its_export_stands(history: list[dict[str, Any]]) -> None:
    """Both clusters export all the time: registries lose everything, come back with less, leases run out."""
    world, mirror = World(), Mirror("c1", "withdraw", HOLD_DOWN)
    told(mirror, cluster("c1"), cluster("c2"), ImportChanged(HELD))
    settle(world, mirror)
    uid = world.local().service_import["metadata"]["uid"]  # type: ignore[index]
    for number, state in enumerate(history):
        events = _exported(state)
        # A registry that misses somebody may call itself complete by mistake, or say that the import ended.
        told(mirror, *events, epoch=f"e{number + 2}", complete=state["complete"], now=number * 10.0)
        if state["lost"] and any(isinstance(one, ImportChanged) for one in events) and state["c2"] != "told":
            mirror.hear(ImportGone(KEY, Gone.UNEXPORTED, "r"), number * 10.0, 0)
        settle(world, mirror, number * 10.0)
        found = world.local().service_import
        assert found is not None
        assert found["metadata"]["uid"] == uid
    told(mirror, cluster("c1"), cluster("c2"), ImportChanged(HELD), epoch="last", now=500.0)
    settle(world, mirror, 500.0)
    assert world.local().service_import["status"]["clusters"] == [{"cluster": "c1"}, {"cluster": "c2"}]  # type: ignore[index]


def _alone() -> tuple[World, Mirror]:
    world, mirror = World(), Mirror("c1", "withdraw", HOLD_DOWN)
    told(mirror, cluster("c1"), cluster("c2"), ImportChanged(HELD))
    settle(world, mirror)
    return world, mirror


def test_a_cluster_that_never_comes_back_is_given_up_after_the_hold_down() -> None:
    world, mirror = _alone()
    told(mirror, epoch="e2", now=100.0)
    settle(world, mirror, 100.0 + HOLD_DOWN - 1)
    assert world.deleted == []
    mirror.hear(Bookmark("e2.2"), 100.0 + HOLD_DOWN, 0)
    settle(world, mirror, 100.0 + HOLD_DOWN)
    assert world.local().service_import is None


@pytest.mark.parametrize("stale", [True, False])
def test_time_in_which_the_registry_says_nothing_is_no_evidence(stale: bool) -> None:
    world, mirror = _alone()
    told(mirror, epoch="e2", now=100.0)
    if stale:
        mirror.hear(Bookmark("e2.2", True), 100.0 + HOLD_DOWN, 0)
    settle(world, mirror, 200.0 + HOLD_DOWN)
    assert world.deleted == []


def test_what_another_registry_lacks_counts_when_it_has_been_heard_for_so_long() -> None:
    world, mirror = World(), Mirror("c1", "withdraw", HOLD_DOWN, 45.0)
    told(mirror, cluster("c1"), cluster("c2"), ImportChanged(HELD))
    settle(world, mirror)
    told(mirror, cluster("c1"), cluster("c2"), epoch="e2", now=100.0)
    settle(world, mirror, 200.0)
    assert world.deleted == []
    mirror.hear(Bookmark("e2.2"), 145.0, 0)
    settle(world, mirror, 145.0)
    assert world.local().service_import is None


def test_what_another_registry_says_to_be_gone_is_gone_at_once() -> None:
    world, mirror = World(), Mirror("c1", "withdraw", HOLD_DOWN, 45.0)
    told(mirror, cluster("c1"), cluster("c2"), ImportChanged(HELD))
    settle(world, mirror)
    told(mirror, cluster("c1"), cluster("c2"), ImportChanged(HELD), epoch="e2", now=100.0)
    mirror.hear(ImportGone(KEY, Gone.UNEXPORTED, "e2.2"), 101.0, 0)
    settle(world, mirror, 101.0)
    assert world.local().service_import is None


def test_a_cluster_that_left_is_evidence() -> None:
    world, mirror = _alone()
    told(mirror, cluster("c1"), ClusterGone("c2"), epoch="e2")
    settle(world, mirror)
    assert world.local().service_import is None


def test_half_a_snapshot_is_none() -> None:
    world, mirror = _alone()
    mirror.hear(SnapshotBegin("e2", True), 0.0, 0)
    mirror.interrupted()
    assert mirror.imports == {KEY: HELD}
    settle(world, mirror)
    assert world.deleted == []


def test_explicit_ends_are_taken_at_once_and_mark_nothing_else() -> None:
    world, mirror = World(), Mirror("c1", "keep", HOLD_DOWN)
    one = EndpointSet("c2", KEY, "s1", "IPv4", (), ())
    told(mirror, cluster("c2"), ImportChanged(HELD), EndpointsChanged(one), complete=False)
    settle(world, mirror)
    [slice_] = world.local().slices.values()
    assert labels.STALE_SINCE not in slice_["metadata"].get("annotations", {})
    mirror.hear(EndpointsGone("c2", KEY, "s1", Gone.LEASE_EXPIRED, "r"), 1.0, 1_700_000_000_000)
    settle(world, mirror)
    [slice_] = world.local().slices.values()
    assert slice_["metadata"]["annotations"][labels.STALE_SINCE] == "2023-11-14T22:13:20Z"
    mirror.hear(EndpointsGone("c2", KEY, "s1", Gone.SLICE_REMOVED, "r"), 2.0, 0)
    settle(world, mirror)
    assert world.local().slices == {}


@given(st.integers(0, 60), st.integers(1, 100), st.floats(0, 1))
def test_the_brake_holds_many_until_a_snapshot_agrees(count: int, total: int, ratio: float) -> None:
    brake, doomed = Brake(ratio, 60.0), frozenset(range(count))
    many = count > max(10, ratio * total)
    assert (brake.judge(doomed, total, 1, 0.0) is Verdict.GO) is not many
    if many:
        assert brake.judge(doomed, total, 2, 59.0) is Verdict.HOLD
        assert brake.judge(doomed, total, 2, 60.0) is Verdict.ASK
        assert brake.judge(doomed, total, 2, 61.0) is Verdict.HOLD
        assert brake.judge(doomed, total, 3, 62.0) is Verdict.GO
        fewer = doomed - {0}
        assert brake.judge(fewer, total, 3, 63.0) is Verdict.GO
        assert brake.judge(frozenset(range(100, 100 + count)), total, 3, 64.0) is Verdict.HOLD
