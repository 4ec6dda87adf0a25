"""Directories that take registrations, as processes; and what a Relay says."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.service.running import Command, running

SHORT = ("--heartbeat-interval-secs", "1", "--lease-duration-secs", "3")


def said(cluster: str = "eu", name: str = "llama", **more: Any) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "namespace": "inference",
        "name": name,
        "region": f"region-{cluster}",
        "relay": {"identity": "ip:10.0.0.7", "url": "http://10.0.0.7:5561"},
    } | more


def digest(token: str) -> str:
    return f"sha256:{hashlib.sha256(token.encode()).hexdigest()}"


def bearing(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@asynccontextmanager
async def registry(*arguments: str, **env: str) -> AsyncIterator[tuple[httpx.AsyncClient, Command]]:
    """A directory with these flags and a client of it."""
    given = ["--listen", "127.0.0.1:0", *arguments]
    async with running("-m", "discovery", "directory", *given, **env) as command:
        url = (await command.message("listening"))["url"]
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:
            yield client, command


async def table(client: httpx.AsyncClient) -> dict[str, Any]:
    answer: dict[str, Any] = (await client.get("/pools")).json()
    return answer


def names(answer: dict[str, Any]) -> list[str]:
    return [f"{pool['cluster']}/{pool['name']}" for pool in answer["pools"]]


async def until(
    client: httpx.AsyncClient, wanted: Callable[[dict[str, Any]], bool], *beats: dict[str, Any]
) -> dict[str, Any]:
    """The first table that is as wanted; meanwhile these are registered again and again."""
    async with asyncio.timeout(60):
        while True:
            for body in beats:
                assert (await client.post("/pools", json=body)).status_code == 200
            if wanted(found := await table(client)):
                return found
            await asyncio.sleep(0.05)


def replace(path: Path, text: str) -> None:
    """Write a file in one step: half a file is another file."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(text)
    fresh.replace(path)
