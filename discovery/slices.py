"""EndpointSlices as they come (JSON already decoded) to frozen values.

Owns the reading of `discovery.k8s.io/v1` objects. Any JSON is a Slice or MalformedSlice, never another error; null,
missing and [] are alike. A faulty endpoint is skipped with its reason and costs the slice nothing else; what decides
whose the slice is (name, labels, address family, port numbers) is refused when it is wrong, never guessed.
"""

from __future__ import annotations

import functools
import ipaddress
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from discovery.errors import MalformedSlice
from discovery.kube import labels as names

API_VERSION: Final = "discovery.k8s.io/v1"
IPV4: Final = "IPv4"
IPV6: Final = "IPv6"

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_ADDRESS = 45
_BROADCAST = ipaddress.IPv4Address("255.255.255.255")
_NOTHING: Final[Mapping[str, str]] = {}


class Skip(StrEnum):
    """Why an endpoint was left out of its slice."""

    NO_ADDRESS = "no_address"
    BAD_ADDRESS = "bad_address"
    OTHER_FAMILY = "other_family"
    MALFORMED = "malformed"


@dataclass(frozen=True, slots=True)
class Skipped:
    """An endpoint that was left out: its place in the list, why, and what was found."""

    index: int
    reason: Skip
    detail: str


@dataclass(frozen=True, slots=True)
class Port:
    """A port of a slice. `number` None means "all ports", `name` is "" when there is none."""

    name: str
    number: int | None
    protocol: str
    app_protocol: str | None


@dataclass(frozen=True, slots=True)
class Ref:
    """The object behind an endpoint; "" for what the slice does not say. `namespace` is the slice's by default."""

    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address in canonical text, with its conditions as the API reads them when they are missing."""

    address: str
    ready: bool = True
    serving: bool = True
    terminating: bool = False
    ref: Ref | None = None
    zone: str | None = None
    hostname: str | None = None


@dataclass(frozen=True, slots=True)
class Slice:
    """One EndpointSlice. All endpoints are of the family that `address_type` says; other types have none here."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int
    created: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    managed_by: str | None
    address_type: str
    ports: tuple[Port, ...]
    endpoints: tuple[Endpoint, ...]
    skipped: tuple[Skipped, ...]
    deleting: bool


def is_dns_label(text: str) -> bool:
    """Whether this is an RFC 1123 label: what namespaces and Services are called."""
    return _LABEL.fullmatch(text) is not None


def slice_objects(document: object) -> list[object]:
    """The EndpointSlice objects of a document, unparsed: itself, or the items of an EndpointSliceList or v1 List.

    Raises MalformedSlice for any other document, an empty one too: no list is not an empty list.
    """
    if not isinstance(document, dict):
        raise MalformedSlice(f"a document is an object, got {_kind_of(document)}")
    kind, version = document.get("kind"), document.get("apiVersion")
    match kind, version:
        case "EndpointSlice", "discovery.k8s.io/v1":
            return [document]
        case ("EndpointSliceList", "discovery.k8s.io/v1") | ("List", "v1"):
            return _list(document.get("items"), "items", "")
    raise MalformedSlice(
        f"kind {kind!r} of apiVersion {version!r} is not read here: "
        f"EndpointSlice or EndpointSliceList of {API_VERSION}, or List of v1"
    )


