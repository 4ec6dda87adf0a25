"""The slices of the demo are EndpointSlices as kubectl writes them."""

from __future__ import annotations

import ipaddress

import yaml

from global_ingress.demo.regions import layout
from global_ingress.demo.slices import slice_list, slice_of

PLACES = layout(4)


def test_the_list_is_what_kubectl_prints() -> None:
    found = yaml.safe_load(slice_list(PLACES))
    assert (found["apiVersion"], found["kind"]) == ("v1", "List")
    assert found["items"] == [slice_of(place) for place in PLACES]
    assert slice_list(PLACES) == slice_list(PLACES)


def test_each_region_is_an_imported_slice_of_its_own() -> None:
    items = [slice_of(place) for place in PLACES]
    assert len({item["metadata"]["name"] for item in items}) == len({item["metadata"]["uid"] for item in items}) == 4
    for place, item in zip(PLACES, items, strict=True):
        labels = item["metadata"]["labels"]
        assert labels["multicluster.kubernetes.io/service-name"] == "llama-frontend"
        assert labels["multicluster.kubernetes.io/source-cluster"] == place.cluster
        assert labels["topology.kubernetes.io/region"] == place.region
        assert not labels["endpointslice.kubernetes.io/managed-by"].endswith(".k8s.io")
        assert item["ports"] == [{"name": "http", "port": place.frontend_port, "protocol": "TCP"}]
        assert ipaddress.ip_address(item["endpoints"][0]["addresses"][0]).is_loopback
        assert item["endpoints"][0]["conditions"]["ready"] is True
    assert slice_of(PLACES[0], ready=False)["endpoints"][0]["conditions"]["ready"] is False
