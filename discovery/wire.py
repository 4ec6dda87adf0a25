"""The directory's JSON, both ways: pool tables, router lists, and the lines of their watches.

Owns the shapes on the wire. A reader refuses what has the wrong type, lacks a field or contradicts itself, with the
path of the fault, and accepts fields it does not know: a directory may be newer than its readers. A writer is given
checked values and refuses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, TypeVar

import msgspec
import orjson

from discovery.errors import MalformedKey, MalformedWire
from discovery.identity import checked_key, pool_id
from discovery.pool import Change, Frontend, Pool, PoolTable, Relay, Router, make_table

TAIL = b"]}"
"""What closes a table or a router list that `encode_head` has opened."""


@dataclass(frozen=True, slots=True)
class SourceState:
    """How one source of a table does: `age_s` is the seconds since it was last known to be right."""

    name: str
    complete: bool
    age_s: float


@dataclass(frozen=True, slots=True)
class Reset:
    """Forget everything; the table of this epoch and revision follows, up to Ready."""

    epoch: str
    revision: int
    complete: bool


@dataclass(frozen=True, slots=True)
class PoolLine:
    """One pool of the table that a Reset announced."""

    pool: Pool


@dataclass(frozen=True, slots=True)
class RouterLine:
    """One router of the list that a Reset announced."""

    router: Router


@dataclass(frozen=True, slots=True)
class Ready:
    """The announced table is whole: swap it in."""

    revision: int


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """A later revision of the same epoch."""

    change: Change


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Nothing new up to this revision; the connection lives."""

    revision: int
    complete: bool


Line = Reset | PoolLine | RouterLine | Ready | ChangeLine | Bookmark


# ---- writing


def encode_pool(pool: Pool) -> bytes:
    """One pool as it stands in a table."""
    return orjson.dumps(_pool_members(pool))


def encode_head(table: PoolTable, *, observed_at: str, sources: Sequence[SourceState], of: str = "pools") -> bytes:
    """The beginning of a table's document up to and with the `[` of its list (`of`: pools or routers): then come the
    encoded elements with commas between, then TAIL. For servers that send in pieces and keep encoded pools."""
    head = {
        "complete": table.complete,
        "epoch": table.epoch,
        "revision": table.revision,
        "observed_at": observed_at,
        "sources": sources,
    }
    return b'%b,"%b":[' % (orjson.dumps(head, default=list)[:-1], of.encode())


def encode_table(table: PoolTable, *, observed_at: str, sources: Sequence[SourceState]) -> bytes:
    """The answer of GET /pools."""
    head = encode_head(table, observed_at=observed_at, sources=sources)
    return head + b",".join(encode_pool(pool) for pool in table.pools) + TAIL


def encode_routers(table: PoolTable, *, observed_at: str, sources: Sequence[SourceState]) -> bytes:
    """The answer of GET /routers."""
    head = encode_head(table, observed_at=observed_at, sources=sources, of="routers")
    return head + b",".join(orjson.dumps(router) for router in table.routers) + TAIL


def encode_reset(table: PoolTable) -> bytes:
    """The first line of a watch, and the first word after any gap."""
    return _line({"type": "reset", "epoch": table.epoch, "revision": table.revision, "complete": table.complete})


def encode_pool_line(pool: Pool) -> bytes:
    return _line({"type": "pool"} | _pool_members(pool))


def encode_router_line(router: Router) -> bytes:
    members = {"id": router.id, "url": router.url, "cluster": router.cluster, "region": router.region}
    return _line({"type": "router"} | members)


def encode_ready(revision: int) -> bytes:
    return _line({"type": "ready", "revision": revision})


def encode_change(change: Change) -> bytes:
    """The line of a change to the pools; its routers, if they changed, stand in full under `routers`."""
    line: dict[str, Any] = {
        "type": "change",
        "upserted": [_pool_members(pool) for pool in change.upserted],
        "removed": change.removed,
        "revision": change.revision,
        "complete": change.complete,
    }
    if change.routers is not None:
        line["routers"] = change.routers
    return _line(line)


def encode_bookmark(revision: int, complete: bool) -> bytes:
    return _line({"type": "bookmark", "revision": revision, "complete": complete})


def _line(members: dict[str, Any]) -> bytes:
    return orjson.dumps(members, option=orjson.OPT_APPEND_NEWLINE)


def _pool_members(pool: Pool) -> dict[str, Any]:
    key = pool.key
    return {
        "id": pool.id,
        "cluster": key.cluster,
        "namespace": key.namespace,
        "name": key.name,
        "region": pool.region,
        "frontends": pool.frontends,
        "relay": pool.relay,
        "sources": pool.sources,
        "stale_since": pool.stale_since,
    }


# ---- reading

_Revision = Annotated[int, msgspec.Meta(ge=0)]
_Text = Annotated[str, msgspec.Meta(min_length=1)]


class _PoolShape(msgspec.Struct):
    id: _Text
    cluster: str
    namespace: str
    name: str
    region: _Text
    frontends: tuple[Frontend, ...]
    relay: Relay | None = None
    sources: tuple[str, ...] = ()
    stale_since: str | None = None


class _PoolsShape(msgspec.Struct):
    epoch: _Text
    revision: _Revision
    complete: bool
    pools: list[_PoolShape]


