"""The registry, put together: store, service, tokens, HTTP, gRPC; and how it starts and ends.

Owns the wiring and the exit code: 0 when it was asked to stop, 1 when it cannot start or go on. A store that is away at
the start is waited for; the tokens file is read again every second, and one that is broken changes nothing.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from pathlib import Path

from discovery.errors import CannotKeep
from discovery.kit.backoff import SYSTEM_CHANCE
from discovery.kit.certificate import Tls
from discovery.kit.clock import SYSTEM_CLOCK
from discovery.kit.log import logger
from discovery.kit.metrics import Metrics
from discovery.kit.service import CannotServe, serve, stop_on_signals
from discovery.kit.tasks import background
from discovery.mcs.registry import Allow
from discovery.mcs.registry_metrics import declare
from discovery.mcs.registry_settings import Settings
from discovery.mcs.rest import Rest
from discovery.mcs.service import RegistryService, Rules
from discovery.mcs.store import Store
from discovery.mcs.store_memory import MemoryStore
from discovery.mcs.tokens import require
from discovery.tokens import BadTokens
from discovery.tokens_file import TokensFile

_log = logger(__name__)
_MOST_CONNECTIONS = 16_384


@asynccontextmanager
async def _store(settings: Settings) -> AsyncIterator[Store]:
    """Raises CannotKeep."""
    if settings.store == "memory":
        yield MemoryStore()
        return
    try:
        from discovery.dynamodb import Table, client_of
        from discovery.mcs.store_dynamodb import DynamoStore
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("aiobotocore", "botocore"):
            raise
        raise CannotKeep("DynamoDB needs the extra: pip install 'global-ingress[dynamodb]'") from error
    table = Table(str(settings.dynamodb_table), settings.dynamodb_region, settings.dynamodb_endpoint)
    async with client_of(table) as client:
        yield DynamoStore(client, table.name, settings.clusterset, SYSTEM_CLOCK)


def _rules(settings: Settings) -> Rules:
    return Rules(
        ttl_ms=settings.lease_ttl,
        renew_ms=settings.renew,
        grace_ms=settings.grace,
        retention_ms=settings.export_retention,
        queue_bytes=settings.watch_queue,
    )


def _not_ready(service: RegistryService) -> str | None:
    return None if service.ready else "The store has not been read yet."


def _tls(settings: Settings) -> Tls | None:
    if settings.tls_cert_file is None or settings.tls_key_file is None:
        return None
    return Tls(Path(settings.tls_cert_file), Path(settings.tls_key_file))


@asynccontextmanager
async def _grpc(
    settings: Settings,
    service: RegistryService,
    allow: Allow,
    metrics: Metrics,
    tls: Tls | None,
    fail: Callable[[Exception], None],
) -> AsyncIterator[str | None]:
    """Where gRPC is served, if it is. Raises CannotServe."""
    if settings.grpc_host is None:
        yield None
        return
    # The library writes lines of its own between those of the log, one for each handshake that fails.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # noqa: TID251 - it is asked for nowhere else
    try:
        from discovery.mcs.rpc import Rpc
        from discovery.mcs.rpc_server import serve_rpc
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("google", "grpc", "grpc_health", "grpc_reflection"):
            raise
        raise CannotServe("gRPC needs the extra: pip install 'global-ingress[grpc]'") from error
    rpc = Rpc(service, allow, metrics)
    host, port = settings.grpc_host, settings.grpc_port
    serving = serve_rpc(rpc, host, port, clock=SYSTEM_CLOCK, is_ready=lambda: service.ready, on_failure=fail, tls=tls)
    async with serving as where:
        yield where


async def _serve(settings: Settings) -> int:
    stop = asyncio.Event()
    failures: list[Exception] = []

    def fail(error: Exception) -> None:
        failures.append(error)
        stop.set()

    tokens = TokensFile(Path(settings.tokens_file), SYSTEM_CLOCK) if settings.tokens_file else None

    def allow(authorization: str | None, cluster: str | None) -> None:
        if tokens is not None:
            require(tokens.tokens, authorization, cluster)

    async with AsyncExitStack() as stack:
        stack.enter_context(stop_on_signals(stop.set))
        if tokens is not None:
            await tokens.load()
            await stack.enter_async_context(background(tokens.run(), name="tokens file", on_failure=fail))
        store = await stack.enter_async_context(_store(settings))
        rules = _rules(settings)
        service = RegistryService(store, SYSTEM_CLOCK, epoch=secrets.token_hex(8), rules=rules, chance=SYSTEM_CHANCE)
        metrics = Metrics()
        declare(metrics, service)
        await stack.enter_async_context(background(service.run(), name="registry", on_failure=fail))
        tls = _tls(settings)
        rest = Rest(service, allow, metrics, lambda: _not_ready(service), release=version("global-ingress"))
        bound = await stack.enter_async_context(
            serve(rest.app(), settings.host, settings.port, tls=tls, on_failure=fail, connections=_MOST_CONNECTIONS)
        )
        grpc = await stack.enter_async_context(_grpc(settings, service, allow, metrics, tls, fail))
        # Before the listeners drain: watches have no end of their own.
        stack.callback(service.close)
        _log.info("listening", url=bound.url, grpc=grpc, store=settings.store, tokens=tokens is not None)
        await stop.wait()
        _log.info("stopping", watchers=len(service.watchers))
    return 1 if failures else 0


async def serve_registry(settings: Settings) -> int:
    """Run it in this loop; what keeps it from starting is one line on standard error and 1."""
    try:
        return await _serve(settings)
    except (BadTokens, CannotKeep, CannotServe) as error:
        print(f"mcs-registry: {error}", file=sys.stderr)
        return 1
