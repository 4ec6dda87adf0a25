"""Labels and annotations that stand on EndpointSlices, each by the project that defines it. All of ours are here."""

from __future__ import annotations

from typing import Final

# KEP-1645 and Kubernetes itself
MCS_SERVICE_NAME: Final = "multicluster.kubernetes.io/service-name"
MCS_SOURCE_CLUSTER: Final = "multicluster.kubernetes.io/source-cluster"
SERVICE_NAME: Final = "kubernetes.io/service-name"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
REGION: Final = "topology.kubernetes.io/region"

# The two controllers of Kubernetes that make slices of local Services, copying every label of the Service.
KUBERNETES_CONTROLLERS: Final = frozenset(
    {"endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"}
)

# Karmada: a ServiceImport's collected slices, and a MultiClusterService's dispatched ones
KARMADA_IMPORTER: Final = "endpointslice-controller.karmada.io"
KARMADA_DISPATCHER: Final = "endpointslice-dispatch-controller.karmada.io"
KARMADA_WORK_NAMESPACE: Final = "work.karmada.io/namespace"
KARMADA_PROVISION_CLUSTER: Final = "endpointslice.karmada.io/provision-cluster"

# Submariner: where the slice was exported from; its broker namespace holds second copies
SUBMARINER_SOURCE_NAMESPACE: Final = "lighthouse.submariner.io/sourceNamespace"

# Ours: every name under dynamo.nvidia.com/ stands here
MCS_EXPORT: Final = "dynamo.nvidia.com/mcs-export"
MCS_OURS: Final = "dynamo.nvidia.com/mcs-managed-by"
MCS_CLUSTERSET: Final = "dynamo.nvidia.com/mcs-clusterset"
MCS_SOURCES: Final = "dynamo.nvidia.com/mcs-sources"
"""On a ServiceImport: every cluster whose export of it may still stand, also those that are silent now."""
MCS_FINALIZER: Final = "dynamo.nvidia.com/mcs-service-export"
MCS_RESERVED: Final = "dynamo.nvidia.com/mcs-"
STALE_SINCE: Final = "dynamo.nvidia.com/stale-since"
