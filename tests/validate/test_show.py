"""The report on a terminal says what the text says."""

from __future__ import annotations

import io

from rich.console import Console

from global_ingress.validate.report.judged import report_on
from global_ingress.validate.report.text import to_text
from global_ingress.validate.show import show
from tests.validate.evidences import good, spoilt, task


def shown(*, terminal: bool, spoil: bool = False, width: int = 140) -> str:
    evidence = good(task())
    if spoil:
        evidence = spoilt(evidence, 5, status=503)
    console = Console(file=io.StringIO(), force_terminal=terminal, width=width, color_system=None, legacy_windows=False)
    show(report_on(evidence), console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_without_a_terminal_it_is_the_text() -> None:
    assert shown(terminal=False) == to_text(report_on(good(task())))


def test_in_a_narrow_terminal_no_figure_is_lost() -> None:
    assert shown(terminal=True, width=80) == to_text(report_on(good(task())))


def test_on_a_terminal_every_row_check_and_finding_is_there() -> None:
    text = shown(terminal=True, spoil=True)
    assert text.count("dynamo/llama") >= 16
    for words in ("conformance.inventory", "traffic.replacement", "status 503", "FAILED: 319/320 answers good"):
        assert words in text
