"""Leader election: the decisions on a clock that tests own, and the requests against a fake API server."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery.kit.clock import SYSTEM_CLOCK
from discovery.kube.client import Access
from discovery.kube.election import Create, Election, LeasePolicy, Replace, Wait, micro_time
from discovery.kube.lease_lock import LeadershipLost, LeaseLock
from discovery.kube.writes import KubeWriter
from discovery.testing.cluster import FakeCluster, Silence, server_error

DATE = datetime(2026, 1, 1, tzinfo=UTC)
POLICY = LeasePolicy()
QUICK = LeasePolicy(duration=1, renew_deadline=0.6, retry=0.05)


class Server:
    """A Lease as a server keeps it."""

    def __init__(self) -> None:
        self.record: dict[str, Any] | None = None
        self.version = 0

    def look(self, one: Election, now: float) -> bool:
        """One turn of a candidate; whether it has written."""
        one.seen(self.record, now)
        wish = one.wish(now, DATE + timedelta(seconds=now))
        if isinstance(wish, Wait):
            return False
        self.version += 1
        body = wish.body
        self.record = body | {"metadata": body["metadata"] | {"resourceVersion": str(self.version)}}
        one.won(self.record, now)
        return True


def candidate(name: str) -> Election:
    return Election("default", "lock", name, POLICY)


def test_the_first_one_leads_and_the_second_waits_for_its_end() -> None:
    server, a, b = Server(), candidate("a"), candidate("b")
    a.seen(None, 0.0)
    assert isinstance(a.wish(0.0, DATE), Create)
    assert server.look(a, 0.0)
    assert a.is_ours
    assert not server.look(b, 1.0)
    assert b.holder == "a"
    # a renews at 10: b counts from when it saw that.
    assert server.look(a, 10.0)
    assert not server.look(b, 12.0)
    assert not server.look(b, 26.9)
    assert a.lost(20.0)
    assert server.look(b, 27.0)
    assert (b.is_ours, b.held.transitions if b.held else None) == (True, 1)
    a.seen(server.record, 28.0)
    assert not a.is_ours


def test_times_of_others_are_not_believed() -> None:
    server, a, b = Server(), candidate("a"), candidate("b")
    assert server.look(a, 0.0)
    assert server.record is not None
    server.record["spec"]["renewTime"] = "1999-01-01T00:00:00.000000Z"
    assert not server.look(b, 0.0)
    assert not server.look(b, 14.9)


def test_a_released_lease_is_free_at_once_and_counted() -> None:
    server, a, b = Server(), candidate("a"), candidate("b")
    assert server.look(a, 0.0)
    before = a.held
    released = a.release(DATE)
    assert released is not None
    assert (released["spec"]["holderIdentity"], released["spec"]["leaseDurationSeconds"]) == ("", 1)
    server.record = released | {"metadata": released["metadata"] | {"resourceVersion": "9"}}
    assert server.look(b, 0.1)
    assert b.held is not None
    assert before is not None
    assert b.held > before
    assert a.release(DATE) is None


def test_a_deleted_lease_does_not_make_leaderships_old_again() -> None:
    server, a, b = Server(), candidate("a"), candidate("b")
    assert server.look(a, 0.0)
    assert not server.look(b, 0.0)
    assert server.look(b, 15.0)
    server.record = None
    assert server.look(b, 16.0)
    assert b.held is not None
    assert b.held.transitions == 2


@given(st.datetimes(timezones=st.just(UTC)))
def test_micro_time_has_six_decimals(moment: datetime) -> None:
    text = micro_time(moment)
    assert len(text.partition(".")[2]) == len("000000Z")


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0.1, 9.0)), max_size=40))
def test_never_two_that_may_write(turns: list[tuple[str, float]]) -> None:
    server, now = Server(), 0.0
    each = {name: candidate(name) for name in "ab"}
    for name, wait in turns:
        now += wait
        server.look(each[name], now)
        writers = [name for name, one in each.items() if one.held is not None and one.is_ours and not one.lost(now)]
        assert len(writers) <= 1


async def _lock(cluster: FakeCluster, folder: Path, name: str) -> tuple[KubeWriter, LeaseLock]:
    client = KubeWriter(Access(str(cluster.kubeconfig(folder / f"{name}.yaml"))))
    return client, LeaseLock(client, "default", "lock", name, SYSTEM_CLOCK, policy=QUICK, chance=lambda: 0.5)


async def test_against_an_api_server(tmp_path: Path) -> None:
    async with FakeCluster() as cluster:
        a_client, a = await _lock(cluster, tmp_path, "a")
        b_client, b = await _lock(cluster, tmp_path, "b")
        async with a_client, b_client:
            first = await a.acquire()
            keeping = asyncio.create_task(a.keep())
            waiting = asyncio.create_task(b.acquire())
            await cluster.until(lambda: len(cluster.asked("update", "leases")) >= 5)
            assert not waiting.done()
            assert a.leads
            keeping.cancel()
            await asyncio.wait([keeping])
            await a.release()
            second = await waiting
            assert second > first
            assert b.leads


@pytest.mark.parametrize("fault", [server_error(), Silence()])
async def test_a_leader_that_cannot_renew_stops_in_time(tmp_path: Path, fault: Any) -> None:
    async with FakeCluster() as cluster:
        client, lock = await _lock(cluster, tmp_path, "a")
        async with client:
            await lock.acquire()
            cluster.faults.add(fault, resource="leases.coordination.k8s.io", times=None)
            loop = asyncio.get_running_loop()
            began = loop.time()
            with pytest.raises(LeadershipLost):
                await lock.keep()
            assert loop.time() - began < QUICK.duration
            assert not lock.leads


async def test_a_lease_that_another_has_taken_is_lost(tmp_path: Path) -> None:
    async with FakeCluster() as cluster:
        client, lock = await _lock(cluster, tmp_path, "a")
        async with client:
            await lock.acquire()
            cluster.change("leases", "default", "lock", lambda thing: thing["spec"].update(holderIdentity="b"))
            with pytest.raises(LeadershipLost):
                await lock.keep()


def test_wishes_are_what_they_say() -> None:
    one = candidate("a")
    one.seen({"metadata": {"resourceVersion": "1"}, "spec": {}}, 0.0)
    assert isinstance(one.wish(0.0, DATE), Replace)
