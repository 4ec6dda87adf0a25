"""Choosing an upstream: rows B10 of the field reports, rules I20 to I24.

Row 92 (slow start) and row 96 (hedging) are about features that this version refuses as not available.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.service.ingress.client import MODEL, request
from tests.service.ingress.frontend import LAST, SSE, event, hang, whole
from tests.service.ingress.process import eventually
from tests.service.ingress.rig import Rig, Start

pytestmark = [pytest.mark.outside, pytest.mark.asyncio(loop_scope="session")]

BUSY = [whole(b"{}", "503 Busy")]


def spread(before: list[int], after: list[int]) -> list[int]:
    return [b - a for a, b in zip(before, after, strict=True)]


async def many(rig: Rig, clients: int, each: int, *, kept: bool) -> None:
    async def one() -> None:
        client = await rig.client() if kept else None
        for _ in range(each):
            assert (await rig.ask(on=client)).status == 200

    await asyncio.gather(*(one() for _ in range(clients)))


@pytest.mark.parametrize("workers", [1, 2])
async def test_rule_i20_every_pool_gets_exactly_its_share(start: Start, workers: int) -> None:
    rig = await start(pools=4, workers=workers)
    for clients, each, kept in ((1, 20, False), (8, 10, False), (8, 10, True), (40, 1, False)):
        before = rig.counts()
        await many(rig, clients, each, kept=kept)
        total = clients * each
        assert spread(before, rig.counts()) == [total // 4] * 4, (clients, each, kept)


@pytest.mark.parametrize("workers", [1, 2])
async def test_rule_i20_first_the_pool_then_its_frontends(start: Start, workers: int) -> None:
    rig = await start(pools=[1, 3], workers=workers)
    await many(rig, 4, 9, kept=True)
    assert rig.counts() == [18, 6, 6, 6]


async def test_rule_i20_every_model_has_turns_of_its_own(start: Start) -> None:
    rig = await start(pools=2, models=[{"id": MODEL}, {"id": "other"}])
    for n in range(20):
        await rig.ask(model=(MODEL, "other")[n % 2])
    for one in rig.frontends:
        asked = [b'"other"' in request.body for request in one.requests]
        assert (asked.count(True), asked.count(False)) == (5, 5)


@pytest.mark.parametrize("workers", [1, 2])
async def test_rule_i20_weights_are_exact_and_smooth(start: Start, workers: int) -> None:
    rig = await start(pools=4, workers=workers, models=[{"id": MODEL, "weights": {"r0": 2, "c2": 3, "r2": 9, "c3": 0}}])
    order = [(await rig.ask()).json()["served_by"] for _ in range(60)]
    assert rig.counts() == [20, 10, 30, 0]
    assert all(order[n : n + 3].count("f2") <= 2 for n in range(58)), "the heavy one is not asked three times in a row"


async def test_rule_i20_a_repeat_does_not_move_the_turn(start: Start) -> None:
    rig = await start(pools=3)
    rig.frontends[1].play(BUSY)
    answers = [await rig.ask() for _ in range(30)]
    assert {answer.status for answer in answers} == {200}
    assert rig.counts() == [10, 10, 20], "the pool after the failing one takes its repeats, and all keep their turns"


@pytest.mark.parametrize("workers", [1, 2])
async def test_rule_i21_least_requests_over_all_workers(start: Start, workers: int) -> None:
    rig = await start(pools=3, workers=workers, models=[{"id": MODEL, "policy": "least_requests"}])
    ends = {one.name: asyncio.Event() for one in rig.frontends}
    for one in rig.frontends:
        one.play([SSE + event(b"1"), ends[one.name], LAST])
    clients = [await rig.streaming() for _ in range(9)]
    assert rig.counts() == [3, 3, 3]
    ends["f1"].set()
    for client, made in zip(clients, rig.requests, strict=True):
        if made.connection.frontend.name == "f1":
            assert (await client.answer()).whole

    async def freed() -> bool:
        return (await rig.metrics()).value("in_flight_requests", pool=rig.pool(1)) == 0

    await eventually(freed, "f1 is free")
    rig.frontends[1].play([SSE + event(b"1"), hang])
    for _ in range(3):
        await rig.streaming()
    assert rig.counts() == [3, 6, 3]
    for end in ends.values():
        end.set()


async def test_row_083_a_frontend_that_fails_fast_attracts_nothing(start: Start) -> None:
    rig = await start(pools=2, models=[{"id": MODEL, "policy": "least_requests"}])
    rig.frontends[0].play(BUSY)
    rig.frontends[1].play([0.03, whole()])
    for _ in range(5):
        await asyncio.gather(*(rig.ask() for _ in range(4)))
    failing, good = rig.counts()
    assert good == 20
    assert failing <= 8, f"the failing one was asked {failing} times of 20"


@pytest.mark.parametrize("workers", [1, 2])
async def test_rule_i21_local_first_and_then_the_others_in_turn(start: Start, workers: int) -> None:
    rig = await start(pools=3, workers=workers, region="r1", models=[{"id": MODEL, "policy": "local_first"}])
    await many(rig, 3, 4, kept=False)
    assert rig.counts() == [0, 12, 0]
    rig.frontends[1].refuse()
    await many(rig, 2, 5, kept=False)
    assert sum(rig.counts()) == 22
    if workers == 1:
        assert abs(rig.counts()[0] - rig.counts()[2]) <= 1


async def test_rule_i21_local_first_below_its_limit(start: Start) -> None:
    limits = {"in_flight_per_pool": 2}
    rig = await start(pools=3, region="r1", limits=limits, models=[{"id": MODEL, "policy": "local_first"}])
    rig.each([SSE + event(b"1"), hang])
    for _ in range(6):
        await rig.streaming()
    assert rig.counts() == [2, 2, 2]
    assert [r.connection.frontend.name for r in rig.requests[:2]] == ["f1", "f1"]
    answer = await rig.ask()
    assert (answer.status, answer.error["code"]) == (503, "overloaded")
    assert answer.one("retry-after") in {"1", "2", "3", "4", "5"}


@pytest.mark.parametrize("workers", [1, 2])
async def test_rule_i22_sessions_stay_and_only_those_of_a_lost_pool_move(start: Start, workers: int) -> None:
    rig = await start(pools=4, workers=workers, models=[{"id": MODEL, "affinity": {"header": "x-session-id"}}])

    async def homes() -> dict[int, str]:
        out = {}
        for n in range(40):
            answer = await rig.ask(headers=[f"X-Session-ID: s{n}"])
            out[n] = answer.json()["served_by"]
        return out

    first = await homes()
    assert await homes() == first
    assert len(set(first.values())) == 4
    rig.frontends[2].refuse()
    moved = await homes()
    assert {n for n in first if moved[n] != first[n]} == {n for n in first if first[n] == "f2"}
    assert len({moved[n] for n in first if first[n] == "f2"}) > 1, "all went to one neighbour"


async def test_rule_i22_without_the_header_the_policy(start: Start) -> None:
    rig = await start(pools=4, models=[{"id": MODEL, "affinity": {"header": "x-session-id"}}])
    await many(rig, 2, 10, kept=True)
    assert rig.counts() == [5, 5, 5, 5]


async def test_row_087_probes_do_not_touch_the_load(start: Start) -> None:
    rig = await start(pools=2, probe={"interval": "100ms", "timeout": "2s"}, retries={"first_event_gate": False})
    rig.each([SSE + event(b"1"), hang])
    for _ in range(6):
        await rig.streaming()
    for _ in range(5):
        assert (await rig.metrics()).value("in_flight_requests") == 6
        await asyncio.sleep(0.1)
    assert any(one.asked_models for one in rig.frontends[0].connections)


@pytest.mark.parametrize("workers", [1, 2])
async def test_row_089_members_that_come_and_go_leave_the_turns_of_others_alone(start: Start, workers: int) -> None:
    rig = await start(pools=4, workers=workers, fresh=True)
    stop = asyncio.Event()
    done: list[str] = []

    async def load() -> None:
        client = await rig.client()
        while not stop.is_set():
            answer = await rig.ask(on=client)
            assert answer.status == 200
            done.append(answer.json()["served_by"])
            await asyncio.sleep(0.005)

    clients = [asyncio.create_task(load()) for _ in range(3)]
    for n in range(16):
        rig.reload(pools=rig.pools[: 3 + n % 2])
        await asyncio.sleep(0.12)
    stop.set()
    await asyncio.gather(*clients)
    counts = rig.counts()
    steady = counts[:3]
    assert len(done) > 200
    assert max(steady) < 1.1 * min(steady) + 4, counts
    assert counts[3] > 0


async def test_row_090_a_reload_does_not_begin_the_turns_anew(start: Start) -> None:
    rig = await start(pools=3, fresh=True)
    before = 0
    for n in range(12):
        await rig.ask()
        rig.reload(models=[{"id": MODEL, "aliases": [f"a{n}"]}])

        async def applied(alias: str = f"a{n}") -> bool:
            return any(alias in model["aliases"] for model in (await rig.ingress.status())["models"])

        await eventually(applied, "the reload is done")
        before += 1
    assert before == 12
    assert rig.counts() == [4, 4, 4]


async def test_row_091_the_share_of_a_pool_that_is_out_goes_to_all_others(start: Start) -> None:
    rig = await start(pools=4, fresh=True, ejection={"failures": 1, "base": "60s"})
    rig.frontends[1].play(BUSY)
    for _ in range(4):
        await rig.ask()
    before = rig.counts()
    await many(rig, 3, 30, kept=True)
    assert spread(before, rig.counts()) == [30, 0, 30, 30]


async def test_row_093_the_loops_of_the_supervisor_outlive_reloads(start: Start) -> None:
    rig = await start(pools=2, fresh=True, probe={"interval": "200ms", "timeout": "2s"})
    for n in range(5):
        rig.reload(models=[{"id": MODEL, "aliases": [f"a{n}"]}])
        await asyncio.sleep(0.05)
    asked = sum(one.asked_models for one in rig.frontends[0].connections)

    async def asks_on() -> bool:
        return sum(one.asked_models for one in rig.frontends[0].connections) > asked + 2

    await eventually(asks_on, "probes go on after reloads", 10)
    ticks = (await rig.metrics()).by("loop_last_tick_timestamp_seconds", "loop")
    await asyncio.sleep(1.2)
    later = (await rig.metrics()).by("loop_last_tick_timestamp_seconds", "loop")
    assert set(ticks) == {"supervisor", "worker-0"}
    assert all(later[loop] > ticks[loop] for loop in ticks)


async def test_row_094_probe_headers_are_sent(start: Start) -> None:
    rig = await start(pools=1, probe={"interval": "200ms", "timeout": "2s", "headers": {"Authorization": "Bearer k"}})

    async def sent() -> bool:
        return any(b"Bearer k" in bytes(one.raw) for one in rig.frontends[0].connections)

    await eventually(sent, "the probe carries the header")
    assert "Bearer k" not in (await rig.ingress.admin("/config")).text


async def test_row_095_a_frontend_that_is_not_ready_gets_nothing(start: Start) -> None:
    rig = await start(pools=2, fresh=True, probe={"interval": "200ms", "timeout": "2s"})
    rig.frontends[0].ready = False

    async def out() -> bool:
        (pool,) = [one for one in (await rig.ingress.admin("/pools")).json()["pools"] if one["cluster"] == "c0"]
        return pool["routable"] is False

    await eventually(out, "its probe fails and it is out")

    async def left_alone() -> bool:
        before = rig.counts()
        await many(rig, 2, 5, kept=False)
        return spread(before, rig.counts()) == [0, 10]

    await eventually(left_alone, "the workers know it too", 5)
    before = rig.counts()
    rig.frontends[0].ready = True

    async def back() -> bool:
        await rig.ask()
        return len(rig.frontends[0].requests) > before[0]

    await eventually(back, "it is back when it is ready")


async def test_row_086_row_088_all_policies_ask_the_same_question(start: Start) -> None:
    """What the status says is routable is what every policy uses."""
    policies: list[dict[str, Any]] = [
        {"policy": "round_robin"},
        {"policy": "least_requests"},
        {"policy": "local_first"},
    ]
    policies += [{"affinity": {"header": "x-session-id"}}]
    models = [{"id": f"m{n}", **policy} for n, policy in enumerate(policies)]
    rig = await start(pools=3, fresh=True, region="r1", models=models, ejection={"failures": 2, "base": "60s"})
    rig.frontends[1].play(BUSY)
    for _ in range(12):
        await rig.ask(model="m0")
    before = rig.counts()
    for model in ("m0", "m1", "m2", "m3"):
        for n in range(8):
            assert (await rig.ask(request(model=model, headers=[f"x-session-id: {n}"]))).status == 200
    assert spread(before, rig.counts())[1] == 0
    status = await rig.ingress.status()
    for model in status["models"]:
        assert [pool["state"] for pool in model["pools"]] == ["routable", "all_ejected", "routable"]
    assert (await rig.get("/v1/models")).status == 200


async def test_rule_i23_a_pool_whose_list_lacks_the_model_is_left_out(start: Start) -> None:
    rig = await start(pools=2, fresh=True, probe={"interval": "200ms", "timeout": "2s"})
    rig.frontends[0].models = [{"id": "another", "object": "model"}]

    async def out() -> bool:
        before = rig.counts()
        for _ in range(4):
            await rig.ask()
        return spread(before, rig.counts()) == [0, 4]

    await eventually(out, "it gets no request of that model")
    (pool,) = [one for one in (await rig.ingress.admin("/pools")).json()["pools"] if one["cluster"] == "c0"]
    assert (pool["state"], pool["lists"]) == ("model_not_listed", ["another"])
