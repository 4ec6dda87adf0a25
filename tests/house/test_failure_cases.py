"""Each failure case of the registry has a row in its page and a test of that name."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CASES = range(1, 16)


def test_each_failure_case_names_a_test_that_exists() -> None:
    rows = re.findall(
        r"^\| (\d+) \| [^|]+ \| `(test_case_(\d+)_\w+)` \|$", (ROOT / "docs/mcs/consistency.md").read_text(), re.M
    )
    assert [int(case) for case, _, _ in rows] == list(CASES)
    assert all(case == number for case, _, number in rows)
    written = set(re.findall(r"async def (test_\w+)", (ROOT / "tests/discovery/mcs/test_failures.py").read_text()))
    assert {name for _, name, _ in rows} <= written
