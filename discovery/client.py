"""Following a directory: tables as they come, for whoever needs to know the pools.

Owns the connection: one of several directories at a time, in order, with backoff and a limit on silence. What is
believed is decided in `discovery.reader`. The rule it keeps: whatever happens to the directories, the last good table
stays, and its age is told.

    async with follow(["http://discovery:8080"]) as following:
        async for table in following:
            ...
"""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing
from types import TracebackType
from typing import Self

import anyio
import httpx

from discovery.errors import DiscoveryError, MalformedWire
from discovery.kit.backoff import SYSTEM_CHANCE, Backoff, Chance
from discovery.kit.clock import SYSTEM_CLOCK, Clock
from discovery.kit.log import logger
from discovery.kit.tasks import background
from discovery.pool import PoolTable
from discovery.reader import Reader
from discovery.wire import decode_line

_log = logger(__name__)

# Short: while nobody is heard, the table grows old, and one question in two seconds burdens no directory.
_BACKOFF = Backoff(first=0.2, limit=2.0)
_SETTLED_SECONDS = 10.0
"""A connection that lasted this long was a good one: the next failure is a first one again."""
_LONGEST_LINE = 64 * 1024 * 1024


class FollowingFailed(DiscoveryError):
    """The task that follows has died of an error of ours; its cause is chained."""


def follow(
    urls: Sequence[str],
    *,
    namespaces: Sequence[str] = (),
    hold_incomplete: float = 600.0,
    inactivity: float = 30.0,
    clock: Clock = SYSTEM_CLOCK,
    transport: httpx.AsyncBaseTransport | None = None,
    chance: Chance = SYSTEM_CHANCE,
    verify: ssl.SSLContext | bool = True,
) -> Following:
    """Follow the pools of the first of these directories that answers, the next one when it fails.

    `urls` are base URLs (`http://host:port`), `namespaces` restricts to pools of these. Seconds: `hold_incomplete` is
    how long an incomplete table may not remove anybody, `inactivity` how long a directory may say nothing. Nothing of
    the environment (proxies) is used. Raises ValueError for no URL or one that is none.
    """
    if not urls:
        raise ValueError("at least one directory is needed")
    for url in urls:
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise ValueError(f"{url!r} is no URL: {error}") from error
        if parsed.scheme not in ("http", "https") or not parsed.host or parsed.query or parsed.fragment:
            raise ValueError(f"{url!r} is not of the form http://host:port")
    client = httpx.AsyncClient(
        # Connecting has a limit of its own, so that a host that is gone costs less than the whole inactivity.
        timeout=httpx.Timeout(None, connect=min(5.0, inactivity)),
        transport=transport,
        verify=verify,
        trust_env=False,
        headers={"accept": "application/x-ndjson", "accept-encoding": "identity"},
    )
    bases = [url.rstrip("/") for url in urls]
    return Following(
        bases, list(namespaces), Reader(hold_incomplete), client, inactivity, hold_incomplete, clock, chance
    )


