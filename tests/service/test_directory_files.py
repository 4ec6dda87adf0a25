"""The files source: what happens to the table when things happen to the files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import httpx
import pytest

from tests.service.running import directory, slice_object, write

pytestmark = pytest.mark.outside


async def clusters(client: httpx.AsyncClient) -> list[str]:
    return [pool["cluster"] for pool in (await client.get("/pools")).json()["pools"]]


async def test_a_broken_file_is_named_and_keeps_its_slices(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", slice_object("c1", "10.0.0.1"))
    write(tmp_path / "b.yaml", slice_object("c2", "10.1.0.1"))
    async with directory(tmp_path) as (url, command), httpx.AsyncClient(base_url=url) as client:
        (tmp_path / "a.yaml").write_text("kind: List\nitems:\n- metadata: {\n")
        line = await command.message("file is broken, its last good slices stay")
        assert (line["file"], line["line"], line["level"]) == ("a.yaml", 4, "error")
        assert await clusters(client) == ["c1", "c2"]
        status = (await client.get("/status.json")).json()["files"]["files"][0]
        assert status["error"]["line"] == 4
        assert "is not YAML" in status["error"]["reason"]
        assert "global_discovery_broken_files 1.0" in (await client.get("/metrics")).text
        write(tmp_path / "b.yaml", slice_object("c3", "10.2.0.1"))
        await command.message("table published", revision=2)
        assert await clusters(client) == ["c1", "c3"]
        (tmp_path / "a.yaml").unlink()
        await command.message("table published", revision=3)
        assert await clusters(client) == ["c3"]


async def test_a_file_that_was_never_good_keeps_the_list_incomplete(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", slice_object("c1", "10.0.0.1"))
    (tmp_path / "b.yaml").write_text("")
    async with directory(tmp_path) as (url, command), httpx.AsyncClient(base_url=url) as client:
        table = (await client.get("/pools")).json()
        assert (table["complete"], len(table["pools"])) == (False, 1)
        assert (await client.get("/readyz")).status_code == 200
        write(tmp_path / "b.yaml", slice_object("c2", "10.1.0.1"))
        assert (await command.message("table published", complete=True))["pools"] == 2


async def test_nulls_and_bad_slices_cost_nobody_else_anything(tmp_path: Path) -> None:
    bad = slice_object("c2", "10.1.0.1", name="bad", ports=[{"port": 0}])
    write(
        tmp_path / "a.json",
        slice_object("c1", "10.0.0.1"),
        slice_object("c2", name="empty", endpoints=None, ports=None),
        bad,
    )
    async with directory(tmp_path) as (url, command), httpx.AsyncClient(base_url=url) as client:
        assert await clusters(client) == ["c1"]
        assert (await command.message("slice refused"))["slice"] == "bad-c2"
        status = (await client.get("/status.json")).json()
        assert status["files"]["files"][0]["refused"][0]["slice"] == "bad-c2"
        assert status["table"]["complete"]


async def test_the_swap_of_a_mounted_volume_is_seen_whole(tmp_path: Path) -> None:
    mount = tmp_path / "mount"

    def version(number: int, *names: str) -> None:
        made = mount / f"..{number}"
        made.mkdir(parents=True)
        for name in names:
            write(made / f"{name}.json", slice_object(name, f"10.{number}.0.1"))
        link = mount / "..data_tmp"
        link.symlink_to(made.name)
        link.replace(mount / "..data")

    version(1, "c1", "c2")
    for name in ("c1", "c2"):
        (mount / f"{name}.json").symlink_to(f"..data/{name}.json")
    async with directory(mount) as (url, command), httpx.AsyncClient(base_url=url) as client:
        assert await clusters(client) == ["c1", "c2"]
        version(2, "c1", "c3")
        shutil.rmtree(mount / "..1")
        published = await command.message("table published", revision=2)
        assert (published["pools"], published["complete"]) == (2, True)
        assert await clusters(client) == ["c1", "c3"]


async def test_a_directory_that_vanishes_leaves_the_table_and_comes_back(tmp_path: Path) -> None:
    slices = tmp_path / "slices"
    slices.mkdir()
    write(slices / "a.json", slice_object("c1", "10.0.0.1"))
    async with directory(slices) as (url, command), httpx.AsyncClient(base_url=url) as client:
        slices.rename(tmp_path / "away")
        await command.message("directory cannot be read, its last slices stay", level="error")
        await command.message("table published", complete=False, pools=1)
        table = (await client.get("/pools")).json()
        assert (table["complete"], [one["cluster"] for one in table["pools"]]) == (False, ["c1"])
        assert table["sources"][0]["complete"] is False
        assert (await client.get("/readyz")).status_code == 200
        slices.mkdir()
        write(slices / "b.json", slice_object("c2", "10.1.0.1"))
        await command.message("directory can be read again")
        await command.logged(lambda line: line["message"] == "table published" and line["revision"] >= 3)
        after = len(command.lines)
        write(slices / "b.json", slice_object("c3", "10.1.0.1"))
        await command.message("table published", after=after, complete=True)
        assert await clusters(client) == ["c3"]


async def test_other_files_are_none_of_ours(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("{")
    (tmp_path / ".hidden.yaml").write_text("{")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "a.json").write_text(json.dumps(slice_object("c1", "10.0.0.1")))
    async with directory(tmp_path) as (url, _), httpx.AsyncClient(base_url=url) as client:
        assert await clusters(client) == ["c1"]
        status = (await client.get("/status.json")).json()
        assert [one["name"] for one in status["files"]["files"]] == ["a.json"]
