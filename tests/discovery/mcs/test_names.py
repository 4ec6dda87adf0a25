"""Names that are derived, against vectors published by other implementations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery.kube import labels
from discovery.mcs.model import ServiceKey
from discovery.mcs.names import derived_service, exportable, imported_slice, is_reserved


@pytest.mark.parametrize(
    ("service", "derived"),
    [
        (ServiceKey("default", "full"), "derived-9jo8ljlgl7"),
        (ServiceKey("default", "port-filter"), "derived-rot6lodnc8"),
        (ServiceKey("my-ns", "my-svc"), "derived-a2v4k9sqn6"),
        (ServiceKey("default", "hello"), "derived-k5cuvo1ge4"),
        (ServiceKey("dynamo", "mocker-a-pool-relay"), "derived-gqmdapi06g"),
    ],
)
def test_the_derived_service_has_the_name_that_others_give_it(service: ServiceKey, derived: str) -> None:
    assert derived_service(service) == derived


LABEL = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)


@given(LABEL, LABEL, LABEL, LABEL, LABEL)
def test_an_imported_slice_has_one_name_per_source(ns: str, name: str, cluster: str, one: str, other: str) -> None:
    service = ServiceKey(ns, name)
    assert len(imported_slice(service, cluster, one)) <= 63
    assert (imported_slice(service, cluster, one) == imported_slice(service, cluster, other)) is (one == other)


@pytest.mark.parametrize(
    "key",
    [
        labels.MCS_EXPORT,
        labels.MCS_SERVICE_NAME,
        labels.MANAGED_BY,
        labels.REGION,
        "service.kubernetes.io/headless",
        "kubernetes.io/metadata.name",
        "k8s.io/x",
    ],
)
def test_a_key_that_means_something_to_readers_is_not_exported(key: str) -> None:
    assert is_reserved(key)
    assert exportable({key: "x", "app": "y", "example.com/kubernetes.io": "z"}) == (
        ("app", "y"),
        ("example.com/kubernetes.io", "z"),
    )


def test_a_domain_that_only_ends_alike_is_not_reserved() -> None:
    assert not is_reserved("multicluster.x-k8s.io/anything")
    assert not is_reserved("kubernetes.io")
