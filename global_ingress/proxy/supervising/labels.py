"""Which words may be label values of metrics: models and pools that this process has routed to, else `other`. Pure.

Keeps the rule that the number of series is bounded whatever clients ask for and however pools come and go: the first so
many names are known for good, so that a series never falls; what comes later is `other`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

OTHER = "other"
MOST_POOLS = 4096
MOST_MODELS = 1024


@dataclass(frozen=True, slots=True)
class PoolLabel:
    """`name` is `cluster/namespace/name`."""

    name: str
    region: str


_NO_POOL = PoolLabel(OTHER, OTHER)


class Labels:
    """Grows only."""

    def __init__(self) -> None:
        self._pools: dict[str, PoolLabel] = {}
        self._models: set[str] = set()

    def __repr__(self) -> str:
        return f"<Labels {len(self._pools)} pools, {len(self._models)} models>"

    def learn(self, pools: Mapping[str, PoolLabel], models: Iterable[str]) -> None:
        """Pools by id. A pool that moved to another region keeps the label it had."""
        for id, label in pools.items():
            if len(self._pools) < MOST_POOLS:
                self._pools.setdefault(id, label)
        for model in models:
            if len(self._models) < MOST_MODELS:
                self._models.add(model)

    def pool(self, id: str) -> PoolLabel:
        """The empty id is "no pool": a request that never got to one."""
        return self._pools.get(id, _NO_POOL) if id else PoolLabel("", "")

    def model(self, id: str) -> str:
        return id if id in self._models else OTHER
