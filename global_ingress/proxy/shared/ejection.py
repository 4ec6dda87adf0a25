"""For how long a frontend that keeps failing gets no requests (I33, I24). Pure arithmetic over the ledger's numbers."""

from __future__ import annotations

UNCONNECTED_WEIGHT = 3  # a try without even a connection counts as so many failures
DOUBLINGS = 20  # beyond that the sentence is at its maximum anyway


def sentence(base: float, longest: float, ejections: int) -> float:
    """Seconds of the next ejection after `ejections` before it: base × 2ⁿ, at most `longest`."""
    return min(base * float(1 << min(ejections, DOUBLINGS)), longest)


def may_eject(out: int, listed: int, max_share: float, *, unconnected: bool) -> bool:
    """Whether one more frontend of a model may be put out when `out` of `listed` are out already.

    The last one stays whatever happened. Failed answers alone put out at most `max_share`; one that does not even
    accept connections is out beyond that.
    """
    if out + 1 >= listed:
        return False
    return unconnected or (out + 1) <= max_share * listed
