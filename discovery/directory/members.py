"""Endpoints of one pool's slices, united: one member per pod, each with its one or two addresses.

Owns the choice of port and scheme, and what to make of copies: the same address in two slices is one member, and so
is a pod in an IPv4 and an IPv6 slice. Refuses a slice whose port it cannot tell. Endpoints never meet another slice's
ports, and the order of slices is nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from discovery.directory.naming import Ignored, NamingRules, Reason, Role
from discovery.pool import Frontend, Pod
from discovery.slices import IPV4, IPV6, Endpoint, Port, Slice

# What `appProtocol` says of TLS; anything else says nothing, and the configured scheme holds.
_SCHEMES: Final = {
    "https": "https",
    "kubernetes.io/wss": "https",
    "http": "http",
    "kubernetes.io/h2c": "http",
    "kubernetes.io/ws": "http",
    "grpc": "http",
}


@dataclass(frozen=True, slots=True)
class Reach:
    """How the endpoints of one slice are reached."""

    port: int
    scheme: str


class Member(NamedTuple):
    """One pod's server, or one address without a known pod; `addresses` are the keys of all its copies."""

    frontend: Frontend
    address: str
    hostname: str | None
    addresses: tuple[tuple[str, int], ...]

    @property
    def listed(self) -> bool:
        """Ready, or ending and still serving: those stay in the table, marked."""
        return self.frontend.ready or (self.frontend.serving and self.frontend.terminating)


def reach(slice_: Slice, role: Role, rules: NamingRules) -> Reach | Ignored:
    """The port of this slice: by the configured name, else number, else the only TCP port."""
    wanted = rules.port_of(role)
    configured = int(wanted) if wanted.isdecimal() else rules.pool_port
    if not slice_.ports:
        if configured is None:
            return Ignored(Reason.NO_PORT, "no port is defined, and none is configured")
        return Reach(configured, rules.scheme_of(role))
    tcp = [port for port in slice_.ports if port.protocol == "TCP"]
    if not tcp:
        return Ignored(Reason.NO_PORT, "no port is TCP")
    chosen = _choose(tcp, wanted)
    if chosen is None:
        offered = ", ".join(f"{port.name or '-'}={port.number or 'any'}" for port in tcp)
        return Ignored(Reason.PORT_NOT_FOUND, f"no single TCP port is {wanted!r}; there are {offered}")
    number = chosen.number or configured
    if number is None:
        return Ignored(Reason.NO_PORT, f"port {chosen.name!r} has no number, and none is configured")
    return Reach(number, _SCHEMES.get((chosen.app_protocol or "").lower(), rules.scheme_of(role)))


def unite(found: Iterable[tuple[Slice, Reach]], rules: NamingRules) -> list[Member]:
    """The members of these slices of one pool and role, sorted by URL, listed or not."""
    copies: dict[tuple[str, int], list[_Copy]] = {}
    for slice_, way in found:
        family, namespace = slice_.address_type, slice_.namespace
        for endpoint in slice_.endpoints:
            copy = _Copy(endpoint, way, family, namespace)
            key = (endpoint.address, way.port)
            if (same := copies.get(key)) is None:
                copies[key] = [copy]
            else:
                same.append(copy)
    pods: dict[tuple[str, ...], list[_Copy]] = {}
    for same in copies.values():
        one = same[0] if len(same) == 1 else _merged(same)
        pods.setdefault(_identity(one), []).append(one)
    members = [member for group in pods.values() for member in _members(group, rules)]
    members.sort(key=lambda member: member.frontend.url)
    return members


class _Copy:
    """One endpoint as one slice tells it; plain for speed, and never changed once made."""

    __slots__ = ("endpoint", "family", "namespace", "way")

    def __init__(self, endpoint: Endpoint, way: Reach, family: str, namespace: str) -> None:
        self.endpoint = endpoint
        self.way = way
        self.family = family
        self.namespace = namespace