class Following:
    """An async context manager, and an async iterator for one consumer: each turn gives the newest table whose content
    the consumer has not seen; tables that came and went meanwhile are skipped. Made by `follow`."""

    def __init__(
        self,
        urls: list[str],
        namespaces: Sequence[str],
        reader: Reader,
        client: httpx.AsyncClient,
        inactivity: float,
        hold_incomplete: float,
        clock: Clock,
        chance: Chance,
    ) -> None:
        self._urls = urls
        self._namespaces = namespaces
        self._reader = reader
        self._client = client
        self._inactivity = inactivity
        self._hold = hold_incomplete
        self._clock = clock
        self._chance = chance
        self._stack = AsyncExitStack()
        self._news = asyncio.Event()
        self._fresh = False
        self._held = 0
        self._closed = False
        self._failure: Exception | None = None
        self._heard_at = -math.inf
        self._url: str | None = None
        self._errors = 0
        self._last_error: str | None = None

    def __repr__(self) -> str:
        return f"<Following {self._url or 'nobody'} {self._reader!r} errors={self._errors}>"

    @property
    def table(self) -> PoolTable | None:
        """The last good table; None before the first."""
        return self._reader.table

    @property
    def url(self) -> str | None:
        """The directory that is being heard now."""
        return self._url

    @property
    def errors(self) -> int:
        """How many connections failed or ended."""
        return self._errors

    @property
    def last_error(self) -> str | None:
        return self._last_error

    @property
    def held(self) -> int:
        """How many pools of the table are kept only because the directory's own is incomplete."""
        return self._reader.held

    def age(self) -> float:
        """Seconds since a directory last said anything; infinite before the first word."""
        return self._clock.monotonic() - self._heard_at

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._client)
        await self._stack.enter_async_context(
            background(self._follow(), name="follow directory", on_failure=self._on_failure)
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        self._url = None
        self._news.set()
        await self._stack.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> PoolTable:
        while True:
            if self._closed:
                raise StopAsyncIteration
            if self._failure is not None:
                raise FollowingFailed("following the directory has failed") from self._failure
            table = self._reader.table
            if self._fresh and table is not None:
                self._fresh = False
                return table
            self._news.clear()
            await self._news.wait()

    def _on_failure(self, error: Exception) -> None:
        self._failure = error
        self._url = None
        self._news.set()

    async def _follow(self) -> None:
        """One directory after the other, for ever."""
        failures = turn = 0
        while True:
            url = self._urls[turn % len(self._urls)]
            began = self._clock.monotonic()
            reason = await self._attempt(url)
            self._url = None
            self._reader.cut()
            self._errors += 1
            self._last_error = f"{url}: {reason}"
            failures = 1 if self._clock.monotonic() - began >= _SETTLED_SECONDS else failures + 1
            turn += 1
            # The first round through all of them is quick; the longer none answers, the slower.
            delay = _BACKOFF.delay(1 + (failures - 1) // len(self._urls), self._chance())
            _log.warning("directory lost", url=url, reason=reason, failures=failures, retry_in_s=round(delay, 3))
            await self._clock.sleep(delay)

    async def _attempt(self, url: str) -> str:
        """Listen to one directory until that ends; why it ended."""
        reason = ""
        alive_at = self._clock.monotonic()

        async def watch_silence(scope: anyio.CancelScope) -> None:
            nonlocal reason
            while (left := max(alive_at, self._heard_at) + self._inactivity - self._clock.monotonic()) > 0:
                await self._clock.sleep(left)
            reason = f"said nothing for {self._inactivity:g} s"
            scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(watch_silence, group.cancel_scope)
            reason = await self._listen(url)
            group.cancel_scope.cancel()
        return reason

    async def _listen(self, url: str) -> str:
        parameters = httpx.QueryParams([("watch", "true"), *(("namespace", one) for one in self._namespaces)])
        if self._reader.version:
            parameters = parameters.add("since", self._reader.version)
        try:
            async with self._client.stream("GET", f"{url}/pools", params=parameters) as response:
                if response.status_code != 200:
                    return f"answered {response.status_code}"
                self._hear_from(url)
                async with aclosing(_lines(response.aiter_bytes())) as lines:
                    async for line in lines:
                        self._hear_from(url)
                        self._take(line, url)
        except httpx.HTTPError as error:
            return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        except MalformedWire as error:
            self._reader.forget()
            return f"broke the protocol: {error}"
        return "ended the stream"

    def _hear_from(self, url: str) -> None:
        self._heard_at = self._clock.monotonic()
        self._url = url

    def _take(self, line: bytes, url: str) -> None:
        if not self._reader.hear(decode_line(line), self._clock.monotonic()):
            return
        held, table = self._reader.held, self._reader.table
        assert table is not None
        pairs = {"url": url, "epoch": table.epoch, "revision": table.revision, "pools": len(table.pools)}
        if held and not self._held:
            _log.warning("directory is incomplete, pools it does not list are kept", **pairs, kept=held)
        elif self._held and not held and not table.complete:
            _log.error("directory is incomplete for too long, pools removed", **pairs, held_s=self._hold)
        else:
            _log.debug("table received", **pairs, complete=table.complete)
        self._held = held
        self._fresh = True
        self._news.set()


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Lines without their ends, split at LF only (JSON may hold what others take for a line end), of bounded length."""
    rest = bytearray()
    async for chunk in chunks:
        *whole, tail = chunk.split(b"\n")
        for part in whole:
            yield bytes(rest + part)
            rest.clear()
        rest += tail
        if len(rest) > _LONGEST_LINE:
            raise MalformedWire("$", f"a line of more than {_LONGEST_LINE} bytes")
