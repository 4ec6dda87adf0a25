"""The directory's HTTP, over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest

from discovery.wire import decode_routers, decode_table
from tests.service.running import directory, slice_object, write

pytestmark = pytest.mark.outside


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    write(tmp_path / "a.json", slice_object("c1", "10.0.0.1", "10.0.0.2"), slice_object("c2", "10.1.0.1"))
    async with directory(tmp_path) as (url, _), httpx.AsyncClient(base_url=url) as client:
        yield client


def clusters(answer: httpx.Response) -> list[str]:
    return [pool["cluster"] for pool in answer.json()["pools"]]


async def test_pools_filters_and_tags(client: httpx.AsyncClient) -> None:
    answer = await client.get("/pools")
    table = decode_table(answer.content)
    assert (table.complete, len(table.pools)) == (True, 2)
    assert answer.json()["sources"][0]["name"] == "files"
    assert answer.headers["etag"] == f'"{table.epoch}.{table.revision}"'
    assert clusters(await client.get("/pools", params={"cluster": "c2", "ready": "true"})) == ["c2"]
    assert clusters(await client.get("/pools?region=region-c1&region=region-c2")) == ["c1", "c2"]
    for tag in (answer.headers["etag"], f'"x", W/{answer.headers["etag"]}', "*"):
        unchanged = await client.get("/pools", headers={"if-none-match": tag})
        assert (unchanged.status_code, unchanged.content) == (304, b"")
        assert unchanged.headers["etag"] == answer.headers["etag"]
    assert (await client.get("/pools", headers={"if-none-match": '"old.1"'})).status_code == 200
    assert decode_routers((await client.get("/routers")).content).routers == ()
    assert (await client.head("/pools", params={"watch": "true"})).status_code == 200


async def test_refusals(client: httpx.AsyncClient) -> None:
    for answer, status, code, param in (
        (await client.get("/pools?clutser=c1"), 400, "bad_request", "clutser"),
        (await client.get("/routers?namespace=x"), 400, "bad_request", "namespace"),
        (await client.post("/pools", json={}), 403, "registrations_disabled", None),
        (await client.delete("/pools/c1/inference/llama"), 403, "registrations_disabled", None),
        (await client.post("/pools", content=b"x" * (1024 * 1024 + 1)), 413, "request_too_large", None),
        (await client.put("/pools"), 405, "method_not_allowed", None),
        (await client.get("/pool"), 404, "unknown_url", None),
    ):
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["param"]) == (status, code, param)


async def test_health_metrics_status(client: httpx.AsyncClient) -> None:
    for path in ("/healthz", "/readyz", "/livez"):
        assert (await client.get(path)).json() == {"status": "ok"}
    metrics = (await client.get("/metrics")).text
    assert "global_discovery_pools 2.0" in metrics
    assert 'global_discovery_slices{verdict="used"} 2.0' in metrics
    status = (await client.get("/status.json")).json()
    assert status["table"]["usable_frontends"] == 3


async def test_the_openapi_document_is_true(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            url = path.format(cluster="a", namespace="b", name="c")
            answer = await client.request(method.upper(), url)
            described = operation["responses"].get(str(answer.status_code))
            assert described is not None, (method, path, answer.status_code)
            kind = answer.headers["content-type"].partition(";")[0]
            schema = described["content"][kind].get("schema", {})
            if kind == "application/json":
                root: dict[str, Any] = {"components": document["components"], **schema}
                jsonschema.validate(answer.json(), root)
    allowed = (await client.put("/routers")).headers["allow"]
    assert allowed == "GET, HEAD"


async def lines_of(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    async for line in response.aiter_lines():
        yield json.loads(line)


async def test_a_watch_tells_changes_and_resumes(tmp_path: Path) -> None:
    write(tmp_path / "a.json", slice_object("c1", "10.0.0.1"))
    async with directory(tmp_path) as (url, _), httpx.AsyncClient(base_url=url, timeout=20) as client:
        async with client.stream("GET", "/pools?watch=true") as response:
            lines = lines_of(response)
            reset, pool, ready = [await anext(lines) for _ in range(3)]
            assert [reset["type"], pool["type"], ready["type"]] == ["reset", "pool", "ready"]
            assert (reset["complete"], pool["cluster"]) == (True, "c1")
            write(tmp_path / "b.json", slice_object("c2", "10.1.0.1"))
            change = await anext(lines)
            assert [one["cluster"] for one in change["upserted"]] == ["c2"]
            (tmp_path / "a.json").unlink()
            change = await anext(lines)
            assert (change["removed"], change["upserted"]) == ([pool["id"]], [])
        since = f"{reset['epoch']}.{reset['revision']}"
        async with client.stream("GET", "/pools", params={"watch": "true", "since": since}) as response:
            change = await anext(lines_of(response))
            assert (change["type"], change["removed"]) == ("change", [pool["id"]])
        async with client.stream("GET", "/pools?watch=true&since=other.1") as response:
            assert (await anext(lines_of(response)))["type"] == "reset"
        async with client.stream("GET", "/routers?watch=true") as response:
            lines = lines_of(response)
            assert [(await anext(lines))["type"] for _ in range(2)] == ["reset", "ready"]


async def test_a_watcher_that_leaves_is_counted_out(client: httpx.AsyncClient) -> None:
    async def watchers() -> int:
        return int((await client.get("/status.json")).json()["watchers"])

    async with client.stream("GET", "/pools?watch=true") as response:
        assert (await anext(lines_of(response)))["type"] == "reset"
        assert await watchers() == 1
    async with asyncio.timeout(10):
        while await watchers():  # noqa: ASYNC110 - another process counts
            await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_a_filtered_watch_hears_only_of_its_own_and_its_bookmarks(tmp_path: Path) -> None:
    write(tmp_path / "a.json", slice_object("c1", "10.0.0.1"))
    async with (
        directory(tmp_path) as (url, command),
        httpx.AsyncClient(base_url=url, timeout=20) as client,
        client.stream("GET", "/pools?watch=true&cluster=c1") as response,
    ):
        lines = lines_of(response)
        assert [(await anext(lines))["type"] for _ in range(3)] == ["reset", "pool", "ready"]
        write(tmp_path / "b.json", slice_object("c2", "10.1.0.1"))
        await command.message("table published", revision=2)
        bookmark = await anext(lines)
        assert bookmark == {"type": "bookmark", "revision": 2, "complete": True}


@pytest.mark.slow
async def test_a_slow_reader_gets_a_reset_and_costs_others_nothing(tmp_path: Path) -> None:
    # More than the socket buffers of both sides hold, so that the reader who does not read stops the writer.
    addresses = [f"10.{i}.{j}.1" for i in range(8) for j in range(250)]
    for number in range(60):
        write(tmp_path / f"big{number}.json", slice_object(f"big{number}", *addresses[:1000]))
    async with directory(tmp_path) as (url, command), httpx.AsyncClient(base_url=url, timeout=60) as client:
        port = int(url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=64 * 1024 * 1024)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"GET /pools?watch=true HTTP/1.1\r\nhost: x\r\n\r\n")
        try:
            for turn in range(70):
                write(tmp_path / "small.json", slice_object("small", f"10.9.9.{turn + 1}"))
                await command.message("table published", revision=turn + 2)
            assert len((await client.get("/pools?cluster=small")).json()["pools"]) == 1
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            resets = 0
            async with asyncio.timeout(60):
                while resets < 2:
                    line = await reader.readline()
                    assert line, "the stream has ended"
                    resets += line.startswith(b'{"type":"reset"')
            assert "global_discovery_watch_resets_total 1.0" in (await client.get("/metrics")).text
        finally:
            writer.close()
            await writer.wait_closed()


async def test_the_status_page_allows_itself_and_nothing_else(client: httpx.AsyncClient) -> None:
    answer = await client.get("/status")
    assert answer.headers["content-security-policy"].startswith("default-src 'none'; style-src 'sha256-")
    assert answer.text.count("<table>") == answer.text.count("<caption>") > 0
    assert "<script" not in answer.text
    assert 'http-equiv="refresh"' in (await client.get("/status?refresh=5")).text
    assert (await client.get("/status?refresh=zero")).status_code == 400
