"""Models, errors, usage: rows B11 of the field reports, rules I10, I11, I23 and I35, section 3 of the interface.

Row 102 (CORS) is about a feature that this version refuses as not available. Rows 103 and 104 stand with the frames.
"""

from __future__ import annotations

from typing import Any

import openai
import pytest

from tests.service.ingress.client import request
from tests.service.ingress.frontend import DONE, LAST, SSE, event, rst, whole
from tests.service.ingress.process import eventually
from tests.service.ingress.rig import Rig, Start

pytestmark = [pytest.mark.outside, pytest.mark.asyncio(loop_scope="session")]

MODELS: dict[str, Any] = {
    "models": [
        {"id": "b/two", "aliases": ["two", "zwei"]},
        {"id": "a-one", "pools": [{"cluster": "c0"}]},
        {"id": "nowhere", "pools": [{"cluster": "c9"}]},
        {"id": "acme/team/deep-3"},
    ]
}
PROBED: dict[str, Any] = {"probe": {"interval": "200ms", "timeout": "2s"}}


def sdk(rig: Rig) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{rig.ingress.port}/v1", api_key="none", max_retries=0)


async def listed(rig: Rig) -> list[str]:
    answer = await rig.get("/v1/models")
    return [model["id"] for model in answer.json()["data"]] if answer.status == 200 else []


async def test_row_088_row_097_the_list_is_that_of_routable_pools(start: Start) -> None:
    rig = await start(pools=2, fresh=True, models=[{"id": name} for name in "cba"], **PROBED)
    first, second = rig.frontends
    first.models = [{"id": "a"}, {"id": "b"}, {"id": "not configured"}]
    second.models = [{"id": "b"}, {"id": "c"}]

    async def united() -> bool:
        return await listed(rig) == ["a", "b", "c"]

    await eventually(united, "the union, sorted, each once")
    for model, allowed in (("a", {"f0"}), ("b", {"f0", "f1"}), ("c", {"f1"})):

        async def only_there(model: str = model, allowed: set[str] = allowed) -> bool:
            seen = {(await rig.ask(model=model)).json()["served_by"] for _ in range(4)}
            return seen == allowed

        await eventually(only_there, f"{model} goes to {allowed}")
    second.refuse()
    assert await listed(rig) == ["a", "b", "c"], "the only frontend of a model is never out (rule I24)"
    rig.reload(pools=[[first]])

    async def without() -> bool:
        return await listed(rig) == ["a", "b"]

    await eventually(without, "what only the pool that left has is gone")
    assert (await rig.ask(model="c")).error["code"] == "no_ready_pool"


async def test_row_098_unknown_fields_of_the_upstream_are_kept(start: Start) -> None:
    rig = await start(pools=2, fresh=True, **MODELS, **PROBED)
    full = {
        "id": "b/two",
        "object": "model",
        "created": 7,
        "max_model_len": 4096,
        "permission": [{"id": "p"}],
        "x": None,
    }
    for one in rig.frontends:
        one.models = [full, {"id": "a-one"}, {"id": "acme/team/deep-3"}]

    async def full_list() -> bool:
        return bool((await rig.get("/v1/models/b%2Ftwo")).json().get("max_model_len") == 4096)

    await eventually(full_list, "the fields are there")
    assert full.items() <= (await rig.get("/v1/models/b/two")).json().items()
    entries = {entry["id"]: entry for entry in (await rig.get("/v1/models")).json()["data"]}
    assert full.items() <= entries["b/two"].items()
    assert all(entry["object"] == "model" for entry in entries.values())


@pytest.mark.parametrize("path", ["acme/team/deep-3", "acme%2Fteam%2Fdeep-3", "acme%2fteam/deep-3", "a-one"])
async def test_row_097_one_model_by_its_name(start: Start, path: str) -> None:
    rig = await start(pools=2, **MODELS)
    answer = await rig.get(f"/v1/models/{path}")
    assert (answer.status, answer.json()["id"]) == (200, path.replace("%2F", "/").replace("%2f", "/"))
    head = await rig.ask(method="HEAD", path=f"/v1/models/{path}")
    assert (head.status, head.one("content-length"), head.body) == (200, answer.one("content-length"), b"")


@pytest.mark.parametrize("path", ["nope", "acme", "acme/team", "deep-3", "two"])
async def test_row_099_no_such_model_by_its_name(start: Start, path: str) -> None:
    rig = await start(pools=2, **MODELS)
    answer = await rig.get(f"/v1/models/{path}")
    assert (answer.status, answer.error["code"]) == (404, "model_not_found")


@pytest.mark.parametrize("model", ["nope", "A-ONE", "a-one ", "b/two/x", "x" * 5000, "é\u0000"])
async def test_row_099_an_unknown_model_is_a_404(start: Start, model: str) -> None:
    rig = await start(pools=2, **MODELS)
    for stream in (False, True):
        answer = await rig.ask(model=model, stream=stream)
        assert (answer.status, answer.error["code"]) == (404, "model_not_found")
        assert (answer.error["type"], answer.error["param"]) == ("invalid_request_error", "model")
        assert len(answer.body) < 1000
    assert rig.asked == 0


async def test_row_099_the_openai_sdk_raises_not_found(start: Start) -> None:
    rig = await start(pools=2, **MODELS)
    async with sdk(rig) as client:
        with pytest.raises(openai.NotFoundError) as caught:
            await client.chat.completions.create(model="nope", messages=[{"role": "user", "content": "hello"}])
        assert caught.value.code == "model_not_found"
        assert caught.value.request_id
        assert {model.id async for model in client.models.list()} == {"a-one", "acme/team/deep-3", "b/two"}
        assert (await client.models.retrieve("acme/team/deep-3")).id == "acme/team/deep-3"


