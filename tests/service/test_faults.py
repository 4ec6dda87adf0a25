"""The table of docs/operations.md, row by row: every fault is provoked over real sockets and must look as it says.

The expected values are read from the page, so page and behaviour cannot part.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.service.ingress.checks import frame_of, only_cut
from tests.service.ingress.client import Answer, request
from tests.service.ingress.frontend import (
    CHUNKED_JSON,
    DONE,
    LAST,
    SSE,
    Step,
    chunk,
    event,
    fin,
    hang,
    rst,
    whole,
)
from tests.service.ingress.process import ROOT, Metrics
from tests.service.ingress.rig import Rig, Start, full_queue

LIMITS = {
    "connect": "500ms",
    "first_byte": "700ms",
    "idle": "600ms",
    "total": "3s",
    "client_header": "600ms",
    "client_body": "600ms",
    "client_write": "700ms",
}
EVENT = b"data: 1\n\n"


class Row(NamedTuple):
    """One row of the table, as it is written there."""

    fault: str
    what: str
    client: str
    repeat: str
    log: str
    attempts: str
    stream_end: str
    connection: str
    counts: str


def table(page: Path) -> dict[str, Row]:
    """The rows of the table that begins with `| fault |`."""
    lines = page.read_text().splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith("| fault |"))
    rows = {}
    for line in lines[begin + 2 :]:
        if not line.startswith("|"):
            break
        row = Row(*(cell.strip() for cell in line.strip("|").split("|")))
        assert row.fault not in rows, f"{row.fault} stands there twice"
        rows[row.fault] = row
    return rows


ROWS = table(ROOT / "docs" / "operations.md")
Provoke = Callable[[Rig, str], Awaitable[Answer | None]]
FAULTS: dict[str, Provoke] = {}


def fault(name: str) -> Callable[[Provoke], Provoke]:
    def add(provoke: Provoke) -> Provoke:
        FAULTS[name] = provoke
        return provoke

    return add


def played(name: str, stream: bool, *steps: Step) -> None:
    """A fault that is a script of the frontend."""

    async def provoke(rig: Rig, request_id: str) -> Answer:
        rig.each(steps)
        return await rig.ask(stream=stream, headers=[f"x-request-id: {request_id}"])

    FAULTS[name] = provoke


GARBAGE = b"zz\r\nnonsense\r\n"
DRIP: list[Step] = [step for byte in whole() for step in (bytes([byte]), 0.05)]
played("closed-before-answer", False, fin)
played("reset-before-answer", False, rst)
played("closed-inside-head", False, b"HTTP/1.1 200 OK\r\ncontent-", 0.05, fin)
played("silent-before-answer", False, hang)
played("head-drips", False, *DRIP)
played("garbage-before-answer", False, GARBAGE, hang)
played("redirect", False, whole(b"", "307 Elsewhere", "location: /x"))
played("unary-closed", False, CHUNKED_JSON + chunk(EVENT), 0.05, fin)
played("unary-reset", False, CHUNKED_JSON + chunk(EVENT), 0.05, rst)
played("unary-silent", False, CHUNKED_JSON + chunk(EVENT), hang)
played("unary-garbage", False, CHUNKED_JSON + chunk(EVENT), 0.05, GARBAGE, hang)
played("stream-closed", True, SSE + event(b"1"), 0.05, fin)
played("stream-reset", True, SSE + event(b"1"), 0.05, rst)
played("stream-silent", True, SSE + event(b"1"), hang)
played("stream-garbage", True, SSE + event(b"1"), 0.05, GARBAGE, hang)
played("stream-too-long", True, SSE, *[step for _ in range(60) for step in (event(b"1"), 0.1)])
played("stream-closed-inside-event", True, SSE + event(b"1") + chunk(b"data: {"), 0.05, fin)
played("stream-silent-inside-event", True, SSE + event(b"1") + chunk(b"data: {"), hang)
played("stream-reset-after-done", True, SSE + event(b"1") + DONE, 0.05, rst)
played("stream-error-event", True, SSE + event(b"1") + event(b'{"error":{"message":"x"}}') + DONE + LAST)
played("stream-without-done", True, SSE + event(b"1") + LAST)
played("gate-error-first", True, SSE + event(b'{"error":{"message":"x","code":503}}') + DONE + LAST)
played("gate-reset-before-event", True, SSE, 0.05, rst)
played("gate-silent-before-event", True, SSE, hang)


@fault("connect-refused")
async def connect_refused(rig: Rig, request_id: str) -> Answer:
    rig.frontends[0].refuse()
    return await rig.ask(headers=[f"x-request-id: {request_id}"])


@fault("connect-hangs")
async def connect_hangs(rig: Rig, request_id: str) -> Answer:
    async with full_queue(rig.frontends[0]):
        return await rig.ask(headers=[f"x-request-id: {request_id}"])


@fault("client-gone-waiting")
async def client_gone_waiting(rig: Rig, request_id: str) -> None:
    rig.each([hang])
    client = await rig.client()
    await client.send(request(headers=[f"x-request-id: {request_id}"]))
    await rig.reached()
    client.fin()


@fault("client-gone-streaming")
async def client_gone_streaming(rig: Rig, request_id: str) -> None:
    rig.each([SSE + event(b"1"), hang])
    client = await rig.streaming(headers=[f"x-request-id: {request_id}"])
    client.rst()


@fault("client-reads-nothing")
async def client_reads_nothing(rig: Rig, request_id: str) -> None:
    rig.each([SSE, *[event(b"z" * 60_000)] * 400, LAST])
    client = await rig.client(receive_buffer=16_384)
    client.pause()
    await client.send(request(stream=True, headers=[f"x-request-id: {request_id}"]))
    await rig.reached()
    await rig.requests[0].connection.ended()


async def unfinished(rig: Rig, raw: bytes) -> Answer:
    client = await rig.client()
    await client.send(raw)
    answer = await client.answer()
    await client.ended()
    return answer


@fault("client-head-stalls")
async def client_head_stalls(rig: Rig, request_id: str) -> Answer:
    return await unfinished(rig, request()[:60])


@fault("client-body-stalls")
async def client_body_stalls(rig: Rig, request_id: str) -> Answer:
    return await unfinished(rig, request(headers=[f"x-request-id: {request_id}"])[:-5])


@fault("client-garbage")
async def client_garbage(rig: Rig, request_id: str) -> Answer:
    return await unfinished(rig, b"\x00\x01nonsense\r\n\r\n")


@fault("client-body-too-large")
async def client_body_too_large(rig: Rig, request_id: str) -> Answer:
    head = f"POST /v1/completions HTTP/1.1\r\nHost: a\r\nx-request-id: {request_id}\r\n"
    return await unfinished(rig, f"{head}Content-Length: {1 << 40}\r\n\r\n".encode())


@fault("client-head-too-large")
async def client_head_too_large(rig: Rig, request_id: str) -> Answer:
    return await unfinished(rig, request(headers=["x-large: " + "y" * 50_000]))


def test_the_table_and_the_faults_are_the_same() -> None:
    assert list(FAULTS.keys() ^ ROWS.keys()) == []


@pytest.mark.outside
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("name", ROWS)
async def test_what_you_see_is_what_the_page_says(start: Start, name: str) -> None:
    row = ROWS[name]
    rig = await start(
        pools=1,
        timeouts=LIMITS,
        ejection={"failures": 1, "base": "1s"},
        retries={"first_event_gate": name.startswith("gate-")},
    )
    await rig.unkept()
    rig.frontends[0].forget()
    before = await rig.metrics()
    request_id = rig.fresh_id()
    answer = await FAULTS[name](rig, request_id)
    _client_sees(row, answer)
    if answer is not None:
        request_id = answer.one("x-request-id") or request_id
    line = await rig.line(request_id)
    seen = f"{line['status']} {line['outcome']} {line['code'] or '–'}"
    assert seen == row.log
    await _frontends_connection(row, rig)
    after = await rig.metrics()
    assert _grown(before, after, "attempts_total") == row.attempts
    assert _grown(before, after, "stream_end_total") == row.stream_end
    counted = sum(after.value(n) - before.value(n) for n in ("ejections_total", "ejections_capped_total"))
    assert ("yes" if counted else "no") == row.counts
    requests = after.value("requests_total") - before.value("requests_total")
    assert requests == 1, "a request is counted once, whatever happens"


def _client_sees(row: Row, answer: Answer | None) -> None:
    if answer is None:
        assert (row.client, row.repeat) == ("–", "–")
        return
    plain = re.fullmatch(r"(\d{3}) `(\w+)`", row.client)
    if plain:
        assert (str(answer.status), answer.error["code"]) == (plain[1], plain[2])
    elif row.client == "the whole answer":
        assert (answer.status, answer.whole) == (200, True)
    elif row.client == "cut":
        only_cut(answer, answer.body)
        assert answer.body.startswith(EVENT)
        assert b'"error"' not in answer.body
    else:
        framed = re.fullmatch(r"cut, with frame `(\w+)`", row.client)
        assert framed, f"the page has words the test does not know: {row.client}"
        events = answer.body.count(EVENT)
        assert events
        assert frame_of(answer, EVENT * events)["code"] == framed[1]
    after, again = answer.one("retry-after"), answer.one("x-should-retry")
    repeat = "no" if again == "false" else "later" if after is not None and 1 <= int(after) <= 5 else "–"
    assert repeat == row.repeat


async def _frontends_connection(row: Row, rig: Rig) -> None:
    carriers = rig.frontends[0].carriers
    if row.connection == "none":
        assert carriers == []
        return
    for one in carriers:
        if row.connection == "closed":
            await one.ended()
        else:
            assert row.connection == "kept"
            await asyncio.sleep(0.05)
            assert one.open
    assert carriers


def _grown(before: Metrics, after: Metrics, name: str) -> str:
    old, new = before.by(name, "reason"), after.by(name, "reason")
    return " ".join(sorted(reason for reason in new if new[reason] > old.get(reason, 0))) or "–"
