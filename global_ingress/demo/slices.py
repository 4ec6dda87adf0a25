"""The EndpointSlices of the demo, as kubectl writes them.

Owns one slice per region: the frontend's Service `llama-frontend`, imported from its cluster by a multi-cluster
services implementation, with the labels by which discovery knows it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import yaml

from discovery.kube import labels
from global_ingress.demo.regions import HOST, Place

NAMESPACE = "dynamo"
SERVICE = "llama-frontend"


def slice_of(place: Place, *, ready: bool = True) -> dict[str, Any]:
    """The EndpointSlice of a region's frontend; not ready = still there, but not to be used."""
    suffix = hashlib.sha256(place.cluster.encode()).hexdigest()[:10]
    return {
        "addressType": "IPv4",
        "apiVersion": "discovery.k8s.io/v1",
        "endpoints": [
            {
                "addresses": [HOST],
                "conditions": {"ready": ready, "serving": ready, "terminating": False},
                "nodeName": f"{place.cluster}-node-1",
                "targetRef": {
                    "kind": "Pod",
                    "name": f"{SERVICE}-{place.mark}",
                    "namespace": NAMESPACE,
                    "uid": _uid(place.cluster),
                },
                "zone": f"{place.region}a",
            }
        ],
        "kind": "EndpointSlice",
        "metadata": {
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "generation": 1,
            "labels": {
                labels.MANAGED_BY: "mcs-controller",
                labels.MCS_SERVICE_NAME: SERVICE,
                labels.MCS_SOURCE_CLUSTER: place.cluster,
                labels.REGION: place.region,
            },
            "name": f"imported-{SERVICE}-{suffix}",
            "namespace": NAMESPACE,
            "resourceVersion": "1",
            "uid": _uid(f"slice of {place.cluster}"),
        },
        "ports": [{"name": "http", "port": place.frontend_port, "protocol": "TCP"}],
    }


def slice_list(places: Sequence[Place]) -> str:
    """What `kubectl get endpointslices -o yaml` prints in any cluster of the demo."""
    items = [slice_of(place) for place in places]
    return yaml.safe_dump({"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}})


def _uid(of: str) -> str:
    digits = hashlib.sha256(of.encode()).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}"
