"""`python -m discovery.testing.cluster` as a program, and its files."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import httpx
import yaml

from tests.discovery.cluster.api import slice_of

MODULE = [sys.executable, "-m", "discovery.testing.cluster"]
PIPE = asyncio.subprocess.PIPE


async def test_it_serves_what_it_loads_until_it_is_told_to_stop(tmp_path: Path) -> None:
    objects, config = tmp_path / "objects.yaml", tmp_path / "config"
    listed = {"apiVersion": "v1", "kind": "List", "items": [slice_of("b"), slice_of("c")]}
    objects.write_text(yaml.safe_dump_all([slice_of("a"), None, listed]))
    command = [*MODULE, "--load", str(objects), "--kubeconfig", str(config), "--token", "t"]
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
    assert process.stdout is not None
    async with asyncio.timeout(60):
        url = (await process.stdout.readline()).decode().strip()
        async with httpx.AsyncClient(base_url=url, trust_env=False) as http:
            items = (await http.get("/apis/discovery.k8s.io/v1/endpointslices")).json()["items"]
        assert [item["metadata"]["name"] for item in items] == ["a", "b", "c"]
        assert yaml.safe_load(config.read_text())["clusters"][0]["cluster"]["server"] == url
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


async def test_a_bad_file_is_named_and_nothing_is_served(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    for text, said in (
        ("{", "while parsing"),
        ("- a", "no object"),
        ("{kind: Pod, apiVersion: v1}", "could not find the requested resource"),
        ("{kind: EndpointSlice, apiVersion: discovery.k8s.io/v1, metadata: {name: a}}", "addressType"),
    ):
        bad.write_text(text)
        process = await asyncio.create_subprocess_exec(*MODULE, "--load", str(bad), stdout=PIPE, stderr=PIPE)
        async with asyncio.timeout(60):
            out, err = await process.communicate()
        assert (process.returncode, out) == (1, b"")
        assert said in err.decode()
        assert str(bad) in err.decode()
