"""The check of the declared objectives. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from global_ingress.validate.checks.faults import faults
from global_ingress.validate.checks.verdicts import Check, open_check
from global_ingress.validate.evidence import Evidence, Exchange, Objectives
from global_ingress.validate.inventory import stable


def check_objectives(evidence: Evidence) -> Check:
    """The steady state kept the declared objectives. What a region's cut may cost is judged where it is cut."""
    goals = evidence.task.objectives
    blank = open_check("acceptance.objectives", 7, "the declared objectives are met", "no objectives are declared")
    if goals is None:
        return blank
    exchanges = evidence.exchanges
    if not exchanges:
        return replace(blank, reason="no request was sent")
    bad = [one for one in exchanges if _is_bad(evidence, one)]
    found = replace(blank, asked=len(exchanges), good=len(exchanges) - len(bad))
    found = found.during([(one.at, one.total_s) for one in exchanges])
    wrong = [*_too_slow(exchanges, goals), *_too_many(len(bad), len(exchanges), goals)]
    if wrong:
        return found.failed(f"{len(wrong)} objectives are missed", wrong)
    times = sorted(one.first_byte_s for one in exchanges if one.first_byte_s is not None)
    said = f"first byte p50 {quantile(times, 0.5) * 1000:.1f} ms, p99 {quantile(times, 0.99) * 1000:.1f} ms"
    return found.passed(f"{said}; {len(bad)} of {len(exchanges)} requests failed")


def quantile(ordered: list[float], share: float) -> float:
    """The smallest value that is not below `share` of the ordered values (nearest rank); they must not be empty."""
    rank = -(-len(ordered) * share // 1)
    return ordered[max(int(rank), 1) - 1]


def _is_bad(evidence: Evidence, one: Exchange) -> bool:
    return bool(faults(one, stable(evidence.task, evidence.readings) or (), dict(evidence.task.marks)))


def _too_slow(exchanges: tuple[Exchange, ...], goals: Objectives) -> Iterator[str]:
    wanted = ((0.5, goals.first_byte_p50_s), (0.99, goals.first_byte_p99_s))
    times = sorted(one.first_byte_s for one in exchanges if one.first_byte_s is not None)
    for share, limit in wanted:
        if limit is None:
            continue
        if not times:
            yield f"first byte p{share * 100:g}: no answer had a body; {limit * 1000:g} ms are allowed"
        elif (seen := quantile(times, share)) > limit:
            yield f"first byte p{share * 100:g}: {seen * 1000:.1f} ms; {limit * 1000:g} ms are allowed"


def _too_many(bad: int, all_: int, goals: Objectives) -> Iterator[str]:
    if goals.error_share is not None and bad / all_ > goals.error_share:
        yield f"{bad / all_:.2%} of the requests failed; {goals.error_share:.2%} are allowed"
