"""The listener of the registry's gRPC API: health, reflection, bounds, TLS, and its end.

Owns the server. `grpc.health.v1.Health` says SERVING once the store was read and NOT_SERVING at the end; reflection
describes every service. Raises CannotServe.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from discovery.kit.clock import Clock
from discovery.kit.service import CannotServe, Tls
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
    where = _bind(server, host, port, tls)
    for name in ("", SERVICE.full_name):
        await healthy.set(name, health_pb2.HealthCheckResponse.NOT_SERVING)
    await server.start()
    try:
        told = _tell_ready(healthy, clock, is_ready)
        async with background(told, name="gRPC health", on_failure=on_failure):
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


def _bind(server: Any, host: str, port: int, tls: Tls | None) -> str:
    shown = f"[{host}]" if ":" in host else host
    try:
        if tls is None:
            bound = server.add_insecure_port(f"{shown}:{port}")
        else:
            bound = server.add_secure_port(f"{shown}:{port}", _secrets(tls))
    except RuntimeError as error:
        raise CannotServe(f"cannot listen on {shown}:{port} for gRPC: {error}") from error
    return f"{shown}:{bound}"


def _secrets(tls: Tls) -> Any:
    try:
        pair = (tls.key.read_bytes(), tls.cert.read_bytes())
    except OSError as error:
        raise CannotServe(f"cannot use {tls.cert} and {tls.key}: {error}") from error
    return grpc.ssl_server_credentials([pair])
