"""Leader election over a Lease of an API server.

Owns the requests and the waiting; who leads is decided by `discovery.kube.election`. A request takes no longer than
the leadership has left, so that a server that hangs cannot outlive it. The Lease is no fence: what must be fenced takes
`held` along.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from discovery.kit.backoff import Chance
from discovery.kit.clock import Clock
from discovery.kit.log import logger
from discovery.kube.election import Create, Election, Held, LeasePolicy, Wait
from discovery.kube.errors import BadKubeConfig, KubeError, Refusal, Refused, Unreachable
from discovery.kube.writes import KubeWriter, Object

_log = logger(__name__)


class LeadershipLost(Exception):
    """We led, and do no more: whoever wrote in our name must have stopped by now."""


class LeaseLock:
    """`acquire`, then `keep` beside the work until it raises LeadershipLost, then `release`."""

    def __init__(
        self,
        client: KubeWriter,
        namespace: str,
        name: str,
        identity: str,
        clock: Clock,
        *,
        policy: LeasePolicy | None = None,
        chance: Chance,
    ) -> None:
        self._client = client
        self._home = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._path = f"{self._home}/{name}"
        self._policy = policy or LeasePolicy()
        self._election = Election(namespace, name, identity, self._policy)
        self._clock = clock
        self._chance = chance
        self.trouble = ""

    def __repr__(self) -> str:
        return f"<LeaseLock {self._election!r}>"

    @property
    def holder(self) -> str:
        return self._election.holder

    @property
    def leads(self) -> bool:
        return self._election.is_ours and not self._election.lost(self._clock.monotonic())

    async def acquire(self) -> Held:
        """Wait until we lead."""
        while True:
            await self._try(self._policy.renew_deadline)
            if self._election.is_ours and self._election.held is not None:
                return self._election.held
            await self._pause()

    async def keep(self) -> None:
        """Renew for ever. Raises LeadershipLost as soon as it is, or must be taken to be."""
        while True:
            await self._pause()
            now = self._clock.monotonic()
            if not self._election.lost(now):
                await self._try(max(0.001, self._election.left(now)))
            if self._election.lost(self._clock.monotonic()):
                raise LeadershipLost(f"not renewed for {self._policy.renew_deadline:g} s: {self.trouble}")
            if self.trouble == "" and not self._election.is_ours:
                raise LeadershipLost(f"{self.holder or 'nobody'} leads")

    async def release(self) -> None:
        """Let the next one begin at once. Best effort: the Lease runs out by itself."""
        body = self._election.release(self._clock.now())
        if body is None:
            return
        try:
            await self._client.replace(self._path, body, timeout=self._policy.retry)
        except KubeError as error:
            _log.warning("lease not released", reason=str(error))

    async def _pause(self) -> None:
        await self._clock.sleep(self._policy.retry * (1 + 0.2 * self._chance()))

    async def _try(self, seconds: float) -> None:
        """One reading and, when the Lease is ours or free, one writing; at most so long for both."""
        until = self._clock.monotonic() + seconds

        def left() -> float:
            return max(0.001, until - self._clock.monotonic())

        try:
            async with _within(self._clock, seconds):
                self._election.seen(await self._read(left), self._clock.monotonic())
                await self._write(left)
        except (Refused, Unreachable, BadKubeConfig) as error:
            if isinstance(error, Refused) and error.refusal is Refusal.CONFLICT:
                # Somebody was faster. What they wrote is read at the next turn.
                return
            self.trouble = str(error)
            _log.warning("lease cannot be read or written", reason=self.trouble)
        else:
            self.trouble = ""

    async def _read(self, left: Callable[[], float]) -> Object | None:
        try:
            return await self._client.read(self._path, timeout=left())
        except Refused as error:
            if error.refusal is Refusal.NOT_FOUND:
                return None
            raise

    async def _write(self, left: Callable[[], float]) -> None:
        wish = self._election.wish(self._clock.monotonic(), self._clock.now())
        if isinstance(wish, Wait):
            return
        if isinstance(wish, Create):
            made = await self._client.create(self._home, wish.body, timeout=left())
        else:
            made, new = await self._client.replace(self._path, wish.body, timeout=left())
            if new:
                # It was deleted between our reading and our writing: others may have made it, too.
                self._election.seen(made, self._clock.monotonic())
                raise Unreachable("the lease was deleted while it was written")
        self._election.won(made, self._clock.monotonic())


class _within:
    """Ends the block after so many seconds of this clock, by Unreachable: virtual time counts, too."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._over = False

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None

        async def end() -> None:
            await self._clock.sleep(self._seconds)
            self._over = True
            task.cancel()

        self._timer = asyncio.create_task(end())

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._timer.cancel()
        await asyncio.wait([self._timer])
        if self._over and kind is asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.uncancel() == 0:
                raise Unreachable(f"no answer within {self._seconds:g} s")
