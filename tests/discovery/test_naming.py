"""Which slice is whose, in every mode."""

from __future__ import annotations

from typing import Any

import pytest

from discovery.directory.naming import (
    Attributed,
    Ignored,
    NamingRules,
    Reason,
    Role,
    attribute,
    default_region,
    is_cluster_id,
    region_of,
)
from discovery.identity import PoolKey
from discovery.slices import Slice
from tests.discovery.making import CLUSTER, DISPATCH, KARMADA, LOCAL, MANAGED, SERVICE, karmada, make_slice

RULES = NamingRules()
OLD_RELAYS = NamingRules(relay_service="relay-{name}")


def key_of(slice_: Slice, rules: NamingRules = RULES) -> PoolKey:
    found = attribute(slice_, rules)
    assert isinstance(found, Attributed), found
    return found.key


def reason_of(slice_: Slice, rules: NamingRules = RULES) -> Reason:
    found = attribute(slice_, rules)
    assert isinstance(found, Ignored), found
    assert found.detail
    return found.reason


def test_an_imported_slice_names_cluster_service_and_namespace_by_labels() -> None:
    found = attribute(make_slice("llama-frontend", "ohio", name="any-name"), RULES)
    assert found == Attributed(PoolKey("ohio", "dynamo", "llama"), Role.FRONTEND, "llama-frontend")
    found = attribute(make_slice("llama-pool-relay", "ohio"), RULES)
    assert found == Attributed(PoolKey("ohio", "dynamo", "llama"), Role.RELAY, "llama-pool-relay")


def test_the_service_is_never_taken_from_the_derived_one() -> None:
    """Implementations put a hash there, or nothing at all."""
    assert key_of(make_slice(labels={LOCAL: "derived-4kf8sd"})).name == "llama"


@pytest.mark.parametrize(
    "service",
    [
        "-frontend",
        "frontend",
        "llama",
        "llama-frontend-2",
        "Llama-frontend",
        "a.b-frontend",
        "llama-relay",
        "--frontend",
        "a--frontend",
        "x" * 55 + "-frontend",
    ],
)
def test_other_services_are_no_pools(service: str) -> None:
    assert reason_of(make_slice(service)) is Reason.NOT_A_POOL


def test_the_older_form_of_relays_may_be_given() -> None:
    assert key_of(make_slice("relay-llama"), OLD_RELAYS).name == "llama"
    assert reason_of(make_slice("llama-pool-relay"), OLD_RELAYS) is Reason.NOT_A_POOL


def test_a_name_that_may_be_two_things_is_refused() -> None:
    assert reason_of(make_slice("relay-x-frontend"), OLD_RELAYS) is Reason.AMBIGUOUS_NAME


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ({SERVICE: ""}, Reason.EMPTY_LABEL),
        ({CLUSTER: ""}, Reason.EMPTY_LABEL),
        ({CLUSTER: "a_b"}, Reason.BAD_CLUSTER),
        ({CLUSTER: "a.b.c"}, Reason.BAD_CLUSTER),
        ({CLUSTER: "a."}, Reason.BAD_CLUSTER),
        ({CLUSTER: "Ohio"}, Reason.BAD_CLUSTER),
        ({CLUSTER: "a" * 64}, Reason.BAD_CLUSTER),
        ({SERVICE: None}, Reason.NOT_AN_IMPORT),
        ({CLUSTER: None}, Reason.NOT_AN_IMPORT),
        ({MANAGED: "endpointslice-controller.k8s.io"}, Reason.KUBERNETES_MANAGED),
        ({MANAGED: "endpointslicemirroring-controller.k8s.io"}, Reason.KUBERNETES_MANAGED),
        ({"lighthouse.submariner.io/sourceNamespace": "other"}, Reason.OTHER_NAMESPACE),
    ],
)
def test_labels_that_make_no_import(labels: dict[str, Any], reason: Reason) -> None:
    assert reason_of(make_slice(labels=labels)) is reason


@pytest.mark.parametrize("missing", [SERVICE, CLUSTER])
def test_the_missing_label_is_named(missing: str) -> None:
    found = attribute(make_slice(labels={missing: None}), RULES)
    assert isinstance(found, Ignored)
    assert missing in found.detail


