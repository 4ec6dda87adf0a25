"""Names that the multi-cluster services derive, and their API groups. Labels: `discovery.kube.labels`.

Pure. Rules D1 to D8: what is derived from a service is derived the same way by everybody, so that a retry after a lost
answer finds the object instead of making a twin.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Final

from discovery.kube import labels as kube_labels
from discovery.mcs.model import ServiceKey, Words

GROUP: Final = "multicluster.x-k8s.io"
VERSIONS: Final = ("v1beta1", "v1alpha1")
"""Asked for in this order."""

# KEP-1645
DERIVED_SERVICE: Final = "multicluster.kubernetes.io/derived-service"
HEADLESS: Final = "service.kubernetes.io/headless"

# About API (KEP-2149)
ABOUT_GROUP: Final = "about.k8s.io"
CLUSTER_PROPERTY: Final = "cluster.clusterset.k8s.io"
CLUSTERSET_PROPERTY: Final = "clusterset.k8s.io"

CONTROLLER: Final = "mcs-controller.dynamo.nvidia.com"
"""The election's Lease, and who the slices are managed by."""

FIELD_OWNER: Final = "mcs-controller"
STATUS_FIELD_OWNER: Final = "mcs-controller-status"

_RESERVED_KEYS: Final = frozenset(
    {
        DERIVED_SERVICE,
        HEADLESS,
        kube_labels.MCS_SERVICE_NAME,
        kube_labels.MCS_SOURCE_CLUSTER,
        kube_labels.SERVICE_NAME,
        kube_labels.MANAGED_BY,
        kube_labels.REGION,
    }
)
_RESERVED_DOMAINS: Final = ("kubernetes.io", "k8s.io")


def derived_service(service: ServiceKey) -> str:
    """`derived-` and ten characters, as mcs-api's reference derives them."""
    return f"derived-{_hashed(str(service))}"


def imported_slice(service: ServiceKey, cluster: str, slice_: str) -> str:
    return f"{derived_service(service)}-{_hashed(f'{cluster}/{slice_}')}"


def _hashed(text: str) -> str:
    return base64.b32hexencode(hashlib.sha256(text.encode()).digest()).decode().lower()[:10]


def exportable(words: Mapping[str, str]) -> Words:
    """Exported labels or annotations without the keys that mean something to whoever reads the import."""
    return tuple(sorted((key, value) for key, value in words.items() if not is_reserved(key)))


def is_reserved(key: str) -> bool:
    domain = key.partition("/")[0] if "/" in key else ""
    return (
        key in _RESERVED_KEYS
        or key.startswith(kube_labels.MCS_RESERVED)
        or any(domain == reserved or domain.endswith(f".{reserved}") for reserved in _RESERVED_DOMAINS)
    )