def parse_slice(obj: object) -> Slice:
    """The slice in this JSON value. Items of a list may lack kind and apiVersion. Raises MalformedSlice."""
    if not isinstance(obj, dict):
        raise MalformedSlice(f"a slice is an object, got {_kind_of(obj)}")
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        raise MalformedSlice(f"metadata must be an object, got {_kind_of(metadata)}")
    name = metadata.get("name")
    if not isinstance(name, str) or len(name) > 253 or _SUBDOMAIN.fullmatch(name) is None:
        raise MalformedSlice(f"metadata.name must be a DNS name, got {_shown(name)}")
    _check_type(obj, name)
    namespace = metadata.get("namespace")
    if not isinstance(namespace, str) or not is_dns_label(namespace):
        raise MalformedSlice(f"metadata.namespace must be a DNS label, got {_shown(namespace)}", name=name)
    label_map = _strings(metadata.get("labels"), "metadata.labels", name, printable=True)
    address_type = _text(obj.get("addressType"), "addressType", name)
    if not address_type:
        raise MalformedSlice("addressType is missing", name=name)
    endpoints, skipped = _endpoints(_list(obj.get("endpoints"), "endpoints", name), address_type, namespace)
    return Slice(
        namespace=namespace,
        name=name,
        uid=_text(metadata.get("uid"), "metadata.uid", name),
        resource_version=_text(metadata.get("resourceVersion"), "metadata.resourceVersion", name),
        generation=_generation(metadata.get("generation"), name),
        created=_text(metadata.get("creationTimestamp"), "metadata.creationTimestamp", name),
        labels=label_map,
        annotations=_strings(metadata.get("annotations"), "metadata.annotations", name, printable=False),
        managed_by=label_map.get(names.MANAGED_BY) or None,
        address_type=address_type,
        ports=tuple(_port(item, f"ports[{i}]", name) for i, item in enumerate(_list(obj.get("ports"), "ports", name))),
        endpoints=endpoints,
        skipped=skipped,
        deleting=metadata.get("deletionTimestamp") is not None,
    )


def _check_type(obj: dict[object, object], name: str) -> None:
    kind, version = obj.get("kind"), obj.get("apiVersion")
    if kind not in (None, "EndpointSlice"):
        raise MalformedSlice(f"kind must be EndpointSlice, got {_shown(kind)}", name=name)
    if version not in (None, API_VERSION):
        raise MalformedSlice(f"apiVersion must be {API_VERSION}, got {_shown(version)}", name=name)


def _endpoints(
    items: list[object], address_type: str, namespace: str
) -> tuple[tuple[Endpoint, ...], tuple[Skipped, ...]]:
    if address_type not in (IPV4, IPV6):
        return (), ()
    kept: list[Endpoint] = []
    skipped: list[Skipped] = []
    for index, item in enumerate(items):
        try:
            kept.append(_endpoint(item, address_type, namespace))
        except _SkipEndpoint as skip:
            skipped.append(Skipped(index, skip.reason, skip.detail))
    return tuple(kept), tuple(skipped)


