"""The digest by which two sides know that they hold the same items of a cluster, whatever their order.

Pure. Each item has a hash of its content (never of its mark, so that telling the same again changes nothing); the
digest is their sum, so one item's change costs one item's work. It finds loss and lag, not forgery: a cluster could
only deceive about its own items. What is unset is left out of the hash, so that a field that is new and unset changes
no digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import MISSING, fields
from enum import Enum
from typing import Any, Final

import msgspec

from discovery.mcs.model import Endpoint, EndpointSet, Export, Reference

_WIDTH: Final = 128
_MODULUS: Final = 1 << _WIDTH
_REQUIRED: Final = object()
"""No value is this one: a field without a default is always told."""

_encode = msgspec.json.Encoder().encode


def _defaults(kind: type[Any], left_out: frozenset[str] = frozenset()) -> tuple[tuple[str, object], ...]:
    return tuple(
        (field.name, _REQUIRED if field.default is MISSING else field.default)
        for field in fields(kind)
        if field.name not in left_out
    )


_FIELDS: Final = {
    Export: _defaults(Export),
    EndpointSet: _defaults(EndpointSet, frozenset({"stale_since_ms"})),
    Endpoint: _defaults(Endpoint),
    Reference: _defaults(Reference),
}


def item_hash(value: Export | EndpointSet) -> int:
    """A number of 128 bits for one item's content."""
    content = _encode((type(value).__name__, _plain(value)))
    return int.from_bytes(hashlib.sha256(content).digest()[: _WIDTH // 8], "big")


def combined(hashes: Iterable[int]) -> str:
    """The digest of items with these hashes."""
    return f"{sum(hashes) % _MODULUS:0{_WIDTH // 4}x}"


def digest(values: Iterable[Export | EndpointSet]) -> str:
    """The digest of these items: what `sync_complete` compares. Of nothing: zeros."""
    return combined(map(item_hash, values))


def _plain(value: object) -> object:
    told = _FIELDS.get(type(value))
    if told is not None:
        return {
            name: _plain(content)
            for name, default in told
            if (content := getattr(value, name)) is not default and content != default
        }
    if type(value) is tuple:
        return [_plain(part) for part in value]
    return value.value if isinstance(value, Enum) else value