def _choose(tcp: list[Port], wanted: str) -> Port | None:
    for found in (
        [port for port in tcp if port.name == wanted],
        [port for port in tcp if str(port.number) == wanted],
        tcp,
    ):
        if found:
            return found[0] if len({(port.number, port.app_protocol) for port in found}) == 1 else None
    return None


def _rank(copy: _Copy) -> tuple[object, ...]:
    """A total order of copies: the one that is not ending and knows its pod comes first."""
    end = copy.endpoint
    ref = end.ref
    return (
        end.terminating,
        not end.ready,
        not end.serving,
        ref is None,
        (ref.kind, ref.namespace, ref.name, ref.uid) if ref else (),
        end.zone or "",
        end.hostname or "",
        copy.way.scheme,
    )


def _merged(same: list[_Copy]) -> _Copy:
    """Copies of one address: ready and serving if any is, ending only if all are."""
    ranked = sorted(same, key=_rank)
    ends = [copy.endpoint for copy in ranked]
    first = ranked[0]
    united = Endpoint(
        ends[0].address,
        any(end.ready for end in ends),
        any(end.serving for end in ends),
        all(end.terminating for end in ends),
        next((end.ref for end in ends if end.ref), None),
        next((end.zone for end in ends if end.zone), None),
        next((end.hostname for end in ends if end.hostname), None),
    )
    return _Copy(united, first.way, first.family, first.namespace)


def _identity(copy: _Copy) -> tuple[str, ...]:
    """Who this is across address families: its pod, else its host name, else only itself."""
    end, port = copy.endpoint, str(copy.way.port)
    ref = end.ref
    if ref is not None and ref.kind == "Pod":
        if ref.uid:
            return ("uid", ref.uid, port)
        if ref.name:
            return ("pod", ref.namespace, ref.name, port)
    if end.hostname:
        return ("host", copy.namespace, end.hostname, port)
    return ("address", end.address, port)


def _members(group: list[_Copy], rules: NamingRules) -> list[Member]:
    if len(group) == 1:
        return [_member(group[0], (), rules)]
    # One pod has one address of a family; more are left-overs of an old sandbox, and which one lives nobody says.
    preferred = IPV6 if rules.address_family == "ipv6" else IPV4
    group.sort(key=lambda copy: (not copy.endpoint.ready, copy.endpoint.address))
    first = [copy for copy in group if copy.family == preferred]
    second = [copy for copy in group if copy.family != preferred]
    pairs = itertools.zip_longest(first, second)
    return [_pair(one, other, rules) for one, other in pairs]


def _pair(one: _Copy | None, other: _Copy | None, rules: NamingRules) -> Member:
    if one is not None and other is not None:
        return _member(_merged_families([one, other]), (other,), rules)
    alone = one or other
    assert alone is not None, "a pair has at least one"
    return _member(alone, (), rules)


def _member(first: _Copy, also: tuple[_Copy, ...], rules: NamingRules) -> Member:
    end, port = first.endpoint, first.way.port
    ref = end.ref
    pod = Pod(ref.name, ref.uid) if ref is not None and ref.kind == "Pod" and (ref.name or ref.uid) else None
    ready = end.ready and (end.serving or not rules.require_serving)
    others = tuple([_url(copy) for copy in also]) if also else ()
    frontend = Frontend(_url(first), others, ready, end.serving, end.terminating, pod, end.zone)
    keys = ((end.address, port), *((copy.endpoint.address, port) for copy in also)) if also else ((end.address, port),)
    return Member(frontend, end.address, end.hostname, keys)


def _merged_families(copies: list[_Copy]) -> _Copy:
    """Both families of one pod, as one copy at the address of the first."""
    first = copies[0]
    united = _merged(copies).endpoint
    at_first = Endpoint(
        first.endpoint.address,
        united.ready,
        united.serving,
        united.terminating,
        united.ref,
        united.zone,
        united.hostname,
    )
    return _Copy(at_first, first.way, first.family, first.namespace)


def _url(copy: _Copy) -> str:
    address = copy.endpoint.address
    host = f"[{address}]" if copy.family == IPV6 else address
    return f"{copy.way.scheme}://{host}:{copy.way.port}"
