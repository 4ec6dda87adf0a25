"""Registrations, put together: store, source, tokens, HTTP, and what is said of them.

Owns the wiring of everything about registrations, so that a directory without them has none of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from discovery.directory.registered import Policy, RegisteredSource
from discovery.directory.registering import Registering
from discovery.directory.registration_store import CannotKeep, MemoryStore, RegistrationStore
from discovery.directory.settings import Settings
from discovery.kit.clock import Clock
from discovery.kit.log import logger
from discovery.kit.metrics import Metrics
from discovery.kit.tasks import background
from discovery.pool import Router
from discovery.tokens import Tokens
from discovery.tokens_file import TokensFile

_log = logger(__name__)

_SHOWN_ITEMS = 100


@asynccontextmanager
async def opened_store(settings: Settings, clock: Clock) -> AsyncIterator[RegistrationStore | None]:
    """The store that the settings ask for, None where there are no registrations. Raises CannotKeep."""
    if not settings.has_registrations:
        yield None
    elif settings.registration_storage == "memory":
        yield MemoryStore(clock)
    else:
        dynamodb = import_dynamodb()
        assert settings.dynamodb_table is not None, "checked with the settings"
        table = dynamodb.Table(settings.dynamodb_table, settings.dynamodb_region, settings.dynamodb_endpoint)
        async with dynamodb.client_of(table) as client:
            store = dynamodb.DynamoStore(client, table.name, clock)
            await store.check()
            yield store


def import_dynamodb() -> Any:
    """The module of the DynamoDB store, whose library is an extra. Raises CannotKeep."""
    try:
        from discovery.directory import store_dynamodb
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("aiobotocore", "botocore"):
            raise
        raise CannotKeep("DynamoDB needs the extra: pip install 'global-ingress[dynamodb]'") from error
    return store_dynamodb


class Taking:
    """`on_change` is called, on the loop, when what is listed may differ."""

    def __init__(
        self,
        settings: Settings,
        store: RegistrationStore,
        clock: Clock,
        metrics: Metrics,
        on_change: Callable[[], None],
        routers: Callable[[], Sequence[Router]],
    ) -> None:
        policy = Policy(settings.heartbeat_interval_secs, settings.lease_duration_secs)
        failures = metrics.counter(
            "global_discovery_store_failures", "Failed calls of the registration store", ("operation", "kind")
        )
        self.source = RegisteredSource(store, policy, clock, on_change, failures.add)
        self.tokens_file: TokensFile | None = None
        if settings.registration_tokens_file is not None:
            self.tokens_file = TokensFile(Path(settings.registration_tokens_file), clock)
        self.registering: Registering | None = None
        self._open = settings.insecure_registrations
        if settings.may_register:
            answers = metrics.counter(
                "global_discovery_registration_answers", "Answers to POST and DELETE on /pools", ("call", "code")
            )
            self.registering = Registering(self.source, self._tokens, settings.allow_cidr, routers, answers)
        self._declare_metrics(metrics)

    def __repr__(self) -> str:
        return f"<Taking {self.source!r} {self.tokens_file!r}>"

    def _tokens(self) -> Tokens | None:
        return None if self.tokens_file is None else self.tokens_file.tokens

    @asynccontextmanager
    async def running(self, on_failure: Callable[[Exception], None]) -> AsyncIterator[None]:
        """List, wake and keep up with the tokens while the block runs. Raises BadTokens at the start."""
        if self.tokens_file is not None:
            await self.tokens_file.load()
        elif self._open:
            _log.warning("anybody who can reach this directory may register pools (--insecure-registrations)")
        else:
            _log.warning("nobody may register: neither --registration-tokens-file nor --insecure-registrations")
        async with AsyncExitStack() as stack:
            works = [("registrations", self.source.run())]
            if self.tokens_file is not None:
                works.append(("tokens file", self.tokens_file.run()))
            for name, work in works:
                await stack.enter_async_context(background(work, name=name, on_failure=on_failure))
            yield

    def document(self) -> dict[str, Any]:
        """What `/status.json` says of registrations."""
        source, file = self.source, self.tokens_file
        listed = len(source.live())
        return {
            "storage": source.store.name,
            "heartbeat_interval_secs": source.policy.heartbeat,
            "lease_duration_secs": source.policy.lease,
            "who_may_write": "token" if file else "anybody" if self._open else "nobody",
            "tokens": {"path": str(file.path), "count": len(file.tokens.grants), "error": file.fault} if file else None,
            "listed": listed,
            "expired": len(source.held) - listed,
            "error": source.fault,
            "malformed_items": [{"id": one.sort_key, "reason": one.reason} for one in source.malformed[:_SHOWN_ITEMS]],
            "clock_ahead_s": source.clock_ahead,
        }

    def _declare_metrics(self, metrics: Metrics) -> None:
        source, file = self.source, self.tokens_file
        metrics.gauge("global_discovery_registrations", "Registrations with a live lease", lambda: len(source.live()))
        metrics.gauge(
            "global_discovery_store_fault", "1 while registrations cannot be read", lambda: source.fault is not None
        )
        metrics.gauge("global_discovery_store_age_seconds", "Since registrations were read", lambda: source.age)
        metrics.gauge(
            "global_discovery_malformed_items",
            "Items of the table that are no registrations and may be live",
            lambda: len(source.malformed),
        )
        metrics.gauge(
            "global_discovery_registration_clock_ahead_seconds",
            "By how much the farthest writer's clock runs before this one",
            lambda: source.clock_ahead,
        )
        if file is not None:
            metrics.gauge("global_discovery_tokens", "Registration tokens", lambda: len(file.tokens.grants))
            metrics.gauge(
                "global_discovery_tokens_file_fault",
                "1 while the tokens file is broken",
                lambda: file.fault is not None,
            )
