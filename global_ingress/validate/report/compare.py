"""What changed from one report to another. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from global_ingress.validate.checks.verdicts import Check, Verdict
from global_ingress.validate.report.document import Document

_BADNESS = {Verdict.PASSED: 0, Verdict.SKIPPED: 1, Verdict.FAILED: 2}


def changes(old: Document, new: Document) -> tuple[str, ...]:
    """A line each: verdicts first, what got worse before what got better; then pools, then medians. Empty: nothing."""
    lines = [*_verdicts(old, new), *_pools(old, new), *_times(old, new)]
    return tuple(lines)


def worse(old: Document, new: Document) -> bool:
    """Whether a check is worse than it was, or is no longer made."""
    before, after = _checks(old), _checks(new)
    return any(
        name not in after or _BADNESS[after[name].verdict] > _BADNESS[check.verdict] for name, check in before.items()
    )


def _checks(of: Document) -> dict[str, Check]:
    return {check.id: check for check in of.checks}


def _verdicts(old: Document, new: Document) -> Iterator[str]:
    before, after = _checks(old), _checks(new)
    moved = [name for name in before.keys() & after.keys() if before[name].verdict is not after[name].verdict]
    for name in sorted(moved, key=lambda name: (-_BADNESS[after[name].verdict], name)):
        yield f"{name}: {before[name].verdict} -> {after[name].verdict}: {after[name].reason}"
    for name in sorted(before.keys() - after.keys()):
        yield f"{name}: no longer checked"
    for name in sorted(after.keys() - before.keys()):
        yield f"{name}: checked now, {after[name].verdict}: {after[name].reason}"


def _pools(old: Document, new: Document) -> Iterator[str]:
    before, after = _listed(old), _listed(new)
    for key in sorted(before.keys() - after.keys()):
        yield f"pool {key}: no longer listed"
    for key in sorted(after.keys() - before.keys()):
        yield f"pool {key}: new, {after[key]}"
    for key in sorted(key for key in before.keys() & after.keys() if before[key] != after[key]):
        yield f"pool {key}: {before[key]} -> {after[key]}"


def _listed(of: Document) -> dict[str, str]:
    return {
        pool.key: f"{pool.region} {', '.join(pool.frontends)}"
        for reading in of.inventory
        if reading.listing
        for pool in reading.listing.pools
    }


def _times(old: Document, new: Document) -> Iterator[str]:
    before = {(row.ingress, row.pool): row.first_byte_s for row in old.table}
    for row in new.table:
        was, now = before.get((row.ingress, row.pool)), row.first_byte_s
        if was and now and not 0.5 < now / was < 2:
            yield f"{row.ingress} to {row.pool}: first byte {was * 1000:.1f} -> {now * 1000:.1f} ms"
