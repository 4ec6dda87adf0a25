"""Slow start: the share of a pool that joins grows in steps to its own, never from zero. Pure but for its memory."""

from __future__ import annotations

from collections.abc import Mapping

STEPS = 10  # from a tenth of its share to all of it


class Ramps:
    """Remembers since when each pool of each model takes turns. Where nobody stays, those that come do not ramp: there
    is nobody else to take their share."""

    def __init__(self) -> None:
        self._since: dict[str, dict[str, float]] = {}
        self.ramping = False

    def begin(self) -> None:
        """A new look at everything; `ramping` will say whether time alone changes shares."""
        self.ramping = False

    def weights(self, model: str, weights: Mapping[str, int], now: float, duration: float | None) -> Mapping[str, int]:
        """The weights by pool id as they are now; unchanged while nobody ramps. `duration` None is no slow start."""
        known = self._since.get(model, {})
        joining = now if known.keys() & weights.keys() else float("-inf")
        since = {pool: known.get(pool, joining) for pool in weights}
        self._since[model] = since
        if duration is None:
            return weights
        steps = {pool: _step((now - at) / duration) for pool, at in since.items()}
        if all(step == STEPS for step in steps.values()):
            return weights
        self.ramping = True
        return {pool: weight * steps[pool] for pool, weight in weights.items()}


def _step(part: float) -> int:
    """Which step a pool is on that has gone this part of its slow start."""
    return STEPS if part >= 1 else 1 + int((STEPS - 1) * max(part, 0.0))
