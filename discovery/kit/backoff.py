"""How long to wait before the next try: doubling, bounded, jittered.

Pure: chance is an argument. Equal jitter (half fixed, half chance) keeps a floor, so that a crowd of clients neither
meets again at one moment nor hammers at once.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

Chance = Callable[[], float]
"""A number in [0, 1), as `random.random` gives."""

SYSTEM_CHANCE: Chance = random.random


@dataclass(frozen=True, slots=True)
class Backoff:
    """`first` seconds before the first retry, `factor` times more each time, never more than `limit`."""

    first: float
    limit: float
    factor: float = 2.0

    def delay(self, failures: int, chance: float) -> float:
        """Seconds before the try that follows `failures` failures in a row (1 or more)."""
        exponent = min(max(failures, 1) - 1, 64)
        whole = min(self.limit, self.first * self.factor**exponent)
        return whole * (0.5 + chance / 2)
