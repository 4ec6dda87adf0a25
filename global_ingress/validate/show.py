"""The report on a terminal: tables where there is room for them, plain text elsewhere."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from global_ingress.validate.checks.verdicts import Verdict
from global_ingress.validate.report.judged import Report
from global_ingress.validate.report.text import cells, closing_line, headings, printable, to_text

_STYLE = {Verdict.PASSED: "green", Verdict.SKIPPED: "yellow", Verdict.FAILED: "bold red"}


def show(report: Report, console: Console) -> None:
    """Prints the report; as text too where a terminal is too narrow for the table, which would lose its figures."""
    traffic = _traffic(report)
    if (
        not console.is_terminal
        or console.measure(traffic, options=console.options.update(max_width=1000)).maximum > console.width
    ):
        console.out(to_text(report), end="", highlight=False)
        return
    if report.rows:
        console.print(traffic)
    console.print(_checks(report))
    console.print(Text(closing_line(report), style=_STYLE[report.verdict]))


def _traffic(report: Report) -> Table:
    names = headings(report)
    table = Table(title=f"good answers per region and pool ({report.evidence.task.per_pool} expected in each run)")
    for column, name in enumerate(names):
        table.add_column(name, justify="left" if column < 3 else "right", no_wrap=True)
    last = None
    for row in report.rows:
        if last not in (None, row.ingress):
            table.add_section()
        last = row.ingress
        table.add_row(*(Text(word) for word in cells(row)))
    return table


def _checks(report: Report) -> Table:
    table = Table(title="checks", expand=False)
    for name in ("verdict", "check", "reason"):
        table.add_column(name, overflow="fold")
    for check in report.checks:
        words = printable("\n".join((check.reason, *check.findings)))
        table.add_row(Text(check.verdict, style=_STYLE[check.verdict]), Text(check.id), Text(words))
    return table
