"""`global-ingress top` against a running ingress, one that is away, and something that is no ingress."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from global_ingress.top.rows import NoStatus, rows
from tests.service.supervised import ROOT, STATIC, free_port, serving


def top(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "global_ingress", "top", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)


def test_one_that_runs_and_one_that_is_away(tmp_path: Path) -> None:
    away = f"http://127.0.0.1:{free_port()}"
    with serving(tmp_path, STATIC) as ingress:
        ingress.ready()
        here = f"http://127.0.0.1:{ingress.admin}"
        done = top("--once", "-o", "json", here + "/", away)
        assert (done.returncode, done.stderr) == (1, "")
        shown = json.loads(done.stdout)["rows"]
        assert [(row["ingress"], row["pool"], row["good"]) for row in shown] == [
            (here, "", True),
            (here, "c0/n/p", True),
            (here, "c1/n/p", True),
            (away, "", False),
        ]
        assert shown[-1]["state"].startswith("no answer: ")
        table = top("--once", here)
        assert table.returncode == 0
        assert "c1/n/p" in table.stdout


def test_wrong_usage_is_2() -> None:
    assert top().returncode == 2
    assert top("--once", "127.0.0.1:1").returncode == 2
    assert top("--every", "0", "http://127.0.0.1:1").returncode == 2


@pytest.mark.parametrize("document", [None, [], {}, {"pools": 3}, {"pools": [], "ready": True}])
def test_what_is_no_status_is_said(document: object) -> None:
    with pytest.raises(NoStatus, match="none of an ingress"):
        list(rows("http://x", document))
