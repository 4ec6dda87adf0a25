"""gRPC over a registry in this process: every reason has its status, deadlines cut no write, a slow reader holds up
nobody, and the answers are those of REST."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import grpc
import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discovery.kit.clock import SYSTEM_CLOCK
from discovery.kit.metrics import Metrics
from discovery.kit.testing import VirtualClock
from discovery.mcs import messages, wire
from discovery.mcs.digest import digest
from discovery.mcs.model import Announcement, Endpoint, EndpointSet, Export, Import, ServicePort, ServiceType, Term
from discovery.mcs.openapi import STATUS
from discovery.mcs.proto import registry_pb2 as pb
from discovery.mcs.proto import registry_pb2_grpc
from discovery.mcs.registry import Reason, Refused, Served
from discovery.mcs.rest import Rest
from discovery.mcs.rpc import CODES, Rpc
from discovery.mcs.rpc_server import serve_rpc
from discovery.mcs.service import RegistryService
from discovery.mcs.store_memory import MemoryStore
from discovery.mcs.watchers import Watchers
from tests.discovery.mcs.making import HELLO, OTHER, Member, endpoints, export, service

Stub: Any = registry_pb2_grpc.RegistryStub
OHIO = Announcement("ohio", "u", "us", Term(1, 0))


def anybody(authorization: str | None, cluster: str | None) -> None:
    """Nobody is refused."""


def fail(error: Exception) -> None:
    raise error


@asynccontextmanager
async def served(registry: Served, metrics: Metrics | None = None) -> AsyncIterator[Any]:
    """A stub that speaks to this registry over a socket."""
    rpc = Rpc(registry, anybody, metrics or Metrics())
    serving = serve_rpc(rpc, "127.0.0.1", 0, clock=SYSTEM_CLOCK, is_ready=lambda: True, on_failure=fail, drain=1.0)
    async with serving as where, grpc.aio.insecure_channel(where) as channel:
        yield Stub(channel)


def making() -> RegistryService:
    return service(VirtualClock(), MemoryStore(durable=True))


class Refusing(RegistryService):
    """Says no to whoever registers."""

    why = Refused(Reason.INVALID, "")

    async def register(self, cluster: Announcement) -> Any:
        raise self.why


def refusing() -> Refusing:
    real = making()
    return Refusing(real._store, VirtualClock(), epoch="e1", chance=lambda: 0.5)


def test_every_reason_has_a_status_in_both_apis() -> None:
    assert set(CODES) == set(STATUS) == set(Reason)


async def test_every_reason_over_a_socket() -> None:
    registry, metrics = refusing(), Metrics()
    async with served(registry, metrics) as stub:
        for reason in Reason:
            registry.why = Refused(reason, "no \u20ac" + "x" * 5_000, field="exported_ms", retry_after_s=2.5)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.Register(messages.write(OHIO), timeout=10)
            assert caught.value.code() is CODES[reason]
            trailers = dict(caught.value.trailing_metadata())
            assert trailers == {
                "mcs-reason": reason.value,
                "mcs-field": "exportedAt",
                "grpc-retry-pushback-ms": "2500",
            }
            assert caught.value.details().startswith("no \u20acxxx")
    text = metrics.exposition().decode()
    assert 'dynamo_mcs_registry_grpc_requests_total{call="register",status="NOT_FOUND"} 1.0' in text


async def test_a_fault_of_ours_says_nothing_of_itself() -> None:
    registry = refusing()
    registry.why = RuntimeError("a secret")  # type: ignore[assignment]
    async with served(registry) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Register(messages.write(OHIO), timeout=10)
        assert caught.value.code() is grpc.StatusCode.INTERNAL
        assert caught.value.details() == "see the registry's log"


class Held(RegistryService):
    """Writes when it is let."""

    let: asyncio.Event
    wrote: asyncio.Event

    async def register(self, cluster: Announcement) -> Any:
        await self.let.wait()
        registration = await super().register(cluster)
        self.wrote.set()
        return registration


async def test_a_deadline_ends_the_waiting_and_not_the_write() -> None:
    registry = Held(MemoryStore(), VirtualClock(), epoch="e1", chance=lambda: 0.5)
    registry.let, registry.wrote = asyncio.Event(), asyncio.Event()
    await registry.open()
    async with served(registry) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Register(messages.write(OHIO), timeout=0.2)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert await registry.clusters() == ()
        registry.let.set()
        await asyncio.wait_for(registry.wrote.wait(), 5)
        assert [one.id for one in await registry.clusters()] == ["ohio"]


async def test_lists_come_in_parts_that_any_client_takes() -> None:
    registry = making()
    await registry.open()
    member = Member(registry, "c1")
    await member.register()
    many = [export("c1", HELLO._replace(name=f"s{n}"), labels=(("text", "x" * 50_000),)) for n in range(25)]
    await member.put(*many)
    async with served(registry) as stub:
        parts = [part async for part in stub.ListExports(pb.ListExportsRequest(cluster="c1"), timeout=10)]
        assert len(parts) > 1
        assert all(part.ByteSize() <= 600_000 for part in parts)
        assert {part.revision for part in parts} == {registry.revision}
        found = [messages.read(Export, item) for part in parts for item in part.items]
        assert sorted(found, key=repr) == sorted(many, key=repr)


async def test_a_reader_that_does_not_read_starts_over_and_holds_up_nobody() -> None:
    registry = making()
    registry.watchers = Watchers(keys=50)
    await registry.open()
    member = Member(registry, "c1")
    await member.join(export())
    long = tuple(Endpoint((f"10.0.0.{n % 250}",), hostname=f"{n}-" + "h" * 60) for n in range(1_000))
    async with served(registry) as stub:
        slow, quick = (stub.Watch(pb.WatchRequest(), timeout=60) for _ in range(2))
        for one in (slow, quick):
            while (await one.read()).WhichOneof("event") != "snapshot_end":
                pass
        for n in range(400):
            told = replace(endpoints("c1", HELLO, f"s{n}"), endpoints=long)
            await member.put(told)
            async with asyncio.timeout(10):
                event = await quick.read()
            assert event.upsert_endpoints.value.slice == f"s{n}"
        async with asyncio.timeout(30):
            while (event := await slow.read()).WhichOneof("event") != "snapshot_begin":
                assert event.WhichOneof("event") == "upsert_endpoints"
            assert event.snapshot_begin.resync
            slices = set()
            while (event := await slow.read()).WhichOneof("event") != "snapshot_end":
                slices.add(event.upsert_endpoints.value.slice)
        assert slices >= {f"s{n}" for n in range(400)}
        slow.cancel()
        quick.cancel()


PORTS = st.lists(
    st.builds(ServicePort, st.sampled_from(["", "a", "b"]), st.sampled_from(["TCP", "X"]), st.integers(0, 3)),
    max_size=3,
).map(tuple)
EXPORTS = st.builds(
    Export,
    st.just("ohio"),
    st.sampled_from([HELLO, OTHER, HELLO._replace(name="Bad")]),
    st.sampled_from(["u", "v" * 200]),
    st.sampled_from([0, 1_700_000_000_123, -1]),
    st.sampled_from(ServiceType),
    PORTS,
    session_affinity=st.sampled_from(["None", "ClientIP", "other"]),
    affinity_seconds=st.sampled_from([None, 10, 90_000]),
    ip_families=st.sampled_from([(), ("IPv4",), ("IPv4", "IPv4")]),
    labels=st.sampled_from([(), (("a", "b"),), (("", "b"),)]),
)
ENDPOINTS = st.builds(
    Endpoint,
    st.sampled_from([(), ("10.0.0.1",), ("a" * 300,)]),
    ready=st.none() | st.booleans(),
    zone=st.sampled_from(["", "z", "\n"]),
)
SETS = st.builds(
    EndpointSet,
    st.just("ohio"),
    st.sampled_from([HELLO, OTHER]),
    st.sampled_from(["s1", "s2", "_"]),
    st.sampled_from(["IPv4", "other"]),
    st.just(()),
    st.lists(ENDPOINTS, max_size=2).map(tuple),
    stale_since_ms=st.sampled_from([None, 1]),
)
REASONS = {reason.value for reason in Reason}
ENDS = st.tuples(st.integers(0, 3), st.sampled_from([digest(()), "0" * 32, "x"]))


class OverRest:
    def __init__(self, http: httpx.AsyncClient, session: str) -> None:
        self.http = http
        self.session = session

    async def do(self, seq: int, step: Any) -> tuple[str, ...]:
        headers = {"mcs-session": self.session, "mcs-seq": str(seq)}
        match step:
            case Export():
                service = step.service
                body = wire.write(step, without=("cluster", "service"))
                path = f"/v1/clusters/ohio/exports/{service.namespace}/{service.name}"
            case EndpointSet():
                service = step.service
                body = wire.write(step, without=("cluster", "service", "slice"))
                path = f"/v1/clusters/ohio/exports/{service.namespace}/{service.name}/slices/{step.slice}"
            case (count, end):
                began = await self.http.post("/v1/clusters/ohio:sync-begin", headers=headers)
                assert began.status_code == 200
                headers["mcs-seq"] = str(seq + 1)
                answer = await self.http.post(
                    "/v1/clusters/ohio:sync-complete", headers=headers, json={"count": count, "digest": end}
                )
                return self.said(answer)
        return self.said(await self.http.put(path, headers=headers, json=body))

    def said(self, answer: httpx.Response) -> tuple[str, ...]:
        body = answer.json()
        if answer.status_code == 200:
            return (body["revision"],)
        return (body["reason"], *(one["field"] for one in body["details"]))

    async def exports(self) -> Any:
        return (await self.http.get("/v1/clusters/ohio/exports")).json()["items"]

    async def imports(self) -> Any:
        return (await self.http.get("/v1/imports")).json()["items"]


class OverGrpc:
    def __init__(self, stub: Any, session: str) -> None:
        self.stub = stub
        self.session = session

    async def do(self, seq: int, step: Any) -> tuple[str, ...]:
        def stamp(more: int = 0) -> pb.Stamp:
            return pb.Stamp(cluster="ohio", session=self.session, seq=seq + more)

        try:
            match step:
                case Export():
                    answer = await self.stub.PutExport(pb.PutExportRequest(stamp=stamp(), export=messages.write(step)))
                case EndpointSet():
                    put = pb.PutEndpointsRequest(stamp=stamp(), endpoints=messages.write(step))
                    answer = await self.stub.PutEndpoints(put)
                case (count, end):
                    await self.stub.BeginSync(pb.BeginSyncRequest(stamp=stamp()))
                    ended = pb.CompleteSyncRequest(stamp=stamp(1), count=count, digest=end)
                    answer = await self.stub.CompleteSync(ended)
        except grpc.aio.AioRpcError as error:
            trailers = dict(error.trailing_metadata() or ())
            return tuple(trailers[key] for key in ("mcs-reason", "mcs-field") if key in trailers)
        return (answer.revision,)

    async def exports(self) -> Any:
        return await self._list(Export, self.stub.ListExports(pb.ListExportsRequest(cluster="ohio")))

    async def imports(self) -> Any:
        return await self._list(Import, self.stub.ListImports(pb.ListImportsRequest()))

    async def _list(self, kind: type[Any], call: Any) -> list[Any]:
        return [wire.write(messages.read(kind, item)) async for part in call for item in part.items]


@pytest.mark.outside
@settings(max_examples=25, deadline=None)
@given(st.lists(EXPORTS | SETS | ENDS, max_size=6))
async def test_both_apis_give_the_same_answers(steps: list[Any]) -> None:
    one, two = making(), making()
    await one.open()
    await two.open()
    rest = Rest(one, anybody, Metrics(), lambda: None)
    transport = httpx.ASGITransport(rest.app())
    async with served(two) as stub, httpx.AsyncClient(base_url="http://rest", transport=transport) as http:
        answer = (await http.put("/v1/clusters/ohio", json=wire.write(OHIO, without=("cluster",)))).json()
        registered = await stub.Register(messages.write(OHIO))
        assert registered.session == answer["session"]
        callers = (OverRest(http, answer["session"]), OverGrpc(stub, registered.session))
        for index, step in enumerate(steps):
            first, second = [await caller.do(2 * index + 1, step) for caller in callers]
            if first[0] not in REASONS or first[0] == "DIGEST_MISMATCH":
                assert first == second, step
            else:
                # Of several faults each may name the one that it met first.
                assert first[0] == second[0], step
        assert await callers[0].exports() == await callers[1].exports()
        assert await callers[0].imports() == await callers[1].imports()