def test_a_missing_manager_is_accepted() -> None:
    assert key_of(make_slice(managed_by=None)).cluster == "ohio"


def test_submariners_slice_in_its_own_namespace_is_the_real_one() -> None:
    assert key_of(make_slice(labels={"lighthouse.submariner.io/sourceNamespace": "dynamo"})).namespace == "dynamo"


def test_slices_that_kubernetes_manages_count_when_the_operator_says_so() -> None:
    rules = NamingRules(accept_kubernetes_managed=True)
    managed = "endpointslice-controller.k8s.io"
    assert key_of(make_slice(managed_by=managed), rules).cluster == "ohio"
    assert reason_of(make_slice(None, None, managed_by=managed), rules) is Reason.NOT_AN_IMPORT


def test_what_is_being_deleted_is_gone() -> None:
    assert reason_of(make_slice(deletionTimestamp="2026-01-01T00:00:00Z")) is Reason.DELETING


def test_address_types_without_addresses() -> None:
    assert reason_of(make_slice(address_type="FQDN")) is Reason.ADDRESS_TYPE
    assert reason_of(make_slice(address_type="IPv8")) is Reason.ADDRESS_TYPE


@pytest.mark.parametrize(
    ("name", "service", "clusters", "noted", "cluster"),
    [
        ("imported-member1-relay-llama-x7k2p", "derived-relay-llama", (), None, "member1"),
        ("imported-us-west-2-prod-relay-llama-x7k2p", "derived-relay-llama", (), None, "us-west-2-prod"),
        ("imported-x-relay-a-y-relay-a-abcde", "derived-relay-a", (), None, "x-relay-a-y"),
        ("imported-relay-a-relay-a-relay-a-abcde", "derived-relay-a", (), None, "relay-a-relay-a"),
        ("imported-m1-custom-slice", "derived-relay-a", (), None, None),
        ("imported-m1-custom-slice", "derived-relay-a", ("m1", "m1-custom"), None, "m1-custom"),
        ("imported-m1-custom-slice", "derived-relay-a", ("m1-custom", "m1"), None, "m1-custom"),
        ("imported-member1-relay-llama-x7k2p", "derived-relay-llama", (), "karmada-es-member2", "member1"),
        ("imported-member1-relay-llama-odd", "derived-relay-llama", (), "karmada-es-member1", "member1"),
        ("imported-member1-relay-llama-odd", "derived-relay-llama", (), "karmada-es-member2", None),
        ("imported-member1-relay-llama-odd", "derived-relay-llama", (), "karmada-es-", None),
        ("imported-m1-relay-x-abcde", "derived-relay-x", ("m1", "m1-relay"), None, "m1"),
        ("imported-x-relay-a-y-relay-a-abcde", "derived-relay-a", (), "karmada-es-x", None),
        ("imported-x-relay-a-y-relay-a-abcde", "derived-relay-a", ("x",), "karmada-es-x", "x"),
        ("imported-x-relay-a-y-relay-a-abcde", "derived-relay-a", ("x", "x-relay-a-y"), "karmada-es-x", "x-relay-a-y"),
        ("member1-relay-llama-x7k2p", "derived-relay-llama", (), None, None),
    ],
)
def test_karmadas_cluster(
    name: str, service: str, clusters: tuple[str, ...], noted: str | None, cluster: str | None
) -> None:
    rules = NamingRules(relay_service="relay-{name}", karmada_clusters=clusters)
    slice_ = karmada(name, service, noted)
    if cluster is None:
        assert reason_of(slice_, rules) is Reason.KARMADA_CLUSTER
    else:
        assert key_of(slice_, rules).cluster == cluster


@pytest.mark.parametrize("service", ["llama-frontend", "derived-", "derived-a.b", ""])
def test_karmadas_service_is_the_derived_one(service: str) -> None:
    assert reason_of(karmada("imported-m1-llama-frontend-abcde", service)) is Reason.KARMADA_SERVICE


