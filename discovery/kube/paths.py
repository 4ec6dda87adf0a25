"""Where things stand on an API server, and how they are selected. Pure."""

from __future__ import annotations

from typing import Final

from discovery.kube import labels as names

SLICES_API: Final = "/apis/discovery.k8s.io/v1"

MCS_SELECTOR: Final = f"{names.MCS_SERVICE_NAME},{names.MCS_SOURCE_CLUSTER}"
"""Imported slices: both labels exist (KEP-1645)."""

KARMADA_SELECTOR: Final = f"{names.MANAGED_BY} in ({names.KARMADA_IMPORTER},{names.KARMADA_DISPATCHER})"


def slices(namespace: str | None = None) -> str:
    """The EndpointSlices of one namespace, or of all."""
    return f"{SLICES_API}/namespaces/{namespace}/endpointslices" if namespace else f"{SLICES_API}/endpointslices"


def own_service_selector(service: str) -> str:
    """The slices that this cluster itself keeps for a Service."""
    return f"{names.SERVICE_NAME}={service}"


def mcs_service_selector(service: str) -> str:
    """The imported slices of one Service."""
    return f"{names.MCS_SERVICE_NAME}={service},{names.MCS_SOURCE_CLUSTER}"


def karmada_service_selector(service: str) -> str:
    """Karmada's slices of one Service: collected for a ServiceImport, or dispatched under its own name."""
    return f"{KARMADA_SELECTOR},{names.SERVICE_NAME} in (derived-{service},{service})"
