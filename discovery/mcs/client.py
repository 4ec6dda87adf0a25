"""The registry over the network: the same protocol, by HTTP, from whichever of its replicas answers.

Owns connections, time limits and which replica is asked: the one that answered last, until it fails. A write goes to
the next replica with the same stamp, which is harmless; a registration only where it surely did not arrive, since each
makes a session. An answer that is none of a registry counts as no answer.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote

import httpx

from discovery.kit.log import logger
from discovery.kit.metrics import Metrics
from discovery.mcs import wire
from discovery.mcs.model import (
    Announcement,
    Cluster,
    EndpointSet,
    Event,
    Export,
    ExportStatus,
    Import,
    Registration,
    ServiceKey,
    Stamp,
)
from discovery.mcs.registry import Reason, Refused, Unreachable

_log = logger(__name__)
_TOKEN: Final = re.compile(rb"[A-Za-z0-9._~+/=-]+")
"""What `discovery.tokens.bearer` takes from a header."""
_LONGEST_LINE: Final = 8 * 1024 * 1024
_ELSEWHERE: Final = frozenset({Reason.BUSY, Reason.STORE_AWAY})
"""Answers that another replica may not give."""

T = TypeVar("T")


def tls_context(ca: str | None, cert: str | None, key: str | None) -> ssl.SSLContext:
    """Raises OSError (ssl.SSLError is one) when a file cannot be used."""
    context = ssl.create_default_context(cafile=ca)
    if cert is not None:
        context.load_cert_chain(cert, key)
    return context


class RegistryClient:
    """A `discovery.mcs.registry.Registry`; enter it before use."""

    def __init__(
        self,
        urls: Sequence[str],
        *,
        token_file: str | None = None,
        tls: ssl.SSLContext | None = None,
        timeout_s: float = 5.0,
        inactivity_s: float = 45.0,
        metrics: Metrics | None = None,
    ) -> None:
        self._urls = [url.rstrip("/") for url in urls]
        self._at = 0
        self._token_file = token_file
        self._timeout_s = timeout_s
        limits = httpx.Timeout(timeout_s, connect=min(2.0, timeout_s), read=inactivity_s)
        self._http = httpx.AsyncClient(
            verify=tls or ssl.create_default_context(),
            timeout=limits,
            trust_env=False,
            # Watches are read raw.
            headers={"accept-encoding": "identity"},
        )
        metrics = metrics or Metrics()
        self._requests = metrics.counter("dynamo_mcs_client_requests", "Requests", ("call", "outcome"))
        self._failovers = metrics.counter("dynamo_mcs_client_failovers", "Turns to another replica")
        self._events = metrics.counter("dynamo_mcs_client_watch_events", "Events of watches")

    def __repr__(self) -> str:
        return f"<RegistryClient {self._urls[self._at]} of {len(self._urls)}>"

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._http.aclose()

    # Calls

    async def register(self, cluster: Announcement) -> Registration:
        body = wire.write(cluster, without=("cluster",))
        path = _path("clusters", cluster.cluster)
        answer = await self._call("register", "PUT", path, body=body, repeatable=False)
        return _understood(wire.read_registration, answer)

    async def renew(self, stamp: Stamp) -> Registration:
        answer = await self._call("renew", "POST", f"{_own(stamp)}:renew", stamp)
        return _understood(wire.read_registration, answer)

    async def leave(self, stamp: Stamp) -> str:
        return await self._write("leave", "DELETE", _own(stamp), stamp)

    async def put_export(self, stamp: Stamp, export: Export) -> str:
        body = wire.write(export, without=("cluster", "service"))
        return await self._write("put_export", "PUT", _export(export.cluster, export.service), stamp, body)

    async def delete_export(self, stamp: Stamp, service: ServiceKey) -> str:
        return await self._write("delete_export", "DELETE", _export(stamp.session.cluster, service), stamp)

    async def put_endpoints(self, stamp: Stamp, endpoints: EndpointSet) -> str:
        body = wire.write(endpoints, without=("cluster", "service", "slice"))
        path = f"{_export(endpoints.cluster, endpoints.service)}/slices/{quote(endpoints.slice, safe='')}"
        return await self._write("put_endpoints", "PUT", path, stamp, body)

    async def delete_endpoints(self, stamp: Stamp, service: ServiceKey, slice_: str) -> str:
        path = f"{_export(stamp.session.cluster, service)}/slices/{quote(slice_, safe='')}"
        return await self._write("delete_endpoints", "DELETE", path, stamp)

    async def sync_begin(self, stamp: Stamp) -> str:
        return await self._write("sync_begin", "POST", f"{_own(stamp)}:sync-begin", stamp)

    async def sync_complete(self, stamp: Stamp, count: int, digest: str) -> str:
        body = {"count": count, "digest": digest}
        return await self._write("sync_complete", "POST", f"{_own(stamp)}:sync-complete", stamp, body)

    async def clusters(self) -> tuple[Cluster, ...]:
        return self._items(Cluster, await self._call("clusters", "GET", "/v1/clusters"))

    async def imports(self, namespace: str = "") -> tuple[Import, ...]:
        path = f"/v1/imports?namespace={quote(namespace, safe='')}"
        return self._items(Import, await self._call("imports", "GET", path))

    async def export_status(self, cluster: str, service: ServiceKey) -> ExportStatus:
        answer = await self._call("export_status", "GET", f"{_export(cluster, service)}/status")
        return _understood(lambda value: wire.read(ExportStatus, value, strict=False), answer)

    @staticmethod
    def _items(kind: type[T], answer: Any) -> tuple[T, ...]:
        def read(value: Any) -> tuple[T, ...]:
            return tuple(wire.read(kind, one, strict=False) for one in value["items"])

        return _understood(read, answer)

    async def _write(self, call: str, method: str, path: str, stamp: Stamp, body: Any = None) -> str:
        answer = await self._call(call, method, path, stamp, body=body)
        return _understood(lambda value: str(value["revision"]), answer)

    async def _call(
        self,
        call: str,
        method: str,
        path: str,
        stamp: Stamp | None = None,
        *,
        body: Any = None,
        repeatable: bool = True,
    ) -> Any:
        headers = await self._headers()
        if stamp is not None:
            headers |= {"mcs-session": wire.write_session(stamp.session), "mcs-seq": str(stamp.seq)}
        content = None if body is None else wire.encode(body)
        tries = max(2, len(self._urls))
        while True:
            at, tries = self._at, tries - 1
            try:
                async with asyncio.timeout(self._timeout_s):
                    url = self._urls[at] + path
                    response = await self._http.request(method, url, content=content, headers=headers)
                answer = _answer(response)
            except (httpx.HTTPError, TimeoutError, Unreachable) as error:
                self._leave(at, call, error)
                if not tries or not (repeatable or isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)):
                    raise Unreachable(f"{self._urls[at]}: {str(error) or type(error).__name__}") from error
            except Refused as error:
                self._requests.add(call, error.reason.value)
                if error.reason not in _ELSEWHERE or not tries or len(self._urls) == 1:
                    raise
                self._leave(at, call, error)
            else:
                self._requests.add(call, "ok")
                return answer

    def _leave(self, at: int, call: str, error: Exception) -> None:
        """The next replica from now on, unless another call has turned already."""
        if not isinstance(error, Refused):
            self._requests.add(call, "unreachable")
        if self._at == at and len(self._urls) > 1:
            self._at = (at + 1) % len(self._urls)
            self._failovers.add()
            _log.warning("turning to another registry", left=self._urls[at], reason=str(error) or type(error).__name__)

    async def _headers(self) -> dict[str, str]:
        if self._token_file is None:
            return {}
        try:
            # Read each time: a mounted Secret is replaced while we run.
            token = (await asyncio.to_thread(Path(self._token_file).read_bytes)).strip()
        except OSError as error:
            raise Unreachable(f"{self._token_file} cannot be read: {error.strerror or error}") from error
        if not _TOKEN.fullmatch(token):
            # Without the content: it may be a good token, spoilt.
            raise Unreachable(f"{self._token_file} is not one token: letters, digits and ._~+/=- in one line")
        return {"authorization": f"Bearer {token.decode()}"}

    # Watching

    async def watch(self, revision: str = "") -> AsyncGenerator[Event, None]:
        at = self._at
        url = f"{self._urls[at]}/v1/imports:watch"
        headers = await self._headers()
        try:
            async with self._http.stream("GET", url, params={"revision": revision}, headers=headers) as response:
                if response.status_code != 200:
                    await response.aread()
                    _answer(response)
                    raise Unreachable(f"{url} answered {response.status_code} to a watch")
                self._requests.add("watch", "ok")
                rest = bytearray()
                async for chunk in response.aiter_raw():
                    *lines, last = (rest + chunk).split(b"\n")
                    rest = bytearray(last)
                    if len(rest) > _LONGEST_LINE:
                        raise Unreachable(f"{url}: a line without an end")
                    for line in lines:
                        self._events.add()
                        yield _understood(wire.read_event, _understood(wire.parse, bytes(line)))
        except httpx.HTTPError as error:
            self._leave(at, "watch", error)
            raise Unreachable(f"{url}: {str(error) or type(error).__name__}") from error
        except Unreachable as error:
            self._leave(at, "watch", error)
            raise
        except Refused as error:
            self._requests.add("watch", error.reason.value)
            if error.reason in _ELSEWHERE:
                self._leave(at, "watch", error)
            raise
        ended = Unreachable(f"{url}: the watch has ended")
        self._leave(at, "watch", ended)
        raise ended


def _path(*parts: str) -> str:
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def _own(stamp: Stamp) -> str:
    return _path("clusters", stamp.session.cluster)


def _export(cluster: str, service: ServiceKey) -> str:
    return _path("clusters", cluster, "exports", *service)


def _understood(read: Callable[[Any], T], value: Any) -> T:
    try:
        return read(value)
    except (Refused, KeyError, TypeError) as error:
        raise Unreachable(f"the registry's answer is not understood: {error}") from error


def _too_large() -> Refused:
    """Said by something on the way, whose words are its own."""
    return Refused(Reason.TOO_LARGE, "the registry does not take a body of this size")


def _answer(response: httpx.Response) -> Any:
    """The body of a good answer. Raises Refused, or Unreachable for what no registry says."""
    try:
        said = wire.parse(response.content)
    except Refused as error:
        if response.status_code == 413:
            raise _too_large() from None
        raise Unreachable(f"answered {response.status_code}, and that is not JSON") from error
    if response.status_code == 200:
        return said
    if not isinstance(said, Mapping) or said.get("reason") not in set(Reason):
        if response.status_code == 413:
            raise _too_large()
        raise Unreachable(f"answered {response.status_code}, not as a registry does")
    details = said.get("details") or [{}]
    field = str(details[0].get("field", "")) if isinstance(details[0], Mapping) else ""
    after = response.headers.get("retry-after", "")
    retry = float(after) if after.isdecimal() else None
    raise Refused(Reason(said["reason"]), str(said.get("message", "")), field=field, retry_after_s=retry)
