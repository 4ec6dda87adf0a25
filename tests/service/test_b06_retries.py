"""Repeats, duplicates, budgets: rows B6 of the field reports, rules I30 to I33 and I35."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter

import pytest

from tests.service.ingress.client import request
from tests.service.ingress.frontend import (
    LAST,
    SSE,
    Script,
    chunk,
    event,
    fin,
    hang,
    rst,
    whole,
)
from tests.service.ingress.process import eventually
from tests.service.ingress.rig import Start, full_queue

pytestmark = [pytest.mark.outside, pytest.mark.asyncio(loop_scope="session")]

GOOD = [whole(b'{"good":1}')]


def answers(status: str, body: bytes = b'{"no":1}', *lines: str) -> Script:
    return [whole(body, status, *lines)]


# What is repeated.


@pytest.mark.parametrize("status", ["502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout", "529 Busy"])
async def test_rule_i30_gateway_statuses_are_tried_elsewhere_with_the_same_bytes(start: Start, status: str) -> None:
    rig = await start(pools=2)
    before = await rig.metrics()
    rig.play(answers(status), GOOD)
    answer = await rig.ask(stream=True)
    assert (answer.status, answer.body, rig.counts()) == (200, b'{"good":1}', [1, 1])
    assert answer.one("x-dynamo-attempts") == "2"
    first, second = rig.requests
    assert first.body == second.body
    assert first.all("x-request-id") == second.all("x-request-id")
    await rig.grew(before, "attempts_total", reason="status")


@pytest.mark.parametrize("broken", [rst, fin], ids=["reset", "closed"])
async def test_row_017_broken_before_the_first_byte_is_tried_elsewhere(start: Start, broken: object) -> None:
    rig = await start(pools=2)
    await rig.unkept()
    script: Script = [broken]  # type: ignore[list-item]
    rig.play(script, GOOD)
    answer = await rig.ask()
    assert (answer.status, rig.counts(), answer.one("x-dynamo-attempts")) == (200, [1, 1], "2")


async def test_row_099_dynamos_404_without_a_body_means_no_workers_there(start: Start) -> None:
    rig = await start(pools=2)
    empty = whole(b"", "404 Not Found", kind=None)
    for first in (empty, b"HTTP/1.1 404 Not Found\r\ntransfer-encoding: chunked\r\n\r\n" + LAST):
        rig.play([first], GOOD)
        assert (await rig.ask()).status == 200
    asked = rig.asked
    rig.play(answers("404 Not Found", b'{"message":"Model not found"}'), GOOD)
    answer = await rig.ask()
    assert (answer.status, answer.body) == (404, b'{"message":"Model not found"}')
    assert rig.asked == asked + 1


async def test_rule_i30_a_refused_connection_costs_neither_try_nor_budget(start: Start) -> None:
    rig = await start(pools=4, retries={"attempts": 1, "budget": 0})
    for one in rig.frontends[:3]:
        one.refuse()
    for _ in range(12):
        assert (await rig.ask()).status == 200
    assert rig.counts() == [0, 0, 0, 12]


async def test_rule_i30_refused_connections_after_a_try_that_took_long(start: Start) -> None:
    """The time for finding a connection begins anew with each repeat, not with the first try."""
    rig = await start(pools=4, timeouts={"connect": "300ms"})
    for one in rig.frontends[1:3]:
        one.refuse()
    rig.frontends[0].play([1.0, whole(b"{}", "503 Busy")])
    rig.frontends[3].play(GOOD)
    answers_seen = [await rig.ask() for _ in range(4)]
    assert [answer.status for answer in answers_seen] == [200] * 4


async def test_rule_i30_every_pool_is_tried_once_for_a_connection_then_it_is_said(start: Start) -> None:
    rig = await start(pools=3)
    before = await rig.metrics()
    for one in rig.frontends:
        one.refuse()
    answer = await rig.ask()
    assert (answer.status, answer.error["code"], answer.one("x-dynamo-attempts")) == (502, "upstream_unreachable", "3")
    await rig.grew(before, "attempts_total", 3, reason="unreachable")


async def test_rule_i30_connects_that_hang_end_after_two_limits(start: Start) -> None:
    rig = await start(pools=4, timeouts={"connect": "500ms"})
    async with contextlib.AsyncExitStack() as stack:
        for one in rig.frontends:
            await stack.enter_async_context(full_queue(one))
        began = rig.loop.time()
        answer = await rig.ask()
        assert (answer.status, answer.error["code"]) == (504, "connect_timeout")
        assert 0.8 < rig.loop.time() - began < 4
        assert answer.one("x-dynamo-attempts") in ("2", "3")


# What is never repeated.


@pytest.mark.parametrize("kind", ["stream", "unary"])
async def test_row_047_nothing_is_repeated_after_the_first_byte(start: Start, kind: str) -> None:
    rig = await start(pools=2)
    head = SSE + event(b"1") if kind == "stream" else whole(b"x" * 50)[:-40]
    rig.play([head, 0.03, rst], GOOD)
    assert not (await rig.ask(stream=kind == "stream")).whole
    assert rig.asked == 1


async def test_row_048_row_049_a_preamble_then_an_error_is_tried_elsewhere_with_the_gate(start: Start) -> None:
    """The gate waits for an event, not for a time: a comment, a pause and only then the error."""
    rig = await start(pools=2, retries={"first_event_gate": True})
    failing = event(b'{"error":{"message":"no","code":503}}')
    rig.play([SSE + chunk(b": preamble\n\n"), 0.3, failing + LAST], [SSE + event(b"good") + LAST])
    answer = await rig.ask(stream=True)
    assert (answer.status, answer.whole, answer.body) == (200, True, b"data: good\n\n")
    assert rig.counts() == [1, 1]


async def test_row_051_a_first_byte_timeout_is_never_repeated(start: Start) -> None:
    rig = await start(pools=2, timeouts={"first_byte": "500ms"})
    rig.play([3.0], GOOD)
    assert (await rig.ask()).status == 504
    assert rig.asked == 1
    await rig.requests[0].connection.ended()


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 500, 501])
async def test_row_053_other_statuses_are_the_answer(start: Start, status: int) -> None:
    rig = await start(pools=2)
    rig.play(answers(f"{status} Odd Words", b'{"status":%d}' % status), GOOD)
    answer = await rig.ask()
    assert (answer.status, answer.reason, answer.body) == (status, "Odd Words", b'{"status":%d}' % status)
    assert rig.asked == 1


async def test_rule_i30_a_status_is_repeated_when_it_is_listed(start: Start) -> None:
    rig = await start(pools=2, retries={"statuses": [429]})
    rig.play(answers("429 Too Many Requests"), GOOD)
    assert (await rig.ask()).body == b'{"good":1}'
    rig.play(answers("503 Busy"), GOOD)
    assert (await rig.ask()).status == 503


async def test_rule_i31_x_should_retry_false_is_obeyed(start: Start) -> None:
    rig = await start(pools=2)
    rig.play(answers("503 Busy", b"{}", "x-should-retry: false", "retry-after-ms: 250"), GOOD)
    answer = await rig.ask()
    assert (answer.status, rig.asked) == (503, 1)
    assert (answer.one("x-should-retry"), answer.one("retry-after-ms")) == ("false", "250")


# How often.


async def test_rule_i32_each_attempt_goes_to_a_pool_not_tried_yet(start: Start) -> None:
    rig = await start(pools=3, retries={"attempts": 3})
    for _ in range(6):
        before = rig.counts()
        rig.play(answers("503 Busy"), answers("502 Bad"), GOOD)
        answer = await rig.ask()
        assert (answer.status, answer.one("x-dynamo-attempts")) == (200, "3")
        assert [a - b for a, b in zip(rig.counts(), before, strict=True)] == [1, 1, 1]


async def test_row_050_the_last_answer_is_given_after_attempts_are_spent(start: Start) -> None:
    rig = await start(pools=3)
    rig.play(answers("503 Busy", b"1", "retry-after: 1"), answers("529 Busier", b"2", "retry-after: 9"), GOOD)
    answer = await rig.ask()
    assert (answer.status, answer.reason, answer.body, answer.one("retry-after")) == (529, "Busier", b"2", "9")
    assert (rig.asked, max(rig.counts())) == (2, 1)


@pytest.mark.parametrize("workers", [1, 2])
async def test_row_050_the_budget_bounds_all_repeats(start: Start, workers: int) -> None:
    """n requests make at most (1 + share) n + 3 upstream requests, for each worker."""
    rig = await start(pools=2, workers=workers, alone=True, retries={"budget": 0.2})
    rig.each(answers("503 Busy"))
    statuses = Counter([(await rig.ask(headers=["x-stainless-retry-count: 2"])).status for _ in range(100)])
    assert statuses == {503: 100}
    assert 100 < rig.asked <= 120 + 3 * workers


async def test_row_050_the_attempts_are_counted_towards_the_client(start: Start) -> None:
    rig = await start(pools=2)
    rig.each(answers("503 Busy"))
    assert (await rig.ask()).one("x-dynamo-attempts") == "2"


# Frontends that keep failing.

EJECTING = {"failures": 3, "base": "60s"}


@pytest.mark.parametrize("workers", [1, 2])
async def test_row_052_row_084_row_091_a_failing_frontend_is_ejected_for_everybody(start: Start, workers: int) -> None:
    rig = await start(pools=4, fresh=True, workers=workers, ejection=EJECTING)
    before = await rig.metrics()
    rig.frontends[1].play(answers("503 Busy"))
    for _ in range(60):
        assert (await rig.ask()).status == 200
    counts = rig.counts()
    assert counts[1] == 3
    others = [counts[0], counts[2], counts[3]]
    assert max(others) - min(others) <= 3, f"the neighbour of the ejected one gets its share too: {counts}"
    await rig.grew(before, "ejections_total")
    (pool,) = [one for one in (await rig.ingress.admin("/pools")).json()["pools"] if one["cluster"] == "c1"]
    assert (pool["state"], pool["routable"]) == ("all_ejected", False)
    assert pool["ejected_until"]
    assert "ejected" in pool["why"]


async def test_row_085_a_clients_own_faults_eject_nobody(start: Start) -> None:
    rig = await start(pools=2, fresh=True, ejection=EJECTING)
    before = await rig.metrics()
    rig.each(answers("400 Bad Request"))
    for _ in range(20):
        await rig.ask()
    rig.each([hang])
    for n in range(10):
        client = await rig.client()
        await client.send(request())
        await rig.reached(21 + n)
        client.rst()
    await rig.at_rest()
    await rig.grew(before, "ejections_total", by=0)


async def test_rule_i33_the_end_of_the_sentence_admits_one_trial(start: Start) -> None:
    rig = await start(pools=2, fresh=True, ejection={"failures": 2, "base": "1s"})
    bad = rig.frontends[0]
    bad.play(answers("503 Busy"))
    for _ in range(10):
        await rig.ask()
    assert len(bad.requests) == 2
    await asyncio.sleep(1.2)
    bad.play(answers("503 Busy"), answers("503 Busy"), GOOD)
    statuses = [answer.status for answer in await asyncio.gather(*(rig.ask() for _ in range(12)))]
    assert statuses == [200] * 12
    assert len(bad.requests) == 3, "one request tries it, not all that come at once"

    async def back() -> bool:
        bad.play(GOOD)
        await rig.ask()
        return len(bad.requests) > 5

    await eventually(back, "it is used again once a trial went well", 10)


async def test_rule_i33_a_failure_counts_also_when_it_is_not_repeated(start: Start) -> None:
    rig = await start(pools=2, fresh=True, ejection=EJECTING, retries={"attempts": 1})
    rig.frontends[1].play(answers("503 Busy"))
    statuses = Counter([(await rig.ask()).status for _ in range(40)])
    assert len(rig.frontends[1].requests) == 3
    assert statuses == {200: 37, 503: 3}


async def test_rule_i24_at_most_half_are_out_by_failures_alone(start: Start) -> None:
    rig = await start(pools=4, fresh=True, ejection=EJECTING)
    before = await rig.metrics()
    rig.each(answers("503 Busy"))
    for _ in range(40):
        assert (await rig.ask()).status == 503
    await rig.grew(before, "ejections_total", 2)
    assert (await rig.metrics()).value("ejections_capped_total") > before.value("ejections_capped_total")
    assert all(count > 2 for count in rig.counts())


async def test_rule_i24_if_all_would_be_out_all_are_tried(start: Start) -> None:
    rig = await start(pools=2, fresh=True, ejection=EJECTING)
    for one in rig.frontends:
        one.refuse()
    for _ in range(12):
        assert (await rig.ask()).status == 502
    for one in rig.frontends:
        await one.start()
    assert (await rig.ask()).status == 200
