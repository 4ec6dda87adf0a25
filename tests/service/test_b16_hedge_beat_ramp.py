"""What is off by default: hedging (I36, row B96), heartbeats (I45, rows B40 to B43), slow start (row B92)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.service.ingress.client import request
from tests.service.ingress.frontend import DONE, LAST, SSE, Connection, Script, event, fin, hang, whole
from tests.service.ingress.process import eventually
from tests.service.ingress.rig import Rig, Start

pytestmark = [pytest.mark.outside, pytest.mark.asyncio(loop_scope="session")]

HEDGE: dict[str, Any] = {"hedge": {"after": "p95", "max_share": 0.5}}
QUICK: Script = [SSE + event(b'{"quick":1}') + DONE + LAST]
SLOW_BODY = b'data: {"slow":1}\n\n'


async def learn(rig: Rig) -> int:
    """Enough quick answers of every pool, so that a late one is known as late. How many requests the frontends had by
    then: on a busy machine some of these were late themselves."""
    rig.each(QUICK)
    for _ in range(30 * len(rig.frontends)):
        assert (await rig.ask(stream=True)).status == 200
    await rig.at_rest()
    return rig.asked


# Hedging.


async def test_row_096_a_late_first_event_is_overtaken_by_another_region_and_the_loser_is_closed(start: Start) -> None:
    rig = await start(pools=2, fresh=True, **HEDGE)
    await learn(rig)
    before = await rig.metrics()
    rig.play([hang], QUICK)
    began = rig.loop.time()
    answer = await rig.ask(stream=True)
    assert (answer.status, answer.body) == (200, b'data: {"quick":1}\n\ndata: [DONE]\n\n')
    assert answer.one("x-dynamo-attempts") == "2"
    assert rig.loop.time() - began < 5
    await rig.grew(before, "attempts_total", reason="hedge")
    # That the loser's connection is closed, and that nothing is held, is what the fixture checks after every test.


async def test_rule_i36_the_first_may_still_win_and_then_the_second_is_closed(start: Start) -> None:
    rig = await start(pools=2, fresh=True, **HEDGE)
    asked = await learn(rig)
    second_came = asyncio.Event()

    async def told(connection: Connection) -> None:
        second_came.set()

    rig.play([second_came, SSE + event(b'{"first":1}') + DONE + LAST], [told, hang])
    answer = await rig.ask(stream=True)
    assert answer.body == b'data: {"first":1}\n\ndata: [DONE]\n\n'
    await eventually(lambda: rig.asked == asked + 2, "both were asked")


async def test_rule_i36_a_unary_answer_is_hedged_and_whole_bodies_are_not_mixed(start: Start) -> None:
    rig = await start(pools=2, fresh=True, **HEDGE)
    await learn(rig)
    rig.play([hang], [whole(b'{"second":1}')])
    answer = await rig.ask()
    assert (answer.status, answer.body) == (200, b'{"second":1}')


async def test_rule_i36_when_the_second_fails_the_first_goes_on(start: Start) -> None:
    rig = await start(pools=2, fresh=True, **HEDGE)
    await learn(rig)
    failed = asyncio.Event()

    async def told(connection: Connection) -> None:
        connection.fin()
        failed.set()

    rig.play([failed, SSE + event(b'{"first":1}') + DONE + LAST], [told])
    answer = await rig.ask(stream=True)
    assert answer.body == b'data: {"first":1}\n\ndata: [DONE]\n\n'


async def test_rule_i36_when_the_first_fails_the_second_is_waited_for(start: Start) -> None:
    rig = await start(pools=2, fresh=True, **HEDGE)
    asked = await learn(rig)
    second_came, first_gone = asyncio.Event(), asyncio.Event()

    async def came(connection: Connection) -> None:
        second_came.set()

    async def gone(connection: Connection) -> None:
        connection.fin()
        first_gone.set()

    rig.play([second_came, gone], [came, first_gone, 0.1, SSE + event(b'{"second":1}') + DONE + LAST])
    answer = await rig.ask(stream=True)
    assert (answer.status, answer.body) == (200, b'data: {"second":1}\n\ndata: [DONE]\n\n')
    assert rig.asked == asked + 2, "no third try beside the second"


async def test_rule_i36_when_both_fail_the_client_is_told(start: Start) -> None:
    rig = await start(pools=2, fresh=True, retries={"attempts": 1}, **HEDGE)
    await learn(rig)
    second_came = asyncio.Event()

    async def came(connection: Connection) -> None:
        second_came.set()

    rig.play([second_came, fin], [came, 0.1, fin])
    answer = await rig.ask(stream=True)
    assert (answer.status, answer.error["code"]) == (502, "upstream_reset")


async def test_rule_i36_the_client_leaves_and_both_are_closed(start: Start) -> None:
    rig = await start(pools=2, fresh=True, **HEDGE)
    asked = await learn(rig)
    rig.play([hang], [hang])
    client = await rig.client()
    await client.send(request(stream=True))
    await rig.reached(asked + 2)
    client.rst()
    await eventually(lambda: not any(one.busy() for one in rig.frontends), "both frontends see the end")


async def test_rule_i36_large_bodies_and_unknown_latencies_are_not_hedged(start: Start) -> None:
    rig = await start(pools=2, fresh=True, timeouts={"first_byte": "1s"}, hedge={"after": "p95", "max_body": "1KiB"})
    rig.each([hang])
    assert (await rig.ask(stream=True)).status == 504, "nothing is known yet of how late is late"
    assert rig.asked == 1
    await learn(rig)
    asked = rig.asked
    rig.each([hang])
    assert (await rig.ask(request({"model": "org/small-7b", "x": "y" * 2000}), limit=20)).status in (404, 504)
    assert rig.asked <= asked + 1


async def test_rule_i36_hedges_keep_within_their_share(start: Start) -> None:
    rig = await start(pools=2, alone=True, hedge={"after": "p50", "max_share": 0.05})
    before = await rig.metrics()
    for one in rig.frontends:
        one.play(*([QUICK, QUICK, [0.3, *QUICK]] * 50))
    for _ in range(120):
        assert (await rig.ask(stream=True)).status == 200
    after = await rig.metrics()
    hedges = after.value("attempts_total", reason="hedge") - before.value("attempts_total", reason="hedge")
    assert 1 <= hedges <= 8, f"{hedges} second tries for 120 requests with a share of 5 %"
    assert rig.asked == 120 + hedges


# Heartbeats.


async def test_row_040_a_silent_stream_gets_comments_between_events_and_none_before_its_head(start: Start) -> None:
    rig = await start(sse={"heartbeat": "300ms"})
    rig.play([0.8, SSE + event(b'{"n":1}'), 1.2, event(b'{"n":2}') + DONE + LAST])
    answer = await rig.ask(stream=True)
    parts = answer.body.split(b'data: {"n":2}\n\n')
    assert parts[0].startswith(b'data: {"n":1}\n\n')
    beats = parts[0][len(b'data: {"n":1}\n\n') :]
    assert beats == b": ping\n" * (len(beats) // 7)
    assert 2 <= len(beats) // 7 <= 6
    assert parts[1] == b"data: [DONE]\n\n"
    assert answer.whole


async def test_row_041_a_beat_is_one_line_and_only_between_events(start: Start) -> None:
    rig = await start(sse={"heartbeat": "200ms"})
    half_event = b'data: {"n":'
    rig.play([SSE + event(b'{"n":0}') + b"%x\r\n%b\r\n" % (len(half_event), half_event), 0.9, LAST])
    answer = await rig.ask(stream=True)
    assert answer.body == b'data: {"n":0}\n\n' + half_event


async def test_row_043_heartbeats_end_at_the_idle_limit_with_the_truth(start: Start) -> None:
    rig = await start(sse={"heartbeat": "300ms"}, timeouts={"idle": "1s"})
    rig.play([SSE + event(b'{"n":1}'), hang])
    answer = await rig.ask(stream=True)
    assert not answer.whole
    assert b": ping\n" in answer.body
    assert answer.body.count(b'"idle_timeout"') == 1
    assert b"[DONE]" not in answer.body


# Slow start.


async def test_row_092_a_pool_that_joins_ramps_up_from_more_than_nothing(start: Start) -> None:
    rig = await start(pools=2, spare=1, fresh=True, slow_start="6s")
    rig.each(QUICK)
    rig.spare[0].play(QUICK)
    for _ in range(20):
        await rig.ask(stream=True)
    assert rig.counts() == [10, 10], "those that were there from the beginning have their share at once"
    joined = rig.spare[0]
    rig.reload([[rig.frontends[0]], [rig.frontends[1]], [joined]])

    async def listed() -> bool:
        await rig.ask(stream=True)
        return bool(joined.requests)

    await eventually(listed, "the pool that joined gets a request")
    early = rig.asked
    for _ in range(21):
        await rig.ask(stream=True)
    share = (len(joined.requests) - 1) / (rig.asked - early + len(joined.requests) - 1)
    assert share <= 0.25, "a small share at first"

    async def even() -> bool:
        before = [len(one.requests) for one in (*rig.frontends, joined)]
        for _ in range(30):
            await rig.ask(stream=True)
        return [len(one.requests) - n for one, n in zip((*rig.frontends, joined), before, strict=True)] == [10, 10, 10]

    await eventually(even, "its share becomes that of the others", 15)
