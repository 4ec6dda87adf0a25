"""The real command as a process, on 127.0.0.1 and a free port."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

Line = dict[str, Any]


class Command:
    """A process of ours and the log lines it has written so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[Line] = []
        self._news = asyncio.Condition()

    async def read(self) -> None:
        assert self.process.stderr is not None
        async for raw in self.process.stderr:
            async with self._news:
                self.lines.append(json.loads(raw))
                self._news.notify_all()

    async def logged(self, wanted: Callable[[Line], bool], *, after: int = 0) -> Line:
        """The first such line, written already or yet to come."""
        async with asyncio.timeout(20), self._news:
            while True:
                for line in self.lines[after:]:
                    if wanted(line):
                        return line
                await self._news.wait()

    async def message(self, message: str, *, after: int = 0, **pairs: object) -> Line:
        return await self.logged(
            lambda line: line["message"] == message and all(line.get(k) == v for k, v in pairs.items()), after=after
        )


def environment(**extra: str) -> dict[str, str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GLOBAL_DISCOVERY_")}
    return clean | extra


async def finished(*arguments: str, **env: str) -> tuple[int, str, str]:
    """Run the directory until it ends by itself: exit code, standard output, standard error."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "discovery",
        "directory",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(**env),
    )
    async with asyncio.timeout(30):
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


@asynccontextmanager
async def running(*arguments: str, **env: str) -> AsyncIterator[Command]:
    """The process while the block runs; ended by SIGTERM, which it must obey."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        stderr=asyncio.subprocess.PIPE,
        env=environment(**env),
    )
    command = Command(process)
    reading = asyncio.create_task(command.read())
    try:
        yield command
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(15):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise
        finally:
            await reading


@asynccontextmanager
async def directory(files: Path, *arguments: str, **env: str) -> AsyncIterator[tuple[str, Command]]:
    """A directory of these files: its URL, once its first table is published."""
    given = ["--pool-discovery", "files", "--files", str(files), "--listen", "127.0.0.1:0", *arguments]
    async with running("-m", "discovery", "directory", *given, **env) as command:
        url = (await command.message("listening"))["url"]
        await command.message("table published")
        yield url, command


def slice_object(
    cluster: str, *addresses: str, name: str = "llama", namespace: str = "inference", **more: object
) -> dict[str, object]:
    """An imported slice of a pool's frontends."""
    labels = {
        "multicluster.kubernetes.io/service-name": f"{name}-frontend",
        "multicluster.kubernetes.io/source-cluster": cluster,
        "topology.kubernetes.io/region": f"region-{cluster}",
        "endpointslice.kubernetes.io/managed-by": "test",
    }
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": f"{name}-{cluster}", "namespace": namespace, "labels": labels},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}} for address in addresses],
        "ports": [{"name": "http", "port": 8000, "protocol": "TCP"}],
        **more,
    }


def write(path: Path, *objects: dict[str, object]) -> None:
    """Write a List in one step, by renaming over the file."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
    fresh.replace(path)
