"""`follow` and the real directory."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from pathlib import Path

import pytest

from discovery.client import Following, follow
from discovery.pool import PoolTable
from tests.demo.ports import free_base_port
from tests.service.running import directory, slice_object, write


async def until(following: Following, *clusters: str) -> PoolTable:
    async with asyncio.timeout(30):
        async for table in following:
            if [one.key.cluster for one in table.pools] == list(clusters):
                return table
    raise AssertionError("the iteration has ended")


async def test_changes_arrive_and_the_second_directory_takes_over(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    write(one / "a.json", slice_object("c1", "10.0.0.1"))
    write(two / "a.json", slice_object("c1", "10.0.0.1"), slice_object("c9", "10.9.0.1"))
    async with directory(two) as (second, _), directory(one) as (first, command):
        following = follow([first, second], chance=lambda: 0.0)
        await following.__aenter__()
        try:
            assert (await until(following, "c1")).complete
            assert following.url == first
            assert following.age() < 30
            write(one / "b.json", slice_object("c2", "10.1.0.1"))
            await until(following, "c1", "c2")
            command.process.terminate()
            await until(following, "c1", "c9")
            assert following.url == second
            assert following.errors == 1
        finally:
            await following.__aexit__(None, None, None)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
async def test_tls_is_served_and_verified(tmp_path: Path) -> None:
    slices, cert, key = tmp_path / "slices", tmp_path / "cert.pem", tmp_path / "key.pem"
    slices.mkdir()
    write(slices / "a.json", slice_object("c1", "10.0.0.1"))
    request = ["-x509", "-nodes", "-newkey", "rsa:2048", "-keyout", str(key), "-out", str(cert), "-days", "2"]
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    quiet = asyncio.subprocess.DEVNULL
    making = await asyncio.create_subprocess_exec("openssl", "req", *request, *subject, stderr=quiet)
    assert await making.wait() == 0
    async with directory(slices, "--tls-cert-path", str(cert), "--tls-key-path", str(key)) as (url, _):
        assert url.startswith("https://")
        async with follow([url], verify=ssl.create_default_context(cafile=str(cert))) as following:
            await until(following, "c1")
        async with follow([url]) as following:
            async with asyncio.timeout(20):
                while not following.errors:  # noqa: ASYNC110 - a counter has no event
                    await asyncio.sleep(0.01)
            assert "CERTIFICATE_VERIFY_FAILED" in str(following.last_error)
            assert following.table is None


async def test_a_restart_with_a_broken_file_removes_nobody(tmp_path: Path) -> None:
    write(tmp_path / "a.json", slice_object("c1", "10.0.0.1"))
    write(tmp_path / "b.json", slice_object("c2", "10.1.0.1"))
    # A port that the kernel gives to nobody while the directory is away.
    address = f"127.0.0.1:{free_base_port()}"
    async with directory(tmp_path, "--listen", address) as (url, _):
        following = follow([url], chance=lambda: 0.0)
        await following.__aenter__()
        await until(following, "c1", "c2")
    try:
        (tmp_path / "b.json").write_text("{")
        async with directory(tmp_path, "--listen", address):
            table = await anext(following)
            assert [one.key.cluster for one in table.pools] == ["c1", "c2"]
            assert (table.complete, following.held) == (False, 1)
            (tmp_path / "b.json").unlink()
            await until(following, "c1")
    finally:
        await following.__aexit__(None, None, None)
