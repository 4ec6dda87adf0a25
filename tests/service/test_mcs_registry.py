"""The registry as a process, and its client: every call both ways over real sockets; tokens, refusals, the end."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from discovery.mcs.client import RegistryClient
from discovery.mcs.digest import digest
from discovery.mcs.model import (
    Announcement,
    Endpoint,
    EndpointsChanged,
    EndpointSet,
    Event,
    Export,
    Gone,
    ImportChanged,
    ImportGone,
    ServiceKey,
    ServicePort,
    ServiceType,
    SlicePort,
    SnapshotBegin,
    SnapshotEnd,
    Stamp,
    Term,
)
from discovery.mcs.registry import Reason, Refused, Unreachable
from tests.service.running import Command, running

pytestmark = pytest.mark.outside

KEY = ServiceKey("dynamo", "llama")
OHIO = Announcement("ohio", "uid-1", "us-east-2", Term(1, 1_700_000_000_000), (("a", "b"),))
EXPORT = Export(
    "ohio",
    KEY,
    "u1",
    1_700_000_000_000,
    ServiceType.CLUSTER_SET_IP,
    (ServicePort("http", "TCP", 80),),
    labels=(("x", "y"),),
)
SLICE = EndpointSet(
    "ohio", KEY, "llama-abc", "IPv4", (SlicePort("http", "TCP", 8000),), (Endpoint(("10.0.0.1",), ready=True),)
)


@asynccontextmanager
async def registry(*more: str, listen: str = "127.0.0.1:0") -> AsyncIterator[tuple[Command, str]]:
    given = ["--http-listen", listen, "--log-format", "json", *more]
    async with running("-m", "discovery.mcs.registry_command", *given) as command:
        yield command, (await command.message("listening"))["url"]


async def until(events: AsyncIterator[Event], kind: type[Event]) -> Event:
    async with asyncio.timeout(20):
        async for event in events:
            if isinstance(event, kind):
                return event
    raise AssertionError("the watch has ended")


async def test_every_call_over_a_socket() -> None:
    async with registry() as (_, url), RegistryClient([url]) as client:
        session = (await client.register(OHIO)).session
        assert session.cluster == "ohio"
        assert (await client.renew(Stamp(session, 0))).renew_ms == 10_000, "a third of the lease"
        assert (await client.renew(Stamp(session, 1))).session == session
        await client.sync_begin(Stamp(session, 2))
        await client.put_export(Stamp(session, 3), EXPORT)
        await client.put_endpoints(Stamp(session, 4), SLICE)
        with pytest.raises(Refused) as caught:
            await client.sync_complete(Stamp(session, 5), 2, "0" * 32)
        assert caught.value.reason is Reason.DIGEST_MISMATCH
        await client.sync_complete(Stamp(session, 6), 2, digest([EXPORT, SLICE]))
        [cluster] = await client.clusters()
        assert (cluster.id, cluster.region, cluster.labels) == ("ohio", "us-east-2", (("a", "b"),))
        [found] = await client.imports("dynamo")
        assert (found.service, found.ports, found.clusters) == (KEY, EXPORT.ports, ("ohio",))
        assert await client.imports("other") == ()
        assert (await client.export_status("ohio", KEY)).conflicts == ()
        events = client.watch()
        first = await anext(events)
        assert isinstance(first, SnapshotBegin)
        assert not first.complete, "a memory that is new proves nothing"
        told = await until(events, EndpointsChanged)
        assert isinstance(told, EndpointsChanged)
        assert told.value.endpoints == SLICE.endpoints
        await until(events, SnapshotEnd)
        await client.delete_endpoints(Stamp(session, 7), KEY, SLICE.slice)
        await client.delete_export(Stamp(session, 8), KEY)
        gone = await until(events, ImportGone)
        assert isinstance(gone, ImportGone)
        assert (gone.service, gone.reason) == (KEY, Gone.UNEXPORTED)
        await events.aclose()
        await client.leave(Stamp(session, 9))
        assert await client.clusters() == ()


async def test_the_lists_and_errors_of_rest() -> None:
    async with registry() as (_, url), RegistryClient([url]) as client, httpx.AsyncClient(base_url=url) as http:
        session = (await client.register(OHIO)).session
        revision = await client.put_export(Stamp(session, 1), EXPORT)
        listed = (await http.get("/v1/clusters/ohio/exports", params={"minRevision": revision})).json()
        assert [one["service"] for one in listed["items"]] == [{"namespace": "dynamo", "name": "llama"}]
        assert listed["complete"] is False
        # More digits than Python makes a number of.
        endless = f"{revision.rpartition('.')[0]}.{'9' * 5000}"
        assert (await http.get("/v1/clusters", params={"minRevision": endless})).status_code == 504
        async with http.stream("GET", "/v1/imports:watch", params={"revision": endless}) as watch:
            assert watch.status_code == 200
        assert (await http.get("/v1/imports/dynamo/llama")).json()["type"] == "ClusterSetIP"
        for method, path, status, reason in [
            ("GET", "/v1/imports/dynamo/none", 404, "NOT_FOUND"),
            ("GET", "/v1/clusters/none/exports", 404, "NOT_FOUND"),
            ("GET", "/nothing", 404, "NOT_FOUND"),
            ("GET", "/v1/imports?minRevision=other.1", 504, "DEADLINE_EXCEEDED"),
            ("POST", "/v1/clusters/ohio:renew", 400, "INVALID_ARGUMENT"),
            ("PUT", "/v1/clusters/OHIO", 400, "INVALID_ARGUMENT"),
        ]:
            answer = await http.request(method, path)
            assert (answer.status_code, answer.json()["reason"]) == (status, reason), path
            assert set(answer.json()) == {"code", "reason", "message", "details"}
        wrong = (await http.put("/v1/clusters/ohio", json={"uid": 1})).json()
        assert wrong["details"] == [{"field": "uid"}]
        good = {"uid": "u", "term": {"transitions": 0, "acquiredAt": "1960-01-01T00:00:00Z"}, "region": "r"}
        early = (await http.put("/v1/clusters/ohio", json=good)).json()
        assert early["details"] == [{"field": "term.acquiredAt"}], "named as it was sent"
        unknown = (await http.put("/v1/clusters/ohio", json=good | {"acquired_ms": 1})).json()
        assert unknown["details"] == [{"field": "acquired_ms"}]
        assert (await http.get("/readyz")).status_code == 200
        assert (
            'dynamo_mcs_registry_requests_total{call="register",status="200"} 1.0' in (await http.get("/metrics")).text
        )


async def test_a_body_that_is_too_large() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(17):
            yield b"x" * 65_536

    async with registry() as (_, url), httpx.AsyncClient(base_url=url) as http:
        for content in (b"x" * (1024 * 1024 + 1), pieces()):
            answer = await http.put("/v1/clusters/ohio", content=content)
            assert answer.status_code == 413
            said = answer.json()
            assert (said["code"], said["reason"], said["details"]) == (413, "TOO_LARGE", [])


async def test_what_is_too_large_is_said_by_field() -> None:
    many = replace(SLICE, endpoints=tuple(Endpoint((f"10.0.{n // 250}.{n % 250}",)) for n in range(1_001)))
    async with registry() as (_, url), RegistryClient([url]) as client:
        session = (await client.register(OHIO)).session
        with pytest.raises(Refused, match="at most 1000") as caught:
            await client.put_endpoints(Stamp(session, 1), many)
        assert (caught.value.reason, caught.value.field) == (Reason.TOO_LARGE, "endpoints")


async def test_what_has_no_end_or_another_place_is_refused() -> None:
    async with registry() as (_, url), httpx.AsyncClient(base_url=url, timeout=20) as http:
        assert (await http.head("/v1/imports:watch")).status_code == 405
        assert (await http.get("/v1/clusters/")).json()["reason"] == "NOT_FOUND"


async def test_how_often_to_renew_is_the_operators_to_say() -> None:
    async with registry("--lease-ttl", "60s", "--renew", "5s") as (_, url), RegistryClient([url]) as client:
        registered = await client.register(OHIO)
        assert (registered.ttl_ms, registered.renew_ms) == (60_000, 5_000)


async def test_a_newer_session_ends_the_older() -> None:
    async with registry() as (_, url), RegistryClient([url]) as client:
        old = (await client.register(OHIO)).session
        newer = Announcement("ohio", "uid-1", "us-east-2", Term(2, 1_700_000_001_000))
        await client.register(newer)
        with pytest.raises(Refused) as caught:
            await client.put_export(Stamp(old, 1), EXPORT)
        assert caught.value.reason is Reason.STALE_SESSION


async def test_a_token_writes_its_cluster_and_reads_all(tmp_path: Path) -> None:
    file, token = tmp_path / "tokens.yaml", tmp_path / "token"
    file.write_text(f'"sha256:{hashlib.sha256(b"mine").hexdigest()}": [ohio]\n')
    token.write_text("mine\n")
    async with registry("--tokens-file", str(file)) as (_, url):
        async with RegistryClient([url]) as nobody:
            for call in (nobody.clusters(), nobody.register(OHIO)):
                with pytest.raises(Refused) as caught:
                    await call
                assert caught.value.reason is Reason.UNAUTHENTICATED
        async with RegistryClient([url], token_file=str(token)) as client:
            await client.register(OHIO)
            assert [one.id for one in await client.clusters()] == ["ohio"]
            with pytest.raises(Refused) as caught:
                await client.register(Announcement("oregon", "uid-2", "us-west-2", Term(1, 0)))
            assert caught.value.reason is Reason.FORBIDDEN


async def test_the_client_turns_to_the_replica_that_answers() -> None:
    async with registry() as (_, url), RegistryClient(["http://127.0.0.1:9", url]) as client:
        session = (await client.register(OHIO)).session
        await client.renew(Stamp(session, 1))
        assert url in repr(client)
    async with RegistryClient(["http://127.0.0.1:9"]) as client:
        with pytest.raises(Unreachable):
            await client.clusters()


async def test_a_watch_ends_when_the_registry_does() -> None:
    async with registry() as (command, url), RegistryClient([url]) as client:
        events = client.watch()
        assert isinstance(await until(events, SnapshotEnd), SnapshotEnd)
        command.process.terminate()
        with pytest.raises(Unreachable):
            await until(events, ImportChanged)
        await command.message("stopping", watchers=1)
        assert await asyncio.wait_for(command.process.wait(), 20) == 0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--http-listen", "0.0.0.0:0"], "anybody could write"),
        (["--grpc-listen", "0.0.0.0:0"], "--grpc-listen 0.0.0.0: anybody could write"),
        (["--grpc-listen", "nowhere"], "--grpc-listen: 'nowhere' is not HOST:PORT"),
        (["--renew", "16s"], "--renew: more than 0 and at most half of --lease-ttl"),
        (["--renew", "0s"], "--renew: more than 0"),
        (["--watch-queue", "much"], "--watch-queue: 'much' is not a size"),
        (["--watch-queue", "63KiB"], "--watch-queue is from 64KiB"),
        (["--lease-ttl", "soon"], "--lease-ttl: 'soon' is not a duration"),
        (["--store", "dynamodb"], "needs --dynamodb-table"),
        (["--tls-cert-file", "x"], "both or none"),
    ],
)
def test_settings_that_are_wrong(flags: list[str], said: str) -> None:
    from typer.testing import CliRunner

    from discovery.mcs.registry_command import app

    result = CliRunner().invoke(app, flags)
    assert result.exit_code == 2
    assert said in result.output
