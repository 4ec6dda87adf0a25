"""What may enter the registry (C1, C4, C5): every limit, and an error that says where, what and what is allowed.

Pure. Refuses with INVALID_ARGUMENT and the path of the field, or TOO_LARGE; past this edge nothing is checked again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from discovery.mcs.model import Announcement, Endpoint, EndpointSet, Export, ServiceKey, Stamp, Words
from discovery.mcs.registry import Reason, Refused

MOST_PORTS: Final = 100
MOST_ENDPOINTS: Final = 1_000
MOST_ADDRESSES: Final = 100
LONGEST_WORDS: Final = 64 * 1024
"""Of all labels, or annotations, together."""
LONGEST_TEXT: Final = 253

_ONE = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_PART = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL = re.compile(_ONE)
_SUBDOMAIN = re.compile(rf"{_PART}(\.{_PART})*")
# The same, as a schema says it.
LABEL_PATTERN: Final = f"^{_ONE}$"
CLUSTER_PATTERN: Final = rf"^{_ONE}(\.{_ONE})?$"
SUBDOMAIN_PATTERN: Final = f"^{_SUBDOMAIN.pattern}$"
_DIGEST: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_AFFINITIES: Final = ("None", "ClientIP")
_POLICIES: Final = ("Cluster", "Local")
_FAMILIES: Final = ("IPv4", "IPv6")
_ADDRESS_TYPES: Final = ("IPv4", "IPv6", "FQDN")
_LATEST_MS: Final = 253_402_300_799_999
"""The end of the year 9999."""


def _refuse(field: str, message: str) -> Refused:
    return Refused(Reason.INVALID, message, field=field)


def _one_of(field: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise _refuse(field, f"{value!r} is not one of {', '.join(allowed)}")


def _text(field: str, value: str, longest: int = LONGEST_TEXT, *, needed: bool = False) -> None:
    if needed and not value:
        raise _refuse(field, "must not be empty")
    if len(value) > longest:
        raise _refuse(field, f"{len(value)} characters, at most {longest} are allowed")
    if not value.isprintable():
        raise _refuse(field, "has characters that cannot be printed")


def _number(field: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise _refuse(field, f"{value} is not within {low} to {high}")


def cluster_id(value: str, field: str = "cluster") -> None:
    """One or two RFC 1123 labels with a dot between, 63 characters in all: it must fit a label's value."""
    parts = value.split(".")
    if len(value) > 63 or len(parts) > 2 or not all(_LABEL.fullmatch(part) for part in parts):
        raise _refuse(
            field,
            f"{value[:80]!r} is not one or two labels of a-z, 0-9 and -, joined by a dot, in at most 63 characters",
        )


def service(value: ServiceKey, field: str = "service") -> None:
    for name, part in (("namespace", value.namespace), ("name", value.name)):
        if not _LABEL.fullmatch(part):
            raise _refuse(f"{field}.{name}", f"{part[:80]!r} is not a label of a-z, 0-9 and -, at most 63 characters")


def slice_name(value: str, field: str = "slice") -> None:
    if len(value) > LONGEST_TEXT or not _SUBDOMAIN.fullmatch(value):
        raise _refuse(field, f"{value[:80]!r} is not the name of an EndpointSlice")


def own(stamp: Stamp, cluster: str) -> None:
    """A session writes what is its cluster's (C12)."""
    if stamp.session.cluster != cluster:
        raise Refused(
            Reason.FORBIDDEN, f"a session of {stamp.session.cluster} does not write for {cluster}", field="cluster"
        )


def _words(field: str, words: Words) -> None:
    if [key for key, _ in words] != sorted({key for key, _ in words}):
        raise _refuse(field, "keys must be sorted, each once")
    if sum(len(key.encode()) + len(value.encode()) for key, value in words) > LONGEST_WORDS:
        raise _refuse(field, f"more than {LONGEST_WORDS} bytes")
    for key, _ in words:
        _text(f"{field}[{key[:80]!r}]", key, 317, needed=True)


def sync_end(count: int, digest: str) -> None:
    if count < 0 or not _DIGEST.fullmatch(digest):
        raise _refuse("digest", "needs a count from 0 and a digest of 32 hex digits")


