"""Requests to an API server, raw: credentials and TLS come from kubernetes_asyncio, everything else is ours.

Owns the connection. Its typed models and its watch are not used: they block the loop and hang on half-open
connections. Every answer is closed on every path; foreign exceptions become `Unreachable` or `BadKubeConfig` here.
Reads only: whoever has nothing but this module cannot write (`discovery.kube.writes` can).
"""

from __future__ import annotations

import asyncio
import binascii
import os
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

import aiohttp
import yaml
from kubernetes_asyncio import config as kube_config
from kubernetes_asyncio.client import ApiClient, Configuration
from kubernetes_asyncio.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION

from discovery.kube.errors import BadKubeConfig, Unreachable
from discovery.kube.events import Query

_CONNECT_SECONDS = 5.0
_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}
"""Not compressed: inside a cluster that costs both sides more than it saves."""

_KEEPALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))

_FOREIGN = (aiohttp.ClientError, OSError, TimeoutError, asyncio.IncompleteReadError, ValueError)
_BAD_CONFIG = (
    kube_config.ConfigException,
    OSError,
    yaml.YAMLError,
    ValueError,
    binascii.Error,
    KeyError,
    TypeError,
    AttributeError,
)


@dataclass(frozen=True, slots=True)
class Access:
    """Where the credentials are: `kubeconfig` and `context` as given, None for the usual places: the pod's own
    account when there is one, else the kubeconfig of this user."""

    kubeconfig: str | None = None
    context: str | None = None

    async def load(self) -> Configuration:
        """Raises BadKubeConfig. Plugins are run and tokens fetched, so this may take a while."""
        configuration = Configuration()
        in_cluster = self.kubeconfig is None and self.context is None and _is_in_cluster()
        if not in_cluster and not await asyncio.to_thread(_any_is_there, places := self._places()):
            raise BadKubeConfig(f"cannot use {self}: there is no file {' or '.join(places)}")
        try:
            if in_cluster:
                await asyncio.to_thread(kube_config.load_incluster_config, client_configuration=configuration)
            else:
                await kube_config.load_kube_config(self.kubeconfig, self.context, configuration, persist_config=False)
        except _BAD_CONFIG as error:
            raise BadKubeConfig(f"cannot use {self}: {_one_line(error)}") from error
        return configuration

    def _places(self) -> list[str]:
        """One file, or several that are read as one."""
        return (self.kubeconfig or KUBE_CONFIG_DEFAULT_LOCATION).split(os.pathsep)

    def __str__(self) -> str:
        place = f"the kubeconfig {self.kubeconfig}" if self.kubeconfig else "the usual kubeconfig"
        return f"{place}, context {self.context}" if self.context else place


class Answer:
    """Status and body of one answer, while it is read."""

    def __init__(self, raw: aiohttp.ClientResponse) -> None:
        self._raw = raw
        self.status = raw.status
        self.retry_after = raw.headers.get("Retry-After")

    def __repr__(self) -> str:
        return f"<Answer {self.status}>"

    async def read(self) -> bytes:
        """What has come, b"" at the end. Raises Unreachable when the body is cut."""
        try:
            return await self._raw.content.readany()
        except _FOREIGN as error:
            raise Unreachable(_one_line(error)) from error


class KubeClient:
    """One server, for as many requests as are wanted. `async with`, or `close` at the end."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._api: ApiClient | None = None

    def __repr__(self) -> str:
        return f"<KubeClient {self._access} {'open' if self._api else 'closed'}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Read the credentials now. Raises BadKubeConfig."""
        if self._api is None:
            configuration = await self._access.load()
            try:
                self._api = ApiClient(configuration)
            except (OSError, ValueError) as error:
                raise BadKubeConfig(f"cannot use {self._access}: {_one_line(error)}") from error

    async def close(self) -> None:
        api, self._api = self._api, None
        if api is not None:
            await api.close()

    async def renew(self) -> None:
        """Forget the credentials: the next request reads them anew. Ends requests that are in the air."""
        await self.close()

    @asynccontextmanager
    async def get(self, path: str, query: Query) -> AsyncIterator[Answer]:
        """The answer to a GET, whatever its status; closed when the block is left. There is no limit of time but the
        one for connecting: whoever asks knows how long an answer may take. Raises Unreachable, BadKubeConfig."""
        async with self._exchange("GET", path, query, {}, None) as answer:
            yield answer

    @asynccontextmanager
    async def _exchange(
        self, method: str, path: str, query: Query, headers: Mapping[str, str], body: Any
    ) -> AsyncIterator[Answer]:
        await self.open()
        assert self._api is not None
        try:
            raw = await self._api.call_api(
                path,
                method,
                query_params=list(query),
                header_params={**_HEADERS, **headers},
                body=body,
                auth_settings=["BearerToken"],
                response_types_map={},
                _preload_content=False,
                _request_timeout=aiohttp.ClientTimeout(
                    total=None, connect=_CONNECT_SECONDS, sock_connect=_CONNECT_SECONDS, sock_read=None
                ),
            )
        except _FOREIGN as error:
            raise Unreachable(_one_line(error)) from error
        except kube_config.ConfigException as error:
            raise BadKubeConfig(f"cannot renew the token of {self._access}: {_one_line(error)}") from error
        try:
            _keep_alive(raw)
            yield Answer(raw)
        finally:
            raw.close()


def _any_is_there(places: list[str]) -> bool:
    return any(os.path.isfile(os.path.expanduser(place)) for place in places)


def _is_in_cluster() -> bool:
    # These are Kubernetes' own names, and the library reads the same ones.
    return "KUBECONFIG" not in os.environ and "KUBERNETES_SERVICE_HOST" in os.environ  # noqa: TID251


def _keep_alive(raw: aiohttp.ClientResponse) -> None:
    """Let the kernel notice a peer that is gone, also while we wait for it to say something."""
    connection = raw.connection
    one = connection.transport.get_extra_info("socket") if connection and connection.transport else None
    # A short answer may have given its connection back already.
    if one is None or one.fileno() < 0:
        return
    one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if (option := getattr(socket, name, None)) is not None:
            one.setsockopt(socket.IPPROTO_TCP, option, value)


def _one_line(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate: {error.verify_message}"
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:300] if text else type(error).__name__
