"""GET /v1/models, made once per change: configured and routable models, with the fields their pools gave them.

Pure. Aliases are no entries. Several pools may describe a model; the first in pool order that describes it is taken,
and fields of the others that it lacks are added. Before any pool has described a model, it gets the least that a client
needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from discovery.identity import PoolKey

OWNER = "global-ingress"  # of a model that no pool has described yet


def describe(id: str, pools: Iterable[PoolKey], said: Mapping[PoolKey, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """The model's object."""
    out: dict[str, Any] = {"id": id, "object": "model"}
    for key in pools:
        for entry in said.get(key, ()):
            if entry.get("id") == id:
                for name, value in entry.items():
                    out.setdefault(name, value)
    out.setdefault("created", 0)
    out.setdefault("owned_by", OWNER)
    return out


def make_listing(
    models: Iterable[tuple[str, Sequence[PoolKey]]], said: Mapping[PoolKey, Sequence[Mapping[str, Any]]]
) -> tuple[bytes, dict[str, bytes]]:
    """The list document and each model's own, for (id, its routable pools); models without one are left out."""
    described = {id: describe(id, pools, said) for id, pools in models if pools}
    ordered = [described[id] for id in sorted(described)]
    document = orjson.dumps({"object": "list", "data": ordered})
    return document, {entry["id"]: orjson.dumps(entry) for entry in ordered}
