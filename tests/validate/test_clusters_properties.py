"""What API servers send may be anything: it is read without an error, and compared without a mistake."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_ingress.validate.bundle import BadBundle, read_bundle
from global_ingress.validate.cluster_reading import node_of, plural_of, pod_of, served_of
from global_ingress.validate.comparing import differences
from global_ingress.validate.matrix import FRONTEND, KUBERNETES, tag_of
from global_ingress.validate.questions import questions
from tests.validate.deployed import BUNDLE, FILES, OBJECTS

names = st.sampled_from(["name", "labels", "spec", "replicas", "args", "data", "x"])
values = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
json = st.recursive(
    values, lambda below: st.lists(below, max_size=3) | st.dictionaries(names, below, max_size=3), max_leaves=12
)
objects = st.dictionaries(st.sampled_from(["spec", "data", "rules", "x"]), json, max_size=4)
POD_WORDS = ["metadata", "spec", "status", "labels", "containers", "volumes", "conditions", "securityContext", "name"]
POD_WORDS += ["containerStatuses", "capabilities", "drop", "add", "projected", "sources", "allocatable", "resources"]
anything = st.recursive(
    values,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from(POD_WORDS), below, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(POD_WORDS), anything, max_size=5))
def test_whatever_an_api_server_sends_is_read(thing: dict[str, Any]) -> None:
    assert isinstance(pod_of(thing).lax, tuple)
    assert node_of(thing).gpus >= 0
    assert served_of("v1", thing) == tuple(sorted(served_of("v1", thing)))
    assert plural_of(thing, "Pod") is None


@given(objects)
def test_nothing_differs_from_itself(thing: dict[str, Any]) -> None:
    assert differences(thing, thing, copy.deepcopy(thing)) == ((), ())


@given(objects, st.sampled_from(["spec", "data", "rules"]), names, st.integers(1, 9) | st.text(min_size=1, max_size=3))
def test_a_value_more_is_found_wherever_it_stands(thing: dict[str, Any], part: str, key: str, value: object) -> None:
    wanted = {**thing, part: {"kept": 1}}
    live = {**thing, part: {"kept": 1, key: value}}
    found, beside = differences({"spec": {"replicas": 1}}, wanted, live)
    assert len(found) + len(beside) == 1
    assert bool(beside) == (key == "labels" and not found)
    assert differences({"spec": {"replicas": 1}}, live, wanted)[0]


def test_an_autoscaler_owns_the_number_of_replicas() -> None:
    one, two = ({"spec": {"replicas": count}} for count in (1, 2))
    assert differences({"spec": {}}, one, two) == ((), ())
    assert differences(one, one, two) == (("spec.replicas is 2, rendered 1",), ())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"clusterIP": "10.0.0.1"}, {"clusterIP": "10.0.0.2"}),
        ({}, {"clusterIPs": ["10.0.0.2"]}),
        ({"a": None}, {}),
        ({}, {"a": {}}),
    ],
)
def test_what_each_object_gets_for_itself_is_no_difference(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert differences({}, {"spec": one}, {"spec": other}) == ((), ())


def test_a_headless_service_that_got_an_address_differs() -> None:
    assert differences({}, {"spec": {"clusterIP": "None"}}, {"spec": {"clusterIP": "10.0.0.1"}})[0]


@given(st.dictionaries(st.sampled_from(["bundle.json", "a/x.yaml", "a/namespace.yaml"]), st.binary(max_size=40)))
def test_any_folder_is_a_bundle_or_is_refused(files: dict[str, bytes]) -> None:
    with pytest.raises(BadBundle):
        read_bundle("folder", files)


def test_each_file_that_is_missing_changed_or_strange_is_a_fault() -> None:
    path = "ohio/discovery.yaml"
    for changed, named in (
        ({name: body for name, body in FILES.items() if name != path}, f"{path} is missing"),
        ({**FILES, path: FILES[path] + b"\n"}, f"{path} is not what was rendered"),
        ({**FILES, "ohio/more.yaml": b""}, "ohio/more.yaml is in no bundle"),
    ):
        assert any(fault.startswith(named) for fault in read_bundle("folder", changed)[0].faults)
    assert BUNDLE.faults == ()
    assert OBJECTS["ohio"][0]["kind"] == "Namespace"


def test_a_file_that_is_no_manifest_is_refused() -> None:
    nameless = b"apiVersion: v1\nkind: Pod\nmetadata: 5\n"
    for body in (b"- 1\n", b"kind: Pod\n", b"{", b"\xff", b"at: 2026-13-45\n", b'a: !!int "x"\n', nameless):
        with pytest.raises(BadBundle, match=r"ohio/discovery\.yaml"):
            read_bundle("folder", {**FILES, "ohio/discovery.yaml": body})


def test_without_pods_of_ours_nobody_is_asked_about() -> None:
    assert list(questions("ohio", (), BUNDLE)) == []


@pytest.mark.parametrize(
    ("version", "supported"),
    [("v1.29.9", False), ("v1.30.0", True), ("v1.37.2-eks-1", True), ("v1.38.0", False), ("", False), ("new", False)],
)
def test_kubernetes_is_supported_or_not(version: str, supported: bool) -> None:
    assert (KUBERNETES.fault(version) is None) is supported


@pytest.mark.parametrize(
    ("image", "tag"),
    [
        ("nvcr.io/nvidia/dynamo:1.6.1", "1.6.1"),
        ("host:5000/dynamo:1.7.0-rc1@sha256:00", "1.7.0-rc1"),
        ("host:5000/dynamo", ""),
        ("dynamo:latest", ""),
    ],
)
def test_the_version_in_a_tag(image: str, tag: str) -> None:
    assert tag_of(image) == tag
    assert not tag or FRONTEND.fault(tag) is None
