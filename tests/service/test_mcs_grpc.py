"""The registry over gRPC as a process: a client made from the proto, one made by reflection, health, every refusal."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from discovery.mcs import messages, wire
from discovery.mcs.client import RegistryClient
from discovery.mcs.digest import digest
from discovery.mcs.model import Cluster, Endpoint, Gone, ImportGone, SnapshotBegin, SnapshotEnd, Term
from discovery.mcs.proto import registry_pb2 as pb
from discovery.mcs.proto import registry_pb2_grpc
from tests.service.ingress.certificates import Authority, client_side
from tests.service.ingress.process import eventually
from tests.service.running import Command, running
from tests.service.test_mcs_registry import EXPORT, KEY, OHIO, SLICE

pytestmark = pytest.mark.outside

Stub: Any = registry_pb2_grpc.RegistryStub
SERVICE = messages.write(KEY)
GET_IMPORT = pb.GetImportRequest(service=SERVICE)


@asynccontextmanager
async def registry(*more: str) -> AsyncIterator[tuple[Command, str, str]]:
    """The process, its URL and where it speaks gRPC."""
    given = ["--http-listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--log-format", "json", *more]
    async with running("-m", "discovery.mcs.registry_command", *given) as command:
        line = await command.message("listening")
        yield command, line["url"], line["grpc"]


class Caller:
    """A cluster's side of the conversation, with the generated stub."""

    def __init__(self, channel: Any, token: str = "") -> None:
        self.stub = Stub(channel)
        self.metadata = (("authorization", f"Bearer {token}"),) if token else ()
        self.session = ""
        self.seq = 0

    def stamp(self) -> pb.Stamp:
        self.seq += 1
        return pb.Stamp(cluster="ohio", session=self.session, seq=self.seq)

    async def call(self, name: str, request: Any) -> Any:
        return await getattr(self.stub, name)(request, timeout=10, metadata=self.metadata)

    async def all(self, name: str, request: Any) -> list[Any]:
        return [part async for part in getattr(self.stub, name)(request, timeout=10, metadata=self.metadata)]

    async def register(self) -> Any:
        answer = await self.call("Register", messages.write(OHIO))
        self.session = answer.session
        return answer


async def until(events: Any, kind: str) -> Any:
    async with asyncio.timeout(20):
        async for event in events:
            if event.WhichOneof("event") == kind:
                return getattr(event, kind)
    raise AssertionError("the watch has ended")


async def test_every_call_with_the_generated_client() -> None:
    async with (
        registry() as (_, url, where),
        grpc.aio.insecure_channel(where) as channel,
        RegistryClient([url]) as rest,
    ):
        caller = Caller(channel)
        registered = await caller.register()
        assert (registered.cluster, registered.ttl_ms, registered.renew_ms) == ("ohio", 30_000, 10_000)
        assert (await caller.call("Renew", pb.RenewRequest(stamp=caller.stamp()))).session == caller.session
        await caller.call("BeginSync", pb.BeginSyncRequest(stamp=caller.stamp()))
        put = pb.PutExportRequest(stamp=caller.stamp(), export=messages.write(EXPORT))
        revision = (await caller.call("PutExport", put)).revision
        put = pb.PutEndpointsRequest(stamp=caller.stamp(), endpoints=messages.write(SLICE))
        assert (await caller.call("PutEndpoints", put)).revision != revision
        end = pb.CompleteSyncRequest(stamp=caller.stamp(), count=2, digest=digest([EXPORT, SLICE]))
        await caller.call("CompleteSync", end)
        [part] = await caller.all("ListClusters", pb.ListClustersRequest(min_revision=revision))
        assert tuple(messages.read(Cluster, item) for item in part.items) == await rest.clusters()
        [part] = await caller.all("ListExports", pb.ListExportsRequest(cluster="ohio"))
        assert [messages.read(type(EXPORT), item) for item in part.items] == [EXPORT]
        [part] = await caller.all("ListImports", pb.ListImportsRequest())
        [found] = await rest.imports()
        assert messages.read(type(found), part.items[0]) == found
        assert (await caller.call("GetImport", GET_IMPORT)).value == part.items[0]
        [part] = await caller.all("ListImports", pb.ListImportsRequest(namespace="other"))
        assert (len(part.items), part.complete) == (0, False)
        asked = pb.GetExportStatusRequest(cluster="ohio", service=SERVICE)
        assert list((await caller.call("GetExportStatus", asked)).status.conflicts) == []
        await caller.call("Leave", pb.LeaveRequest(stamp=caller.stamp()))
        assert await rest.clusters() == ()


