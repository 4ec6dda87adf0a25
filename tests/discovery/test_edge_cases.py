"""The edge cases of imported EndpointSlices, one test a row; the number is the row's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from discovery.directory.assemble import Assembled, State, WarningKind, assemble
from discovery.directory.naming import NamingRules, Reason
from discovery.directory.records import Records
from discovery.pool import Frontend, next_table
from discovery.pool import PoolTable as Table
from discovery.slices import Slice
from tests.discovery.making import CLUSTER, SERVICE, endpoint, karmada, make_slice, port

RULES = NamingRules()
NOTHING = Table("e", 0, False)
GONE = "2026-01-01T00:00:00Z"


def table(*slices: Slice, rules: NamingRules = RULES) -> Assembled:
    return assemble([("mcs", slice_) for slice_ in slices], rules)


def keys(found: Assembled) -> list[str]:
    return [str(pool.key) for pool in found.pools]


def frontends(*slices: Slice, rules: NamingRules = RULES) -> tuple[Frontend, ...]:
    (pool,) = table(*slices, rules=rules).pools
    return pool.frontends


def only(**said: Any) -> Frontend:
    (found,) = frontends(make_slice(endpoints=[endpoint(**said)]))
    return found


def ignored(slice_: Slice, rules: NamingRules = RULES) -> Reason | None:
    found = table(slice_, rules=rules)
    assert found.pools == ()
    (verdict,) = found.verdicts
    assert verdict.state is not State.USED
    return verdict.reason


def published(records: Records, before: Table = NOTHING, complete: bool = True) -> Table:
    found = assemble(records, RULES)
    return next_table(before, found.pools, found.routers, complete)


def cut_short(first: Slice, error: Exception) -> Iterator[Slice]:
    yield first
    raise error


def names(shown: Table) -> list[str]:
    return [str(pool.key) for pool in shown.pools]


def test_row_01_a_placeholder_with_nulls_is_no_pool_and_no_fault() -> None:
    slice_ = make_slice(endpoints=None, ports=None)
    assert ignored(slice_) is Reason.NO_ENDPOINTS
    assert table(slice_).verdicts[0].state is State.IGNORED


def test_row_02_empty_conditions_are_usable() -> None:
    assert only(conditions={}).ready


def test_row_03_ready_null_is_usable_whatever_serving_says() -> None:
    found = only(conditions={"ready": None, "serving": False})
    assert (found.ready, found.serving) == (True, False)


def test_row_04_ending_and_serving_is_listed_but_not_usable() -> None:
    found = only(ready=False, serving=True, terminating=True)
    assert (found.ready, found.serving, found.terminating) == (False, True, True)


def test_row_05_ready_though_not_serving_is_usable() -> None:
    assert only(ready=True, serving=False, terminating=True).ready


def test_row_06_two_ports_of_one_service_are_two_endpoints_each_with_its_own() -> None:
    found = frontends(
        make_slice(name="a", endpoints=[endpoint("10.0.0.1", uid="u1")], ports=[port(8001)]),
        make_slice(name="b", endpoints=[endpoint("10.0.0.2", uid="u2")], ports=[port(8002)]),
    )
    assert [f.url for f in found] == ["http://10.0.0.1:8001", "http://10.0.0.2:8002"]


def test_row_07_a_dual_stack_pod_is_one_member_with_two_addresses() -> None:
    (found,) = frontends(
        make_slice(name="four", endpoints=[endpoint("10.0.0.1", uid="u0")]),
        make_slice(name="six", endpoints=[endpoint("fd00::1", uid="u0")], address_type="IPv6"),
    )
    assert (found.url, found.also) == ("http://10.0.0.1:8000", ("http://[fd00::1]:8000",))


def test_row_08_a_pod_in_two_slices_is_one_member_usable_if_either_says_so() -> None:
    (found,) = frontends(
        make_slice(name="a", endpoints=[endpoint(uid="u0", ready=False)]),
        make_slice(name="b", endpoints=[endpoint(uid="u0", ready=True)]),
    )
    assert found.ready


def test_row_09_a_slice_that_moves_to_another_cluster_moves_in_one_publish() -> None:
    records = Records()
    records.upsert("mcs", make_slice(cluster="a"))
    first = published(records)
    records.upsert("mcs", make_slice(cluster="b", resourceVersion="8"))
    second = published(records, first)
    assert (names(first), names(second)) == (["a/dynamo/llama"], ["b/dynamo/llama"])
    assert second.revision == first.revision + 1


def test_row_10_a_label_taken_away_deletes_with_the_old_labels_and_a_new_version() -> None:
    records = Records()
    records.upsert("mcs", make_slice(resourceVersion="7"))
    assert records.delete("mcs", make_slice(resourceVersion="9"))
    assert names(published(records)) == []


def test_row_11_the_label_put_back_adds_it_again() -> None:
    records = Records()
    records.upsert("mcs", make_slice(resourceVersion="7"))
    records.delete("mcs", make_slice(resourceVersion="9"))
    records.upsert("mcs", make_slice(resourceVersion="10"))
    assert names(published(records)) == ["ohio/dynamo/llama"]


def test_row_12_a_forged_slice_is_ignored_and_counted() -> None:
    forged = make_slice(cluster="evil", region="mars", managed_by="endpointslice-controller.k8s.io")
    assert ignored(forged) is Reason.KUBERNETES_MANAGED
    assert table(forged).verdicts[0].state is State.INVALID


def test_row_13_submariners_broker_copy_is_ignored() -> None:
    copy = make_slice(namespace="broker", labels={"lighthouse.submariner.io/sourceNamespace": "dynamo"})
    assert ignored(copy) is Reason.OTHER_NAMESPACE


def test_row_14_a_reference_to_a_service_is_no_identity() -> None:
    ref = {"kind": "Service", "name": "llama", "uid": "same"}
    found = frontends(
        make_slice(endpoints=[endpoint("10.0.0.1", targetRef=ref), endpoint("10.0.0.2", targetRef=ref, hostname="h")])
    )
    assert [(f.url, f.pod) for f in found] == [("http://10.0.0.1:8000", None), ("http://10.0.0.2:8000", None)]


def test_row_15_a_karmada_members_own_annotation_is_not_the_source() -> None:
    slice_ = karmada("imported-member1-llama-frontend-x7k2p", "derived-llama-frontend", "karmada-es-member2")
    assert keys(table(slice_)) == ["member1/dynamo/llama"]


@pytest.mark.parametrize("service", ["relay-", "Relay-x", "relayx"])
def test_row_16_names_that_almost_fit_are_ignored(service: str) -> None:
    assert ignored(make_slice(service), NamingRules(relay_service="relay-{name}")) is Reason.NOT_A_POOL


def test_row_17_one_name_in_two_clusters_or_namespaces_is_two_pools() -> None:
    found = table(
        make_slice(cluster="a", name="1"),
        make_slice(cluster="b", name="2"),
        make_slice(cluster="b", name="3", namespace="other"),
    )
    assert keys(found) == ["a/dynamo/llama", "b/dynamo/llama", "b/other/llama"]


def test_row_18_a_pool_told_by_mcs_and_karmada_is_one() -> None:
    mcs = make_slice(cluster="member1", endpoints=[endpoint("10.0.0.1"), endpoint("10.0.0.2")])
    other = karmada(
        "imported-member1-llama-frontend-x7k2p",
        "derived-llama-frontend",
        endpoints=[endpoint("10.0.0.2"), endpoint("10.0.0.3")],
    )
    (pool,) = assemble([("mcs", mcs), ("karmada", other)], RULES).pools
    assert [f.url for f in pool.frontends] == [f"http://10.0.0.{last}:8000" for last in (1, 2, 3)]
    assert pool.sources == ("karmada", "mcs")


def test_row_19_a_port_without_number_needs_a_configured_one() -> None:
    slice_ = make_slice(ports=[{"name": "any"}])
    assert ignored(slice_) is Reason.NO_PORT
    (found,) = frontends(slice_, rules=NamingRules(pool_port=8000))
    assert found.url == "http://10.0.0.1:8000"


def test_row_20_only_the_slice_without_the_named_port_is_skipped() -> None:
    with_it = make_slice(name="a", endpoints=[endpoint("10.0.0.1")], ports=[port(8000, "http"), port(9, "metrics")])
    without = make_slice(name="b", endpoints=[endpoint("10.0.0.2")], ports=[port(8000, "web"), port(9, "metrics")])
    assert [f.url for f in frontends(with_it, without)] == ["http://10.0.0.1:8000"]
    assert [v.reason for v in table(with_it, without).verdicts] == [None, Reason.PORT_NOT_FOUND]


def test_row_21_udp_only_is_skipped() -> None:
    assert ignored(make_slice(ports=[port(8000, protocol="UDP")])) is Reason.NO_PORT


def test_row_22_fqdn_slices_are_skipped() -> None:
    assert ignored(make_slice(address_type="FQDN", endpoints=[endpoint("a.example.org")])) is Reason.ADDRESS_TYPE


def test_row_23_three_slices_of_a_hundred_are_one_pool() -> None:
    slices = [
        make_slice(name=f"s{i}", endpoints=[endpoint(f"10.0.{i}.{last}", uid=f"{i}-{last}") for last in range(100)])
        for i in range(3)
    ]
    assert len(frontends(*slices)) == 300


def test_row_24_only_the_first_of_two_addresses_counts() -> None:
    assert only(addresses=["10.0.0.1", "10.0.0.2"]).url == "http://10.0.0.1:8000"


def test_row_25_what_a_new_list_lacks_is_gone() -> None:
    records = Records()
    records.replace_all("mcs", [make_slice("a-frontend", name="a"), make_slice("b-frontend", name="b")])
    records.replace_all("mcs", [make_slice("a-frontend", name="a")])
    assert names(published(records)) == ["ohio/dynamo/a"]


def test_row_26_an_empty_list_empties_the_table() -> None:
    records = Records()
    records.replace_all("mcs", [make_slice()])
    before = published(records)
    records.replace_all("mcs", [])
    after = published(records, before)
    assert (after.pools, after.complete, after.revision) == ((), True, before.revision + 1)


def test_row_27_a_list_that_is_refused_keeps_the_table() -> None:
    records = Records()
    records.replace_all("mcs", [make_slice()])
    before = published(records)

    with pytest.raises(PermissionError):
        records.replace_all("mcs", cut_short(make_slice(name="other"), PermissionError("403")))
    stale = published(records, before, complete=False)
    assert (stale.pools, stale.complete) == (before.pools, False)


def test_row_28_an_expired_watch_keeps_the_table_until_the_next_whole_list() -> None:
    records = Records()
    records.replace_all("mcs", [make_slice("a-frontend", name="a")])
    before = published(records)
    assert published(records, before) is before
    records.replace_all("mcs", [make_slice("b-frontend", name="b")])
    assert names(published(records, before)) == ["ohio/dynamo/b"]


def test_row_29_a_deletion_time_removes_now_whatever_finalizers_wait() -> None:
    records = Records()
    records.upsert("mcs", make_slice())
    records.upsert("mcs", going := make_slice(deletionTimestamp=GONE, finalizers=["x/y"]))
    assert names(published(records)) == []
    assert ignored(going) is Reason.DELETING


def test_row_30_of_two_regions_the_newest_wins_and_somebody_is_told() -> None:
    old = make_slice(name="z", region="mars", creationTimestamp="2026-01-01T00:00:00Z", generation=9)
    new = make_slice(name="a", region="venus", creationTimestamp="2026-02-01T00:00:00Z")
    found = table(old, new)
    assert found.pools[0].region == "venus"
    assert [(w.kind, w.subject) for w in found.warnings] == [(WarningKind.REGION_CONFLICT, "ohio/dynamo/llama")]
    newer = make_slice(name="z", region="mars", generation=9)
    assert table(newer, make_slice(name="a", region="venus", generation=2)).pools[0].region == "mars"


def test_row_31_a_dotted_cluster_is_kept_whole() -> None:
    assert keys(table(make_slice(cluster="c1.reg1"))) == ["c1.reg1/dynamo/llama"]


def test_row_32_one_address_in_two_clusters_is_two_pools_and_a_conflict() -> None:
    found = table(make_slice(cluster="a", name="a"), make_slice(cluster="b", name="b"))
    assert keys(found) == ["a/dynamo/llama", "b/dynamo/llama"]
    assert found.address_conflicts == 1
    assert table(make_slice(cluster="a", name="a"), make_slice("x-frontend", "a", name="b")).address_conflicts == 0


def test_the_labels_of_the_rows_are_the_real_ones() -> None:
    assert (SERVICE, CLUSTER) == (
        "multicluster.kubernetes.io/service-name",
        "multicluster.kubernetes.io/source-cluster",
    )
