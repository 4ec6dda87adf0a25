"""Holding the last good pools of a model when one update takes all of them away (rule I49).

A table is a claim; that everything went at once is an unlikely one. So the last set that had frontends stays for a
while, as long as its probes do not fail. A removal with others left is obeyed at once, and nothing is ever held
against what an operator wrote down himself. Pure: time and evidence are arguments.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from discovery.pool import Pool


@dataclass(slots=True)
class _Group:
    good: tuple[Pool, ...] = ()
    gone_at: float | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """The pools to use, and how many seconds of holding are left (None: they are listed, nothing is held)."""

    pools: tuple[Pool, ...]
    left: float | None = None


class LastGood:
    """Per group (a model, or all pools when no model is configured): the last set with frontends."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}

    def keep_only(self, groups: Collection[str]) -> None:
        for name in [name for name in self._groups if name not in groups]:
            del self._groups[name]

    def forget(self) -> None:
        """What is listed now is what the operator wrote: hold nothing."""
        self._groups.clear()

    def apply(self, group: str, listed: Sequence[Pool], *, now: float, hold: float, failing: Mapping[str, str]) -> Held:
        """`listed` are the group's pools in the table."""
        state = self._groups.setdefault(group, _Group())
        with_frontends = tuple(pool for pool in listed if pool.frontends)
        if with_frontends:
            state.good, state.gone_at = with_frontends, None
            return Held(tuple(listed))
        if not state.good:
            return Held(tuple(listed))
        if state.gone_at is None:
            state.gone_at = now
        left = state.gone_at + hold - now
        if left <= 0 or all(frontend.url in failing for pool in state.good for frontend in pool.frontends):
            state.good, state.gone_at = (), None
            return Held(tuple(listed))
        held = {pool.key for pool in state.good}
        return Held((*state.good, *(pool for pool in listed if pool.key not in held)), left)
