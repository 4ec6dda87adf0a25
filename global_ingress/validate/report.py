"""The report: checks and the table per region and pool, as text and as JSON.

Owns how results are written down. Same evidence, same bytes. Refuses to sum skipped checks under passed ones: they
are listed one by one, with their reasons.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from global_ingress.validate.checks import Check, Verdict, faults, judge, overall
from global_ingress.validate.evidence import Answered, Evidence, Exchange, Listing
from global_ingress.validate.inventory import latest, stable

SCHEMA = "global-ingress/validate/1"
_SHOWN = 12  # findings of a check in the text; the JSON has all


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


def to_json(report: Report) -> bytes:
    """The whole report with the evidence behind each check; keys sorted, one trailing newline."""
    evidence = report.evidence
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "verdict": report.verdict,
        "counts": {verdict.value: report.count(verdict) for verdict in Verdict},
        "task": asdict(evidence.task),
        "window": {"began": _moment(evidence.began), "ended": _moment(evidence.ended)},
        "checks": [asdict(check) for check in report.checks],
        "table": [asdict(row) for row in report.rows],
        "inventory": [_last_reading(evidence, name) for name, _ in evidence.task.discoveries],
        "exchanges": [_exchange(exchange) for exchange in evidence.exchanges],
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


def _last_reading(evidence: Evidence, name: str) -> dict[str, Any]:
    reading = latest(evidence.readings, name)
    if reading is None:
        return {"discovery": name, "seen": None}
    kind = "listing" if isinstance(reading.seen, Listing) else "unknown"
    return {
        "discovery": name,
        "at": _moment(reading.at),
        "took_s": reading.took_s,
        "seen": {kind: asdict(reading.seen)},
    }


def _exchange(exchange: Exchange) -> dict[str, Any]:
    kind = "answered" if isinstance(exchange.seen, Answered) else "unanswered"
    return {
        "asked": asdict(exchange.asked),
        "seen": {kind: asdict(exchange.seen)},
        "at": _moment(exchange.at),
        "first_byte_s": exchange.first_byte_s,
        "total_s": exchange.total_s,
    }


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def headings(report: Report) -> tuple[str, ...]:
    """The columns of the table."""
    runs = tuple(f"run {run}" for run in range(1, report.evidence.task.runs + 1))
    return ("from", "to pool", "in region", *runs, "unary", "sse", "chat", "compl.", "first byte", "whole")


def cells(row: Row) -> tuple[str, ...]:
    """A row of the table, in words."""
    counts = (*row.per_run, row.unary, row.sse, row.chat, row.completions)
    times = (_milliseconds(row.first_byte_s), _milliseconds(row.total_s))
    return (row.ingress, row.pool, row.region, *(str(count) for count in counts), *times)


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:.1f} ms"


def to_text(report: Report) -> str:
    """The report for people, without a terminal's help."""
    lines = [_aligned([headings(report), *(cells(row) for row in report.rows)])] if report.rows else []
    lines += ["", *check_lines(report), "", closing_line(report)]
    return "\n".join(lines).lstrip("\n") + "\n"


def check_lines(report: Report) -> list[str]:
    """Each check in a line, the findings of the failed ones below."""
    lines = []
    for check in report.checks:
        lines.append(f"{check.verdict:<8} {check.id:<26} {check.reason}")
        lines += [f"           {finding}" for finding in check.findings[:_SHOWN]]
        if len(check.findings) > _SHOWN:
            lines.append(f"           and {len(check.findings) - _SHOWN} more")
    return lines


def closing_line(report: Report) -> str:
    """One line that says it all."""
    steady = [check for check in report.checks if check.id.startswith("traffic.steady-state")]
    good, asked = sum(check.good for check in steady), sum(check.asked for check in steady)
    counts = ", ".join(f"{report.count(verdict)} {verdict}" for verdict in Verdict)
    return f"{report.verdict.upper()}: {good}/{asked} answers good; checks: {counts}"


def _aligned(table: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    return "\n".join(
        "  ".join(
            word.ljust(width) if column < 3 else word.rjust(width)
            for column, (word, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in table
    )