def announcement(value: Announcement) -> None:
    cluster_id(value.cluster)
    _text("uid", value.uid, 128, needed=True)
    _text("region", value.region, 63)
    _words("labels", value.labels)
    _number("term.transitions", value.term.transitions, 0, 2**53)
    _number("term.acquired_ms", value.term.acquired_ms, 0, _LATEST_MS)


def export(value: Export) -> None:
    cluster_id(value.cluster)
    service(value.service)
    _text("uid", value.uid, 128, needed=True)
    _number("exported_ms", value.exported_ms, 0, _LATEST_MS)
    _ports(value)
    _one_of("session_affinity", value.session_affinity, _AFFINITIES)
    if (value.affinity_seconds is None) != (value.session_affinity == "None"):
        raise _refuse("affinity_seconds", "belongs to the affinity ClientIP, and to nothing else")
    if value.affinity_seconds is not None:
        _number("affinity_seconds", value.affinity_seconds, 1, 86_400)
    for index, family in enumerate(value.ip_families):
        _one_of(f"ip_families[{index}]", family, _FAMILIES)
    if len(set(value.ip_families)) != len(value.ip_families):
        raise _refuse("ip_families", "a family stands there twice")
    _one_of("internal_traffic_policy", value.internal_traffic_policy, _POLICIES)
    _text("traffic_distribution", value.traffic_distribution)
    _words("labels", value.labels)
    _words("annotations", value.annotations)


def _ports(value: Export) -> None:
    if len(value.ports) > MOST_PORTS:
        raise _refuse("ports", f"{len(value.ports)} ports, at most {MOST_PORTS} are allowed")
    names: set[str] = set()
    numbers: set[tuple[str, int]] = set()
    for index, port in enumerate(value.ports):
        at = f"ports[{index}]"
        _text(f"{at}.name", port.name, 63)
        _one_of(f"{at}.protocol", port.protocol, _PROTOCOLS)
        _number(f"{at}.number", port.number, 1, 65_535)
        _text(f"{at}.app_protocol", port.app_protocol)
        if port.name in names:
            raise _refuse(f"{at}.name", f"{port.name!r} stands there twice")
        if (port.protocol, port.number) in numbers:
            raise _refuse(f"{at}.number", f"{port.protocol} {port.number} stands there twice")
        names.add(port.name)
        numbers.add((port.protocol, port.number))


def endpoint_set(value: EndpointSet) -> None:
    cluster_id(value.cluster)
    service(value.service)
    slice_name(value.slice)
    _one_of("address_type", value.address_type, _ADDRESS_TYPES)
    if value.stale_since_ms is not None:
        raise _refuse("stale_since_ms", "is for the registry to say")
    if len(value.ports) > MOST_PORTS:
        raise _refuse("ports", f"{len(value.ports)} ports, at most {MOST_PORTS} are allowed")
    for index, port in enumerate(value.ports):
        at = f"ports[{index}]"
        _text(f"{at}.name", port.name, 63)
        _one_of(f"{at}.protocol", port.protocol, _PROTOCOLS)
        if port.number is not None:
            _number(f"{at}.number", port.number, 1, 65_535)
        _text(f"{at}.app_protocol", port.app_protocol)
    if len(value.endpoints) > MOST_ENDPOINTS:
        raise Refused(
            Reason.TOO_LARGE,
            f"{len(value.endpoints)} endpoints, at most {MOST_ENDPOINTS} are allowed",
            field="endpoints",
        )
    for index, one in enumerate(value.endpoints):
        _endpoint(f"endpoints[{index}]", one)


def _endpoint(at: str, one: Endpoint) -> None:
    if not 1 <= len(one.addresses) <= MOST_ADDRESSES:
        raise _refuse(f"{at}.addresses", f"{len(one.addresses)} addresses, 1 to {MOST_ADDRESSES} are allowed")
    for index, address in enumerate(one.addresses):
        _text(f"{at}.addresses[{index}]", address, needed=True)
    for name, text in (("hostname", one.hostname), ("zone", one.zone), ("node", one.node)):
        _text(f"{at}.{name}", text)
    if one.target is not None:
        target = one.target
        for name, text in (("kind", target.kind), ("namespace", target.namespace), ("name", target.name)):
            _text(f"{at}.target.{name}", text)
        _text(f"{at}.target.uid", target.uid, 128)
