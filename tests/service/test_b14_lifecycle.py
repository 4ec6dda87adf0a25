"""Rolling, draining, reloading, dying: rows B14 of the field reports, rules I49 to I53.

Every test that ends the process has one of its own.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.service.ingress.checks import frame_of
from tests.service.ingress.client import MODEL, Client, request
from tests.service.ingress.frontend import DONE, LAST, SSE, Script, event, hang, whole
from tests.service.ingress.process import eventually
from tests.service.ingress.rig import Rig, Start
from tests.service.running import Command, directory, slice_object, write

pytestmark = [pytest.mark.outside, pytest.mark.asyncio(loop_scope="session")]

OK = [whole(b'{"ok":1}')]
EVENT = b"data: 1\n\n"


def ticking(count: int, pause: float = 0.1) -> Script:
    return [SSE, *[step for n in range(count) for step in (event(b"%d" % n), pause)], DONE + LAST]


def terminate(rig: Rig) -> float:
    rig.ingress.may_end = True
    rig.ingress.signal(signal.SIGTERM)
    return rig.loop.time()


@dataclass
class Load:
    """Clients that ask one request after the other; `bad` is everything that was not a 200."""

    rig: Rig
    bad: list[str] = field(default_factory=list)
    done: int = 0

    async def client(self, *, kept: bool) -> None:
        client: Client | None = None
        while True:
            client = client or await self.rig.client()
            answer = await self.rig.ask(on=client)
            self.done += 1
            if answer.status != 200 or not answer.whole:
                self.bad.append(repr(answer))
            if not kept or answer.all("connection") == ["close"]:
                client.fin()
                client = None
            await asyncio.sleep(0.005)


@asynccontextmanager
async def load(rig: Rig, *, kept: int = 3, fresh: int = 1) -> AsyncIterator[Load]:
    one = Load(rig)
    tasks = [asyncio.create_task(one.client(kept=n < kept)) for n in range(kept + fresh)]
    try:
        yield one
        broken = [task for task in tasks if task.done()]
        assert not broken, [task.exception() for task in broken]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# Draining (I52).


@pytest.mark.parametrize("workers", [1, 2])
async def test_row_139_row_141_row_144_a_drain_loses_nothing(start: Start, workers: int) -> None:
    rig = await start(pools=2, alone=True, workers=workers, drain={"delay": "800ms", "timeout": "10s"})
    rig.play(ticking(25), OK)
    stream = await rig.streaming()
    kept = await rig.client()
    await rig.ask(on=kept)
    began = terminate(rig)

    async def not_ready() -> bool:
        return (await rig.ingress.admin("/readyz")).status_code == 503

    await eventually(not_ready, "/readyz is 503 at once", 0.7)
    assert (await rig.get("/readyz")).status == 503
    assert (await rig.ask()).status == 200, "new connections are served within the delay"
    answer = await rig.ask(on=kept)
    assert answer.status == 200, "kept ones too"
    if kept.open:
        assert await kept.ended() - began > 0.5, "an idle kept connection is closed when the delay ends"
    answer = await stream.answer()
    assert (answer.whole, answer.body.count(b"data: ")) == (True, 26)
    assert await rig.ingress.exit_code() == 0


async def test_row_139_after_the_delay_nothing_is_accepted_and_answers_close(start: Start) -> None:
    rig = await start(pools=2, alone=True, drain={"delay": "200ms", "timeout": "10s"})
    rig.play(ticking(25), [1.0, whole()])
    stream = await rig.streaming()
    waiting = await rig.client()
    await waiting.send(request())
    await rig.reached(2)
    terminate(rig)
    await asyncio.sleep(0.6)
    with pytest.raises(ConnectionRefusedError):
        await rig.client()
    answer = await waiting.answer()
    assert (answer.status, answer.all("connection")) == (200, ["close"])
    await waiting.ended(5)
    assert (await stream.answer()).whole
    assert await rig.ingress.exit_code() == 0


@pytest.mark.parametrize("gate", [False, True], ids=["open", "gate"])
async def test_row_139_what_takes_longer_than_the_drain_is_cut_with_the_truth(start: Start, gate: bool) -> None:
    rig = await start(
        pools=2, alone=True, drain={"delay": "100ms", "timeout": "700ms"}, retries={"first_event_gate": gate}
    )
    rig.play([SSE + event(b"1"), hang])
    stream, unary = await rig.streaming(), await rig.client()
    rig.play([hang])
    await unary.send(request())
    await rig.reached(2)
    began = terminate(rig)
    answer = await stream.answer()
    assert frame_of(answer, EVENT)["code"] == "draining"
    assert 0.6 < answer.end_at - began < 5
    answer = await unary.answer()
    assert (answer.status, answer.error["code"], answer.all("connection")) == (503, "draining", ["close"])
    assert await rig.ingress.exit_code() == 0
    assert all(line["outcome"] == "drained" for line in rig.ingress.access()[-2:])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["TERM", "INT"])
async def test_row_139_a_second_signal_ends_it_now(start: Start, number: signal.Signals) -> None:
    rig = await start(pools=2, alone=True, drain={"delay": "60s", "timeout": "60s"})
    rig.play([SSE + event(b"1"), hang])
    stream = await rig.streaming()
    rig.ingress.may_end = True
    rig.ingress.signal(number)

    async def draining() -> bool:
        return (await rig.ingress.admin("/readyz")).status_code == 503

    await eventually(draining, "it drains")
    assert rig.ingress.alive
    began = rig.loop.time()
    rig.ingress.signal(number)
    assert frame_of(await stream.answer(), EVENT)["code"] == "draining"
    assert await rig.ingress.exit_code(8) == 0
    assert rig.loop.time() - began < 8


async def test_rule_i52_a_drain_under_load_fails_no_request(start: Start) -> None:
    rig = await start(pools=2, alone=True, drain={"delay": "700ms", "timeout": "5s"})
    ended: list[str] = []
    statuses: list[int] = []

    async def client() -> None:
        one = await rig.client()
        while True:
            await one.send(request())
            answer = await one.answer()
            statuses.append(answer.status)
            if answer.all("connection") == ["close"]:
                ended.append("told")
                return
            await asyncio.sleep(0.002)
            if one.end:
                ended.append("between")
                return

    tasks = [asyncio.create_task(client()) for _ in range(6)]
    await asyncio.sleep(0.3)
    terminate(rig)
    assert await rig.ingress.exit_code() == 0
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert set(statuses) == {200}
    # Closing an idle connection races with the client's next request; nothing else may go wrong.
    assert [r for r in results if r is not None and "before an answer: b''" not in str(r) and str(r)] == []


# Reloading (I51).


async def test_row_142_streams_keep_what_they_began_with_through_reloads(start: Start) -> None:
    rig = await start(pools=3, fresh=True)
    rig.each(ticking(15))
    streams = [await rig.streaming() for _ in range(20)]
    rig.each(OK)
    async with load(rig) as running:
        for n in range(12):
            rig.reload(pools=rig.pools[n % 2 : 3 - n % 3 // 2], timeouts={"idle": f"{10 + n}s"})
            await asyncio.sleep(0.1)
    assert running.bad == []
    assert running.done > 50
    for stream in streams:
        answer = await stream.answer()
        assert (answer.whole, answer.body.count(b"data: ")) == (True, 16)


@pytest.mark.parametrize("workers", [1, 2])
async def test_rule_i51_no_request_fails_across_a_hundred_reloads(start: Start, workers: int) -> None:
    rig = await start(pools=3, fresh=True, workers=workers)
    before = await rig.metrics()
    async with load(rig) as running:
        for n in range(100):
            rig.reload(models=[{"id": MODEL, "aliases": [f"a{n}"]}])
            await asyncio.sleep(0.02)
    assert running.bad == []
    assert running.done > 50

    async def last() -> bool:
        return (await rig.ask(model="a99")).status == 200

    await eventually(last, "the last one counts")
    counts = rig.counts()
    assert max(counts) - min(counts) <= 1, f"turns go on through reloads: {counts}"
    assert (await rig.metrics()).value("config_reloads_total", result="ok") > before.value("config_reloads_total")


async def test_rule_i51_a_changed_file_is_read_without_a_signal(start: Start) -> None:
    rig = await start(pools=2, fresh=True)
    rig.reload(pools=[[rig.frontends[1]]], hup=False)

    async def moved() -> bool:
        return {(await rig.ask()).json()["served_by"] for _ in range(3)} == {"f1"}

    await eventually(moved, "the new settings count")


async def test_rule_i51_a_wrong_file_is_refused_with_all_its_faults(start: Start) -> None:
    rig = await start(pools=2, fresh=True)
    before = await rig.metrics()
    rig.ingress.write('{"discovery": {"pools": []}, "modles": 3, "timeouts": {"connect": "soon"}}')
    rig.ingress.signal(signal.SIGHUP)

    def told() -> bool:
        return all(word in rig.ingress.text() for word in ("modles", "soon"))

    await eventually(told, "both faults are in the log")
    assert (await rig.ask()).status == 200
    assert (await rig.ingress.admin("/readyz")).status_code == 200
    after = await rig.metrics()
    assert after.value("config_reloads_total", result="refused") > before.value(
        "config_reloads_total", result="refused"
    )
    status = await rig.ingress.status()
    assert any("modles" in str(reload) for reload in status["reloads"])


async def test_rule_i51_what_needs_a_restart_says_so(start: Start) -> None:
    rig = await start(pools=2, fresh=True)
    rig.reload(workers=2)

    async def said() -> bool:
        return any("workers" in reload["needs_restart"] for reload in (await rig.ingress.status())["reloads"])

    await eventually(said, "the status names it")
    assert len((await rig.ingress.status())["workers"]) == 1


async def test_row_140_row_143_frontends_roll_under_load(start: Start) -> None:
    """Each frontend is replaced by a new one: listed, then the old one unlisted, then gone."""
    rig = await start(pools=3, spare=3, fresh=True)
    now = [list(pool) for pool in rig.pools]
    async with load(rig) as running:
        for n, new in enumerate(rig.spare):
            old = now[n][0]
            now[n] = [old, new]
            rig.reload(pools=now)
            await asyncio.sleep(0.2)
            now[n] = [new]
            rig.reload(pools=now)
            await asyncio.sleep(0.2)
            old.refuse()
    assert running.bad == []
    assert all(one.requests for one in rig.spare)


async def test_row_143_a_frontend_that_goes_before_the_table_knows_costs_nobody_a_request(start: Start) -> None:
    rig = await start(pools=3, fresh=True)
    async with load(rig) as running:
        await asyncio.sleep(0.2)
        rig.frontends[1].refuse()
        await asyncio.sleep(0.4)
        await rig.frontends[1].start()
        await asyncio.sleep(0.3)
    assert running.bad == []


# Workers (I53).


async def test_rule_i53_a_killed_worker_takes_only_its_own_requests(start: Start) -> None:
    rig = await start(pools=2, alone=True, workers=2)
    rig.each([SSE + event(b"1"), 3.0, event(b"2") + LAST])
    streams = [await rig.streaming() for _ in range(12)]
    before = await rig.metrics()
    assert before.value("in_flight_requests") == 12
    workers = (await rig.ingress.status())["workers"]
    killed = rig.loop.time()
    os.kill(workers[0]["pid"], signal.SIGKILL)

    async def replaced() -> bool:
        now = (await rig.ingress.status())["workers"]
        return now[0]["pid"] not in (None, workers[0]["pid"]) and now[0]["listening"]

    await eventually(replaced, "a new worker listens", 10)
    took = rig.loop.time() - killed
    rig.each(OK)
    for _ in range(20):
        assert (await rig.ask()).status == 200
    answers = [await stream.answer() for stream in streams]
    whole_ones = [answer for answer in answers if answer.whole]
    assert 0 < len(whole_ones) < 12, "some streams were those of the other worker"
    assert all(answer.body == b"data: 1\n\ndata: 2\n\n" for answer in whole_ones)
    assert all(answer.body == EVENT for answer in answers if not answer.whole)
    after = await rig.metrics()
    assert after.value("workers_replaced_total") == 1
    assert took < 6


async def test_rule_i53_totals_never_fall_when_a_worker_dies(start: Start) -> None:
    rig = await start(pools=2, alone=True, workers=2)
    await asyncio.gather(*(rig.ask() for _ in range(40)))
    before = await rig.metrics()
    assert before.value("requests_total") == 40
    for worker in (await rig.ingress.status())["workers"]:
        os.kill(worker["pid"], signal.SIGKILL)

    async def both_back() -> bool:
        workers = (await rig.ingress.status())["workers"]
        assert (await rig.metrics()).value("requests_total") >= 40
        return all(worker["starts"] == 2 and worker["listening"] for worker in workers)

    await eventually(both_back, "both are replaced", 15)
    await asyncio.gather(*(rig.ask() for _ in range(20)))
    await rig.grew(before, "requests_total", 20)
    assert rig.counts() == [30, 30], "turns outlive workers"


async def test_rule_i53_a_connection_in_a_dead_workers_queue_is_served(start: Start) -> None:
    rig = await start(pools=2, alone=True, workers=1)
    (worker,) = (await rig.ingress.status())["workers"]
    os.kill(worker["pid"], signal.SIGSTOP)
    client = await rig.client()
    await client.send(request())
    os.kill(worker["pid"], signal.SIGKILL)
    assert (await client.answer()).status == 200


async def test_rule_i53_workers_end_when_the_supervisor_is_killed(start: Start) -> None:
    rig = await start(pools=2, alone=True, workers=2)
    pids = [worker["pid"] for worker in (await rig.ingress.status())["workers"]]
    rig.ingress.may_end = True
    rig.ingress.process.kill()

    def gone() -> bool:
        return all(not Path(f"/proc/{pid}").exists() or _zombie(pid) for pid in pids)

    await eventually(gone, "the workers are gone too")


def _zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


# A directory that changes, empties, or is away (I49, I50).


@dataclass
class Directed:
    rig: Rig
    files: Path
    command: Command

    def table(self, *listed: int) -> None:
        """The frontends that slices list now, each a cluster of its own."""
        objects = [
            slice_object(f"c{n}", "127.0.0.1", ports=[{"name": "http", "port": one.port, "protocol": "TCP"}])
            for n in listed
            for one in (self.rig.frontends[n],)
        ]
        write(self.files / "slices.yaml", *objects)

    async def shared(self, *allowed: int) -> None:
        """Wait until requests go to exactly these."""
        wanted = {f"f{n}" for n in allowed}

        async def so() -> bool:
            return {(await self.rig.ask()).json().get("served_by") for _ in range(2 * len(allowed) + 1)} == wanted

        await eventually(so, f"requests go to {wanted}")


@asynccontextmanager
async def directed(start: Start, folder: Path, **settings: object) -> AsyncIterator[Directed]:
    """An ingress whose pools come from a real directory over files; two frontends in two clusters."""
    rig = await start(pools=2, fresh=True)
    write(folder / "slices.yaml")
    async with directory(folder) as (url, command):
        one = Directed(rig, folder, command)
        one.table(0, 1)
        await asyncio.sleep(0.3)
        document = rig.settings | {"discovery": {"urls": [url]}, "models": [{"id": MODEL}]} | settings
        rig.ingress.write(document)
        rig.ingress.signal(signal.SIGHUP)

        async def followed() -> bool:
            status = await rig.ingress.status()
            return (
                bool(status["discovery"]["epoch"])
                and [p["cluster"] for p in status["pools"]] == ["c0", "c1"]
                and ("inference" in str(status["pools"]))
            )

        await eventually(followed, "the directory's table is used")
        await one.shared(0, 1)
        yield one


PROBED = {"probe": {"interval": "200ms", "timeout": "2s"}}


async def test_rule_i49_rule_i50_a_pool_that_leaves_and_streams_that_stay(start: Start, tmp_path: Path) -> None:
    async with directed(start, tmp_path) as one:
        rig = one.rig
        rig.each(ticking(15))
        streams = [await rig.streaming() for _ in range(4)]
        rig.frontends[0].play([whole(b'{"served_by":"f0"}')])
        rig.frontends[1].play([whole(b'{"served_by":"f1"}')])
        one.table(1)
        await one.shared(1)
        for stream in streams:
            answer = await stream.answer()
            assert (answer.whole, answer.body.count(b"data: ")) == (True, 16)
        one.table(0, 1)
        await one.shared(0, 1)


async def test_rule_i49_all_pools_gone_at_once_are_held_while_they_live(start: Start, tmp_path: Path) -> None:
    async with directed(start, tmp_path, **PROBED) as one:
        rig = one.rig
        one.table()

        async def held() -> bool:
            return (await rig.metrics()).value("models_held") == 1

        await eventually(held, "the last good pools are held")
        for _ in range(4):
            assert (await rig.ask()).status == 200
        status = await rig.ingress.status()
        assert status["models"][0]["held_for_s"] is not None
        assert any("held" in warning for warning in status["warnings"])
        one.table(0, 1)

        async def over() -> bool:
            return (await rig.metrics()).value("models_held") == 0

        await eventually(over, "nothing is held when they are back")


async def test_rule_i50_a_directory_that_is_away_takes_nothing_with_it(start: Start, tmp_path: Path) -> None:
    async with directed(start, tmp_path) as one:
        rig = one.rig
        one.command.process.send_signal(signal.SIGTERM)
        await one.command.process.wait()

        async def ages() -> bool:
            return (await rig.metrics()).value("discovery_age_seconds") > 1

        await eventually(ages, "the table's age is shown")
        await one.shared(0, 1)
        assert (await rig.ingress.admin("/readyz")).status_code == 200
