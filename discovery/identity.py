"""Who a pool is: its key of three names, and the opaque id that follows from it."""

from __future__ import annotations

import functools
from typing import NamedTuple

import blake3

from discovery.errors import MalformedKey

_CONTEXT = "dynamo.global_view.pool_id.v1"


class PoolKey(NamedTuple):
    """One deployment in one cluster. Ordered as it is written: cluster, namespace, name."""

    cluster: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.cluster}/{self.namespace}/{self.name}"


def checked_key(cluster: str, namespace: str, name: str) -> PoolKey:
    """The key of these names; each must be non-empty, trimmed and free of control characters.

    Raises MalformedKey, which names the part.
    """
    for field, value in (("cluster", cluster), ("namespace", namespace), ("name", name)):
        if not value:
            raise MalformedKey(field, "is empty")
        if value != value.strip():
            raise MalformedKey(field, f"has white space around it: {value!r}")
        if any(ord(c) < 32 or 127 <= ord(c) < 160 for c in value):
            raise MalformedKey(field, f"holds a control character: {value!r}")
        if any(0xD800 <= ord(c) < 0xE000 for c in value):
            # Half of a surrogate pair has no UTF-8, so it has no pool id and no JSON either.
            raise MalformedKey(field, f"holds half a character: {value!r}")
    return PoolKey(cluster, namespace, name)


@functools.lru_cache(maxsize=65536)
def pool_id(key: PoolKey) -> str:
    """`pool-v1-` and 64 hex digits: BLAKE3 derive-key over each part's UTF-8 length (8 bytes, big-endian) and bytes.

    Callers never parse it. Source: Dynamo's global view, vectors in the tests.
    """
    hasher = blake3.blake3(derive_key_context=_CONTEXT)
    for part in key:
        data = part.encode()
        hasher.update(len(data).to_bytes(8, "big"))
        hasher.update(data)
    return f"pool-v1-{hasher.hexdigest()}"