def test_karmadas_dispatched_slices_name_their_cluster_in_an_annotation() -> None:
    def dispatched(cluster: str, service: str = "llama-frontend") -> Slice:
        annotations = {"endpointslice.karmada.io/provision-cluster": cluster} if cluster else {}
        return make_slice(None, None, managed_by=DISPATCH, labels={LOCAL: service}, annotations=annotations)

    assert key_of(dispatched("member1")) == PoolKey("member1", "dynamo", "llama")
    assert reason_of(dispatched("")) is Reason.KARMADA_CLUSTER
    assert reason_of(dispatched("\ud800")) is Reason.KARMADA_CLUSTER
    assert reason_of(dispatched("member1", "")) is Reason.KARMADA_SERVICE


def test_mcs_labels_win_over_karmadas_marks() -> None:
    both = make_slice(
        name="imported-m1-other-frontend-abcde", managed_by=KARMADA, labels={LOCAL: "derived-other-frontend"}
    )
    assert key_of(both) == PoolKey("ohio", "dynamo", "llama")


ROUTERS = NamingRules(router_namespace="dynamo", router_service="global-router", cluster_id="hub")


def test_routers_are_imported_or_local_to_their_own_cluster() -> None:
    imported = attribute(make_slice("global-router", "hub"), ROUTERS)
    assert imported == Attributed(PoolKey("hub", "dynamo", "global-router"), Role.ROUTER, "global-router")
    local = make_slice(None, None, managed_by="endpointslice-controller.k8s.io", labels={LOCAL: "global-router"})
    assert attribute(local, ROUTERS) == imported
    assert reason_of(make_slice("global-router", "hub", namespace="other"), ROUTERS) is Reason.NOT_A_POOL
    assert reason_of(make_slice("global-router", "hub")) is Reason.NOT_A_POOL


def test_local_routers_need_a_cluster_id_and_local_services_are_no_pools() -> None:
    managed = "endpointslice-controller.k8s.io"
    local = make_slice(None, None, managed_by=managed, labels={LOCAL: "global-router"})
    nameless = NamingRules(router_namespace="dynamo", router_service="global-router")
    assert reason_of(local, nameless) is Reason.OWN_CLUSTER_UNKNOWN
    assert reason_of(local) is Reason.NOT_AN_IMPORT
    pool = make_slice(None, None, managed_by=managed, labels={LOCAL: "llama-frontend"})
    assert reason_of(pool, ROUTERS) is Reason.NOT_AN_IMPORT


def test_regions() -> None:
    rules = NamingRules(cluster_regions={"ohio": "us-east-2", "west": ""})
    assert region_of(make_slice(region="mars")) == "mars"
    assert region_of(make_slice(region="")) is None
    assert region_of(make_slice()) is None
    assert [default_region(cluster, rules) for cluster in ("ohio", "west", "x")] == ["us-east-2", "west", "x"]


@pytest.mark.parametrize("text", ["a", "c1.reg1", "a" * 63, "0-0"])
def test_cluster_ids(text: str) -> None:
    assert is_cluster_id(text)


@pytest.mark.parametrize(
    "text", ["", ".", "a..b", "a.b.c", "-a", "a-", "A", "a b", "a\n", "a" * 64, "a" * 40 + "." + "b" * 40]
)
def test_no_cluster_ids(text: str) -> None:
    assert not is_cluster_id(text)


@pytest.mark.parametrize(
    "said",
    [
        {"relay_service": "relay"},
        {"relay_service": "{name}-{name}"},
        {"frontend_service": "{name}-{x}"},
        {"frontend_service": "{name}_F"},
        {"frontend_service": "{name}-pool-relay"},
        {"frontend_port": ""},
        {"relay_port": "0"},
        {"relay_port": "65536"},
        {"pool_port": 70000},
    ],
)
def test_rules_that_cannot_work_are_refused(said: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"name|called|port"):
        NamingRules(**said)


def test_every_reason_says_whether_somebody_should_mend_something() -> None:
    fine = {
        Reason.DELETING,
        Reason.NOT_AN_IMPORT,
        Reason.OTHER_NAMESPACE,
        Reason.NOT_A_POOL,
        Reason.NO_ENDPOINTS,
        Reason.NOTHING_LISTED,
    }
    assert {reason for reason in Reason if not reason.is_fault} == fine
