"""Which kinds of objects there are, and how each differs from the others.

Owns the table; what a kind demands of its objects is in `rules`, and comes here as a function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

Object = dict[str, Any]
"""A Kubernetes object as JSON. A stored one is never changed: a write stores another."""


def copied(thing: Object) -> Object:
    """A copy that shares nothing with `thing`, which is JSON: by way of its text that is much faster than deepcopy."""
    copy: Object = orjson.loads(orjson.dumps(thing))
    return copy


def fields_of_metadata(thing: Object) -> Mapping[str, str]:
    """What every kind can be selected by."""
    metadata = thing["metadata"]
    return {"metadata.name": metadata.get("name", ""), "metadata.namespace": metadata.get("namespace", "")}


@dataclass(frozen=True, slots=True, repr=False)
class Kind:
    """One kind. `versions`: the preferred first; all hold the same fields, so nothing is converted.

    `custom`: defined by a CustomResourceDefinition, which changes habits (list items carry their kind, an update
    needs a resourceVersion, no strategic merge patch). `blank` is what an object of no content has (a bookmark's).
    `fields` gives what field selectors may ask for. `lists` tells server-side apply which lists are not one value:
    a path (`status.conditions`) and the keys that name an item, none for a set of plain values; `key_defaults` is
    what a key is when an item has none; `merged` is the same for the strategic merge patch. `atoms` are maps that
    are one value. `scale`: it has a scale subresource. `path_names`: names may hold what a path segment may (RBAC's).
    """

    kind: str
    plural: str
    versions: tuple[str, ...] = ("v1",)
    group: str = ""
    namespaced: bool = True
    short: tuple[str, ...] = ()
    custom: bool = False
    status: bool = False
    scale: bool = False
    path_names: bool = False
    generation: bool = False
    create_on_update: bool = False
    unconditional_update: bool = True
    blank: Mapping[str, Any] = field(default_factory=dict)
    fields: Callable[[Object], Mapping[str, str]] = fields_of_metadata
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    key_defaults: Mapping[str, str] = field(default_factory=dict)
    merged: Mapping[str, str] = field(default_factory=dict)
    atoms: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"<Kind {self.resource} {' '.join(self.versions)}>"

    @property
    def resource(self) -> str:
        """`endpointslices.discovery.k8s.io`, `services`: how messages, access rules and the request log name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def api_version(self, version: str) -> str:
        return f"{self.group}/{version}" if self.group else version


def custom_kind(
    kind: str,
    plural: str,
    group: str,
    versions: tuple[str, ...] = ("v1",),
    *,
    namespaced: bool = True,
    status: bool = True,
    short: tuple[str, ...] = (),
    lists: Mapping[str, tuple[str, ...]] | None = None,
) -> Kind:
    """A kind as a CustomResourceDefinition makes it: `FakeCluster(kinds=[*KINDS, custom_kind(…)])`."""
    return Kind(
        kind=kind,
        plural=plural,
        group=group,
        versions=versions,
        namespaced=namespaced,
        short=short,
        custom=True,
        status=status,
        generation=True,
        unconditional_update=False,
        lists=lists or {},
    )


def _service_fields(thing: Object) -> Mapping[str, str]:
    spec = thing.get("spec", {})
    mine = {"spec.clusterIP": spec.get("clusterIP", ""), "spec.type": spec.get("type", "")}
    return {**fields_of_metadata(thing), **mine}


def _namespace_fields(thing: Object) -> Mapping[str, str]:
    return {**fields_of_metadata(thing), "status.phase": thing.get("status", {}).get("phase", "")}


def _event_fields(thing: Object) -> Mapping[str, str]:
    about = thing.get("involvedObject", {})
    mine = {f"involvedObject.{key}": about.get(key, "") for key in ("kind", "namespace", "name", "uid")}
    return {**fields_of_metadata(thing), **mine, "reason": thing.get("reason", ""), "type": thing.get("type", "")}


MCS_GROUP = "multicluster.x-k8s.io"
_CONDITIONS = {"status.conditions": ("type",)}

ENDPOINT_SLICES = Kind(
    "EndpointSlice",
    "endpointslices",
    group="discovery.k8s.io",
    generation=True,
    blank={"addressType": "", "endpoints": None, "ports": None},
)
SERVICES = Kind(
    "Service",
    "services",
    short=("svc",),
    status=True,
    create_on_update=True,
    blank={"spec": {}, "status": {"loadBalancer": {}}},
    fields=_service_fields,
    lists={"spec.ports": ("port", "protocol"), **_CONDITIONS},
    key_defaults={"protocol": "TCP"},
    merged={"spec.ports": "port", "status.conditions": "type"},
    atoms=frozenset({"spec.selector"}),
)
NAMESPACES = Kind(
    "Namespace",
    "namespaces",
    namespaced=False,
    short=("ns",),
    status=True,
    blank={"spec": {}, "status": {}},
    fields=_namespace_fields,
    lists=_CONDITIONS,
    merged={"status.conditions": "type"},
)
EVENTS = Kind("Event", "events", short=("ev",), create_on_update=True, fields=_event_fields)
LEASES = Kind(
    "Lease",
    "leases",
    group="coordination.k8s.io",
    create_on_update=True,
    unconditional_update=False,
    blank={"spec": {}},
)
SERVICE_EXPORTS = custom_kind(
    "ServiceExport", "serviceexports", MCS_GROUP, ("v1beta1", "v1alpha1"), short=("svcex",), lists=_CONDITIONS
)
SERVICE_IMPORTS = custom_kind(
    "ServiceImport",
    "serviceimports",
    MCS_GROUP,
    ("v1beta1", "v1alpha1"),
    short=("svcim",),
    lists={**_CONDITIONS, "status.clusters": ("cluster",)},
)
CLUSTER_PROPERTIES = custom_kind(
    "ClusterProperty",
    "clusterproperties",
    "about.k8s.io",
    ("v1", "v1beta1", "v1alpha1"),
    namespaced=False,
)

KINDS: tuple[Kind, ...] = (
    ENDPOINT_SLICES,
    SERVICES,
    NAMESPACES,
    EVENTS,
    LEASES,
    SERVICE_EXPORTS,
    SERVICE_IMPORTS,
    CLUSTER_PROPERTIES,
)
"""What a FakeCluster serves unless told otherwise."""
