"""The report of a conformance run: JSON and Markdown in the folder that MCS_CONFORMANCE_REPORT names, else in
report/mcs-conformance below the project's root, which is ignored."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.mcs.conformance.clauses import CLAUSES

_NUMBERS = re.compile(r"test_f(\d\d)(_(?:to|and)_f(\d\d))?_")
_outcomes: dict[str, list[str]] = {}


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    name = report.nodeid.partition("::")[2]
    found = _NUMBERS.match(name)
    if found is None or "tests/mcs/conformance" not in report.nodeid:
        return
    if report.when == "call" or report.outcome != "passed":
        first, last = int(found[1]), int(found[3] or found[1])
        for number in range(first, last + 1):
            _outcomes.setdefault(f"F{number}", []).append(report.outcome)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not _outcomes:
        return
    named = os.environ.get("MCS_CONFORMANCE_REPORT")
    folder = Path(named) if named else session.config.rootpath / "report" / "mcs-conformance"
    rows = [
        {"clause": clause, "requirement": text, "label": label, "outcome": _outcome(clause)}
        for clause, (label, text) in CLAUSES.items()
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "conformance.json").write_text(json.dumps(rows, indent=2) + "\n")
    lines = ["# MCS conformance", "", "| clause | label | requirement | outcome |", "|---|---|---|---|"]
    lines += [f"| {one['clause']} | {one['label']} | {one['requirement']} | {one['outcome']} |" for one in rows]
    (folder / "conformance.md").write_text("\n".join(lines) + "\n")


def _outcome(clause: str) -> str:
    found = _outcomes.get(clause, [])
    if not found:
        return "not run"
    return next((word for word in ("failed", "skipped") if word in found), "passed")