async def test_a_watch_with_the_generated_client() -> None:
    async with registry() as (_, _, where), grpc.aio.insecure_channel(where) as channel:
        caller = Caller(channel)
        await caller.register()
        await caller.call("PutExport", pb.PutExportRequest(stamp=caller.stamp(), export=messages.write(EXPORT)))
        put = pb.PutEndpointsRequest(stamp=caller.stamp(), endpoints=messages.write(SLICE))
        await caller.call("PutEndpoints", put)
        events = caller.stub.Watch(pb.WatchRequest(), timeout=20)
        assert not messages.read(SnapshotBegin, await until(events, "snapshot_begin")).complete
        told = await until(events, "upsert_endpoints")
        assert messages.read(type(SLICE), told.value) == SLICE
        snapshot = await until(events, "snapshot_end")
        gone = pb.DeleteEndpointsRequest(stamp=caller.stamp(), service=SERVICE, slice=SLICE.slice)
        await caller.call("DeleteEndpoints", gone)
        await caller.call("DeleteExport", pb.DeleteExportRequest(stamp=caller.stamp(), service=SERVICE))
        ended = messages.read(ImportGone, await until(events, "delete_import"))
        assert (ended.service, ended.reason) == (KEY, Gone.UNEXPORTED)
        events.cancel()
        # Who knows a revision is told what came after it, and nothing else.
        again = caller.stub.Watch(pb.WatchRequest(revision=snapshot.revision), timeout=20)
        assert (await again.read()).WhichOneof("event") not in ("snapshot_begin", "snapshot_end")
        again.cancel()
        other = caller.stub.Watch(pb.WatchRequest(revision="e9.1"), timeout=20)
        assert (await other.read()).snapshot_begin.resync
        other.cancel()


def by_reflection(where: str) -> list[str]:
    """What a client says and hears that knows nothing but the address."""
    with grpc.insecure_channel(where) as channel:
        found = ProtoReflectionDescriptorDatabase(channel)
        names = sorted(found.get_services())
        service = DescriptorPool(found).FindServiceByName("dynamo.mcs.v1.Registry")
        method = service.methods_by_name["ListClusters"]
        ask, answer = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
        call = channel.unary_stream(
            f"/{service.full_name}/{method.name}",
            request_serializer=ask.SerializeToString,
            response_deserializer=answer.FromString,
        )
        [part] = call(ask(), timeout=10)
        return [*names, *(one.id for one in part.items)]


async def test_a_client_made_by_reflection() -> None:
    async with registry() as (_, url, where), RegistryClient([url]) as rest:
        await rest.register(OHIO)
        assert await asyncio.to_thread(by_reflection, where) == [
            "dynamo.mcs.v1.Registry",
            "grpc.health.v1.Health",
            "grpc.reflection.v1alpha.ServerReflection",
            "ohio",
        ]


