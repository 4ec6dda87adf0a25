"""`serve` behind a real directory: tables come, go, are doubted; the directory may be away (I49, I50)."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

from tests.service.running import directory, slice_object, write
from tests.service.supervised import STATIC, Serve, eventually, serving


def behind(*urls: str) -> dict[str, Any]:
    return STATIC | {"discovery": {"urls": list(urls)}}


def clusters(serve: Serve) -> list[str]:
    """Of the routable pools."""
    return [pool["cluster"] for pool in json.loads(serve.ask("/pools")[1])["pools"] if pool["routable"]]


def kinds(serve: Serve) -> list[str]:
    return [event["kind"] for event in serve.status()["events"]]


async def becomes(serve: Serve, *wanted: str) -> None:
    await asyncio.to_thread(eventually, lambda: clusters(serve) == list(wanted), f"routable: {wanted}")


async def test_tables_come_and_go_and_the_last_pool_is_held(tmp_path: Path) -> None:
    slices = tmp_path / "slices"
    slices.mkdir()
    write(slices / "a.json", slice_object("c1", "127.0.0.11"), slice_object("c2", "127.0.0.12"))
    async with directory(slices) as (url, _):
        given = behind(url)
        given["discovery"]["hold_last_good"] = "2s"
        with serving(tmp_path, given) as serve:
            await asyncio.to_thread(serve.ready)
            await becomes(serve, "c1", "c2")
            assert serve.status()["discovery"]["url"] == url
            write(slices / "a.json", slice_object("c1", "127.0.0.11"))
            await becomes(serve, "c1")
            assert serve.status()["events"] == [], "a removal with others left is nothing to shout about"
            write(slices / "a.json")
            await asyncio.to_thread(eventually, lambda: serve.metric("models_held") == 1, "the last pool is held")
            assert clusters(serve) == ["c1"]
            assert serve.ask("/readyz")[0] == 200
            assert "held for m" in json.loads(serve.ask("/readyz")[1])["warnings"][0]
            await becomes(serve)
            assert serve.ask("/readyz")[0] == 503
            await asyncio.to_thread(eventually, lambda: kinds(serve) == ["hold_ended", "held"], "both are told")


async def test_a_directory_that_is_away_changes_nothing_and_one_that_is_late_is_waited_for(tmp_path: Path) -> None:
    slices = tmp_path / "slices"
    slices.mkdir()
    write(slices / "a.json", slice_object("c1", "127.0.0.11"))
    async with directory(slices) as (url, command):
        with serving(tmp_path, behind(url)) as serve:
            await asyncio.to_thread(serve.ready)
            await becomes(serve, "c1")
            command.process.terminate()
            await asyncio.to_thread(eventually, lambda: serve.status()["discovery"]["errors"] > 0, "it is noticed")
            assert (clusters(serve), serve.ask("/readyz")[0]) == (["c1"], 200)
            before = serve.metric("discovery_age_seconds")
            await asyncio.to_thread(eventually, lambda: serve.metric("discovery_age_seconds") > before, "it ages")


async def test_before_the_first_table_it_is_not_ready_and_a_reload_may_name_another_directory(tmp_path: Path) -> None:
    slices = tmp_path / "slices"
    slices.mkdir()
    write(slices / "a.json", slice_object("c1", "127.0.0.11"))
    with serving(tmp_path, behind("http://127.0.0.1:1")) as serve:
        await asyncio.to_thread(eventually, lambda: serve.lines("worker listens"), "a worker listens")
        status, body = serve.ask("/readyz")
        assert (status, json.loads(body)["reason"]) == (503, "no pool table yet")
        async with directory(slices) as (url, _):
            serve.write(behind(url))
            serve.signal(signal.SIGHUP)
            await becomes(serve, "c1")
            serve.write(STATIC)
            await becomes(serve, "c0", "c1")
            assert {pool["namespace"] for pool in json.loads(serve.ask("/pools")[1])["pools"]} == {"n"}
            serve.write(behind(url))
            await becomes(serve, "c1")
