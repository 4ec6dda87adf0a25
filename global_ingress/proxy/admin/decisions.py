"""The newest records of requests that were worth one, from all workers, by request id. Pure.

A ring: the oldest goes when a new one comes. To each record stands which other pools were left out for its model when
it came, and why; that list is shared by all records of the same routes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from global_ingress.proxy.shared.decided import STANDINGS, Decision, Decisions

KEPT = 1000
MOST_OF_A_KIND = 8  # of one reason, among the newest
WHYS = ("failed", "retried", "hedged", "refused", "sampled")

LeftOut = Sequence[tuple[str, str]]
"""Pools that were no candidates, and the reason in words."""


class DecisionRing:
    """`dropped` counts records that workers could not keep."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._records: OrderedDict[str, tuple[Decision, LeftOut]] = OrderedDict()
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._records)

    def add(self, decisions: Decisions, left_out: Mapping[str, LeftOut]) -> None:
        """`left_out` by model, as things stand now."""
        self.dropped += decisions.dropped
        for record in decisions.records:
            self._records.pop(record.request_id, None)
            self._records[record.request_id] = record, left_out.get(record.model, ())
            if len(self._records) > self._kept:
                self._records.popitem(last=False)

    def find(self, request_id: str) -> dict[str, Any] | None:
        """The whole record."""
        found = self._records.get(request_id)
        if found is None:
            return None
        record, left_out = found
        out: dict[str, Any] = msgspec.to_builtins(record)
        for candidate in out["candidates"]:
            candidate["why"] = STANDINGS[candidate["standing"]]
        out["left_out"] = [{"pool": pool, "why": why} for pool, why in left_out]
        return out

    def newest(self, count: int) -> list[dict[str, Any]]:
        """In short, the newest of each reason; a flood of one hides no other. Those that were sampled come last."""
        found: dict[str, list[Decision]] = {why: [] for why in WHYS}
        for record, _ in reversed(self._records.values()):
            if len(same := found.setdefault(record.why, [])) < MOST_OF_A_KIND:
                same.append(record)
        return [_short(record) for same in found.values() for record in same][:count]


def _short(record: Decision) -> dict[str, Any]:
    names = ("at", "request_id", "model", "why", "status", "outcome", "code", "total_ms")
    tries = [
        {"pool": one.pool, "ended": one.ended, "ms": round(one.ended_ms - one.began_ms, 1)} for one in record.tries
    ]
    return {name: getattr(record, name) for name in names} | {"tries": tries}
