"""The validation client over sockets: it passes what is right, and names what is wrong."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from discovery.kit.clock import SYSTEM_CLOCK
from global_ingress.validate.checks.verdicts import Check, Verdict
from global_ingress.validate.evidence import KINDS, Answered, Asked, Kind, Task, Unanswered, Unknown
from global_ingress.validate.probe import Probe, new_client
from global_ingress.validate.report.judged import exit_code, report_on
from global_ingress.validate.run import Patience, measure, write
from tests.validate.world import Wrong, world

QUICK = Patience(interval_s=0.01, inventory_s=0.2, answer_s=10.0)


def quiet(line: str) -> None:
    """Nobody listens."""


async def checks_of(task: Task) -> dict[str, Check]:
    report = report_on(await measure(task, say=quiet, patience=QUICK))
    assert exit_code(report) == (1 if report.verdict is Verdict.FAILED else 0)
    return {check.id: check for check in report.checks}


async def test_a_right_system_passes(tmp_path: Path) -> None:
    said: list[str] = []
    async with world(Wrong()) as task:
        report = report_on(await measure(task, say=said.append, patience=QUICK))
    failed = [check for check in report.checks if check.verdict is Verdict.FAILED]
    assert not failed, failed
    assert report.verdict is Verdict.PASSED
    assert [row.per_run for row in report.rows] == [(4, 4)] * 4
    assert [(row.unary, row.sse, row.chat, row.completions) for row in report.rows] == [(4, 4, 4, 4)] * 4
    assert said[-2:] == ["traffic, run 1 of 2: 16 requests", "traffic, run 2 of 2: 16 requests"]
    write(report, tmp_path)
    assert json.loads((tmp_path / "report.json").read_bytes())["verdict"] == "passed"
    assert "PASSED: 32/32" in (tmp_path / "report.txt").read_text()


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (Wrong(skew_at=3), "ohio to oregon/dynamo/llama: 3 good answers, 4 expected"),
        (Wrong(lose_done_at=1), "run 1, ohio #1 (sse chat): no [DONE] at the end"),
        (Wrong(lie_at=2), "x-dynamo-pool names oregon/dynamo/llama, but the text is of ohio/dynamo/llama"),
        (Wrong(stale_everywhere=True), "run 1, ohio #0 (unary chat): status 502"),
    ],
    ids=["skewed", "lost done", "wrong header", "stale address"],
)
async def test_what_is_wrong_fails_and_is_named(wrong: Wrong, named: str) -> None:
    async with world(wrong) as task:
        checks = await checks_of(task)
    assert checks["conformance.inventory"].verdict is Verdict.PASSED
    steady = checks["traffic.steady-state-1"]
    assert steady.verdict is Verdict.FAILED
    assert any(named in finding for finding in steady.findings), steady.findings


async def test_a_discovery_that_lists_an_old_address_fails_and_is_named() -> None:
    async with world(Wrong(stale_at_discovery=True)) as task:
        checks = await checks_of(task)
    inventory = checks["conformance.inventory"]
    assert inventory.verdict is Verdict.FAILED
    assert any("http://127.0.0.1:1" in finding for finding in inventory.findings)
    assert checks["traffic.steady-state-1"].verdict is Verdict.SKIPPED


async def test_an_ingress_that_is_away_ends_its_run_early_and_fails() -> None:
    async with world(Wrong()) as task:
        away = replace(task, ingresses=(("ohio", "http://127.0.0.1:1"), task.ingresses[1]))
        steady = (await checks_of(away))["traffic.steady-state-1"]
    assert steady.verdict is Verdict.FAILED
    assert steady.asked == 5 + 8
    assert "ohio: 3 planned requests were not sent" in steady.findings


@asynccontextmanager
async def saying(answer: bytes) -> AsyncIterator[str]:
    """A server that says these bytes to everybody and hangs up."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"content-length: " in head.lower():
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
        writer.write(answer)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


SSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
EVENT = b"e\r\ndata: [DONE]\n\n\r\n"


@pytest.mark.parametrize(
    ("answer", "is_right"),
    [
        (
            SSE + EVENT + b"0\r\n\r\n",
            lambda seen: seen.cut is None and seen.told.faults == ("no text", "no finish_reason"),
        ),
        (SSE + EVENT, lambda seen: "RemoteProtocolError" in seen.cut),
        (SSE + EVENT[:8], lambda seen: seen.cut is not None and "no [DONE] at the end" in seen.told.faults),
        (b"HTTP/1.1 529 <none>\r\ncontent-length: 0\r\n\r\n", lambda seen: seen.status == 529),
        (b"HTTP/1.1 302 F\r\nlocation: /x\r\ncontent-length: 0\r\n\r\n", lambda seen: seen.status == 302),
    ],
    ids=["whole", "no end", "inside an event", "529", "redirect"],
)
async def test_the_probe_tells_how_an_answer_ended(answer: bytes, is_right: Callable[[Answered], bool]) -> None:
    async with saying(answer) as url, new_client() as client:
        found = await Probe(client, SYSTEM_CLOCK).exchange(Asked("ohio", 1, 0, Kind("chat", stream=True)), url, "m")
    assert isinstance(found.seen, Answered)
    assert is_right(found.seen), found.seen


@pytest.mark.parametrize("kind", KINDS, ids=str)
async def test_the_probe_returns_what_did_not_come(kind: Kind) -> None:
    async with new_client() as client:
        probe = Probe(client, SYSTEM_CLOCK)
        refused = await probe.exchange(Asked("ohio", 1, 0, kind), "http://127.0.0.1:1", "m")
        reading = await probe.list_pools("ohio", "http://127.0.0.1:1")
        async with saying(b"") as url:
            silent = await probe.exchange(Asked("ohio", 1, 0, kind), url, "m")
    assert isinstance(refused.seen, Unanswered)
    assert "ConnectError" in refused.seen.reason
    assert refused.first_byte_s is None
    assert isinstance(silent.seen, Unanswered)
    assert isinstance(reading.seen, Unknown)
