"""How the registry's records look as items of a DynamoDB table, both ways.

Pure. Owns keys and attribute names (C51), compression and the largest size (C5), and when an item may be collected.
A reader ignores attributes and fields that it does not know, since newer replicas share the table, and never guesses:
what it cannot read is named and left alone (C8.13). `expires_at` stands only on what is gone, and is for garbage
collection alone: nobody reads it (C35).
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from discovery.mcs.model import EndpointSet, Export, ServiceKey
from discovery.mcs.store import ClusterRecord, Item, ItemKey, Mark, Value

TTL_ATTRIBUTE: Final = "expires_at"
WEEK_MS: Final = 7 * 86_400_000
COMPRESSED_ABOVE: Final = 64 * 1024
LARGEST: Final = 390 * 1000
_LARGEST_TEXT: Final = 8 * 1024 * 1024
"""Of a decompressed value: more is not ours."""

Attributes = dict[str, dict[str, Any]]

_encode = msgspec.json.Encoder().encode
_export = msgspec.json.Decoder(Export).decode
_endpoints = msgspec.json.Decoder(EndpointSet).decode
_record = msgspec.json.Decoder(ClusterRecord).decode


class Unreadable(Exception):
    """An item that this version does not understand; its place says what it is about."""


def clusters_partition(clusterset: str) -> str:
    return f"CS#{clusterset}"


def items_partition(clusterset: str, cluster: str) -> str:
    return f"CL#{clusterset}#{cluster}"


def record_key(clusterset: str, cluster: str) -> Attributes:
    return {"pk": {"S": clusters_partition(clusterset)}, "sk": {"S": f"CL#{cluster}"}}


def item_key(clusterset: str, cluster: str, key: ItemKey) -> Attributes:
    place = "#".join((*key.service, key.slice)) if key.slice else "#".join(key.service)
    return {
        "pk": {"S": items_partition(clusterset, cluster)},
        "sk": {"S": f"{'E' if key.slice else 'X'}#{place}"},
    }


def encode_record(clusterset: str, record: ClusterRecord) -> Attributes:
    encoded = record_key(clusterset, record.id) | {
        "record": {"S": _encode(record).decode()},
        "version": {"N": str(record.version)},
        "rev": {"N": str(record.rev)},
        "digest": {"S": record.digest},
    }
    if record.removed is not None:
        encoded[TTL_ATTRIBUTE] = {"N": str((record.removed_ms + WEEK_MS) // 1000)}
    return encoded


def cluster_of(attributes: Mapping[str, Any]) -> str:
    """Whose record this is, also when the rest cannot be read."""
    return str(attributes["sk"]["S"]).removeprefix("CL#")


def decode_record(attributes: Mapping[str, Any]) -> ClusterRecord:
    cluster = cluster_of(attributes)
    try:
        record = _record(attributes["record"]["S"])
    except (KeyError, TypeError, msgspec.DecodeError) as error:
        raise Unreadable(f"the record of cluster {cluster}: {error!r}") from error
    if record.id != cluster or attributes.get("version") != {"N": str(record.version)}:
        raise Unreadable(f"the record of cluster {cluster}: it is not about itself")
    return record


def encode_item(clusterset: str, item: Item, now_ms: int) -> Attributes:
    """Raises ValueError when the item is too large to keep."""
    encoded = item_key(clusterset, item.cluster, item.key) | {
        "inc": {"N": str(item.mark.incarnation)},
        "seq": {"N": str(item.mark.seq)},
    }
    if item.value is None:
        encoded[TTL_ATTRIBUTE] = {"N": str((now_ms + WEEK_MS) // 1000)}
        return encoded
    content = _encode(item.value)
    if len(content) > COMPRESSED_ABOVE:
        content = zlib.compress(content, 6)
        encoded["zlib"] = {"B": content}
    else:
        encoded["value"] = {"S": content.decode()}
    if len(content) > LARGEST:
        raise ValueError(f"{encoded['sk']['S']}: {len(content)} bytes, the store keeps {LARGEST}")
    return encoded


def key_of(attributes: Mapping[str, Any]) -> ItemKey:
    kind, *names = str(attributes["sk"]["S"]).split("#")
    if (kind, len(names)) not in (("X", 2), ("E", 3)) or not all(names):
        raise Unreadable(f"{attributes['sk']['S']!r} is no export and no slice")
    return ItemKey(ServiceKey(names[0], names[1]), names[2] if kind == "E" else "")


def mark_of(attributes: Mapping[str, Any]) -> Mark:
    try:
        return Mark(int(attributes["inc"]["N"]), int(attributes["seq"]["N"]))
    except (KeyError, TypeError, ValueError) as error:
        raise Unreadable(f"{attributes['sk']['S']}: it has no mark: {error!r}") from error


def decode_item(cluster: str, attributes: Mapping[str, Any]) -> Item:
    key, mark = key_of(attributes), mark_of(attributes)
    if "value" not in attributes and "zlib" not in attributes:
        if TTL_ATTRIBUTE not in attributes:
            raise Unreadable(f"{attributes['sk']['S']}: it has neither a value nor an end")
        return Item(cluster, key, mark, None)
    try:
        value: Value = (_endpoints if key.slice else _export)(_content(attributes))
    except (KeyError, TypeError, ValueError, zlib.error, msgspec.DecodeError) as error:
        raise Unreadable(f"{attributes['sk']['S']}: {error!r}") from error
    named = ItemKey(value.service, value.slice if isinstance(value, EndpointSet) else "")
    if (value.cluster, named) != (cluster, key):
        raise Unreadable(f"{attributes['sk']['S']}: it is about {value.cluster} {named}")
    return Item(cluster, key, mark, value)


def _content(attributes: Mapping[str, Any]) -> bytes:
    if "value" in attributes:
        return str(attributes["value"]["S"]).encode()
    unpacking = zlib.decompressobj()
    content = unpacking.decompress(attributes["zlib"]["B"], _LARGEST_TEXT)
    if not unpacking.eof:
        raise ValueError("it is cut off, or larger than any slice")
    return content
