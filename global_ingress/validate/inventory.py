"""What the discoveries list, and since when they agree.

Owns the reading of a pool list and the question whether an inventory is stable. Refuses to guess: what could not be
read is `Unknown` with a reason, an incomplete list never counts as a list of everything.
The rule: stable = the last n readings of every discovery are complete, equal, and equal to everybody else's.
"""

from __future__ import annotations

from collections.abc import Sequence

from discovery.errors import MalformedWire
from discovery.wire import decode_table
from global_ingress.validate.evidence import Listed, Listing, Reading, Task, Unknown


def read_listing(status: int, body: bytes) -> tuple[Listing | Unknown, str]:
    """The listing in an answer to `GET /pools` of a discovery service, and the epoch of its table."""
    if status != 200:
        return Unknown(f"status {status}"), ""
    try:
        table = decode_table(body)
    except MalformedWire as error:
        return Unknown(f"no pool list: {error}"), ""
    pools = sorted(
        Listed(
            str(pool.key),
            pool.region,
            tuple(sorted(frontend.url for frontend in pool.frontends if frontend.ready)),
            pool.stale_since,
        )
        for pool in table.pools
    )
    return Listing(table.complete, tuple(pools)), table.epoch


def latest(readings: Sequence[Reading], discovery: str) -> Reading | None:
    """The last reading of a discovery, whatever it saw."""
    return next((reading for reading in reversed(readings) if reading.discovery == discovery), None)


def unsettled(task: Task, readings: Sequence[Reading]) -> str | None:
    """Why the inventory is not stable yet, in words; None when it is."""
    if not task.discoveries:
        return "no discovery was named"
    agreed: tuple[str, Listing] | None = None
    for name, _ in task.discoveries:
        own = [reading for reading in readings if reading.discovery == name][-task.equal_readings :]
        if len(own) < task.equal_readings:
            return f"{name}: {len(own)} of {task.equal_readings} readings"
        for reading in own:
            if isinstance(reading.seen, Unknown):
                return f"{name}: unknown ({reading.seen.reason})"
            if not reading.seen.complete:
                return f"{name}: its list is incomplete"
        listing = own[-1].seen
        assert isinstance(listing, Listing)
        if any(reading.seen != listing for reading in own):
            return f"{name}: its list still changes"
        if agreed is not None and agreed[1] != listing:
            return f"{name} lists other than {agreed[0]}: {'; '.join(differences(agreed[1], listing))}"
        agreed = agreed or (name, listing)
    assert agreed is not None
    count = len(agreed[1].pools)
    if count == 0:
        return "no pool is listed"
    if task.expect_pools is not None and count != task.expect_pools:
        return f"{count} pools are listed, {task.expect_pools} expected"
    return None


def stable(task: Task, readings: Sequence[Reading]) -> tuple[Listed, ...] | None:
    """The pools of a stable inventory, sorted by key; None while there is none."""
    if unsettled(task, readings) is not None:
        return None
    seen = readings[-1].seen
    return seen.pools if isinstance(seen, Listing) else None


def differences(wanted: Listing, found: Listing) -> tuple[str, ...]:
    """What `found` lists otherwise than `wanted`, a line each, sorted by pool."""
    before: dict[str, Listed] = {pool.key: pool for pool in wanted.pools}
    after: dict[str, Listed] = {pool.key: pool for pool in found.pools}
    lines = []
    for key in sorted(before.keys() | after.keys()):
        if key not in after:
            lines.append(f"{key} is missing")
        elif key not in before:
            lines.append(f"{key} is listed here alone")
        elif before[key] != after[key]:
            lines.append(_difference(before[key], after[key]))
    return tuple(lines)


def _difference(wanted: Listed, found: Listed) -> str:
    words = []
    if extra := sorted(set(found.frontends) - set(wanted.frontends)):
        words.append(f"has {', '.join(extra)}, which the others do not list")
    if lacking := sorted(set(wanted.frontends) - set(found.frontends)):
        words.append(f"lacks {', '.join(lacking)}")
    if wanted.region != found.region:
        words.append(f"is in region {found.region}, elsewhere {wanted.region}")
    if wanted.stale_since != found.stale_since:
        words.append(f"is stale since {found.stale_since}" if found.stale_since else "is not stale here")
    return f"{wanted.key} {' and '.join(words)}"
