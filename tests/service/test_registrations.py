"""Relays register with the real command, over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest

from discovery.wire import decode_table
from tests.service.registering import SHORT, bearing, digest, names, registry, replace, said, table, until
from tests.service.running import finished, slice_object, write

MEDIUM = ("--heartbeat-interval-secs", "1", "--lease-duration-secs", "6")
OPEN = ("--insecure-registrations", "--allow-cidr", "10.0.0.0/8")


async def lines_of(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    async for line in response.aiter_lines():
        yield json.loads(line)


async def test_a_relay_registers_and_leaves_in_the_default_mode() -> None:
    async with registry(*OPEN, "--router", "r1=http://127.0.0.1:9000/") as (client, _):
        assert (await client.get("/readyz")).status_code == 200
        answer = await client.post("/pools", json=said(frontends=[{"url": "http://10.0.0.8:8000/"}]))
        router = {"id": "r1", "url": "http://127.0.0.1:9000", "cluster": "", "region": ""}
        assert answer.json() == {
            "lease": {"heartbeat_interval_secs": 5, "lease_duration_secs": 15},
            "routers": [router],
        }
        found = await until(client, lambda one: names(one) == ["eu/llama"])
        (pool,) = found["pools"]
        assert pool["frontends"][0]["url"] == "http://10.0.0.8:8000"
        assert (pool["relay"], pool["sources"]) == (said()["relay"], ["registration"])
        assert found["complete"] is False
        assert (await client.get("/routers")).json()["routers"] == [router]
        assert decode_table((await client.get("/pools")).content).pools[0].region == "region-eu"
        gone = await client.delete("/pools/eu/inference/llama")
        assert (gone.status_code, gone.content) == (204, b"")
        await until(client, lambda one: not one["pools"])
        again = await client.delete("/pools/eu/inference/llama")
        assert (again.status_code, again.json()["error"]["code"]) == (404, "unknown_pool")


async def test_watchers_see_it_go_without_any_event() -> None:
    async with registry(*OPEN, *SHORT) as (client, _):
        async with client.stream("GET", "/pools?watch=true") as response:
            lines = lines_of(response)
            first = await anext(lines)
            assert (first["type"], first["complete"]) == ("reset", False)
            async with asyncio.timeout(30):
                assert (await anext(lines))["type"] == "ready"
                assert (await client.post("/pools", json=said())).status_code == 200
                registered = asyncio.get_running_loop().time()
                heard = [await anext(lines)]
                while not heard[-1]["removed"]:
                    heard.append(await anext(lines))
            lasted = asyncio.get_running_loop().time() - registered
        (pool,) = heard[0]["upserted"]
        assert heard[-1]["removed"] == [pool["id"]]
        assert any(line["complete"] for line in heard)
        assert 2.5 < lasted < 10
        assert names(await table(client)) == []


async def test_renewing_keeps_it_listed_and_costs_no_revision() -> None:
    async with registry(*OPEN, *SHORT) as (client, _):
        complete = await until(client, lambda one: one["complete"], said())
        assert names(complete) == ["eu/llama"]
        for _ in range(12):
            await client.post("/pools", json=said())
            await asyncio.sleep(0.4)
        found = await table(client)
        assert (names(found), found["revision"]) == (["eu/llama"], complete["revision"])
        newer = await client.post("/pools", json=said(incarnation=2, region="elsewhere"))
        assert newer.status_code == 200
        older = await client.post("/pools", json=said(incarnation=1))
        assert (older.status_code, older.json()["error"]["code"]) == (409, "superseded")
        assert (await client.delete("/pools/eu/inference/llama?incarnation=1")).status_code == 409
        assert (await client.delete("/pools/eu/inference/llama?incarnation=2")).status_code == 204


async def test_refusals() -> None:
    async with registry(*OPEN) as (client, _):
        for answer, status, code, param in (
            (await client.post("/pools", json=said(regoin="x", region=1)), 400, "bad_registration", "region"),
            (await client.post("/pools", content=b"{"), 400, "bad_registration", "$"),
            (await client.post("/pools", content=b" " * (1024 * 1024 + 1)), 413, "request_too_large", None),
            (await client.post("/pools", json=said(cluster=" ")), 400, "bad_registration", "cluster"),
            (await client.delete("/pools/%20/n/p"), 400, "bad_request", "cluster"),
            (await client.delete("/pools/c/n/p?incarnation=x"), 400, "bad_request", "incarnation"),
            (await client.delete("/pools/c/n/p?incarnatoin=1"), 400, "bad_request", "incarnatoin"),
            (await client.delete("/pools/c/n/p"), 404, "unknown_pool", None),
        ):
            error = answer.json()["error"]
            assert (answer.status_code, error["code"], error["param"]) == (status, code, param), error
        many = (await client.post("/pools", json=said(regoin="x", region=1, frontends=[{}]))).json()["error"]["message"]
        assert all(path in many for path in ("region: ", "regoin: ", "frontends[0].url: "))

        async def endless() -> AsyncIterator[bytes]:
            for _ in range(40):
                yield b" " * 64 * 1024

        assert (await client.post("/pools", content=endless())).status_code == 413
        metrics = (await client.get("/metrics")).text
        assert 'global_discovery_registration_answers_total{call="unregister",code="unknown_pool"} 1.0' in metrics


@pytest.mark.parametrize("mode", [[], ["--pool-discovery", "files"]])
async def test_nobody_may_register_unless_somebody_said_so(mode: list[str], tmp_path: Path) -> None:
    files = ["--files", str(tmp_path)] if mode else []
    async with registry(*mode, *files) as (client, _):
        for answer in (await client.post("/pools", json=said()), await client.delete("/pools/a/b/c")):
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "registrations_disabled")


async def test_tokens_say_who_may_write_what_and_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "tokens.yaml"
    path.write_text(f"{digest('for-eu')}: [eu]\n{digest('for-all')}: ['*']\n")
    async with registry("--registration-tokens-file", str(path)) as (client, command):

        async def code(headers: dict[str, str], cluster: str = "eu") -> tuple[int, str | None]:
            answer = await client.post("/pools", json=said(cluster), headers=headers)
            return answer.status_code, answer.json().get("error", {}).get("code")

        assert await code({}) == (401, "token_missing")
        assert await code({"authorization": "Basic eDp5"}) == (401, "token_missing")
        assert await code(bearing("guess")) == (401, "token_unknown")
        assert (await client.post("/pools", content=b"{")).headers["www-authenticate"] == "Bearer"
        assert await code(bearing("for-eu")) == (200, None)
        assert await code(bearing("for-eu"), "us") == (403, "cluster_not_allowed")
        assert await code(bearing("for-all"), "us") == (200, None)
        assert (await client.delete("/pools/us/inference/llama", headers=bearing("for-eu"))).status_code == 403
        assert (await client.delete("/pools/us/inference/llama")).status_code == 401
        assert (await client.delete("/pools/us/inference/llama", headers=bearing("for-all"))).status_code == 204
        replace(path, "nonsense: [eu]")
        await command.message("tokens file is broken, its last good tokens stay")
        assert await code(bearing("for-eu")) == (200, None)
        status = (await client.get("/status.json")).json()["registrations"]
        assert (status["who_may_write"], status["tokens"]["count"]) == ("token", 2)
        assert "a key is not sha256:" in status["tokens"]["error"]
        assert "a key is not sha256:" in (await client.get("/status")).text
        assert "global_discovery_tokens_file_fault 1.0" in (await client.get("/metrics")).text
        replace(path, f"{digest('fresh')}: [eu]")
        await command.message("tokens read")
        assert await code(bearing("for-eu")) == (401, "token_unknown")
        assert await code(bearing("fresh")) == (200, None)
        assert "fresh" not in json.dumps(command.lines)


async def test_registrations_join_slices(tmp_path: Path) -> None:
    write(tmp_path / "a.json", slice_object("eu", "10.0.0.1"))
    arguments = ["--pool-discovery", "registrations,files", "--files", str(tmp_path), *OPEN, *MEDIUM]
    async with registry(*arguments) as (client, _):
        frontends = [{"url": "http://10.0.0.1:8000/"}, {"url": "http://10.0.0.2:8000/"}]
        await client.post("/pools", json=said(region="elsewhere", frontends=frontends))
        await client.post("/pools", json=said("us"))
        found = await until(client, lambda one: len(one["pools"]) == 2 and len(one["pools"][0]["sources"]) == 2)
        eu, us = found["pools"]
        assert [one["url"] for one in eu["frontends"]] == ["http://10.0.0.1:8000", "http://10.0.0.2:8000"]
        assert (eu["region"], eu["relay"], eu["sources"]) == ("region-eu", said()["relay"], ["file", "registration"])
        assert us["sources"] == ["registration"]
        assert [one["name"] for one in found["sources"]] == ["files", "registrations"]
        alone = await until(client, lambda one: one["complete"] and len(one["pools"]) == 1)
        assert (alone["pools"][0]["sources"], alone["pools"][0]["relay"]) == (["file"], None)


async def test_a_process_that_stood_still_forgets_nobody() -> None:
    async with registry(*OPEN, *SHORT) as (client, command):
        await until(client, lambda one: one["complete"], said())
        await client.post("/pools", json=said())
        command.process.send_signal(19)
        await asyncio.sleep(5)
        command.process.send_signal(18)
        found = await until(client, lambda one: not one["complete"])
        assert names(found) == ["eu/llama"]
        await until(client, lambda one: one["complete"] and not one["pools"])


async def test_the_openapi_document_is_true_of_registrations() -> None:
    async with registry(*OPEN) as (client, _):
        document = (await client.get("/openapi.json")).json()

        def schema(of: dict[str, Any]) -> dict[str, Any]:
            return {"components": document["components"], **of["content"]["application/json"]["schema"]}

        post = document["paths"]["/pools"]["post"]
        delete = document["paths"]["/pools/{cluster}/{namespace}/{name}"]["delete"]
        frontend = {"url": "http://10.0.0.8:1", "also": [], "ready": True, "pod": {"name": "p"}, "zone": None}
        good = [said(), said(frontends=None), said(frontends=[frontend], incarnation=7)]
        bad = [said(x=1), said(frontends=[{}]), said(incarnation=-1), said(region=""), said(relay=None), {}, []]
        for bodies, status in ((good, 200), (bad, 400)):
            for body in bodies:
                answer = await client.post("/pools", json=body)
                assert answer.status_code == status, answer.text
                jsonschema.validate(answer.json(), schema(post["responses"][str(status)]))
                fits = jsonschema.Draft202012Validator(schema(post["requestBody"])).is_valid(body)
                assert fits == (status == 200), body
        older = await client.post("/pools", json=said())
        jsonschema.validate(older.json(), schema(post["responses"]["409"]))
        for query, status in (("?incarnation=x", 400), ("?incarnation=6", 409), ("", 204), ("", 404)):
            answer = await client.delete(f"/pools/eu/inference/llama{query}")
            assert answer.status_code == status
            if status != 204:
                jsonschema.validate(answer.json(), schema(delete["responses"][str(status)]))
            assert str(status) in delete["responses"]


async def test_flags_that_do_not_fit_are_all_named(tmp_path: Path) -> None:
    code, _, err = await finished(
        *("--heartbeat-interval-secs", "15", "--lease-duration-secs", "15", "--dynamodb-table", "x"),
        *("--files", "/x", "--router", "r1", "--allow-cidr", "10.0.0.1/8", "--insecure-registrations"),
        *("--registration-tokens-file", "/x"),
    )
    assert code == 2
    for wanted in (
        "--heartbeat-interval-secs: 15 is not less than --lease-duration-secs 15",
        "--dynamodb-table (commandline): is for --registration-storage dynamodb",
        "--files (commandline): is for --pool-discovery files",
        "--router: 'r1' is not ID=URL",
        "--allow-cidr: '10.0.0.1/8' is no network",
        "--registration-tokens-file and --insecure-registrations: one of them, not both",
    ):
        assert wanted in err, err
    code, _, err = await finished("--pool-discovery", "files", "--files", "/x", GLOBAL_DISCOVERY_ROUTER="r=http://r")
    assert (code, "--router (environment): is for --pool-discovery registrations" in err) == (2, True)


async def test_a_tokens_file_that_cannot_be_used_ends_with_1(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    for content, reason in ((None, "cannot be read: No such file"), ("x: [y]", "a key is not sha256:")):
        if content is not None:
            path.write_text(content)
        code, _, err = await finished("--registration-tokens-file", str(path), "--listen", "127.0.0.1:0")
        lines = [line for line in err.splitlines() if line.startswith("global-discovery-service: ")]
        assert (code, len(lines), reason in lines[0], str(path) in lines[0]) == (1, 1, True, True), err
