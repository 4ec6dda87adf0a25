"""What a plan may ask for: a closed set of changes to objects of the cluster and to the registry.

Pure. A plan is an order of such changes. What follows from the server's answer to one (an uid, an address) is not in
it: whoever carries the plan out takes the answers over and plans again until nothing is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from discovery.mcs.model import EndpointSet, Export, ServiceKey

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ref:
    """One object, in the words of paths: `resource` is `services`, `endpointslices`, `serviceimports`, …"""

    resource: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Apply:
    ref: Ref
    body: Object


@dataclass(frozen=True, slots=True)
class ApplyStatus:
    ref: Ref
    body: Object


@dataclass(frozen=True, slots=True)
class Merge:
    """A merge patch against what others put into fields that are wholly ours."""

    ref: Ref
    body: Object


@dataclass(frozen=True, slots=True)
class Delete:
    ref: Ref
    uid: str


@dataclass(frozen=True, slots=True)
class PutExport:
    value: Export


@dataclass(frozen=True, slots=True)
class DropExport:
    service: ServiceKey


@dataclass(frozen=True, slots=True)
class PutEndpoints:
    value: EndpointSet


@dataclass(frozen=True, slots=True)
class DropEndpoints:
    service: ServiceKey
    slice: str


@dataclass(frozen=True, slots=True)
class Warn:
    """Something a person should know of this object: an Event, and a metric by `reason`."""

    ref: Ref
    uid: str
    reason: str
    message: str


ClusterChange = Apply | ApplyStatus | Merge | Delete
RegistryChange = PutExport | DropExport | PutEndpoints | DropEndpoints
Change = ClusterChange | RegistryChange | Warn
