"""Items of the registration table: one per pool, both ways.

Pure. Owns attribute names and what is stored in them. A reader accepts attributes it does not know, since the table is
shared with newer replicas, and refuses what it cannot read, naming the item. DynamoDB removes an item a week after its
last renewal (`expires_at`); until then readers see it and judge its lease themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson

from discovery.directory.registrations import Held, Registration
from discovery.errors import DiscoveryError, MalformedKey
from discovery.identity import PoolKey, checked_key, pool_id
from discovery.lease import LONGEST_LEASE_S, Lease
from discovery.pool import Frontend, Relay

PARTITION = "POOLS"
TTL_ATTRIBUTE = "expires_at"
WEEK_S = 7 * 86_400
LARGEST_ITEM = 400_000
"""Bytes. DynamoDB takes 400 KiB, names included; this is less."""

Item = dict[str, dict[str, Any]]


class _Said(msgspec.Struct):
    relay: Relay
    frontends: tuple[Frontend, ...] = ()


_said = msgspec.json.Decoder(_Said)


class MalformedItem(DiscoveryError):
    """An item that is no registration."""

    def __init__(self, sort_key: str, reason: str) -> None:
        super().__init__(f"{sort_key}: {reason}")
        self.sort_key = sort_key
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Listed:
    """What a whole list came to: what is held, and the items that nobody could read and whose lease may be live."""

    held: Mapping[PoolKey, Held]
    malformed: tuple[MalformedItem, ...] = ()


def key_of(key: PoolKey) -> Item:
    return {"pk": {"S": PARTITION}, "sk": {"S": pool_id(key)}}


def encode_item(held: Held) -> Item:
    one, lease = held.registration, held.lease
    key = one.key
    said = orjson.dumps({"relay": one.relay, "frontends": one.frontends}).decode()
    return key_of(key) | {
        "cluster": {"S": key.cluster},
        "namespace": {"S": key.namespace},
        "name": {"S": key.name},
        "region": {"S": one.region},
        "registration": {"S": said},
        "incarnation": {"N": str(one.incarnation)},
        "renewed_at_ms": {"N": str(lease.renewed_ms)},
        "lease_ms": {"N": str(lease.duration_ms)},
        "lease_expires_ms": {"N": str(lease.expires_ms)},
        TTL_ATTRIBUTE: {"N": str(lease.renewed_ms // 1000 + WEEK_S)},
    }


def size_of(item: Item) -> int:
    """At least the bytes that DynamoDB counts."""
    return sum(len(name.encode()) + 21 + len(str(*value.values()).encode()) for name, value in item.items())


def decode_item(item: Mapping[str, Any]) -> Held:
    """Raises MalformedItem."""
    sort_key = _text(item, "sk")
    try:
        key = checked_key(_text(item, "cluster"), _text(item, "namespace"), _text(item, "name"))
        said = _said.decode(_text(item, "registration"))
    except MalformedKey as error:
        raise MalformedItem(sort_key, str(error)) from None
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise MalformedItem(sort_key, f"registration: {error}") from None
    if sort_key != pool_id(key):
        raise MalformedItem(sort_key, f"is not the id of {key}")
    region = _text(item, "region")
    if not region:
        raise MalformedItem(sort_key, "region: is empty")
    lease = Lease(_whole(item, "renewed_at_ms"), _whole(item, "lease_ms"))
    if not 0 < lease.duration_ms <= LONGEST_LEASE_S * 1000:
        raise MalformedItem(sort_key, f"lease_ms: {lease.duration_ms} is no lease")
    return Held(Registration(key, region, said.relay, said.frontends, _whole(item, "incarnation")), lease)


def read_all(items: list[Mapping[str, Any]], *, now_ms: int, before: Mapping[PoolKey, Held]) -> Listed:
    """A whole list. One item that cannot be read costs the others nothing; it counts unless its lease has expired.

    Registrations equal to the ones `before` are the same objects, which makes comparing large lists cheap.
    """
    held: dict[PoolKey, Held] = {}
    malformed: list[MalformedItem] = []
    for item in items:
        try:
            one = decode_item(item)
        except MalformedItem as error:
            if not _has_expired(item, now_ms):
                malformed.append(error)
        else:
            key = one.registration.key
            known = before.get(key)
            same = known is not None and known.registration == one.registration
            held[key] = Held(known.registration, one.lease) if known is not None and same else one
    return Listed(held, tuple(malformed))


def _has_expired(item: Mapping[str, Any], now_ms: int) -> bool:
    try:
        return _whole(item, "lease_expires_ms") <= now_ms
    except MalformedItem:
        return False


def _text(item: Mapping[str, Any], name: str) -> str:
    value = item.get(name, {})
    text = value.get("S") if isinstance(value, dict) else None
    if not isinstance(text, str):
        raise MalformedItem(_sort_key(item), f"{name}: is no text")
    return text


def _whole(item: Mapping[str, Any], name: str) -> int:
    value = item.get(name, {})
    text = value.get("N") if isinstance(value, dict) else None
    if not isinstance(text, str) or not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise MalformedItem(_sort_key(item), f"{name}: is no whole number")
    return int(text)


def _sort_key(item: Mapping[str, Any]) -> str:
    value = item.get("sk", {})
    return str(value.get("S", "?"))[:128] if isinstance(value, dict) else "?"
