"""EndpointSlice objects: what is read, and what is refused with its reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from discovery.errors import MalformedSlice
from discovery.slices import Endpoint, Port, Ref, Skip, parse_slice, slice_objects
from tests.discovery.making import endpoint, make_slice, port, slice_json


def only(**said: Any) -> Endpoint:
    (found,) = make_slice(endpoints=[endpoint(**said)]).endpoints
    return found


def skipped(item: object, address_type: str = "IPv4") -> tuple[Skip, str]:
    read = make_slice(
        endpoints=[item, endpoint("10.9.9.9" if address_type == "IPv4" else "fd00::9")], address_type=address_type
    )
    assert len(read.endpoints) == 1, "the good one stays"
    (one,) = read.skipped
    assert one.index == 0
    return one.reason, one.detail


def test_a_whole_slice() -> None:
    read = make_slice(
        "llama-frontend",
        "ohio",
        region="us-east",
        annotations={"note": "two\nlines"},
        endpoints=[endpoint("10.0.0.1", "llama-0", uid="u0", zone="z1", hostname="h0", ready=True)],
        ports=[port(8000, "http", appProtocol="https")],
    )
    assert (read.namespace, read.name, read.uid) == ("dynamo", "slice-1", "uid-dynamo-slice-1")
    assert (read.resource_version, read.generation, read.created) == ("7", 1, "2026-01-01T00:00:00Z")
    assert read.labels["topology.kubernetes.io/region"] == "us-east"
    assert read.annotations == {"note": "two\nlines"}
    assert (read.managed_by, read.address_type, read.deleting) == ("mcs.example.org", "IPv4", False)
    assert read.ports == (Port("http", 8000, "TCP", "https"),)
    ref = Ref("Pod", "dynamo", "llama-0", "u0")
    assert read.endpoints == (Endpoint("10.0.0.1", True, True, False, ref, "z1", "h0"),)
    assert read.skipped == ()


@pytest.mark.parametrize("empty", [None, [], "absent"])
def test_null_missing_and_empty_lists_are_alike(empty: Any) -> None:
    said = slice_json()
    for field in ("endpoints", "ports"):
        said[field] = empty
        if empty == "absent":
            del said[field]
    read = parse_slice(said)
    assert (read.endpoints, read.ports, read.skipped) == ((), (), ())


@pytest.mark.parametrize(
    "field", ["labels", "annotations", "uid", "resourceVersion", "generation", "creationTimestamp"]
)
def test_null_and_missing_metadata_are_alike(field: str) -> None:
    null, missing = slice_json(), slice_json()
    null["metadata"][field] = None
    del missing["metadata"][field]
    assert parse_slice(null) == parse_slice(missing)


def test_an_item_of_a_list_needs_no_kind() -> None:
    said = slice_json()
    del said["kind"], said["apiVersion"]
    assert parse_slice(said) == make_slice()


@pytest.mark.parametrize("conditions", [None, {}, {"ready": None, "serving": None, "terminating": None}])
def test_conditions_that_are_not_said(conditions: Any) -> None:
    assert only(conditions=conditions) == Endpoint("10.0.0.1", ready=True, serving=True, terminating=False)


def test_only_the_first_address_counts() -> None:
    assert only(addresses=["10.0.0.1", "10.0.0.2"]).address == "10.0.0.1"


def test_ipv6_in_canonical_text() -> None:
    (found,) = make_slice(endpoints=[endpoint("FD00:0:0::0001")], address_type="IPv6").endpoints
    assert found.address == "fd00::1"


def test_a_reference_lives_in_the_slices_namespace_unless_it_says_another() -> None:
    assert only(targetRef={"kind": "Pod", "name": "a"}).ref == Ref("Pod", "dynamo", "a", "")
    assert only(targetRef={"kind": "Service", "name": "a", "namespace": "b"}).ref == Ref("Service", "b", "a", "")


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (None, Skip.MALFORMED),
        ("10.0.0.1", Skip.MALFORMED),
        ({}, Skip.NO_ADDRESS),
        ({"addresses": None}, Skip.NO_ADDRESS),
        ({"addresses": []}, Skip.NO_ADDRESS),
        ({"addresses": "10.0.0.1"}, Skip.MALFORMED),
        ({"addresses": [1]}, Skip.BAD_ADDRESS),
        (endpoint("010.0.0.1"), Skip.BAD_ADDRESS),
        (endpoint("10.0.0.1:80"), Skip.BAD_ADDRESS),
        (endpoint("0.0.0.0"), Skip.BAD_ADDRESS),
        (endpoint("255.255.255.255"), Skip.BAD_ADDRESS),
        (endpoint("224.0.0.1"), Skip.BAD_ADDRESS),
        (endpoint("host.example.org"), Skip.BAD_ADDRESS),
        (endpoint("1" * 5000), Skip.BAD_ADDRESS),
        (endpoint("fd00::1"), Skip.OTHER_FAMILY),
        (endpoint(ready="true"), Skip.MALFORMED),
        (endpoint(terminating=1), Skip.MALFORMED),
        (endpoint(conditions=[]), Skip.MALFORMED),
        (endpoint(targetRef="pod"), Skip.MALFORMED),
        (endpoint(targetRef={"name": 1}), Skip.MALFORMED),
        (endpoint(zone={}), Skip.MALFORMED),
        (endpoint(hostname="\ud800"), Skip.MALFORMED),
    ],
)
def test_a_faulty_endpoint_is_skipped_and_costs_the_slice_nothing(item: object, reason: Skip) -> None:
    found, detail = skipped(item)
    assert found is reason
    assert detail.isprintable()
    assert len(detail) < 200


def test_a_skipped_endpoint_says_what_was_wrong_where() -> None:
    ref = {"kind": "Pod", "namespace": 7}
    assert skipped(endpoint(targetRef=ref)) == (Skip.MALFORMED, "targetRef.namespace must be text, got 7")
    assert skipped(endpoint("fd00::1"))[1] == "fd00::1 stands in a slice of IPv4"


@pytest.mark.parametrize("address", ["fe80::1%eth0", "::", "ff02::1"])
def test_ipv6_addresses_that_cannot_be_connected_to(address: str) -> None:
    assert skipped(endpoint(address), "IPv6")[0] is Skip.BAD_ADDRESS


def test_other_address_types_are_kept_by_name_without_endpoints() -> None:
    read = make_slice(address_type="FQDN", endpoints=[endpoint("a.example.org")])
    assert (read.address_type, read.endpoints, read.skipped) == ("FQDN", (), ())


def test_ports_that_are_not_said() -> None:
    assert make_slice(ports=[{}]).ports == (Port("", None, "TCP", None),)
    said = {"name": None, "port": None, "protocol": None, "appProtocol": None}
    assert make_slice(ports=[said]).ports == (Port("", None, "TCP", None),)


def test_a_deletion_time_marks_the_slice() -> None:
    assert make_slice(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x/y"]).deleting


@pytest.mark.parametrize("document", [None, [], "x", 1, True, {}, {"metadata": None}, {"metadata": []}])
def test_what_is_no_object_is_no_slice(document: object) -> None:
    with pytest.raises(MalformedSlice):
        parse_slice(document)


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        ("kind", "Service", "kind must be EndpointSlice, got 'Service'"),
        ("apiVersion", "discovery.k8s.io/v1beta1", "apiVersion must be discovery.k8s.io/v1, got"),
        ("metadata.name", None, "metadata.name must be a DNS name, got null"),
        ("metadata.name", "UPPER", "metadata.name must be a DNS name"),
        ("metadata.namespace", None, "metadata.namespace must be a DNS label, got null"),
        ("metadata.namespace", "a.b", "metadata.namespace must be a DNS label"),
        ("metadata.uid", 7, "metadata.uid must be text, got 7"),
        ("metadata.generation", "1", "metadata.generation must be a whole number"),
        ("metadata.generation", True, "metadata.generation must be a whole number, got True"),
        ("metadata.labels", [], "metadata.labels must be an object, got a list"),
        ("metadata.labels", {"a": 1}, "metadata.labels: 'a' must be text with text, got 1"),
        ("metadata.labels", {"a": "\ud800"}, "metadata.labels: 'a' must be text"),
        ("metadata.annotations", {1: "a"}, "metadata.annotations: 1 must be text"),
        ("addressType", None, "addressType is missing"),
        ("addressType", 4, "addressType must be text"),
        ("endpoints", {}, "endpoints must be a list, got an object"),
        ("ports", "http", "ports must be a list, got a string"),
        ("ports", [None], r"ports\[0\] must be an object, got null"),
        ("ports", [{"port": 0}], r"ports\[0\].port must be 1 to 65535, got 0"),
        ("ports", [{}, {"port": 65536}], r"ports\[1\].port must be 1 to 65535"),
        ("ports", [{"port": True}], r"ports\[0\].port must be 1 to 65535"),
        ("ports", [{"port": "http"}], r"ports\[0\].port must be 1 to 65535, got 'http'"),
        ("ports", [{"port": 10**5000}], r"ports\[0\].port must be 1 to 65535, got a number"),
    ],
)
def test_what_decides_whose_it_is_must_be_right(place: str, value: object, says: str) -> None:
    said = slice_json()
    *parents, field = place.split(".")
    inner = said[parents[0]] if parents else said
    inner[field] = value
    with pytest.raises(MalformedSlice, match=says):
        parse_slice(said)


def test_a_fault_names_its_slice() -> None:
    with pytest.raises(MalformedSlice) as caught:
        parse_slice(slice_json(name="bad-one", ports={}))
    assert caught.value.name == "bad-one"
    assert str(caught.value).startswith("bad-one: ports")


def test_the_slice_does_not_change_with_the_document_it_came_from() -> None:
    said = slice_json()
    read = parse_slice(said)
    said["metadata"]["labels"].clear()
    assert read.labels


def test_a_document_gives_its_slices() -> None:
    one, two = slice_json(name="a"), slice_json(name="b")
    assert slice_objects(one) == [one]
    listed = {"kind": "EndpointSliceList", "apiVersion": "discovery.k8s.io/v1", "items": [one, two]}
    assert slice_objects(listed) == [one, two]
    assert slice_objects({"kind": "List", "apiVersion": "v1", "items": [one]}) == [one]
    for said in ('"items": null,', '"items": [],', ""):
        assert slice_objects(json.loads(f'{{{said} "kind": "List", "apiVersion": "v1"}}')) == []


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (None, "a document is an object, got null"),
        ([], "a document is an object, got a list"),
        ({}, "kind None of apiVersion None"),
        ({"kind": "Service", "apiVersion": "v1"}, "kind 'Service' of apiVersion 'v1' is not read here"),
        ({"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1beta1"}, "v1beta1"),
        ({"kind": "List", "apiVersion": "v1", "items": {}}, "items must be a list, got an object"),
        ({"kind": ["List"], "apiVersion": {}}, "is not read here"),
    ],
)
def test_other_documents_are_refused(document: object, says: str) -> None:
    with pytest.raises(MalformedSlice, match=says):
        slice_objects(document)


def test_another_kind_among_the_items_is_refused_alone() -> None:
    items = slice_objects({"kind": "List", "apiVersion": "v1", "items": [{"kind": "Service"}, slice_json()]})
    with pytest.raises(MalformedSlice):
        parse_slice(items[0])
    assert parse_slice(items[1]) == make_slice()
