"""The probes: they ask, and return what they saw.

Owns the requests of the validation client (httpx). Refuses to judge, to repeat a request and to follow a redirect.
Bodies are bounded: what is longer is evidence of its own. The rule: a probe always returns, whatever the network does.
"""

from __future__ import annotations

import httpx

from discovery.kit.clock import Clock
from global_ingress.validate.answers import read_body
from global_ingress.validate.evidence import (
    Answered,
    Asked,
    Exchange,
    Kind,
    Reading,
    RouterReading,
    Told,
    Unanswered,
    Unknown,
    View,
    Viewing,
)
from global_ingress.validate.inventory import read_listing
from global_ingress.validate.plan import body_of
from global_ingress.validate.views import read_routers, read_view

BODY_LIMIT = 8 * 1024 * 1024
_LONG = 2000  # tokens: a stream that nobody wants to the end
_JSON = {"content-type": "application/json"}


def new_client(*, timeout_s: float = 30.0) -> httpx.AsyncClient:
    """A client that takes nothing from its environment; `timeout_s` bounds each wait for bytes, connecting is 5 s."""
    return httpx.AsyncClient(
        trust_env=False,
        follow_redirects=False,
        timeout=httpx.Timeout(timeout_s, connect=5.0),
        headers={"user-agent": "global-ingress-validate"},
    )


class Probe:
    """Asks with one HTTP client and one clock."""

    def __init__(self, client: httpx.AsyncClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def list_pools(self, discovery: str, url: str) -> Reading:
        """What the discovery of cluster `discovery` lists now."""
        at, began = self._clock.now().timestamp(), self._clock.monotonic()
        got = await self._get(f"{url.rstrip('/')}/pools")
        seen, epoch = (got, "") if isinstance(got, Unknown) else read_listing(*got)
        return Reading(discovery, seen, at, self._clock.monotonic() - began, epoch)

    async def list_routers(self, discovery: str, url: str) -> RouterReading:
        """The routers that the discovery of cluster `discovery` lists now."""
        at, began = self._clock.now().timestamp(), self._clock.monotonic()
        got = await self._get(f"{url.rstrip('/')}/routers")
        seen = got if isinstance(got, Unknown) else read_routers(*got)
        return RouterReading(discovery, seen, at, self._clock.monotonic() - began)

    async def view(self, ingress: str, admin: str) -> Viewing:
        """What the admin listener of the ingress of cluster `ingress` says now."""
        at, began = self._clock.now().timestamp(), self._clock.monotonic()
        status = await self._document(f"{admin.rstrip('/')}/status.json")
        pools = await self._document(f"{admin.rstrip('/')}/pools")
        if isinstance(status, Unknown):
            seen: View | Unknown = status
        else:
            seen = pools if isinstance(pools, Unknown) else read_view(status, pools)
        return Viewing(ingress, seen, at, self._clock.monotonic() - began)

    async def metrics(self, url: str) -> str | None:
        """The exposition at `url`/metrics; None when it cannot be had."""
        got = await self._document(f"{url.rstrip('/')}/metrics")
        return None if isinstance(got, Unknown) else got.decode(errors="replace")

    async def leave(self, ingress: str, url: str, model: str) -> str | None:
        """Ask for a long stream and leave after its first bytes; why that was not possible, None when it was."""
        kind = Kind("chat", stream=True)
        try:
            async with self._client.stream(
                "POST", f"{url.rstrip('/')}{kind.path}", content=body_of(kind, model, _LONG), headers=_JSON
            ) as answer:
                if answer.status_code != 200:
                    return f"status {answer.status_code}"
                async for _ in answer.aiter_raw():
                    return None
                return "the stream was empty"
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return _words(error)

    async def _document(self, url: str) -> bytes | Unknown:
        got = await self._get(url)
        if isinstance(got, Unknown):
            return got
        status, body = got
        return body if status == 200 else Unknown(f"status {status}")

    async def _get(self, url: str) -> tuple[int, bytes] | Unknown:
        try:
            async with self._client.stream("GET", url) as answer:
                body, cut = await self._read(answer)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return Unknown(_words(error))
        return Unknown(f"it was cut: {cut}") if cut else (answer.status_code, bytes(body))

    async def exchange(self, asked: Asked, url: str, model: str) -> Exchange:
        """Sends one request of the plan to the ingress at `url`."""
        at, began = self._clock.now().timestamp(), self._clock.monotonic()
        first: list[float] = []
        seen: Answered | Unanswered
        try:
            async with self._client.stream(
                "POST",
                f"{url.rstrip('/')}{asked.kind.path}",
                content=body_of(asked.kind, model),
                headers=_JSON,
            ) as answer:
                body, cut = await self._read(answer, first)
            seen = _answered(asked.kind, answer, bytes(body), cut)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            seen = Unanswered(_words(error))
        ended = self._clock.monotonic()
        return Exchange(asked, seen, at, first[0] - began if first else None, ended - began)

    async def _read(self, answer: httpx.Response, first: list[float] | None = None) -> tuple[bytearray, str | None]:
        """The body, and how it was cut (None = it ended properly); the time of its first byte goes to `first`."""
        body = bytearray()
        try:
            async for piece in answer.aiter_raw():
                if first is not None and not first:
                    first.append(self._clock.monotonic())
                body += piece
                if len(body) > BODY_LIMIT:
                    return body, f"longer than {BODY_LIMIT} bytes"
        except httpx.HTTPError as error:
            return body, _words(error)
        return body, None


def _answered(kind: Kind, answer: httpx.Response, body: bytes, cut: str | None) -> Answered:
    header = answer.headers.get
    return Answered(
        status=answer.status_code,
        content_type=header("content-type", ""),
        pool=header("x-dynamo-pool"),
        region=header("x-dynamo-target-region"),
        attempts=header("x-dynamo-attempts"),
        request_id=header("x-request-id"),
        told=read_body(kind, body) if answer.status_code == 200 else Told(),
        cut=cut,
    )


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