class _SkipEndpoint(Exception):
    def __init__(self, reason: Skip, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


def _endpoint(item: object, address_type: str, namespace: str) -> Endpoint:
    if not isinstance(item, dict):
        raise _SkipEndpoint(Skip.MALFORMED, f"an endpoint is an object, got {_kind_of(item)}")
    addresses = item.get("addresses")
    if addresses is None or addresses == []:
        raise _SkipEndpoint(Skip.NO_ADDRESS, "addresses is empty")
    if not isinstance(addresses, list):
        raise _SkipEndpoint(Skip.MALFORMED, f"addresses must be a list, got {_kind_of(addresses)}")
    # Only the first address has a meaning; the API says so.
    first = addresses[0]
    found = _canonical(first) if isinstance(first, str) and len(first) <= _LONGEST_ADDRESS else None
    if found is None:
        raise _SkipEndpoint(Skip.BAD_ADDRESS, f"{_shown(first)} is no address that can be connected to")
    address, family = found
    if family != address_type:
        raise _SkipEndpoint(Skip.OTHER_FAMILY, f"{address} stands in a slice of {address_type}")
    conditions: dict[object, object] | None = item.get("conditions")
    if conditions is None:
        conditions = {}
    elif not isinstance(conditions, dict):
        raise _SkipEndpoint(Skip.MALFORMED, f"conditions must be an object, got {_kind_of(conditions)}")
    ref = item.get("targetRef")
    return Endpoint(
        address,
        _condition(conditions, "ready", True),
        _condition(conditions, "serving", True),
        _condition(conditions, "terminating", False),
        None if ref is None else _ref(ref, namespace),
        # A million endpoints have few zones and kinds between them.
        sys.intern(_word(item.get("zone"), "zone")) or None,
        _word(item.get("hostname"), "hostname") or None,
    )


@functools.lru_cache(maxsize=1 << 16)
def _canonical(text: str) -> tuple[str, str] | None:
    """Canonical text and family, or None for what no connection can go to (or would go astray)."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        usable, family = address.scope_id is None, IPV6
    else:
        usable, family = address != _BROADCAST, IPV4
    # The unspecified address would connect the reader to itself.
    if not usable or address.is_unspecified or address.is_multicast:
        return None
    return str(address), family


def _condition(conditions: dict[object, object], name: str, default: bool) -> bool:
    value = conditions.get(name)
    if value is None:
        return default
    if value is True or value is False:
        return value
    raise _SkipEndpoint(Skip.MALFORMED, f"conditions.{name} must be true, false or null, got {_shown(value)}")


def _ref(value: object, namespace: str) -> Ref:
    if not isinstance(value, dict):
        raise _SkipEndpoint(Skip.MALFORMED, f"targetRef must be an object, got {_kind_of(value)}")
    own = _word(value.get("namespace"), "targetRef.namespace")
    return Ref(
        sys.intern(_word(value.get("kind"), "targetRef.kind")),
        # The slice's own string: ten thousand endpoints need not hold ten thousand copies.
        namespace if not own or own == namespace else own,
        _word(value.get("name"), "targetRef.name"),
        _word(value.get("uid"), "targetRef.uid"),
    )


def _word(value: object, path: str) -> str:
    if value is None:
        return ""
    if isinstance(value, str) and value.isprintable():
        return value
    raise _SkipEndpoint(Skip.MALFORMED, f"{path} must be text, got {_shown(value)}")


def _port(value: object, path: str, name: str) -> Port:
    if not isinstance(value, dict):
        raise MalformedSlice(f"{path} must be an object, got {_kind_of(value)}", name=name)
    number = value.get("port")
    if number is not None and (type(number) is not int or not 1 <= number <= 65535):
        raise MalformedSlice(f"{path}.port must be 1 to 65535, got {_shown(number)}", name=name)
    return Port(
        name=_text(value.get("name"), f"{path}.name", name),
        number=number,
        protocol=_text(value.get("protocol"), f"{path}.protocol", name) or "TCP",
        app_protocol=_text(value.get("appProtocol"), f"{path}.appProtocol", name) or None,
    )


def _list(value: object, path: str, name: str) -> list[object]:
    if value is None:
        return []
    if isinstance(value, list):
        return value
    raise MalformedSlice(f"{path} must be a list, got {_kind_of(value)}", name=name)


def _text(value: object, path: str, name: str) -> str:
    if value is None:
        return ""
    # isprintable also refuses halves of surrogate pairs, which no JSON encoder takes.
    if isinstance(value, str) and value.isprintable():
        return value
    raise MalformedSlice(f"{path} must be text, got {_shown(value)}", name=name)


def _generation(value: object, name: str) -> int:
    if value is None:
        return 0
    if type(value) is int:
        return value
    raise MalformedSlice(f"metadata.generation must be a whole number, got {_shown(value)}", name=name)


def _strings(value: object, path: str, name: str, *, printable: bool) -> Mapping[str, str]:
    if value is None:
        return _NOTHING
    if not isinstance(value, dict):
        raise MalformedSlice(f"{path} must be an object, got {_kind_of(value)}", name=name)
    for key, text in value.items():
        if not isinstance(key, str) or not isinstance(text, str) or (printable and not (key + text).isprintable()):
            raise MalformedSlice(f"{path}: {_shown(key)} must be text with text, got {_shown(text)}", name=name)
    return dict(value)


def _kind_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case dict():
            return "an object"
    return type(value).__name__


def _shown(value: object) -> str:
    """A value for a message: printable and short, whatever it is."""
    match value:
        case str():
            text = ascii(value[:80])
            return text if len(text) <= 80 else text[:77] + "..."
        case bool() | float():
            return str(value)
        case int() if value.bit_length() < 128:
            return str(value)
    return _kind_of(value)
