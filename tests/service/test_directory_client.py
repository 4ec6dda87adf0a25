"""`follow` and the real directory."""

from __future__ import annotations

import asyncio
from pathlib import Path

from discovery.client import Following, follow
from discovery.pool import PoolTable
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


async def test_a_restart_with_a_broken_file_removes_nobody(tmp_path: Path) -> None:
    write(tmp_path / "a.json", slice_object("c1", "10.0.0.1"))
    write(tmp_path / "b.json", slice_object("c2", "10.1.0.1"))
    async with directory(tmp_path) as (url, _):
        address = url.removeprefix("http://")
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
