"""The listener of the registry's gRPC API: health, reflection, bounds, TLS, and its end.

Owns the server. `grpc.health.v1.Health` says SERVING once the store was read and NOT_SERVING at the end; reflection
describes every service. Raises CannotServe.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from discovery.kit.certificate import BadCertificate, Certificate, Tls
from discovery.kit.clock import Clock
from discovery.kit.service import CannotServe
from discovery.kit.tasks import background
from discovery.mcs.rpc import SERVICE, Rpc

MESSAGE_LIMIT: Final = 1024 * 1024
MOST_CALLS: Final = 4_000
"""At once, watches included; more are refused RESOURCE_EXHAUSTED."""
_LOOK_SECONDS: Final = 0.1
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MESSAGE_LIMIT),
    # Two processes on one port would take half of the calls each, and neither would say so.
    ("grpc.so_reuseport", 0),
    # A reader that vanished is noticed within a minute, an idle stream through a load balancer stays.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 20_000),
    ("grpc.http2.max_ping_strikes", 2),
    # What waits for a reader waits in its watch, where it is bounded, and not here.
    ("grpc.http2.write_buffer_size", 64 * 1024),
)


@asynccontextmanager
async def serve_rpc(
    rpc: Rpc,
    host: str,
    port: int,
    *,
    clock: Clock,
    is_ready: Callable[[], bool],
    on_failure: Callable[[Exception], None],
    tls: Tls | None = None,
    drain: float = 5.0,
) -> AsyncIterator[str]:
    """Serve while the block runs, at the address that is given back. Watches must be ended before it is left."""
    server = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=MOST_CALLS)
    server.add_registered_method_handlers(SERVICE.full_name, rpc.handlers())
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE.full_name, rpc.handlers()),))
    healthy = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(healthy, server)
    names = (SERVICE.full_name, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server)
    try:
        certificate = Certificate(tls, clock) if tls is not None else None
    except BadCertificate as error:
        raise CannotServe(str(error)) from error
    where = _bind(server, host, port, certificate)
    for name in ("", SERVICE.full_name):
        await healthy.set(name, health_pb2.HealthCheckResponse.NOT_SERVING)
    await server.start()
    try:
        async with AsyncExitStack() as stack:
            told = _tell_ready(healthy, clock, is_ready)
            await stack.enter_async_context(background(told, name="gRPC health", on_failure=on_failure))
            if certificate is not None:
                looking = background(certificate.run(), name="gRPC certificate", on_failure=on_failure)
                await stack.enter_async_context(looking)
            yield where
    finally:
        await healthy.enter_graceful_shutdown()
        await server.stop(drain)
        await rpc.finish()


async def _tell_ready(healthy: Any, clock: Clock, is_ready: Callable[[], bool]) -> None:
    """A registry that was ready once stays so until its end."""
    while not is_ready():
        await clock.sleep(_LOOK_SECONDS)
    for name in ("", SERVICE.full_name):
        await healthy.set(name, health_pb2.HealthCheckResponse.SERVING)


def _bind(server: Any, host: str, port: int, certificate: Certificate | None) -> str:
    shown = f"[{host}]" if ":" in host else host
    try:
        if certificate is None:
            bound = server.add_insecure_port(f"{shown}:{port}")
        else:
            bound = server.add_secure_port(f"{shown}:{port}", _secrets(certificate))
    except RuntimeError as error:
        raise CannotServe(f"cannot listen on {shown}:{port} for gRPC: {error}") from error
    return f"{shown}:{bound}"


def _secrets(certificate: Certificate) -> Any:
    """Asked at each handshake what is shown now."""

    def now() -> Any:
        chain, key = certificate.pair
        return grpc.ssl_server_certificate_configuration([(key, chain)])

    return grpc.dynamic_ssl_server_credentials(now(), now)
