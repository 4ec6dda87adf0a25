"""`python -m tests.bench.discovery`: what a large cluster costs the directory.

Serves a list of slices and their changes as an API server would, from bytes made on the way, so that the server's own
cost is small; runs the real directory in front of it as a process, and watchers of `/pools` in front of that. Prints
one JSON object. Linux only; everything on 127.0.0.1.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from discovery.testing.cluster.kubeconfig import kubeconfig
from tests.bench.machine import cpu_seconds, describe
from tests.service.running import Command, running

LIMIT = 600.0  # seconds for the first table
CLUSTERS = 50
WATCH = b"GET /pools?watch=true HTTP/1.1\r\nhost: bench\r\n\r\n"
BOOKMARK = {
    "type": "BOOKMARK",
    "object": {
        "kind": "EndpointSlice",
        "apiVersion": "discovery.k8s.io/v1",
        "metadata": {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}},
    },
}


def slice_of(number: int, endpoints: int, version: int, mark: str = "") -> dict[str, Any]:
    """The slice of one pool; `mark` is the address of its first endpoint, if another than usual."""
    addresses = [f"10.{number >> 8 & 255}.{number & 255}.{n + 1}" for n in range(endpoints)]
    labels = {
        "multicluster.kubernetes.io/service-name": f"s{number // CLUSTERS}-frontend",
        "multicluster.kubernetes.io/source-cluster": f"c{number % CLUSTERS}",
    }
    meta = {"name": f"n{number}", "namespace": "bench", "uid": f"u{number}", "resourceVersion": str(version)}
    return {
        "kind": "EndpointSlice",
        "apiVersion": "discovery.k8s.io/v1",
        "metadata": meta | {"labels": labels},
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": [one], "conditions": {"ready": True}} for one in [mark or addresses[0], *addresses[1:]]
        ],
        "ports": [{"name": "http", "port": 8000, "protocol": "TCP"}],
    }


def chunk(*events: dict[str, Any]) -> bytes:
    data = b"".join(json.dumps(one, separators=(",", ":")).encode() + b"\n" for one in events)
    return b"%x\r\n%b\r\n" % (len(data), data)


class Source:
    """The API server: every watch is given all slices and then what `change` says."""

    def __init__(self, slices: int, endpoints: int) -> None:
        self.slices, self.endpoints = slices, endpoints
        self.watches: list[asyncio.StreamWriter] = []
        self.version = 1

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"sendInitialEvents=true" not in head:
            raise AssertionError(f"not a streaming list: {head[:200]!r}")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
        for number in range(self.slices):
            writer.write(chunk({"type": "ADDED", "object": slice_of(number, self.endpoints, 1)}))
            await writer.drain()
        writer.write(chunk(BOOKMARK))
        self.watches.append(writer)

    def change(self, number: int) -> str:
        """Another address in one slice; gives the address."""
        self.version += 1
        mark = f"11.{self.version >> 16 & 255}.{self.version >> 8 & 255}.{self.version & 255}"
        data = chunk({"type": "MODIFIED", "object": slice_of(number, self.endpoints, self.version, mark)})
        for one in self.watches:
            one.write(data)
        return mark


class Watcher:
    """Reads `/pools?watch=true` and counts. `seen` is set for those that also look for marks."""

    def __init__(self, looks: bool) -> None:
        self.size = 0
        self.looks = looks
        self.complete = asyncio.Event()
        self.due: dict[bytes, float] = {}
        self.took: list[float] = []
        self._tail = b""

    async def run(self, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(WATCH)
        try:
            while data := await reader.read(1 << 20):
                self.size += len(data)
                if b'"type":"ready"' in self._tail + data:
                    self.complete.set()
                if self.looks and self.due:
                    self._look(self._tail + data)
                self._tail = data[-64:]
        finally:
            writer.close()

    def _look(self, data: bytes) -> None:
        now = time.monotonic()
        for mark in [mark for mark in self.due if mark in data]:
            self.took.append(now - self.due.pop(mark))


class Probe:
    """The longest silence of the directory, as a process beside it sees it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    @asynccontextmanager
    async def beside(cls, port: int) -> AsyncIterator[Probe]:
        pipe = asyncio.subprocess.PIPE
        given = ["-m", "tests.bench.silence", str(port)]
        process = await asyncio.create_subprocess_exec(sys.executable, *given, stdin=pipe, stdout=pipe)
        try:
            yield cls(process)
        finally:
            process.kill()
            await process.wait()

    async def worst(self) -> float:
        """Seconds, since this was asked last."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"\n")
        return float(await self._process.stdout.readline())


def memory(pid: int) -> dict[str, int]:
    """Resident MiB: now and at its highest."""
    text = Path(f"/proc/{pid}/status").read_text()
    found = {line.split(":")[0]: int(line.split()[1]) >> 10 for line in text.splitlines() if line.startswith("Vm")}
    return {"rss_mib": found["VmRSS"], "peak_rss_mib": found["VmHWM"]}


@asynccontextmanager
async def directory(source: Source, folder: Path) -> AsyncIterator[tuple[int, Command]]:
    server = await asyncio.start_server(source.serve, "127.0.0.1", 0, limit=1 << 20)
    config = folder / "kubeconfig"
    config.write_text(kubeconfig(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
    given = ["--pool-discovery", "mcs", "--kubeconfig", str(config), "--listen", "127.0.0.1:0", "--log-level", "info"]
    async with running("-m", "discovery", "directory", *given) as command:
        url = (await command.message("listening"))["url"]
        yield int(url.rpartition(":")[2]), command
    for one in source.watches:
        one.close()
    server.close()


async def measure(slices: int, endpoints: int, watchers: int, rate: float, seconds: float) -> dict[str, Any]:
    source = Source(slices, endpoints)
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        async with directory(source, Path(folder)) as (port, command), contextlib.AsyncExitStack() as stack:
            tasks: list[asyncio.Task[None]] = []
            stack.push_async_callback(_end, tasks)
            all_ = [Watcher(n in (0, watchers - 1)) for n in range(watchers)]
            probe = await stack.enter_async_context(Probe.beside(port))
            pid = command.process.pid
            while not any(line["message"] == "table published" and line.get("complete") for line in command.lines):
                assert time.monotonic() - began < LIMIT, command.lines[-3:]
                await asyncio.sleep(0.02)
            found: dict[str, Any] = {
                "machine": describe(),
                "slices": slices,
                "endpoints_each": endpoints,
                "watchers": watchers,
                "first_table_s": time.monotonic() - began,
                "first_table_cpu_s": cpu_seconds([pid]),
                "first_table_longest_silence_s": await probe.worst(),
            } | memory(pid)
            began, cpu = time.monotonic(), cpu_seconds([pid])
            tasks += [asyncio.create_task(one.run(port)) for one in all_]
            for one in all_:
                await asyncio.wait_for(one.complete.wait(), LIMIT)
            found |= {
                "watchers_have_it_s": time.monotonic() - began,
                "watchers_have_it_cpu_s": cpu_seconds([pid]) - cpu,
                "watchers_longest_silence_s": await probe.worst(),
                "watch_mib_each": all_[0].size / 2**20,
            }
            if rate:
                found |= await churn(source, all_, pid, rate, seconds)
                found["churn_longest_silence_s"] = await probe.worst()
            found["after"] = memory(pid)
            assert not [task for task in tasks if task.done()], "a connection has ended"
            return found


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def churn(source: Source, watchers: list[Watcher], pid: int, rate: float, seconds: float) -> dict[str, Any]:
    """Changes at this rate, and when the first and the last watcher have them."""
    loop = asyncio.get_running_loop()
    before, cpu, began = sum(one.size for one in watchers), cpu_seconds([pid]), loop.time()
    count = late = 0
    lookers = [one for one in watchers if one.looks]
    while loop.time() - began < seconds:
        mark = source.change(count * 37 % source.slices)
        for one in lookers:
            one.due[f"{mark}:".encode()] = time.monotonic()
        count += 1
        wait = began + count / rate - loop.time()
        late += wait < -0.1
        await asyncio.sleep(max(wait, 0))
    spent, used = loop.time() - began, cpu_seconds([pid]) - cpu
    await asyncio.sleep(3.0)  # what has not come by then counts as not seen
    took = sorted(one for watcher in lookers for one in watcher.took)
    return {
        "changes": count,
        "changes_per_s": count / spent,
        "changes_sent_late": late,
        "churn_cpu_of_one_core": used / spent,
        "sent_mib_per_s": (sum(one.size for one in watchers) - before) / 2**20 / spent,
        "seen": len(took),
        "not_seen": sum(len(one.due) for one in lookers),
        "seen_after_p50_ms": statistics.median(took) * 1000 if took else None,
        "seen_after_p99_ms": took[int(len(took) * 0.99)] * 1000 if took else None,
        "seen_after_worst_ms": took[-1] * 1000 if took else None,
    }


def main(
    slices: Annotated[int, typer.Option(min=1, max=65_536, help="how many, one pool each")] = 1_000,
    endpoints: Annotated[int, typer.Option(min=1, max=200, help="of each slice")] = 10,
    watchers: Annotated[int, typer.Option(min=1, help="of /pools")] = 50,
    rate: Annotated[float, typer.Option(min=0, help="changed slices a second; 0 for none")] = 0.0,
    seconds: Annotated[float, typer.Option(min=1, help="how long slices change")] = 20.0,
) -> None:
    """The directory in front of a large cluster: the first table, and changes on their way to many watchers."""
    found = asyncio.run(measure(slices, endpoints, watchers, rate, seconds))
    json.dump(found, sys.stdout, indent=2, default=str)
    sys.stdout.write("\n")


if __name__ == "__main__":
    typer.run(main)
