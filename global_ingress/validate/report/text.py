"""The report in words: plain text for a terminal or a log, Markdown for a ticket. Pure.

Refuses to sum skipped checks under passed ones: they are listed one by one, with their reasons.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from global_ingress.validate.checks.verdicts import Check, Verdict
from global_ingress.validate.report.judged import Report, Row

_SHOWN = 12  # findings of a check in the text; the JSON has all


def headings(report: Report) -> tuple[str, ...]:
    """The columns of the table."""
    runs = tuple(f"run {run}" for run in range(1, report.evidence.task.runs + 1))
    return ("from", "to pool", "in region", *runs, "unary", "sse", "chat", "compl.", "first byte", "whole")


def cells(row: Row) -> tuple[str, ...]:
    """A row of the table, in words."""
    counts = (*row.per_run, row.unary, row.sse, row.chat, row.completions)
    times = (_milliseconds(row.first_byte_s), _milliseconds(row.total_s))
    return (row.ingress, printable(row.pool), printable(row.region), *(str(count) for count in counts), *times)


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
        lines.append(f"{check.verdict:<8} {check.id:<26} {printable(check.reason)}")
        lines += [f"           {printable(finding)}" for finding in check.findings[:_SHOWN]]
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


def printable(text: str) -> str:
    """The text with `?` for what a terminal would obey or XML cannot hold: what servers say is in it."""
    return "".join(char if char.isprintable() or char in "\t\n" else "?" for char in text)


def moment(seconds: float) -> str:
    """RFC 3339, UTC, in milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def identity(report: Report) -> tuple[tuple[str, str], ...]:
    """What was validated: names and values for the head of a report."""
    task = report.evidence.task
    views = {one.ingress: one.seen for one in report.evidence.viewings}
    versions = sorted({getattr(seen, "version", "unknown") for seen in views.values()})
    return (
        ("model", task.model),
        ("ingresses", ", ".join(f"{name} {url}" for name, url in task.ingresses)),
        ("discoveries", ", ".join(f"{name} {url}" for name, url in task.discoveries)),
        ("ingress version", ", ".join(versions) or "unknown: no admin listener was given"),
        *_deployed(report),
        ("observed", f"{moment(report.evidence.began)} to {moment(report.evidence.ended)}"),
        ("disturbed by", " ".join(task.disturb) or "nothing"),
    )


def _deployed(report: Report) -> Iterator[tuple[str, str]]:
    """What was rendered and taken to the clusters, as far as it was given."""
    bundle, clusters = report.evidence.task.bundle, report.evidence.clusters
    if bundle is not None:
        yield "fleet", f"{bundle.fleet}, sha256 {bundle.fleet_sha256}"
        yield "bundle", f"{bundle.folder}, sha256 {bundle.sha256}, by {bundle.rendered_by}"
        yield "images", ", ".join(image for image, _ in bundle.images)
        yield "settings", ", ".join(f"{cluster} sha256 {digest}" for cluster, _, digest in bundle.configs)
    if clusters:
        yield (
            "Kubernetes",
            ", ".join(f"{one.cluster} {getattr(one.version, 'reason', one.version)}" for one in clusters),
        )


def to_markdown(report: Report) -> str:
    """The report as GitHub-flavoured Markdown."""
    lines = ["# Validation of a global ingress", "", f"**{closing_line(report)}**", ""]
    lines += [f"- {name}: {_literal(value)}" for name, value in identity(report)]
    if report.rows:
        lines += ["", "## Good answers per region and pool", "", *_markdown_table(report)]
    for verdict in (Verdict.FAILED, Verdict.SKIPPED, Verdict.PASSED):
        found = [check for check in report.checks if check.verdict is verdict]
        if found:
            lines += ["", f"## {verdict.capitalize()}: {len(found)}", ""]
            lines += [line for check in found for line in _markdown_check(check)]
    return "\n".join(lines) + "\n"


def _markdown_table(report: Report) -> Iterator[str]:
    names = headings(report)
    yield f"| {' | '.join(names)} |"
    yield f"|{'|'.join('---' if column < 3 else '---:' for column in range(len(names)))}|"
    for row in report.rows:
        yield f"| {' | '.join(_literal(word) for word in cells(row))} |"


def _markdown_check(check: Check) -> Iterator[str]:
    owner = f" *Open risk of the {check.owner}, since {check.date}.*" if check.owner else ""
    yield f"- `{check.id}`: {check.clause}. {_literal(check.reason)}.{owner}"
    for finding in check.findings:
        yield f"  - {_literal(finding)}"


def _literal(text: str) -> str:
    """The text with what Markdown or HTML would read as its own made harmless."""
    return "".join(f"\\{char}" if char in "\\`*_{}[]<>|#" else char for char in " ".join(printable(text).split()))
