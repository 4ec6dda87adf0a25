"""Round robin, exactly: the order in which members take turns, and how it goes on when the members change.

A schedule is a fixed sequence of members, each as often as its weight, spread as evenly as can be; turn n (from 1) of
a shared counter is `sequence[(n - 1) % len]`. Who may not be used is skipped by drawing again: the others then keep
taking turns among themselves exactly, and nobody's neighbour gets two requests for one. A change of members makes a
new schedule that starts at the identity due next (rule I20).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

K = TypeVar("K", bound=Hashable)


LONGEST = 8192  # turns in a schedule, unless there are more members; beyond it weights are rounded


def smooth(weights: Mapping[K, int]) -> tuple[K, ...]:
    """Each key as often as its weight says (divided by their greatest common divisor), as evenly spread as can be;
    equal weights keep the order given. Weight 0 is drained: it does not occur. Weights that would make the schedule
    too long are rounded, to 1 at least."""
    live = {key: weight for key, weight in weights.items() if weight > 0}
    step = _reduced(live)
    total = sum(step.values())
    if total == len(step):
        return tuple(step)
    credit = dict.fromkeys(step, 0)
    out: list[K] = []
    for _ in range(total):
        for key, weight in step.items():
            credit[key] += weight
        best = max(credit, key=credit.__getitem__)
        credit[best] -= total
        out.append(best)
    return tuple(out)


def _reduced(weights: Mapping[K, int]) -> dict[K, int]:
    divisor = math.gcd(*weights.values()) or 1
    total = sum(weights.values()) // divisor
    # The work is turns × members: what many members would make slow is made coarse.
    most = max(len(weights), min(LONGEST, 4_000_000 // max(1, len(weights))))
    if total <= most:
        return {key: weight // divisor for key, weight in weights.items()}
    scale = most / (total * divisor)
    rounded = {key: max(1, round(weight * scale)) for key, weight in weights.items()}
    divisor = math.gcd(*rounded.values())
    return {key: weight // divisor for key, weight in rounded.items()}


def succeeded(old: Sequence[K], drawn: int, weights: Mapping[K, int]) -> tuple[K, ...]:
    """The schedule for `weights` that goes on where the old one stood after `drawn` turns.

    It starts at the first of the old order, from the one due next, that is still a member; the rest follows in the old
    order, newcomers after those that stayed.
    """
    if not old:
        return smooth(weights)
    order: dict[K, int] = {}
    for n in range(len(old)):
        key = old[(drawn + n) % len(old)]
        if key in weights and key not in order:
            order[key] = weights[key]
    order.update({key: weight for key, weight in weights.items() if key not in order})
    made = smooth(order)
    first = next((key for key in order if order[key] > 0), None)
    if first is None:
        return made
    at = made.index(first)
    return made[at:] + made[:at]
