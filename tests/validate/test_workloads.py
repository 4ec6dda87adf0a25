"""From a frontend's address to its pod and to what keeps it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_ingress.validate.checks.disturbed import replaced
from global_ingress.validate.workloads import Owner, by_hand, owner_of, pods_at
from tests.validate.deployed import pod

urls = st.lists(st.sampled_from(["http://10.0.0.1:8000", "http://10.0.0.2:8000", "http://10.0.0.3:8000"]), unique=True)


def names(pods: list[dict[str, object]], *frontends: str) -> list[str]:
    return [one["metadata"]["name"] for one in pods_at(pods, frontends)]


def test_pods_of_one_address_are_told_apart_by_their_ports() -> None:
    here = [pod("b-0", "10.0.0.1", image="i", node="n"), pod("a-0", "10.0.0.1", image="i", node="n", port=9000)]
    assert names(here, "http://10.0.0.1:8000") == ["b-0"]
    assert names(here, "http://10.0.0.1:8000", "http://10.0.0.1:9000") == ["a-0", "b-0"]
    assert names(here, "http://10.0.0.1:7000", "http://10.0.0.2:8000") == []


def test_a_pod_without_ports_must_be_alone_at_its_address() -> None:
    bare = pod("a-0", "10.0.0.1", image="i", node="n", spec={"containers": [{"name": "main", "image": "i"}]})
    assert names([bare], "http://10.0.0.1:8000") == ["a-0"]
    assert names([bare, pod("b-0", "10.0.0.1", image="i", node="n")], "http://10.0.0.1:8000") == ["b-0"]


def test_an_ipv6_address_and_a_pod_that_ends() -> None:
    ending = pod("a-0", "fd00::1", image="i", node="n")
    assert names([ending], "http://[fd00::1]:8000") == ["a-0"]
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert names([ending], "http://[fd00::1]:8000") == []


def test_only_a_controller_keeps_a_pod() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u"}
    assert owner_of(pod("a-0", "10.0.0.1", image="i", node="n", owner=owner)) is None
    kept = pod("a-0", "10.0.0.1", image="i", node="n", owner={**owner, "controller": True})
    assert owner_of(kept) == Owner("ReplicaSet", "r")
    assert by_hand("dynamo", Owner("Deployment", "web"), 2) == "kubectl -n dynamo scale deployment/web --replicas=2"


@pytest.mark.parametrize(
    ("before", "now", "is_so"),
    [
        (["a"], ["b"], True),
        (["a", "b"], ["b", "c"], True),
        (["a"], ["a", "b"], False),
        (["a", "b"], ["a", "b", "c"], False),
        (["a", "b"], ["b"], False),
        (["a"], [], False),
        (["a"], ["a"], False),
    ],
)
def test_replaced_means_one_has_come_and_one_is_gone(before: list[str], now: list[str], is_so: bool) -> None:
    assert replaced(before, now) is is_so


@given(urls, urls)
def test_nothing_is_replaced_by_less_or_by_itself(before: list[str], now: list[str]) -> None:
    assert not replaced(before, before)
    assert not (replaced(before, now) and (set(now) <= set(before) or set(before) <= set(now)))
