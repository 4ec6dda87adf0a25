"""The report: the judged evidence, and the table per region and pool. Pure.

How it is written down: `report_text`, `report_json`, `report_html`, `report_junit`. Same evidence, same bytes.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from global_ingress.validate.checks.faults import faults
from global_ingress.validate.checks.judge import judge
from global_ingress.validate.checks.verdicts import Check, Verdict, overall
from global_ingress.validate.evidence import Answered, Evidence, Exchange
from global_ingress.validate.inventory import stable


@dataclass(frozen=True, slots=True)
class Row:
    """What one region's ingress got of one pool: good answers per run, by kind; medians in seconds, None without."""

    ingress: str
    pool: str
    region: str
    per_run: tuple[int, ...]
    unary: int
    sse: int
    chat: int
    completions: int
    first_byte_s: float | None
    total_s: float | None


@dataclass(frozen=True, slots=True)
class Report:
    """The judged evidence."""

    evidence: Evidence
    checks: tuple[Check, ...]
    verdict: Verdict
    rows: tuple[Row, ...]

    def count(self, verdict: Verdict) -> int:
        return sum(check.verdict is verdict for check in self.checks)


def report_on(evidence: Evidence) -> Report:
    """Judges the evidence and counts it."""
    checks = judge(evidence)
    return Report(evidence, checks, overall(checks), _rows(evidence))


def exit_code(report: Report, *, strict: bool = False) -> int:
    """0 when something was shown and nothing failed; `strict` also refuses skipped checks."""
    shown = report.verdict is Verdict.PASSED
    return 0 if shown and not (strict and report.count(Verdict.SKIPPED)) else 1


def _rows(evidence: Evidence) -> tuple[Row, ...]:
    task, pools = evidence.task, stable(evidence.task, evidence.readings) or ()
    good: dict[tuple[str, str], list[Exchange]] = {}
    for exchange in evidence.exchanges:
        seen = exchange.seen
        if isinstance(seen, Answered) and seen.pool is not None and not faults(exchange, pools, dict(task.marks)):
            good.setdefault((exchange.asked.ingress, seen.pool), []).append(exchange)
    return tuple(
        _row(ingress, pool.key, pool.region, task.runs, good.get((ingress, pool.key), []))
        for ingress, _ in task.ingresses
        for pool in pools
    )


def _row(ingress: str, pool: str, region: str, runs: int, good: Sequence[Exchange]) -> Row:
    kinds = [exchange.asked.kind for exchange in good]
    first = sorted(exchange.first_byte_s for exchange in good if exchange.first_byte_s is not None)
    total = sorted(exchange.total_s for exchange in good)
    return Row(
        ingress,
        pool,
        region,
        tuple(sum(exchange.asked.run == run for exchange in good) for run in range(1, runs + 1)),
        sum(not kind.stream for kind in kinds),
        sum(kind.stream for kind in kinds),
        sum(kind.surface == "chat" for kind in kinds),
        sum(kind.surface == "completions" for kind in kinds),
        statistics.median(first) if first else None,
        statistics.median(total) if total else None,
    )
