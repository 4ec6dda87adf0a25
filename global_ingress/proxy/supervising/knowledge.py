"""Asking frontends what they serve and whether they live, again and again.

Owns the questions' rhythm, their limits and the answers: per pool its model list, per frontend how its probe stands.
Whoever decides reads `models()` and `failing()`; `changed` is called when they differ from before. Keeps the rule that
one question in flight per pool and a bounded number in all is enough.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import httpx

from discovery.identity import PoolKey
from discovery.kit.clock import Clock
from discovery.kit.log import logger
from discovery.pool import Pool
from global_ingress.proxy.settings.sections import Probe
from global_ingress.proxy.supervising import said
from global_ingress.proxy.supervising.said import Entry, PoolSaid, Probed

IDLE_INTERVAL = 30.0  # between two looks at a pool's models when probing is off
FIRST_INTERVAL = 1.0  # between the first two looks at a pool that has joined, doubled from look to look
IDLE_TIMEOUT = 5.0
AT_ONCE = 32
PER_SECOND = 200  # questions; with more frontends than this allows, the interval grows instead

_log = logger("global_ingress.knowledge")


@dataclass(frozen=True, slots=True)
class Subject:
    """A pool to ask, and the models its frontends are asked about (those that may be routed to it)."""

    pool: Pool
    models: tuple[str, ...]


class Knowledge:
    """What was learned. `recovered(url)` is called for each probe that succeeds."""

    def __init__(
        self, client: httpx.AsyncClient, clock: Clock, changed: Callable[[], None], recovered: Callable[[str], None]
    ) -> None:
        self._client = client
        self._extensions: dict[str, str] = {}
        self._clock = clock
        self._changed = changed
        self._recovered = recovered
        self._probe: Probe | None = None
        self._subjects: dict[PoolKey, Subject] = {}
        self._due: dict[PoolKey, float] = {}
        self._looks: dict[PoolKey, int] = {}
        self._asking: set[PoolKey] = set()
        self._said: dict[PoolKey, PoolSaid] = {}
        self._probed: dict[str, Probed] = {}
        self._urls: frozenset[str] = frozenset()
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._bell = asyncio.Event()

    def use(self, client: httpx.AsyncClient, server_name: str | None) -> httpx.AsyncClient:
        """Ask with this client from now on, and want this name in frontends' certificates instead of their host's;
        returns the client that was used before, with which questions may still be under way."""
        before, self._client = self._client, client
        self._extensions = {} if server_name is None else {"sni_hostname": server_name}
        return before

    def said(self) -> Mapping[PoolKey, PoolSaid]:
        return self._said

    def probed(self) -> Mapping[str, Probed]:
        return self._probed

    def models(self) -> dict[PoolKey, tuple[Entry, ...]]:
        return {key: one.models for key, one in self._said.items() if one.models is not None}

    def failing(self) -> dict[str, str]:
        """Frontends whose probe fails, with the reason; none when probing is off."""
        return {url: one.reason for url, one in self._probed.items() if one.failing}

    def follow(self, subjects: Sequence[Subject], probe: Probe | None) -> None:
        """From now on ask these; those that are new, at once."""
        if probe is None:
            self._probed.clear()
        if probe != self._probe:
            self._due = dict.fromkeys(self._due, self._clock.monotonic())
        self._probe = probe
        self._subjects = {subject.pool.key: subject for subject in subjects}
        self._urls = frozenset(frontend.url for subject in subjects for frontend in subject.pool.frontends)
        self._said = {key: one for key, one in self._said.items() if key in self._subjects}
        self._probed = {url: one for url, one in self._probed.items() if url in self._urls}
        now = self._clock.monotonic()
        self._due = {key: self._due.get(key, now) for key in self._subjects}
        self._looks = {key: looks for key, looks in self._looks.items() if key in self._subjects}
        self._bell.set()

    @property
    def interval(self) -> float:
        """Seconds between two looks at one pool."""
        wanted = self._probe.interval if self._probe else IDLE_INTERVAL
        return max(wanted, self._crowded)

    @property
    def _crowded(self) -> float:
        """The least interval that keeps to the questions allowed."""
        return (len(self._subjects) + (len(self._urls) if self._probe else 0)) / PER_SECOND

    def _pause(self, key: PoolKey) -> float:
        """Until the next look at this pool: soon after it joined, when it may still be loading its models."""
        looks = self._looks[key] = self._looks.get(key, 0) + 1
        return max(min(self.interval, FIRST_INTERVAL * 2.0 ** min(looks - 1, 10)), self._crowded)

    async def run(self) -> None:
        """Ask until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._bell.clear()
                now = self._clock.monotonic()
                for key in [key for key, due in self._due.items() if due <= now and key not in self._asking]:
                    self._asking.add(key)
                    tasks.create_task(self._ask(self._subjects[key]))
                later = [due for key, due in self._due.items() if key not in self._asking]
                await self._wait(min(later, default=now + 60.0) - now)

    async def _wait(self, seconds: float) -> None:
        sleeping = asyncio.ensure_future(self._clock.sleep(max(seconds, 0.01)))
        ringing = asyncio.ensure_future(self._bell.wait())
        try:
            await asyncio.wait((sleeping, ringing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            ringing.cancel()

    async def _ask(self, subject: Subject) -> None:
        key = subject.pool.key
        before = self._state(subject)
        try:
            if self._probe is not None:
                await asyncio.gather(*(self._probe_one(frontend.url, subject) for frontend in subject.pool.frontends))
            await self._list(subject)
        finally:
            self._asking.discard(key)
            if key in self._due:
                self._due[key] = self._clock.monotonic() + self._pause(key)
            self._bell.set()
        if before != self._state(subject):
            self._changed()

    def _state(self, subject: Subject) -> tuple[object, ...]:
        """What decisions depend on."""
        told = self._said.get(subject.pool.key, PoolSaid()).models
        return told, [self._fails(frontend.url) for frontend in subject.pool.frontends]

    def _fails(self, url: str) -> bool:
        probed = self._probed.get(url)
        return probed is not None and probed.failing

    async def _list(self, subject: Subject) -> None:
        """Ask the pool's frontends in turn until one says what it serves."""
        key, reasons = subject.pool.key, []
        for frontend in subject.pool.frontends:
            if self._fails(frontend.url) and len(subject.pool.frontends) > 1:
                continue
            try:
                models = said.read_models(*await self._get(frontend.url, "/v1/models"))
            except said.NotAList as error:
                reasons.append(f"{frontend.url}: {error}")
                continue
            if key in self._subjects:
                self._said[key] = said.heard(models, self._clock.monotonic())
            return
        if key in self._subjects:
            old = self._said.get(key, PoolSaid())
            self._said[key] = said.unheard(old, "; ".join(reasons[:3]) or "it has no frontend that answers its probe")
            if not old.reason:
                _log.warning("pool does not say what it serves", pool=str(key), reason=self._said[key].reason)

    async def _probe_one(self, url: str, subject: Subject) -> None:
        asked = self._clock.monotonic()
        reason = await self._fault(url, subject)
        if self._probe is None or url not in self._urls:
            return
        before = self._probed.get(url)
        if reason:
            self._probed[url] = after = said.failed(before, reason, asked)
        else:
            self._probed[url] = after = said.alive(asked)
            self._recovered(url)
        was = before is not None and before.failing
        if after.failing and not was:
            _log.warning("probe of a frontend fails", pool=str(subject.pool.key), frontend=url, reason=reason)
        elif was and not after.failing:
            _log.info("frontend answers its probe again", pool=str(subject.pool.key), frontend=url)

    async def _fault(self, url: str, subject: Subject) -> str:
        """Why the frontend does not look alive; empty when it does. It is alive when it says so of one model."""
        told = self._said.get(subject.pool.key, PoolSaid()).models
        ids = [id for id in subject.models if told is None or any(entry["id"] == id for entry in told)]
        reason = ""
        try:
            for id in ids[:4]:
                status, _ = await self._get(url, said.ready_path(id))
                ready = said.judge_ready(status)
                if ready:
                    return ""
                if ready is False:
                    reason = f"answers {status} when asked whether it serves {id}"
            if not reason:
                said.read_models(*await self._get(url, "/v1/models"))
        except said.NotAList as error:
            reason = str(error)
        return reason

    async def _get(self, url: str, path: str) -> tuple[int, bytes]:
        """Status and body. Raises NotAList with the reason when there is no answer."""
        timeout = self._probe.timeout if self._probe else IDLE_TIMEOUT
        headers = self._probe.headers if self._probe else {}
        async with self._gate:
            try:
                asked = self._client.stream("GET", url + path, headers=headers, extensions=self._extensions)
                async with asyncio.timeout(timeout), asked as answer:
                    body = bytearray()
                    async for piece in answer.aiter_bytes():
                        body += piece
                        if len(body) > said.MOST_BYTES:
                            raise said.NotAList(f"GET {path} was answered with more than {said.MOST_BYTES} bytes")
                    return answer.status_code, bytes(body)
            except TimeoutError:
                raise said.NotAList(f"no answer to GET {path} in {timeout:g} s") from None
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise said.NotAList(f"no answer to GET {path}: {str(error) or type(error).__name__}") from None


def new_client(tls: ssl.SSLContext | None = None) -> httpx.AsyncClient:
    """A client for these questions: no proxies of the environment, no redirects, no connection kept."""
    return httpx.AsyncClient(
        verify=True if tls is None else tls,
        trust_env=False,
        follow_redirects=False,
        limits=httpx.Limits(max_connections=2 * AT_ONCE, max_keepalive_connections=0),
        timeout=None,
    )
