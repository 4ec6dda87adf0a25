"""A plain client of a Kubernetes API, for the contract tests: the fake one, or a real one by its kubeconfig."""

from __future__ import annotations

import base64
import itertools
import os
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
import yaml

from discovery.testing.cluster import FakeCluster, Settings

REAL = os.environ.get("KUBECONFIG_TEST", "")
SLICES = "discovery.k8s.io/v1", "endpointslices"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
# Quick ones, so that a test of the fake takes no minute; those of a real server are what they are.
FAST = Settings(bookmark_every=0.4, future_wait=0.3, gc_delay=0.02)
BOOKMARK_EVERY = 60.0 if REAL else FAST.bookmark_every
FUTURE_WAIT = 3.0 if REAL else FAST.future_wait
PATIENCE = 30.0
_counter = itertools.count()


def slice_of(name: str, /, **labels: str) -> dict[str, Any]:
    """A slice with one endpoint."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "labels": labels},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.1.2.3"]}],
        "ports": [{"name": "http", "port": 8000}],
    }


def home_of(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


@dataclass
class Watch:
    """The lines of one watch, parsed."""

    status: int
    headers: Mapping[str, str]
    lines: AsyncIterator[str]
    seen: list[dict[str, Any]] = field(default_factory=list)

    async def next(self) -> dict[str, Any]:
        event: dict[str, Any] = orjson.loads(await anext(self.lines))
        self.seen.append(event)
        return event

    async def until(self, true: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while not true(event := await self.next()):
            pass
        return event

    async def rest(self) -> list[dict[str, Any]]:
        return [orjson.loads(line) async for line in self.lines]


@dataclass
class Api:
    """`namespace` is this test's own. `fake` is None when the server is a real one."""

    http: httpx.AsyncClient
    namespace: str
    fake: FakeCluster | None

    def path(self, of: tuple[str, str] = SLICES, name: str = "", sub: str = "", namespace: str | None = "") -> str:
        home = "" if namespace is None else f"/namespaces/{namespace or self.namespace}"
        return "/".join(part for part in (f"{home_of(of[0])}{home}/{of[1]}", name, sub) if part)

    async def list(self, of: tuple[str, str] = SLICES, /, **query: str | int) -> httpx.Response:
        return await self.http.get(self.path(of), params=query)

    async def create(self, thing: dict[str, Any], of: tuple[str, str] = SLICES) -> dict[str, Any]:
        answer = await self.http.post(self.path(of), json=thing)
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made

    async def get(self, name: str, of: tuple[str, str] = SLICES) -> httpx.Response:
        return await self.http.get(self.path(of, name))

    async def put(self, thing: dict[str, Any], of: tuple[str, str] = SLICES, sub: str = "") -> httpx.Response:
        return await self.http.put(self.path(of, thing["metadata"]["name"], sub), json=thing)

    async def patch(
        self, name: str, body: Any, media: str = MERGE, of: tuple[str, str] = SLICES, sub: str = "", **query: str
    ) -> httpx.Response:
        headers = {"content-type": media}
        return await self.http.patch(
            self.path(of, name, sub), content=orjson.dumps(body), headers=headers, params=query
        )

    async def apply(
        self, thing: dict[str, Any], of: tuple[str, str], manager: str = "me", sub: str = "", **query: str
    ) -> httpx.Response:
        return await self.patch(thing["metadata"]["name"], thing, APPLY, of, sub, fieldManager=manager, **query)

    async def delete(self, name: str, of: tuple[str, str] = SLICES, /, **options: Any) -> httpx.Response:
        return await self.http.request("DELETE", self.path(of, name), json=options)

    @asynccontextmanager
    async def watch(self, of: tuple[str, str] = SLICES, /, **query: str | int) -> AsyncIterator[Watch]:
        params = {"watch": "true", "timeoutSeconds": 60, **query}
        async with self.http.stream("GET", self.path(of), params=params) as answer:
            yield Watch(answer.status_code, answer.headers, answer.aiter_lines())


def needs_fake(api: Api, why: str) -> FakeCluster:
    if api.fake is None:
        pytest.skip(f"NOT CHECKED on the real API server: {why}")
    return api.fake


@asynccontextmanager
async def connected(settings: Settings = FAST) -> AsyncIterator[Api]:
    """The API under test with a namespace of its own."""
    name = f"contract-{os.getpid()}-{next(_counter)}"
    if REAL:
        async with _real(Path(REAL)) as http:
            await _with_namespace(http, name)
            try:
                yield Api(http, name, None)
            finally:
                await http.delete(f"/api/v1/namespaces/{name}")
        return
    async with FakeCluster(settings=settings) as fake, _client(fake.url) as http:
        await _with_namespace(http, name)
        yield Api(http, name, fake)


async def _with_namespace(http: httpx.AsyncClient, name: str) -> None:
    answer = await http.post("/api/v1/namespaces", json={"metadata": {"name": name}})
    assert answer.status_code == 201, answer.text


def _client(url: str, *, verify: ssl.SSLContext | bool = False, token: str = "") -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    timeout = httpx.Timeout(PATIENCE, read=max(PATIENCE, 2 * BOOKMARK_EVERY))
    return httpx.AsyncClient(base_url=url, verify=verify, headers=headers, timeout=timeout, trust_env=False)


@asynccontextmanager
async def _real(path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client by the current context of a kubeconfig: certificates or a token."""
    config = _config(path)
    context = _named(config["contexts"], config["current-context"])["context"]
    cluster = _named(config["clusters"], context["cluster"])["cluster"]
    user = _named(config["users"], context["user"])["user"]
    verify: ssl.SSLContext | bool = False
    with tempfile.TemporaryDirectory() as folder:
        if cluster["server"].startswith("https"):
            verify = ssl.create_default_context(cafile=_file(cluster, "certificate-authority", Path(folder)))
            certificate = _file(user, "client-certificate", Path(folder))
            if certificate:
                verify.load_cert_chain(certificate, _file(user, "client-key", Path(folder)))
        async with _client(cluster["server"], verify=verify, token=user.get("token", "")) as http:
            yield http


def _config(path: Path) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load(path.read_text())
    return config


def _named(items: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(item for item in items if item["name"] == name)


def _file(of: Mapping[str, str], name: str, folder: Path) -> str | None:
    if f"{name}-data" in of:
        path = folder / name
        path.write_bytes(base64.b64decode(of[f"{name}-data"]))
        return str(path)
    return of.get(name)
