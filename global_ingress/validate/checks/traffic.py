"""The check of the steady state: exactly R good answers of every pool at every region, of every kind. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from global_ingress.validate.checks.faults import faults
from global_ingress.validate.checks.verdicts import Check, open_check
from global_ingress.validate.evidence import KINDS, Answered, Evidence, Exchange, Listed
from global_ingress.validate.inventory import stable
from global_ingress.validate.plan import everything


def check_steady_state(evidence: Evidence, run: int) -> Check:
    """From each region exactly R good answers of every pool, of every kind."""
    task = evidence.task
    blank = open_check(
        f"traffic.steady-state-{run}",
        6,
        f"from each region exactly {task.per_pool} requests to each pool, every kind at every pool, every answer 200, "
        "complete, correctly terminated and attributed",
        "no request was sent",
    )
    exchanges = [exchange for exchange in evidence.exchanges if exchange.asked.run == run]
    pools = stable(task, evidence.readings)
    if not exchanges:
        return blank if pools is not None else replace(blank, reason="there was no stable inventory to measure against")
    wrong = [(exchange, faults(exchange, pools or (), dict(task.marks))) for exchange in exchanges]
    good = [exchange for exchange, found in wrong if not found]
    findings = [f"{exchange.asked}: {'; '.join(found)}" for exchange, found in wrong if found]
    if pools is None:
        findings.append("there was no stable inventory to measure against")
    else:
        findings += _missing(evidence, run, pools, exchanges)
        findings += _uneven(evidence, pools, good)
    found = replace(blank, asked=len(exchanges), good=len(good)).during([(one.at, one.total_s) for one in exchanges])
    if findings:
        return found.failed(f"{len(good)} of {len(exchanges)} answers are good; {len(findings)} findings", findings)
    return found.passed(f"{len(good)}/{len(exchanges)}, {task.per_pool} per pool and region")


def _missing(evidence: Evidence, run: int, pools: Sequence[Listed], exchanges: Sequence[Exchange]) -> Iterator[str]:
    """Requests of the plan without an exchange, and those with more than one."""
    task = evidence.task
    planned = everything((name for name, _ in task.ingresses), task.runs, len(pools), task.per_pool)
    wanted = Counter(asked for asked in planned if asked.run == run)
    sent = Counter(exchange.asked for exchange in exchanges)
    for name, count in sorted(Counter(asked.ingress for asked in (wanted - sent).elements()).items()):
        yield f"{name}: {count} planned requests were not sent"
    for name, count in sorted(Counter(asked.ingress for asked in (sent - wanted).elements()).items()):
        yield f"{name}: {count} requests that were not planned"


def _uneven(evidence: Evidence, pools: Sequence[Listed], good: Sequence[Exchange]) -> Iterator[str]:
    """Pools that gave other than R good answers to a region, or not every kind."""
    task = evidence.task
    kinds: dict[tuple[str, str], list[str]] = {}
    for exchange in good:
        if isinstance(exchange.seen, Answered) and exchange.seen.pool is not None:
            kinds.setdefault((exchange.asked.ingress, exchange.seen.pool), []).append(str(exchange.asked.kind))
    for ingress, _ in task.ingresses:
        for pool in pools:
            got = kinds.get((ingress, pool.key), [])
            if len(got) != task.per_pool:
                yield f"{ingress} to {pool.key}: {len(got)} good answers, {task.per_pool} expected"
            lacking = sorted({str(kind) for kind in KINDS} - set(got))
            if task.per_pool >= len(KINDS) and lacking:
                yield f"{ingress} to {pool.key}: no {', no '.join(lacking)}"
