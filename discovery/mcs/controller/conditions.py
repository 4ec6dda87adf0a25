"""Conditions as KEP-1645 has them: what they say now, and since when.

Pure. `lastTransitionTime` moves only with `status`, so that a condition that says the same is the same, byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Object = dict[str, Any]

_LONGEST = 32_768


class Said(NamedTuple):
    """`status` is "True", "False" or "Unknown"."""

    type: str
    status: str
    reason: str
    message: str


def conditions(said: Sequence[Said], live: Mapping[str, Object], generation: int, now: str) -> list[Object]:
    """The conditions to write. `live`: those that stand, by type; `now` as RFC 3339 in whole seconds."""
    return [_condition(one, live.get(one.type) or {}, generation, now) for one in said]


def _condition(said: Said, before: Object, generation: int, now: str) -> Object:
    since = before.get("lastTransitionTime") if before.get("status") == said.status else None
    return {
        "type": said.type,
        "status": said.status,
        "reason": said.reason,
        "message": said.message[:_LONGEST],
        "observedGeneration": generation,
        "lastTransitionTime": since or now,
    }