async def test_rule_i11_a_configured_model_without_a_pool_is_a_503(start: Start) -> None:
    rig = await start(pools=2, **MODELS)
    answer = await rig.ask(model="nowhere")
    assert (answer.status, answer.error["code"]) == (503, "no_ready_pool")
    assert answer.error["type"] == "service_unavailable"
    assert answer.one("retry-after") in {"1", "2", "3", "4", "5"}
    assert "nowhere" not in await listed(rig)


async def test_rule_i11_selectors_are_obeyed(start: Start) -> None:
    rig = await start(pools=2, **MODELS)
    for _ in range(6):
        assert (await rig.ask(model="a-one")).json()["served_by"] == "f0"


async def test_row_101_an_alias_is_rewritten_on_the_way_in_and_nothing_else(start: Start) -> None:
    rig = await start(pools=2, **MODELS)
    before = b'{ "n":1.50,"messages":[{"content":"model: two \\u00e9"}], "model" : "%b" ,"x":{"model":"two"}}\n'
    answered = b'{"model":"b/two"}'
    rig.play([whole(answered)])
    for name in (b"two", b"zwei", b"b/two"):
        answer = await rig.ask(request(before % name))
        assert rig.requests[-1].body == before % b"b/two"
        assert answer.body == answered
    rig.play([whole(answered)])
    await rig.ask(request(b'{"\\u006dodel":"t\\u0077o"}'))
    assert rig.requests[-1].body == b'{"\\u006dodel":"b/two"}'


@pytest.mark.parametrize("accept", ["text/html", "*/*", "text/event-stream"])
async def test_row_100_every_error_of_ours_is_json_with_an_id(start: Start, accept: str) -> None:
    rig = await start(pools=2, **MODELS)
    common: dict[str, Any] = {"headers": [f"Accept: {accept}", "x-request-id: mine-1"]}
    asked: list[tuple[dict[str, Any], int]] = [
        ({"model": "nope"}, 404),
        ({"model": "nope", "stream": True}, 404),
        ({"model": "nowhere"}, 503),
        ({"body": b"{"}, 400),
        ({"path": "/nothing"}, 404),
        ({"path": "/v1//x"}, 400),
        ({"method": "PUT"}, 405),
    ]
    client = await rig.client()
    for given, status in asked:
        answer = await rig.ask(on=client, **given, **common)
        assert (answer.status, answer.all("x-request-id")) == (status, ["mine-1"])
        assert answer.error["message"]
    rig.each([rst])
    answer = await rig.ask(on=client, model="b/two", **common)
    assert (answer.status, answer.error["code"], answer.all("x-request-id")) == (502, "upstream_reset", ["mine-1"])
    rig.each([whole()])
    assert (await rig.ask(on=client, model="b/two")).status == 200, "the connection goes on after errors"


async def test_row_105_headers_for_sdks_pass_both_ways(start: Start) -> None:
    rig = await start(pools=2)
    lines = (
        "x-should-retry: true",
        "retry-after-ms: 1200",
        "retry-after: 2",
        "openai-processing-ms: 12",
        "x-ratelimit-remaining-requests: 3",
    )
    rig.play([whole(b"{}", "429 Too Many Requests", *lines)])
    answer = await rig.ask(headers=["x-stainless-retry-count: 1", "User-Agent: OpenAI/Python"])
    assert [f"{k}: {v}" for k, v in answer.headers if f"{k}: {v}" in lines] == list(lines)
    seen = rig.requests[0]
    assert (seen.all("x-stainless-retry-count"), seen.all("user-agent")) == (["1"], ["OpenAI/Python"])


async def test_rule_i35_retry_after_of_ours_is_small_and_a_pointless_repeat_is_said(start: Start) -> None:
    rig = await start(pools=2, **MODELS)
    assert (await rig.ask(model="nowhere")).all("x-should-retry") == []
    rig.each([rst])
    answer = await rig.ask(model="b/two")
    assert (answer.one("x-should-retry"), answer.all("retry-after")) == ("false", [])


@pytest.mark.parametrize("workers", [1, 2])
async def test_section_3_health_and_the_admin_listener(start: Start, workers: int) -> None:
    rig = await start(pools=2, workers=workers)
    for path in ("/health", "/healthz", "/live", "/livez", "/ready", "/readyz"):
        answer = await rig.get(path)
        assert (answer.status, answer.one("content-type"), answer.whole) == (200, "application/json", True)
        assert answer.json()["status"]
    for path in ("/livez", "/readyz", "/metrics", "/status.json", "/pools", "/config", "/openapi.json"):
        assert (await rig.ingress.admin(path)).status_code == 200
    assert (await rig.get("/metrics")).status == 404


async def test_rule_i11_without_models_what_the_pools_list_is_served(start: Start) -> None:
    rig = await start(pools=1, fresh=True, **PROBED)
    rig.frontends[0].models = [{"id": "learned"}]
    rig.ingress.write({key: value for key, value in rig.settings.items() if key != "models"})

    async def learned() -> bool:
        return await listed(rig) == ["learned"]

    await eventually(learned, "what the pool lists is served")
    assert (await rig.ask(model="learned")).status == 200
    assert (await rig.ask(model="acme/tiny")).error["code"] == "model_not_found"


async def test_a_stream_through_the_openai_sdk(start: Start) -> None:
    rig = await start(pools=2)
    parts = [event(b'{"choices":[{"index":0,"delta":{"content":"%d"}}]}' % n) for n in range(5)]
    rig.play([SSE, *parts, DONE + LAST])
    async with sdk(rig) as client:
        stream = await client.chat.completions.create(
            model="small", messages=[{"role": "user", "content": "hello"}], stream=True
        )
        text = "".join([piece.choices[0].delta.content or "" async for piece in stream])
    assert text == "01234"
