"""The registry over gRPC: `dynamo.mcs.v1.Registry` of `proto/registry.proto`, beside REST over the same registry.

Owns what a request is, how an answer looks, and which status an error has. Decides nothing of services: that does the
registry behind it. Refuses messages over 1 MiB and whoever `allow` refuses. A deadline, or a caller who goes, ends the
waiting and never a write half-way; a reader who does not read is held back by its own watch alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import aclosing
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.message_factory import GetMessageClass

from discovery.kit.log import logger
from discovery.kit.metrics import Metrics
from discovery.mcs import checks, messages, wire
from discovery.mcs.model import Announcement, EndpointSet, Export, ServiceKey, Stamp, StatusChanged
from discovery.mcs.proto import registry_pb2 as pb
from discovery.mcs.registry import Allow, Reason, Refused, Served, Unreachable

_log = logger(__name__)

SERVICE: Final = pb.DESCRIPTOR.services_by_name["Registry"]
CODES: Final = {
    Reason.INVALID: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.UNAUTHENTICATED: grpc.StatusCode.UNAUTHENTICATED,
    Reason.FORBIDDEN: grpc.StatusCode.PERMISSION_DENIED,
    Reason.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Reason.CLUSTER_ID_IN_USE: grpc.StatusCode.ALREADY_EXISTS,
    # Repeating it does not help; of a digest, beginning again does.
    Reason.STALE_SESSION: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.DIGEST_MISMATCH: grpc.StatusCode.ABORTED,
    Reason.REVISION_GONE: grpc.StatusCode.OUT_OF_RANGE,
    Reason.TOO_LARGE: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.BUSY: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Reason.STORE_AWAY: grpc.StatusCode.UNAVAILABLE,
    Reason.TIMEOUT: grpc.StatusCode.DEADLINE_EXCEEDED,
}
_PART_BYTES: Final = 512 * 1024
_LONGEST_MESSAGE: Final = 2_000
"""Of an error: it travels in a header, and those are few kilobytes."""

T = TypeVar("T")
Message = Any
Context = Any
"""`grpc.aio.ServicerContext`: the library has no types."""


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _trailers(error: Refused) -> tuple[tuple[str, str], ...]:
    found = [("mcs-reason", error.reason.value)]
    if error.field:
        # A header is ASCII that can be printed; a field may hold the key of a label.
        found.append(("mcs-field", error.field[:500].encode("ascii", "backslashreplace").decode()))
    if error.retry_after_s is not None or error.reason is Reason.BUSY:
        found.append(("grpc-retry-pushback-ms", str(max(1, round((error.retry_after_s or 1) * 1000)))))
    return tuple(found)


def _credentials(context: Context) -> str | None:
    return next((value for key, value in context.invocation_metadata() or () if key == "authorization"), None)


def _parts(items: Iterable[Message], part: Callable[[list[Message]], Message]) -> Iterator[Message]:
    """At least one part, each of about 512 KiB at most."""
    held: list[Message] = []
    size = 0
    for item in items:
        if held and size + item.ByteSize() > _PART_BYTES:
            yield part(held)
            held, size = [], 0
        held.append(item)
        size += item.ByteSize()
    yield part(held)


class Rpc:
    """`allow` is asked at every call; each answer is counted by call and status."""

    def __init__(self, registry: Served, allow: Allow, metrics: Metrics) -> None:
        self._registry = registry
        self._allow = allow
        self._answers = metrics.counter("dynamo_mcs_registry_grpc_requests", "Answers over gRPC", ("call", "status"))
        self._writes: set[asyncio.Task[Any]] = set()

    def __repr__(self) -> str:
        return f"<Rpc {len(self._writes)} writes>"

    def handlers(self) -> dict[str, Any]:
        """The methods of the service, by name."""
        return {method.name: self._handler(method) for method in SERVICE.methods}

    async def finish(self) -> None:
        """Wait for writes whose callers have gone."""
        if self._writes:
            await asyncio.wait(self._writes)

    def _handler(self, method: Any) -> Any:
        name = _snake(method.name).removeprefix("_")
        call: Callable[[Message, Context], Awaitable[Any]] = getattr(self, f"_{name}")
        reads = "min_revision" in method.input_type.fields_by_name

        async def answered(request: Message, context: Context) -> Message:
            return await self._guarded(name, context, self._asked(request, context, call, reads))

        make = grpc.unary_stream_rpc_method_handler if method.server_streaming else grpc.unary_unary_rpc_method_handler
        return make(
            answered,
            request_deserializer=GetMessageClass(method.input_type).FromString,
            response_serializer=GetMessageClass(method.output_type).SerializeToString,
        )

    async def _asked(
        self, request: Message, context: Context, call: Callable[[Message, Context], Awaitable[Any]], reads: bool
    ) -> Any:
        if reads:
            self._allow(_credentials(context), None)
            if request.min_revision:
                await self._registry.wait_visible(request.min_revision)
        return await call(request, context)

    async def _guarded(self, name: str, context: Context, call: Awaitable[Message]) -> Message:
        """Its answer, or the status of its error; counted either way."""
        status = grpc.StatusCode.CANCELLED
        try:
            try:
                answer = await call
            except Refused as error:
                refused = error
            except Unreachable as error:
                refused = Refused(Reason.STORE_AWAY, str(error), retry_after_s=1.0)
            except Exception as error:  # noqa: BLE001 - the outermost frame of a call: logged, and it ends the call
                _log.exception("call failed", error, call=name)
                status = grpc.StatusCode.INTERNAL
                await context.abort(status, "see the registry's log", (("mcs-reason", "INTERNAL"),))
            else:
                status = grpc.StatusCode.OK
                return answer
            status = CODES[refused.reason]
            await context.abort(status, refused.message[:_LONGEST_MESSAGE], _trailers(refused))
        finally:
            self._answers.add(name, status.name)

    async def _whole(self, write: Coroutine[Any, Any, T]) -> T:
        """A write goes on to its end when its caller has gone, or the deadline has passed."""
        task = asyncio.ensure_future(write)
        self._writes.add(task)
        task.add_done_callback(self._wrote)
        try:
            return await asyncio.shield(task)
        except Refused as error:
            # The registry names fields of the model; who sent a message looks for those of the wire.
            place = wire.place(error.field)
            raise Refused(error.reason, error.message, field=place, retry_after_s=error.retry_after_s) from error

    def _wrote(self, task: asyncio.Task[Any]) -> None:
        self._writes.discard(task)
        if not task.cancelled():
            # Looked at, or nobody may be left to hear of it.
            task.exception()

    # Writing

    def _stamp(self, request: Message, context: Context) -> Stamp:
        checks.cluster_id(request.stamp.cluster, "stamp.cluster")
        self._allow(_credentials(context), request.stamp.cluster)
        return messages.read_stamp(request)

    async def _register(self, request: Message, context: Context) -> Message:
        checks.cluster_id(request.cluster)
        self._allow(_credentials(context), request.cluster)
        announced = messages.read(Announcement, request)
        registered = await self._whole(self._registry.register(announced))
        return pb.RegisterResponse(**messages.write_registration(registered))

    async def _renew(self, request: Message, context: Context) -> Message:
        renewed = await self._whole(self._registry.renew(self._stamp(request, context)))
        return pb.RenewResponse(**messages.write_registration(renewed))

    async def _leave(self, request: Message, context: Context) -> Message:
        stamp = self._stamp(request, context)
        return pb.LeaveResponse(revision=await self._whole(self._registry.leave(stamp)))

    async def _put_export(self, request: Message, context: Context) -> Message:
        stamp = self._stamp(request, context)
        export = messages.part(Export, request, "export")
        return pb.PutExportResponse(revision=await self._whole(self._registry.put_export(stamp, export)))

    async def _delete_export(self, request: Message, context: Context) -> Message:
        stamp, service = self._stamp(request, context), messages.part(ServiceKey, request, "service")
        return pb.DeleteExportResponse(revision=await self._whole(self._registry.delete_export(stamp, service)))

    async def _put_endpoints(self, request: Message, context: Context) -> Message:
        stamp = self._stamp(request, context)
        told = messages.part(EndpointSet, request, "endpoints")
        return pb.PutEndpointsResponse(revision=await self._whole(self._registry.put_endpoints(stamp, told)))

    async def _delete_endpoints(self, request: Message, context: Context) -> Message:
        stamp, service = self._stamp(request, context), messages.part(ServiceKey, request, "service")
        gone = self._registry.delete_endpoints(stamp, service, request.slice)
        return pb.DeleteEndpointsResponse(revision=await self._whole(gone))

    async def _begin_sync(self, request: Message, context: Context) -> Message:
        stamp = self._stamp(request, context)
        return pb.BeginSyncResponse(revision=await self._whole(self._registry.sync_begin(stamp)))

    async def _complete_sync(self, request: Message, context: Context) -> Message:
        stamp = self._stamp(request, context)
        checks.sync_end(request.count, request.digest)
        ended = self._registry.sync_complete(stamp, request.count, request.digest)
        return pb.CompleteSyncResponse(revision=await self._whole(ended))

    # Reading

    async def _list(self, values: Iterable[Any], response: Any, context: Context) -> None:
        revision, complete = self._registry.revision, self._registry.complete
        items = [messages.write(value) for value in values]
        for part in _parts(items, lambda held: response(items=held, revision=revision, complete=complete)):
            await context.write(part)

    async def _list_clusters(self, request: Message, context: Context) -> None:
        await self._list(await self._registry.clusters(), pb.ListClustersResponse, context)

    async def _list_exports(self, request: Message, context: Context) -> None:
        await self._list(self._registry.exports(request.cluster), pb.ListExportsResponse, context)

    async def _list_imports(self, request: Message, context: Context) -> None:
        await self._list(await self._registry.imports(request.namespace), pb.ListImportsResponse, context)

    async def _get_import(self, request: Message, context: Context) -> Message:
        service = messages.part(ServiceKey, request, "service")
        checks.service(service)
        for found in await self._registry.imports(service.namespace):
            if found.service == service:
                return pb.GetImportResponse(value=messages.write(found))
        raise Refused(Reason.NOT_FOUND, f"no cluster exports {service}")

    async def _get_export_status(self, request: Message, context: Context) -> Message:
        service = messages.part(ServiceKey, request, "service")
        checks.service(service)
        status = await self._registry.export_status(request.cluster, service)
        return pb.GetExportStatusResponse(status=messages.write(status))

    async def _watch(self, request: Message, context: Context) -> None:
        async with aclosing(self._registry.watch(request.revision)) as events:
            async for event in events:
                if not (
                    request.cluster and isinstance(event, StatusChanged) and event.value.cluster != request.cluster
                ):
                    await context.write(messages.write_event(event))
