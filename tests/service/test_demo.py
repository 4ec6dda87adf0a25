"""The demo as a person starts it: what it prints, how it ends, and that nothing is left."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.demo.ports import free_base_port
from tests.service.processes import command_line, descendants, still_there

pytestmark = [pytest.mark.outside, pytest.mark.timeout(180)]


class Running:
    """A demo that runs: its lines as they come, and every descendant that was ever seen."""

    def __init__(self, process: asyncio.subprocess.Process, folder: Path, port: int) -> None:
        self.process = process
        self.folder = folder
        self.port = port
        self.seen: dict[int, str] = {}
        self.lines: list[str] = []

    async def until(self, wanted: str) -> None:
        """Reads on until a line holds `wanted`; fails when the output ends before."""
        assert self.process.stdout is not None
        while line := (await self.process.stdout.readline()).decode():
            self.seen |= descendants(self.process.pid)
            self.lines.append(line.rstrip("\n"))
            if wanted in line:
                return
        assert self.process.stderr is not None
        pytest.fail(f"no line with {wanted!r}; errors: {(await self.process.stderr.read()).decode()}")

    async def end(self) -> tuple[int, str]:
        """Waits for its end; gives exit code and errors, having seen that nothing is left."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.lines += (await self.process.stdout.read()).decode().splitlines()
        errors = (await self.process.stderr.read()).decode()
        code = await self.process.wait()
        assert not still_there(self.seen), [command_line(pid) for pid in still_there(self.seen)]
        assert list(self.folder.iterdir()) == [], "its folder is gone"
        return code, errors


@asynccontextmanager
async def running(folder: Path, *arguments: str, port: int | None = None) -> AsyncIterator[Running]:
    base = free_base_port() if port is None else port
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "global_ingress", "demo", "--port", str(base), *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        # A variable of the shell must not reach the children: this one would make discovery refuse to start.
        env=os.environ | {"TMPDIR": str(folder), "GLOBAL_DISCOVERY_LISTEN": "nonsense"},
    )
    demo = Running(process, folder, base)
    try:
        yield demo
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            await process.communicate()


ROW = re.compile(r"^(\w+) +(\w+)/dynamo/llama +(\S+) +10 +10 +10 +10 ")


async def test_four_regions_get_ten_of_each_pool_twice(tmp_path: Path) -> None:
    async with running(tmp_path) as demo:
        await demo.until("traffic, run 2 of 2: 160 requests")
        names = [command_line(pid) for pid in demo.seen]
        assert sum("discovery directory" in name for name in names) == 4
        assert sum("global_ingress serve" in name for name in names) >= 4
        code, errors = await demo.end()
    assert (code, errors) == (0, "")
    rows = {match.groups()[:2] for line in demo.lines if (match := ROW.match(line))}
    names = ["ohio", "oregon", "ireland", "tokyo"]
    assert rows == {(ingress, pool) for ingress in names for pool in names}
    assert demo.lines[-1].startswith("PASSED: 320/320 answers good; checks: 9 passed,")
    assert demo.lines[-1].endswith("0 failed")


async def test_kept_it_prints_commands_that_work(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    async with running(tmp_path, "--regions", "2", "--keep") as demo:
        await demo.until("Running until Ctrl-C.")
        commands = [line for line in demo.lines if line.startswith("curl ")]
        answers = [await shell(command) for command in commands]
        unary, stream, models, pools = answers
        head, _, body = unary.partition("\r\n\r\n")
        assert head.startswith("HTTP/1.1 200 OK")
        assert "x-dynamo-pool: " in head.lower()
        assert json.loads(body)["choices"][0]["finish_reason"] == "length"
        assert stream.startswith("data: {")
        assert stream.endswith("data: [DONE]\n\n")
        assert json.loads(models)["data"][0]["id"] == "meta-llama/Llama-3.1-8B-Instruct"
        assert len(json.loads(pools)["pools"]) == 2
        for address in re.findall(r"http://127\.0\.0\.1:\d+/(?:status\.json|pools)", "\n".join(demo.lines)):
            assert await shell(f"curl -s -o /dev/null -w '%{{http_code}}' {address}") == "200", address
        demo.process.send_signal(signal.SIGINT)
        code, errors = await demo.end()
    assert (code, errors) == (0, "")


async def shell(command: str) -> str:
    process = await asyncio.create_subprocess_shell(command, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert process.returncode == 0, command
    return output.decode()


@pytest.mark.parametrize("victim", ["discovery directory", "global_ingress serve"])
async def test_a_child_that_dies_is_named_and_the_others_end(tmp_path: Path, victim: str) -> None:
    async with running(tmp_path, "--regions", "2", "--keep") as demo:
        await demo.until("Running until Ctrl-C.")
        children = {pid: command_line(pid) for pid in descendants(demo.process.pid)}
        parents = [pid for pid, name in children.items() if victim in name and is_child(demo, pid)]
        os.kill(min(parents), signal.SIGKILL)
        code, errors = await demo.end()
    assert code == 1
    assert re.search(r"demo: (discovery|ingress) of ohio ended with -9; its last", errors)


def is_child(demo: Running, pid: int) -> bool:
    """Whether the process is a child of the demo itself, not one of a child's."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1] == str(demo.process.pid)


async def test_told_to_end_while_it_starts_it_leaves_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, "--regions", "2") as demo:
        await demo.until("starting an ingress in each")
        assert demo.seen
        demo.process.send_signal(signal.SIGINT)
        code, errors = await demo.end()
    assert (code, errors) == (1, "demo: ended before the report was there\n")


async def test_a_taken_port_is_named_before_anything_starts(tmp_path: Path) -> None:
    base = free_base_port()
    with socket.create_server(("127.0.0.1", base + 100)), socket.create_server(("127.0.0.1", base + 301)):
        async with running(tmp_path, port=base) as demo:
            code, errors = await demo.end()
    assert code == 1
    named = f"{base + 100} (discovery of ohio), {base + 301} (admin of oregon)"
    assert errors == f"demo: ports in use: {named}; --port P moves them all\n"
    assert (demo.lines, demo.seen) == ([], {})


async def test_a_number_of_regions_that_cannot_be_is_wrong_usage(tmp_path: Path) -> None:
    async with running(tmp_path, "--regions", "9") as demo:
        code, errors = await demo.end()
    assert code == 2
    assert "9 regions; 1 to 8" in errors
