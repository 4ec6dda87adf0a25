"""Validation that disturbs: the command that is allowed to, and what is seen of what it does."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from global_ingress.validate.checks.verdicts import Check, Verdict
from global_ingress.validate.evidence import Task
from global_ingress.validate.means import Command
from global_ingress.validate.report.judged import report_on
from global_ingress.validate.run import Patience, measure
from tests.service.ingress.process import eventually
from tests.validate.world import Wrong, world

QUICK = Patience(interval_s=0.01, inventory_s=0.2, answer_s=5.0, recovery_s=3.0)


def script(folder: Path, body: str) -> list[str]:
    path = folder / "disturb.py"
    path.write_text(f"import os, sys, time\nfrom pathlib import Path\n{body}\n")
    return [sys.executable, str(path)]


async def test_the_command_is_told_what_to_do(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    means = Command(script(tmp_path, f"Path({str(seen)!r}).write_text(' '.join(sys.argv[1:]))"))
    assert await means.do("cut", "ohio", "dynamo/llama") is None
    assert seen.read_text() == "cut ohio dynamo/llama"


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("sys.exit('no right to do that')", "it ended with 1: no right to do that"),
        ("sys.exit(3)", "it ended with 3: it said nothing"),
        ("time.sleep(60)", "it had not ended after 0.5 s"),
    ],
    ids=["refused", "silent", "for ever"],
)
async def test_a_command_that_does_not_do_it_says_why(tmp_path: Path, body: str, named: str) -> None:
    assert await Command(script(tmp_path, body), longest_s=0.5).do("cut", "ohio", "dynamo/llama") == named


async def test_a_command_that_is_not_there_is_named() -> None:
    assert "it cannot be started" in str(await Command(["/nowhere/disturb"]).do("cut", "ohio", "dynamo/llama"))


async def test_what_a_command_leaves_behind_is_ended(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    child = f"p = os.fork()\nif p == 0: time.sleep(60)\nelse: Path({str(pid)!r}).write_text(str(p))"
    # The child keeps the pipe open: without an end to it the command would seem to run as long as it does.
    assert "it had not ended" in str(await Command(script(tmp_path, child), longest_s=0.5).do("cut", "a", "b/c"))
    await eventually(lambda: not _lives(int(pid.read_text())), "the child to be ended")


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Means:
    """Changes the world by itself: the first pool is listed elsewhere, the last one's frontend answers nothing."""

    def __init__(self, wrong: Wrong, fail: str = "") -> None:
        self.wrong = wrong
        self.done: list[str] = []
        self._fail = fail

    async def do(self, action: str, cluster: str, pool: str) -> str | None:
        self.done.append(f"{action} {cluster} {pool}")
        if action == self._fail:
            return "it would not"
        match action:
            case "replace":
                self.wrong.moved = True
            case "cut":
                self.wrong.cut = True
            case "restore":
                self.wrong.cut = False
        return None


@asynccontextmanager
async def disturbed(wrong: Wrong, fail: str = "") -> AsyncIterator[tuple[Task, Means]]:
    async with world(wrong) as task:
        yield replace(task, disturb=("means",)), Means(wrong, fail)


async def checks_of(task: Task, means: Means) -> dict[str, Check]:
    report = report_on(await measure(task, say=lambda _: None, patience=QUICK, means=means))
    return {check.id: check for check in report.checks}


async def test_a_system_that_gets_over_it_passes() -> None:
    async with disturbed(Wrong()) as (task, means):
        checks = await checks_of(task, means)
    for name in ("traffic.replacement", "traffic.region-cut", "traffic.bounds"):
        assert checks[name].verdict is Verdict.PASSED, checks[name]
    assert means.done == ["replace ohio dynamo/llama", "cut oregon dynamo/llama", "restore oregon dynamo/llama"]


@pytest.mark.parametrize(
    ("wrong", "check", "named"),
    [
        (Wrong(keeps_old=True), "traffic.replacement", "ohio does not list a new frontend of ohio/dynamo/llama"),
        (Wrong(no_failover=True), "traffic.region-cut", "had not recovered"),
    ],
    ids=["a stale address kept", "no failover"],
)
async def test_a_system_that_does_not_fails_and_is_named(wrong: Wrong, check: str, named: str) -> None:
    async with disturbed(wrong) as (task, means):
        found = (await checks_of(task, means))[check]
    assert found.verdict is Verdict.FAILED
    assert any(named in finding for finding in found.findings), found.findings


@pytest.mark.parametrize(("fail", "check"), [("replace", "traffic.replacement"), ("restore", "traffic.region-cut")])
async def test_what_could_not_be_done_fails_and_the_rest_goes_on(fail: str, check: str) -> None:
    async with disturbed(Wrong(), fail) as (task, means):
        checks = await checks_of(task, means)
    assert any("it would not" in finding for finding in checks[check].findings)
    assert means.done[-1] == "restore oregon dynamo/llama"


async def test_what_was_cut_is_restored_when_the_validation_is_broken_off() -> None:
    async with disturbed(Wrong(no_failover=True)) as (task, means):
        patient = replace(QUICK, recovery_s=60.0)
        running = asyncio.create_task(measure(task, say=lambda _: None, patience=patient, means=means))
        await eventually(lambda: "cut oregon dynamo/llama" in means.done, "the cut")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert means.done[-1] == "restore oregon dynamo/llama"
