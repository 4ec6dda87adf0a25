"""Letting in only whom one should (I60), and pages of browsers (B102)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service.ingress.client import MODEL, request
from tests.service.ingress.frontend import DONE, SSE, Script, chunk, event, fin, hang, rst, whole
from tests.service.ingress.keys import KEY, LESS, Keys, bearer, entry
from tests.service.ingress.process import ROOT, eventually
from tests.service.ingress.rig import Rig, Start

pytestmark = [pytest.mark.outside, pytest.mark.asyncio(loop_scope="session")]


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path)


async def status_of(rig: Rig, secret: str = KEY) -> int:
    return (await rig.ask(headers=bearer(secret))).status


async def until(rig: Rig, wanted: int, secret: str = KEY) -> None:
    async def so() -> bool:
        return await status_of(rig, secret) == wanted

    await eventually(so, f"{secret} is answered with {wanted}")


@pytest.mark.parametrize(
    "headers",
    [
        [],
        bearer("gi-unknown"),
        ["x-api-key: gi-unknown"],
        ["Authorization: Basic eDp5"],
        [*bearer(), "x-api-key: other"],
    ],
)
@pytest.mark.parametrize(("method", "path"), [
    ("POST", "/v1/chat/completions"), ("POST", "/v1/messages"), ("GET", "/v1/models"), ("GET", f"/v1/models/{MODEL}"),
    ("GET", "/v1/nothing"), ("DELETE", "/v1/chat/completions"),
])  # fmt: skip
async def test_i60_nobody_comes_in_without_a_key(
    start: Start, keys: Keys, method: str, path: str, headers: list[str]
) -> None:
    rig = await start(alone=False, fresh=True, auth=keys.auth)
    answer = await rig.ask(request(method=method, path=path, headers=headers))
    assert answer.status == 401
    assert (answer.one("www-authenticate") or "").startswith("Bearer")
    if path == "/v1/messages":
        assert answer.json()["error"]["type"] == "authentication_error"
    else:
        assert answer.error["code"] == "invalid_api_key"
    assert rig.asked == 0


@pytest.mark.parametrize("path", ["/health", "/healthz", "/live", "/livez", "/ready", "/readyz"])
async def test_i60_health_needs_no_key(start: Start, keys: Keys, path: str) -> None:
    rig = await start(fresh=True, auth=keys.auth)
    assert (await rig.get(path)).status == 200


@pytest.mark.parametrize("headers", [bearer(), [f"x-api-key: {KEY}"], [*bearer(), f"X-API-Key: {KEY}"]])
async def test_i60_who_shows_a_key_comes_in_and_it_goes_no_further(
    start: Start, keys: Keys, headers: list[str]
) -> None:
    rig = await start(fresh=True, auth=keys.auth)
    client = await rig.client()
    for _ in range(3):  # the second head is not read anew
        answer = await rig.ask(headers=[*headers, "Cookie: session=1", "api-key: 2", "x-mine: 3"], on=client)
        assert answer.status == 200
    for asked in rig.requests:
        assert asked.one("x-mine") == "3"
        assert KEY not in asked.raw.decode()
        assert not [n for n, _ in asked.headers if n.lower() in ("authorization", "x-api-key", "api-key", "cookie")]


@pytest.mark.parametrize("on", [True, False])
async def test_i60_credentials_go_on_when_told_so_and_without_keys(start: Start, keys: Keys, on: bool) -> None:
    rig = await start(fresh=True, auth=keys.auth | {"forward_credentials": True} if on else "off")
    assert (await rig.ask(headers=[*bearer(), "Cookie: c"])).status == 200
    asked = rig.requests[-1]
    assert (asked.one("authorization"), asked.one("cookie")) == (f"Bearer {KEY}", "c")


async def test_i60_a_key_is_for_its_models(start: Start, keys: Keys) -> None:
    keys.write([entry(KEY, "first", models=["acme/*"]), entry(LESS, "second", models=["other/*"])])
    rig = await start(fresh=True, auth=keys.auth)
    assert await status_of(rig) == 200
    assert (await rig.ask(headers=bearer(), model="small")).status == 200  # an alias is its model
    for model in (MODEL, "small", "not/there"):  # whether it exists is not told
        answer = await rig.ask(headers=bearer(LESS), model=model)
        assert (answer.status, answer.error["code"], answer.error["param"]) == (403, "model_not_allowed", "model")
    ids = {}
    for secret in (KEY, LESS):
        ids[secret] = [one["id"] for one in (await rig.get("/v1/models", headers=bearer(secret))).json()["data"]]
    assert ids == {KEY: [MODEL], LESS: []}
    assert (await rig.get(f"/v1/models/{MODEL}", headers=bearer())).status == 200
    assert (await rig.get(f"/v1/models/{MODEL}", headers=bearer(LESS))).status == 404


@pytest.mark.parametrize("workers", [1, 2])
async def test_i60_the_rate_is_that_of_all_workers(start: Start, keys: Keys, workers: int) -> None:
    keys.write([entry(KEY, "first", rate="10/10m"), entry(LESS, "second")])
    rig = await start(alone=True, auth=keys.auth, workers=workers)
    answers = await asyncio.gather(*(rig.ask(headers=bearer()) for _ in range(30)))
    refused = [one for one in answers if one.status != 200]
    assert len(answers) - len(refused) == 10
    for one in refused:
        assert (one.status, one.error["code"], one.error["type"]) == (429, "rate_limit_exceeded", "rate_limit_error")
        assert 1 <= int(one.one("retry-after") or 0) <= 60
        assert (one.one("x-ratelimit-limit-requests"), one.one("x-ratelimit-remaining-requests")) == ("10", "0")
        assert (one.one("x-ratelimit-reset-requests") or "").endswith("s")
    assert rig.asked == 10
    assert await status_of(rig, LESS) == 200


@pytest.mark.parametrize("workers", [1, 2])
async def test_i60_requests_at_once_are_those_of_all_workers(start: Start, keys: Keys, workers: int) -> None:
    keys.write([entry(KEY, "first", concurrent=3)])
    rig = await start(alone=True, auth=keys.auth, workers=workers)
    rig.play((SSE, event(b"{}"), hang))
    streams = [await rig.streaming(headers=bearer()) for _ in range(3)]
    for _ in range(6):
        answer = await rig.ask(headers=bearer())
        assert (answer.status, answer.one("retry-after")) == (429, "1")
    streams[0].rst()
    rig.play((whole(),))
    await until(rig, 200)


async def test_i60_whatever_the_end_a_place_is_given_back(start: Start, keys: Keys) -> None:
    keys.write([entry(KEY, "first", concurrent=1)])
    rig = await start(fresh=True, auth=keys.auth, retries={"attempts": 1})
    ends: list[Script] = [
        (whole(),),
        (SSE, event(b"{}"), DONE, b"0\r\n\r\n"),
        (rst,),
        (SSE, event(b"{}"), rst),
        (whole(b"", "503 No"),),
    ]
    for end in ends:
        rig.play(end)
        client = await rig.client()
        await client.send(request(headers=bearer(), stream=True))
        await client.answer()
    for version in ("1.0", "1.1"):
        rig.play((SSE, event(b"{}"), chunk(b"data: "), fin))
        await rig.ask(headers=bearer(), version=version, stream=True)
    await rig.ask(headers=bearer(), model="not/there")
    await rig.get("/v1/models", headers=bearer())
    rig.play((whole(),))
    client = await rig.client()
    await client.send(request(headers=bearer()) * 3)  # in a row on one connection, they are one at a time
    assert [(await client.answer()).status for _ in range(3)] == [200, 200, 200]


async def test_i60_a_dead_worker_gives_its_places_back(start: Start, keys: Keys) -> None:
    keys.write([entry(KEY, "first", concurrent=1)])
    rig = await start(alone=True, auth=keys.auth)
    rig.play((SSE, event(b"{}"), hang))
    await rig.streaming(headers=bearer())
    assert await status_of(rig) == 429
    (worker,) = (await rig.ingress.status())["workers"]
    os.kill(worker["pid"], signal.SIGKILL)
    rig.play((whole(),))

    async def served() -> bool:
        try:
            return await status_of(rig) == 200
        except (AssertionError, OSError):
            return False

    await eventually(served, "the worker that follows has the place")


async def test_i60_keys_change_while_it_runs(start: Start, keys: Keys) -> None:
    rig = await start(alone=True, auth=keys.auth)
    kept = await rig.client()
    assert (await rig.ask(headers=bearer(), on=kept)).status == 200
    keys.write([entry(LESS, "second")])
    await until(rig, 200, LESS)
    assert (await rig.ask(headers=bearer(), on=kept)).status == 401  # on the connection that was let in before
    keys.write("keys: [{name: a, sha256: " + KEY + "}]")
    await eventually(lambda: rig.ingress.log("keys or certificates refused, the old ones stay"), "the fault is told")
    assert await status_of(rig, LESS) == 200
    assert KEY not in rig.ingress.text()
    keys.path.unlink()
    await eventually(lambda: "cannot be read" in rig.ingress.text(), "the file that is gone is told")
    assert await status_of(rig, LESS) == 200
    keys.write([entry(KEY, "first")])
    await until(rig, 401, LESS)
    assert await status_of(rig) == 200


async def test_i60_turning_it_on_and_off_holds_for_open_connections(start: Start, keys: Keys) -> None:
    rig = await start(alone=True, auth=keys.auth)
    client = await rig.client()
    assert (await rig.ask(headers=bearer(), on=client)).status == 200
    rig.reload(auth="off")
    await until(rig, 200, "none")
    assert (await rig.ask(headers=bearer(), on=client)).status == 200
    assert rig.requests[-1].one("authorization") == f"Bearer {KEY}"
    rig.reload(auth=keys.auth)
    await until(rig, 401, "none")
    assert (await rig.ask(headers=bearer(), on=client)).status == 200
    assert rig.requests[-1].one("authorization") is None
    rig.reload(auth={"keys_file": str(keys.path) + ".not"})
    await eventually(
        lambda: rig.ingress.log("settings refused, the old ones stay"), "settings without keys are refused"
    )
    assert [await status_of(rig, one) for one in (KEY, "none")] == [200, 401]


async def test_i60_a_faulty_keys_file_does_not_start(tmp_path: Path, keys: Keys) -> None:
    keys.write("keys: [{name: a, sha256: " + KEY + "}]")
    config = tmp_path / "ingress.yaml"
    config.write_text(json.dumps({"discovery": {"urls": ["http://127.0.0.1:1"]}, "auth": keys.auth}))
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "global_ingress", "serve", "--config", str(config), "--listen", "127.0.0.1:0"],
        capture_output=True, text=True, timeout=60, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 2
    assert "keys.yaml:1:26: keys[0].sha256: must be the 64 lower-case hex digits" in done.stderr
    assert KEY not in done.stderr


async def test_i60_refused_before_the_body_is_sent(start: Start, keys: Keys) -> None:
    rig = await start(fresh=True, auth=keys.auth)
    client = await rig.client()
    await client.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 30000000\r\n"
                      b"Expect: 100-continue\r\n\r\n")  # fmt: skip
    answer = await client.answer()
    assert (answer.status, answer.interim, answer.one("connection")) == (401, [], "close")


# Pages of browsers.

PAGE = "https://chat.example.com"
ASKS = [f"Origin: {PAGE}", "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization,x-a"]


async def test_b102_a_page_asks_first_and_needs_no_key_for_it(start: Start, keys: Keys) -> None:
    rig = await start(fresh=True, auth=keys.auth, cors={"origins": [PAGE], "max_age": "2m"})
    answer = await rig.ask(method="OPTIONS", headers=ASKS)
    assert (answer.status, answer.body) == (204, b"")
    assert answer.one("access-control-allow-origin") == PAGE
    assert answer.one("access-control-allow-headers") == "authorization,x-a"
    assert answer.one("access-control-max-age") == "120"
    stranger = await rig.ask(method="OPTIONS", headers=["Origin: https://evil.example", *ASKS[1:]])
    assert not [name for name, _ in stranger.headers if name.lower().startswith("access-control")]
    assert rig.asked == 0


@pytest.mark.parametrize("framing", ["Content-Length: 99999999999", "Content-Length: 1", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("line", ["OPTIONS /v1/chat/completions", "GET /health", "GET /v1/models"])
async def test_i60_what_is_answered_without_a_key_holds_no_body(
    start: Start, keys: Keys, line: str, framing: str
) -> None:
    rig = await start(fresh=True, auth=keys.auth, cors={"origins": [PAGE]})
    client = await rig.client()
    head = "\r\n".join([f"{line} HTTP/1.1", "Host: x", *bearer(), *ASKS, framing, "", ""])
    await client.send(head.encode())
    answer = await client.answer()
    assert (answer.status, answer.error["code"], answer.one("connection")) == (413, "request_too_large", "close")


async def test_b102_every_answer_can_be_read_by_the_page(start: Start, keys: Keys) -> None:
    rig = await start(fresh=True, auth=keys.auth, cors={"origins": [PAGE]})
    rig.play((whole(b"{}", "200 OK", "Access-Control-Allow-Origin: *"),))
    answers = [
        await rig.ask(headers=[*bearer(), ASKS[0]]),
        await rig.ask(headers=[ASKS[0]]),
        await rig.ask(headers=[*bearer(), ASKS[0]], model="not/there"),
        await rig.get("/v1/models", headers=[*bearer(), ASKS[0]]),
    ]
    assert [one.status for one in answers] == [200, 401, 404, 200]
    for one in answers:
        assert one.all("access-control-allow-origin") == [PAGE]
        assert one.all("vary") == ["Origin"]
        assert "x-request-id" in (one.one("access-control-expose-headers") or "")


async def test_b102_without_the_setting_nothing_is_said(start: Start) -> None:
    rig = await start()
    assert (await rig.ask(method="OPTIONS", headers=ASKS)).status == 405
    answer = await rig.ask(headers=[ASKS[0]])
    assert not [name for name, _ in answer.headers if name.lower().startswith("access-control")]