async def test_health_follows_the_registry() -> None:
    async with registry() as (command, _, where), grpc.aio.insecure_channel(where) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        states = stub.Watch(health_pb2.HealthCheckRequest(service="dynamo.mcs.v1.Registry"), timeout=20)
        while (await states.read()).status != health_pb2.HealthCheckResponse.SERVING:
            pass
        command.process.terminate()
        assert (await states.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert await asyncio.wait_for(command.process.wait(), 20) == 0


def said(error: grpc.aio.AioRpcError) -> tuple[Any, str, str]:
    trailers = dict(error.trailing_metadata() or ())
    return error.code(), trailers.get("mcs-reason", ""), trailers.get("mcs-field", "")


async def refused(caller: Caller, name: str, request: Any) -> tuple[Any, str, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await (caller.all if name.startswith("List") else caller.call)(name, request)
    return said(caught.value)


Code: Any = grpc.StatusCode
MANY = replace(SLICE, endpoints=tuple(Endpoint((f"10.0.{n // 250}.{n % 250}",)) for n in range(1_001)))
ODD = replace(EXPORT, labels=(("\u00fc\n", "x"),))
REFUSED: list[tuple[str, Any, tuple[Any, str, str]]] = [
    ("Register", messages.write(replace(OHIO, uid="other")), (Code.ALREADY_EXISTS, "CLUSTER_ID_IN_USE", "")),
    ("Renew", pb.RenewRequest(), (Code.INVALID_ARGUMENT, "INVALID_ARGUMENT", "stamp.cluster")),
    ("PutExport", pb.PutExportRequest(), (Code.INVALID_ARGUMENT, "INVALID_ARGUMENT", "export")),
    (
        "PutExport",
        pb.PutExportRequest(export=messages.write(ODD)),
        (Code.INVALID_ARGUMENT, "INVALID_ARGUMENT", "labels['\\xfc\\n']"),
    ),
    (
        "PutExport",
        pb.PutExportRequest(export=messages.write(replace(EXPORT, cluster="oregon"))),
        (Code.PERMISSION_DENIED, "PERMISSION_DENIED", "cluster"),
    ),
    (
        "PutEndpoints",
        pb.PutEndpointsRequest(endpoints=messages.write(MANY)),
        (Code.INVALID_ARGUMENT, "TOO_LARGE", "endpoints"),
    ),
    (
        "CompleteSync",
        pb.CompleteSyncRequest(count=-1, digest="0" * 32),
        (Code.INVALID_ARGUMENT, "INVALID_ARGUMENT", "digest"),
    ),
    ("GetImport", GET_IMPORT, (Code.NOT_FOUND, "NOT_FOUND", "")),
    ("ListExports", pb.ListExportsRequest(cluster="none"), (Code.NOT_FOUND, "NOT_FOUND", "")),
    (
        "ListImports",
        pb.ListImportsRequest(min_revision="other.1"),
        (Code.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED", ""),
    ),
]


async def test_refusals_have_their_status_their_reason_and_their_field() -> None:
    async with registry() as (_, _, where), grpc.aio.insecure_channel(where) as channel:
        caller = Caller(channel)
        early = messages.write(replace(OHIO, term=Term(1, -5)))
        assert await refused(caller, "Register", early) == (
            Code.INVALID_ARGUMENT,
            "INVALID_ARGUMENT",
            "term.acquiredAt",
        )
        await caller.register()
        stamp = caller.stamp()
        for name, request, wanted in REFUSED:
            asked = copy.deepcopy(request)
            if name.startswith(("Put", "Complete")):
                asked.stamp.CopyFrom(stamp)
            assert await refused(caller, name, asked) == wanted, (name, request)
        await caller.call("BeginSync", pb.BeginSyncRequest(stamp=caller.stamp()))
        end = pb.CompleteSyncRequest(stamp=caller.stamp(), count=2, digest="0" * 32)
        assert (await refused(caller, "CompleteSync", end))[:2] == (Code.ABORTED, "DIGEST_MISMATCH")
        await Caller(channel).call("Register", messages.write(replace(OHIO, term=Term(2, 1_700_000_001_000))))
        late = pb.RenewRequest(stamp=caller.stamp())
        assert (await refused(caller, "Renew", late))[:2] == (Code.FAILED_PRECONDITION, "STALE_SESSION")


async def test_a_message_over_a_mebibyte_is_refused() -> None:
    async with registry() as (_, _, where), grpc.aio.insecure_channel(where) as channel:
        large = replace(OHIO, region="x" * (1024 * 1024))
        code, *_ = await refused(Caller(channel), "Register", messages.write(large))
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_token_writes_its_cluster_and_reads_all(tmp_path: Path) -> None:
    file = tmp_path / "tokens.yaml"
    file.write_text(f'"sha256:{hashlib.sha256(b"mine").hexdigest()}": [ohio]\n')
    async with registry("--tokens-file", str(file)) as (_, _, where), grpc.aio.insecure_channel(where) as channel:
        for nobody in (Caller(channel), Caller(channel, "other")):
            for name, request in [("ListClusters", pb.ListClustersRequest()), ("Register", messages.write(OHIO))]:
                assert (await refused(nobody, name, request))[:2] == (
                    grpc.StatusCode.UNAUTHENTICATED,
                    "UNAUTHENTICATED",
                )
        watch = Stub(channel).Watch(pb.WatchRequest(), timeout=10)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await watch.read()
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        mine = Caller(channel, "mine")
        await mine.register()
        other = messages.write(replace(OHIO, cluster="oregon"))
        assert (await refused(mine, "Register", other))[0] is grpc.StatusCode.PERMISSION_DENIED
        [part] = await mine.all("ListClusters", pb.ListClustersRequest())
        assert [one.id for one in part.items] == ["ohio"]


async def test_a_watch_ends_when_the_registry_does() -> None:
    async with registry() as (command, _, where), grpc.aio.insecure_channel(where) as channel:
        events = Stub(channel).Watch(pb.WatchRequest(), timeout=30)
        assert messages.read(SnapshotEnd, await until(events, "snapshot_end")).revision
        command.process.terminate()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await until(events, "upsert_import")
        assert said(caught.value) == (grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE", "")
        assert await asyncio.wait_for(command.process.wait(), 20) == 0


async def test_a_port_that_is_taken_is_said() -> None:
    async with registry() as (_, _, where):
        process = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-m",
                "discovery.mcs.registry_command",
                "--http-listen",
                "127.0.0.1:0",
                "--grpc-listen",
                where,
            ),
            stderr=asyncio.subprocess.PIPE,
        )
        _, err = await asyncio.wait_for(process.communicate(), 20)
        assert process.returncode == 1
        assert f"mcs-registry: cannot listen on {where} for gRPC" in err.decode()


def test_words_of_events_are_those_of_rest() -> None:
    told = {field.name.upper() for field in pb.WatchResponse.DESCRIPTOR.fields}
    assert told == set(wire.EVENTS)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")
async def test_a_certificate_is_replaced_without_a_restart(tmp_path: Path) -> None:
    """On both listeners; SIGHUP, sent by who is used to it, ends nothing."""
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"

    def put(authority: Authority) -> None:
        pair = authority.issue("registry")
        shutil.copy(pair.certificate, cert)
        shutil.copy(pair.key, key)

    async def taken(authority: Authority) -> tuple[bool, bool]:
        """Over HTTP, over gRPC: whether who trusts this authority gets an answer."""
        trusted = grpc.ssl_channel_credentials(authority.file.read_bytes())
        async with grpc.aio.secure_channel(where, trusted) as channel:
            try:
                # A call that fails on its way is one that was not taken; one that is refused was.
                await Stub(channel).GetImport(GET_IMPORT, timeout=10)
            except grpc.aio.AioRpcError as error:
                by_grpc = error.code() is not grpc.StatusCode.UNAVAILABLE
        try:
            async with httpx.AsyncClient(verify=client_side(authority), trust_env=False) as client:
                by_http = (await client.get(f"{url}/livez")).status_code == 200
        except httpx.ConnectError:
            by_http = False
        return by_http, by_grpc

    async def replaced() -> bool:
        return await taken(new) == (True, True)

    put(old)
    async with registry("--tls-cert-file", str(cert), "--tls-key-file", str(key)) as (command, url, where):
        assert await taken(old) == (True, True)
        put(new)
        command.process.send_signal(signal.SIGHUP)
        await eventually(replaced, "both listeners to show the new certificate", 20.0)
        assert await taken(old) == (False, False)
        assert command.process.returncode is None
