"""URLs that come from outside: which are acceptable, and their one way of writing.

Pure. Owns the check against the allowed networks. Refuses names in place of addresses where an address is asked for,
since what a name leads to can change after it was checked, and IPv4 in IPv6's clothes, which would pass by a network
of the wrong family.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_BY_ADDRESS = re.compile(r"(https?)://(?:\[([0-9A-Fa-f:.]+)\]|([0-9.]+)):([0-9]{1,5})/?", re.ASCII)
_BY_ANY_HOST = re.compile(
    r"(https?://(?:\[([0-9A-Fa-f:.]+)\]|[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252})))(?::([0-9]{1,5}))?/?"
)


def parse_network(text: str) -> Network:
    """A CIDR. Raises ValueError."""
    try:
        return ip_network(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is no network, as 10.0.0.0/8 or fd00::/8: {error}") from None


def parse_address(text: str) -> Address:
    """Raises ValueError."""
    address = ip_address(text)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        raise ValueError(f"{text!r} is an IPv4 address written as IPv6; write {address.ipv4_mapped}")
    return address


def frontend_url(text: str, networks: Iterable[Network]) -> str:
    """`http(s)://IP:port/` inside one of the networks, as the table writes it. Raises ValueError."""
    found = _BY_ADDRESS.fullmatch(text)
    if found is None:
        raise ValueError(f"is not http(s)://IP:port/: {_shown(text)}")
    scheme, v6, v4, port = found.groups()
    try:
        address = parse_address(v6 or v4)
    except ValueError as error:
        raise ValueError(f"is not http(s)://IP:port/: {error}") from None
    allowed = tuple(networks)
    if not allowed:
        raise ValueError("no --allow-cidr is given, so registrations may not name frontends")
    if not any(address in network for network in allowed):
        raise ValueError(f"{address} is outside of --allow-cidr {', '.join(map(str, allowed))}")
    host = f"[{address}]" if address.version == 6 else str(address)
    return f"{scheme}://{host}:{_port(port)}"


def service_url(text: str) -> str:
    """`http(s)://HOST[:port]` of a relay or router, without a path. Raises ValueError."""
    found = _BY_ANY_HOST.fullmatch(text)
    if found is None:
        raise ValueError(f"is not http(s)://HOST:port: {_shown(text)}")
    head, v6, port = found.groups()
    if v6 is not None:
        parse_address(v6)
    return head if port is None else f"{head}:{_port(port)}"


def _port(text: str) -> int:
    port = int(text)
    if not 1 <= port <= 65535:
        raise ValueError(f"has the port {port}; there are 1 to 65535")
    return port


def _shown(text: str) -> str:
    return ascii(text if len(text) <= 100 else f"{text[:100]}…")
