"""Bars are for terminals: elsewhere there are lines alone."""

from __future__ import annotations

import io

from rich.console import Console

from global_ingress.validate.progress import bars


def shown(*, terminal: bool) -> str:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=100, color_system=None, legacy_windows=False)
    with bars(console) as seen:
        seen.say("traffic, run 1 of 2: 40 requests")
        for _ in range(3):
            seen.sent("[ohio]", 1, 40)
        seen.sent("oregon", 1, 40)
    return file.getvalue()


def test_without_a_terminal_there_are_lines_alone() -> None:
    assert shown(terminal=False) == "traffic, run 1 of 2: 40 requests\n"


def test_a_terminal_has_a_bar_for_each_region_that_counts_its_requests() -> None:
    text = shown(terminal=True)
    for words in ("traffic, run 1 of 2: 40 requests", "[ohio], run 1", "3/40", "oregon, run 1", "1/40"):
        assert words in text
