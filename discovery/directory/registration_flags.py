"""Flags about registrations: what their texts mean.

Pure.
"""

from __future__ import annotations

from typing import Any

from discovery.directory.addresses import Network, parse_network, service_url
from discovery.lease import LONGEST_LEASE_S
from discovery.pool import Router

STORAGES = ("memory", "dynamodb")


def seconds(value: Any) -> Any:
    """A whole number of seconds, 1 or more. Raises ValueError."""
    text = str(value)
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:9]) <= LONGEST_LEASE_S or len(text) > 9:
        raise ValueError(f"{text[:40]!r} is no whole number of seconds from 1 to {LONGEST_LEASE_S}")
    return int(text)


def networks(values: Any) -> tuple[Network, ...]:
    """Raises ValueError."""
    return tuple(parse_network(value) for value in values or ())


def routers(values: Any) -> tuple[Router, ...]:
    """ID=URL each. Static routers belong to no cluster or region that anybody could tell. Raises ValueError."""
    found: dict[str, Router] = {}
    for value in values or ():
        name, equals, url = str(value).partition("=")
        if not equals or not name.strip() or not name.isprintable():
            raise ValueError(f"{value!r} is not ID=URL")
        if name in found:
            raise ValueError(f"gives router {name!r} twice")
        try:
            found[name] = Router(name, service_url(url), "", "")
        except ValueError as error:
            raise ValueError(f"{value!r}: the URL {error}") from None
    return tuple(found.values())


def lease_faults(heartbeat: object, lease: object) -> list[str]:
    """What is wrong between the two, if each is right by itself."""
    try:
        if seconds(heartbeat) < seconds(lease):
            return []
    except ValueError:
        return []
    return [f"--heartbeat-interval-secs: {heartbeat} is not less than --lease-duration-secs {lease}"]
