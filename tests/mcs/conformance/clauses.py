"""What the conformance suite of the Multi-Cluster Services API demands, as far as no pods and no DNS are needed."""

from __future__ import annotations

CLAUSES: dict[str, tuple[str, str]] = {
    "F1": ("required", "an import exists as long as one of two clusters exports, and is gone after both ended"),
    "F2": ("optional", "exported labels and annotations reach the import, others do not"),
    "F3": ("optional", "differing exported labels or annotations: Conflict on both, the first cluster's values"),
    "F4": ("required", "Valid; an import of type ClusterSetIP in every cluster; unexport deletes it everywhere"),
    "F5": ("required", "session affinity and its configuration equal the Service's"),
    "F6": ("required", "internalTrafficPolicy equal"),
    "F7": ("required", "trafficDistribution equal"),
    "F8": ("required", "addresses: some, valid, as many as families and in their order"),
    "F9": ("required", "ports equal: name, protocol, port, appProtocol"),
    "F10": ("required", "differing ports of two clusters: union, Conflict on both"),
    "F11": ("required", "one port name with two numbers: Conflict on both, the first cluster's ports"),
    "F12": ("required", "a headless Service: type Headless in every cluster; unexport deletes"),
    "F13": ("required", "a headless import has no addresses, and gets none"),
    "F14": ("required", "ExternalName: Valid False, and no import"),
    "F15": ("required", "headless in one of two clusters: Conflict on both, the first one's type everywhere"),
    "F16": ("optional", "slices with the labels of the API, in every cluster, deleted after unexport"),
}
