"""What is wrong with one answer, in words. Pure.

Owns what a good answer is: 200, the right type, complete, correctly terminated, rightly attributed. Refuses to guess:
an answer that names no pool is of no pool.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from global_ingress.validate.evidence import Answered, Exchange, Listed, Unanswered

_CONTENT = {True: "text/event-stream", False: "application/json"}


def faults(exchange: Exchange, pools: Sequence[Listed], marks: Mapping[str, str]) -> tuple[str, ...]:
    """What is wrong with one answer, in words; empty = 200, complete, correctly terminated, rightly attributed."""
    seen = exchange.seen
    if isinstance(seen, Unanswered):
        return (f"no answer: {seen.reason}",)
    if seen.status != 200:
        return (f"status {seen.status}",)
    found = []
    if seen.content_type.partition(";")[0].strip().lower() != _CONTENT[exchange.asked.kind.stream]:
        found.append(f"content type {seen.content_type!r}")
    if seen.cut is not None:
        found.append(f"the body was cut: {seen.cut}")
    return (*found, *seen.told.faults, *_misattributed(seen, pools, marks))


def _misattributed(seen: Answered, pools: Sequence[Listed], marks: Mapping[str, str]) -> Iterator[str]:
    if seen.pool is None:
        yield "no x-dynamo-pool header"
        return
    regions = {pool.key: pool.region for pool in pools}
    if seen.pool not in regions:
        yield f"x-dynamo-pool names {seen.pool}, which is not listed"
        return
    if seen.region != regions[seen.pool]:
        yield f"x-dynamo-target-region is {seen.region}, but {seen.pool} is in {regions[seen.pool]}"
    signed = sorted(key for key, mark in marks.items() if mark in seen.told.text)
    if seen.pool in marks and signed != [seen.pool]:
        yield f"x-dynamo-pool names {seen.pool}, but the text is of {', '.join(signed) or 'no known pool'}"
