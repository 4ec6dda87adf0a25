"""What an ingress and its frontends say of themselves: routers, the admin documents, counters. Pure.

Owns the reading of their answers. Refuses to guess: what cannot be read is `Unknown` with a reason.
"""

from __future__ import annotations

import msgspec

from discovery.errors import MalformedWire
from discovery.wire import decode_routers
from global_ingress.validate.evidence import ListedRouter, ReachedFrontend, RouterListing, Unknown, View

DISCONNECTS = "global_ingress_client_disconnects_total"
"""What an ingress counts of clients that left."""
_CANCELLATIONS = "dynamo_frontend_model_cancellation_total"
_DYNAMO = "dynamo_frontend_"


class _Frontend(msgspec.Struct):
    url: str
    state: str
    why: str
    in_flight: int
    probe: dict[str, object] | None = None


class _Pool(msgspec.Struct):
    cluster: str
    namespace: str
    name: str
    routable: bool
    why: str
    frontends: list[_Frontend]


class _Pools(msgspec.Struct):
    pools: list[_Pool]


class _Status(msgspec.Struct):
    version: str
    started_at: str


_FOREIGN = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)


def read_routers(status: int, body: bytes) -> RouterListing | Unknown:
    """The list in an answer to `GET /routers` of a discovery service."""
    if status != 200:
        return Unknown(f"status {status}")
    try:
        table = decode_routers(body)
    except MalformedWire as error:
        return Unknown(f"no router list: {error}")
    routers = sorted(ListedRouter(one.id, one.url, one.cluster, one.region) for one in table.routers)
    return RouterListing(table.complete, tuple(routers))


def read_view(status_document: bytes, pools_document: bytes) -> View | Unknown:
    """The view in the answers to `GET /status.json` and `GET /pools` of an ingress's admin listener."""
    try:
        status = msgspec.json.decode(status_document, type=_Status)
        pools = msgspec.json.decode(pools_document, type=_Pools)
    except _FOREIGN as error:
        return Unknown(f"no document of an ingress: {error}")
    found = tuple(
        ReachedFrontend(
            f"{pool.cluster}/{pool.namespace}/{pool.name}",
            one.url,
            one.state,
            one.why,
            one.probe is not None,
            one.in_flight,
            "" if pool.routable else pool.why,
        )
        for pool in pools.pools
        for one in pool.frontends
    )
    return View(status.version, status.started_at, found)


def cancellations(exposition: str) -> float | None:
    """What a Dynamo frontend counts of requests whose caller left: it has no such counter before the first. None when
    this is no exposition of one."""
    found = counted(_CANCELLATIONS, exposition)
    return found if found is not None else 0.0 if _DYNAMO in exposition else None


def counted(name: str, exposition: str) -> float | None:
    """The sum of a counter's samples in a Prometheus text; None when it is not there."""
    found = None
    for line in exposition.splitlines():
        head, _, value = line.rpartition(" ")
        if head == name or head.startswith(f"{name}{{"):
            try:
                found = (found or 0.0) + float(value)
            except ValueError:
                return None
    return found