class _RoutersShape(msgspec.Struct):
    epoch: _Text
    revision: _Revision
    complete: bool
    routers: tuple[Router, ...]


class _ResetShape(msgspec.Struct, tag="reset"):
    epoch: _Text
    revision: _Revision
    complete: bool


class _PoolLineShape(_PoolShape, tag="pool"):
    pass


class _RouterLineShape(msgspec.Struct, tag="router"):
    id: str
    url: str
    cluster: str
    region: str


class _ReadyShape(msgspec.Struct, tag="ready"):
    revision: _Revision


class _ChangeShape(msgspec.Struct, tag="change"):
    revision: _Revision
    complete: bool
    upserted: list[_PoolShape]
    removed: tuple[str, ...]
    routers: tuple[Router, ...] | None = None


class _BookmarkShape(msgspec.Struct, tag="bookmark"):
    revision: _Revision
    complete: bool


_LineShape = _ResetShape | _PoolLineShape | _RouterLineShape | _ReadyShape | _ChangeShape | _BookmarkShape

_pools_decoder = msgspec.json.Decoder(_PoolsShape)
_routers_decoder = msgspec.json.Decoder(_RoutersShape)
_line_decoder = msgspec.json.Decoder(_LineShape)
_AT = re.compile(r"(.*?)(?: - at `\$\.?(.*)`)?", re.DOTALL)

T = TypeVar("T")


def decode_table(data: bytes) -> PoolTable:
    """The table of an answer to GET /pools. Raises MalformedWire."""
    shape = _decode(_pools_decoder, data)
    pools = _pools(shape.pools, "pools")
    try:
        return make_table(shape.epoch, shape.revision, shape.complete, pools)
    except ValueError as error:
        raise MalformedWire("pools", str(error)) from None


def decode_routers(data: bytes) -> PoolTable:
    """The routers of an answer to GET /routers, as a table without pools. Raises MalformedWire."""
    shape = _decode(_routers_decoder, data)
    _check_routers(shape.routers, "routers")
    return make_table(shape.epoch, shape.revision, shape.complete, (), shape.routers)


def decode_line(data: bytes) -> Line:
    """One line of a watch, with or without its line end. Raises MalformedWire."""
    match _decode(_line_decoder, data):
        case _ResetShape(epoch, revision, complete):
            return Reset(epoch, revision, complete)
        case _PoolLineShape() as shape:
            return PoolLine(_pool(shape, ""))
        case _RouterLineShape(id, url, cluster, region):
            router = Router(id, url, cluster, region)
            _check_router(router, "")
            return RouterLine(router)
        case _ReadyShape(revision):
            return Ready(revision)
        case _ChangeShape() as shape:
            return ChangeLine(_change(shape))
        case _BookmarkShape(revision, complete):
            return Bookmark(revision, complete)


def _change(shape: _ChangeShape) -> Change:
    upserted = _pools(shape.upserted, "upserted")
    ids = {pool.id for pool in upserted}
    if len(ids) < len(upserted):
        raise MalformedWire("upserted", "names a pool twice")
    if not ids.isdisjoint(shape.removed):
        raise MalformedWire("removed", "names a pool that is upserted too")
    if shape.routers is not None:
        _check_routers(shape.routers, "routers")
    return Change(upserted, shape.removed, shape.routers, shape.complete, shape.revision)


def _decode(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        found = _AT.fullmatch(str(error))
        reason, path = found.groups() if found else (str(error), None)
        raise MalformedWire(path or "$", reason) from None
    except RecursionError:
        raise MalformedWire("$", "is nested too deeply") from None


def _pools(shapes: list[_PoolShape], path: str) -> tuple[Pool, ...]:
    return tuple(_pool(shape, f"{path}[{index}].") for index, shape in enumerate(shapes))


def _pool(shape: _PoolShape, path: str) -> Pool:
    try:
        key = checked_key(shape.cluster, shape.namespace, shape.name)
    except MalformedKey as error:
        raise MalformedWire(path + error.field, error.reason) from None
    if shape.id != pool_id(key):
        # Removals come by id: under another id this pool could never be removed again.
        raise MalformedWire(path + "id", f"is not the id of {key}")
    for index, frontend in enumerate(shape.frontends):
        for url in (frontend.url, *frontend.also):
            _check_url(url, f"{path}frontends[{index}]")
    if shape.relay is not None:
        _check_url(shape.relay.url, path + "relay")
    if shape.stale_since is not None:
        _check_time(shape.stale_since, path + "stale_since")
    return Pool(key, shape.region, shape.frontends, shape.relay, shape.sources, shape.stale_since)


def _check_routers(routers: tuple[Router, ...], path: str) -> None:
    for index, router in enumerate(routers):
        _check_router(router, f"{path}[{index}].")


def _check_router(router: Router, path: str) -> None:
    if not router.id:
        raise MalformedWire(path + "id", "is empty")
    _check_url(router.url, path + "url")


def _check_url(url: str, path: str) -> None:
    scheme, colon, rest = url.partition("://")
    if not colon or scheme not in ("http", "https") or not rest:
        raise MalformedWire(path, f"is no http:// or https:// URL: {url!r}")


def _check_time(text: str, path: str) -> None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise MalformedWire(path, f"is no RFC 3339 time: {text!r}")
