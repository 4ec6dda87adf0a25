"""The fleet file: every fault with its place, and nothing but a fleet or faults."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_ingress.proxy.settings.faults import SettingsFault
from global_ingress.render.fleet import Fleet, load
from tests.render.making import FLEETS, FULL, LEAST, fleet


def faults(text: str) -> list[str]:
    with pytest.raises(SettingsFault) as raised:
        load(text, name="fleet.yaml")
    return [str(fault) for fault in raised.value.faults]


@pytest.mark.parametrize("name", FLEETS)
def test_a_right_one_is_read(name: str) -> None:
    assert fleet(name).clusters


def test_all_faults_of_a_file_are_told_at_once_with_line_and_column() -> None:
    text = """name: Prod
image: UPPER
clusters:
  - {id: ohio, region: us-east-2, pod_cidrs: [10.1.0.1/16]}
  - {id: ohio, region: us-east-2, pod_cidr: 10.1.0.0/16}
discovery: {mode: mc}
mcs: {registry: {cluster: rome, url: https://a.example.com/x}}
"""
    assert faults(text) == [
        "fleet.yaml:1:7: name: must be a name in lower case, digits and dashes, got 'Prod'",
        "fleet.yaml:2:8: image: must be an image such as registry.example.com/global-ingress@sha256:…, got 'UPPER'",
        "fleet.yaml:4:47: clusters[0].pod_cidrs[0]: must be a CIDR without bits beyond its prefix, such as"
        " 10.1.0.0/16, got '10.1.0.1/16'",
        "fleet.yaml:5:10: clusters[1].id: is another cluster's too, got 'ohio'",
        "fleet.yaml:5:35: clusters[1].pod_cidr: is no key of clusters[1]; did you mean pod_cidrs?; allowed:"
        " api_server_cidr, id, pod_cidrs, region",
        "fleet.yaml:6:19: discovery.mode: must be one of mcs, karmada, registrations, got 'mc'; did you mean mcs?",
        "fleet.yaml:7:27: mcs.registry.cluster: is no cluster of this fleet, got 'rome'",
        "fleet.yaml:7:38: mcs.registry.url: must be a URL without a path, got 'https://a.example.com/x'",
    ]


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ("mcs: {registry: {cluster: only, url: http://a, store: dynamodb}}", "needs table"),
        ("mcs: {registry: {cluster: only, url: http://a, replicas: 2}}", "must be 1 where each pod keeps its own"),
        ("mcs: {registry: {cluster: only, url: http://a, store: dynamodb, table: t}}", "egress.dynamodb: must be true"),
        ("discovery: {mode: registrations, replicas: 1}", "needs tokens_secret"),
        ("discovery: {mode: registrations, tokens_secret: t}", "must be 1 where each pod keeps its own"),
        ("discovery: {table_region: us-east-2}", "needs table"),
        ("ingress: {autoscale: {min: 5, max: 4}}", "must be at least `min`"),
        ("ingress: {allow_from: [{team: 5}]}", "must have labels as Kubernetes has them"),
        ("ingress: {allow_from: [{}]}", "must be a CIDR such as"),
    ],
)
def test_what_does_not_go_together(more: str, fault: str) -> None:
    assert fault in "\n".join(faults(f"{LEAST}{more}\n"))


def test_an_empty_file_says_what_is_needed() -> None:
    assert faults("") == ["fleet.yaml:1:1: is empty; name, image and clusters are needed"]


@given(st.integers(0, len(FULL)), st.integers(0, len(FULL)), st.text(max_size=8))
def test_any_damage_is_a_fleet_or_faults(start: int, length: int, put: str) -> None:
    try:
        told: Fleet | SettingsFault = load(FULL[:start] + put + FULL[start + length :], name="fleet.yaml")
    except SettingsFault as fault:
        told = fault
    assert isinstance(told, Fleet) or told.faults
