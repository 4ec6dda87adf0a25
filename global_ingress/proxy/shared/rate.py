"""How often somebody may ask: a bucket that fills evenly, kept as one number. Pure.

The number is the time at which the bucket is full again, in nanoseconds; a request moves it on by the time that one
takes. Keeps the rule that in any window at most `count` requests pass beyond those that the bucket had gathered, which
are at most `count` too.
"""

from __future__ import annotations

from typing import NamedTuple

KEYS = 16384  # API keys known at once, each with its bucket


class Verdict(NamedTuple):
    """`full_at` is the bucket afterwards; times are nanoseconds from now."""

    allowed: bool
    full_at: int
    remaining: int
    wait: int  # until one more passes; 0 if one would now
    reset: int  # until the bucket is full again


def look(full_at: int, now: int, count: int, window: int) -> Verdict:
    """Whether one request passes a bucket of `count` per `window`, and what that leaves."""
    each = window // count
    # This rate never leaves a bucket that takes longer than its window to fill: another, slower one did, and is over.
    base = full_at if now < full_at <= now + window else now
    after = base + each
    room = window - (after - now)
    if room < 0:
        return Verdict(False, full_at, 0, -room, base - now)
    return Verdict(True, after, room // each, 0, after - now)
