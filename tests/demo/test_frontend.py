"""The simulated frontend on the wire: raw sockets, and the SDK that people use."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace

import openai
import pytest

from global_ingress.demo.frontend import Region
from global_ingress.demo.frontends import serving
from tests.demo.wire import chunks, raw

MODEL = "meta-llama/Tiny"
REGION = Region("r7", MODEL, pace_s=0.001)
CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "Hi there"}], "max_tokens": 3}
TEXT = {"model": MODEL, "prompt": "Hi there", "max_tokens": 3}
CHATS, TEXTS = "/v1/chat/completions", "/v1/completions"


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async with serving({REGION: 0}) as ports:
        yield ports[0]


async def test_a_unary_chat_is_one_chunk_of_json(port: int) -> None:
    head, body = await raw(port, "POST", CHATS, CHAT, headers="x-request-id: a b\r\n")
    assert head.startswith("HTTP/1.1 200 OK\r\n")
    assert "transfer-encoding: chunked" in head
    assert "content-length" not in head
    assert "server:" not in head
    assert "x-request-id: a b" in head
    whole, end = chunks(body)
    assert end == b""
    answer = json.loads(whole)
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"]["content"] == " r7w1000 r7w1001 r7w1002"
    assert answer["usage"] == {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}


async def test_each_event_of_a_stream_is_one_chunk(port: int) -> None:
    head, body = await raw(port, "POST", CHATS, CHAT | {"stream": True, "stream_options": {"include_usage": True}})
    assert "content-type: text/event-stream\r\n" in head + "\r\n"
    assert "cache-control: no-cache" in head
    assert "x-request-id" not in head
    events = chunks(body)
    assert all(event.startswith(b"data: ") and event.endswith(b"\n\n") for event in events[:-1])
    assert events[-2:] == [b"data: [DONE]\n\n", b""]
    parsed = [json.loads(event[6:]) for event in events[:-2]]
    assert parsed[0]["choices"][0]["delta"] == {"content": " r7w1000", "role": "assistant"}
    assert parsed[-2]["choices"][0] == {"index": 0, "delta": {}, "finish_reason": "length"}
    assert parsed[-1]["choices"] == []
    assert parsed[-1]["usage"]["completion_tokens"] == 3
    assert len({event["id"] for event in parsed}) == 1


async def test_completions_carry_text_and_null_usage(port: int) -> None:
    _, body = await raw(port, "POST", TEXTS, TEXT | {"stream": True})
    parsed = [json.loads(event[6:]) for event in chunks(body)[:-2]]
    assert [event["choices"][0]["text"] for event in parsed] == [" r7w1000", " r7w1001", " r7w1002", ""]
    assert all(event["usage"] is None for event in parsed)


async def test_a_stream_without_max_tokens_fails_in_band(port: int) -> None:
    head, body = await raw(port, "POST", TEXTS, {"model": MODEL, "prompt": "x", "stream": True})
    assert head.startswith("HTTP/1.1 200")
    error, done, _ = chunks(body)
    assert json.loads(error[6:])["error"]["code"] == 400
    assert done == b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("POST", CHATS, b"{", 400, "Failed to deserialize"),
        ("POST", CHATS, b'"\xff"', 400, "Failed to deserialize"),
        ("POST", CHATS, {"messages": []}, 400, "missing required field `model`"),
        ("POST", CHATS, {"model": MODEL}, 400, "missing field `messages`"),
        ("POST", CHATS, CHAT | {"messages": []}, 400, "Validation"),
        ("POST", TEXTS, TEXT | {"max_tokens": 0}, 400, "Validation"),
        ("POST", TEXTS, {"model": MODEL, "prompt": "x"}, 400, "is required by the mocker worker"),
        ("POST", CHATS, CHAT | {"model": "other", "stream": True}, 404, "Model not found"),
        ("POST", "/v1/embeddings", {"model": MODEL, "prompt": "x"}, 404, "Model not found"),
        ("GET", "/v1/models/other", None, 404, "Model not found"),
        ("GET", "/v1/models/", None, 404, "Route not found: GET /v1/models/"),
        ("GET", "/", None, 404, "Route not found: GET /"),
    ],
)
async def test_errors_are_flat(port: int, method: str, path: str, body: object, status: int, message: str) -> None:
    head, found = await raw(port, method, path, body)
    assert head.startswith(f"HTTP/1.1 {status} ")
    assert ("transfer-encoding: chunked" in head) == (method == "POST")
    error = json.loads(chunks(found)[0] if method == "POST" else found)
    assert sorted(error) == ["code", "message", "type"]
    assert error["code"] == status
    assert message in error["message"]


async def test_disabled_routes_and_wrong_methods_have_no_body(port: int) -> None:
    for method, path, status in (("POST", "/v1/rerank", 404), ("GET", CHATS, 405), ("POST", "/v1/models", 405)):
        head, body = await raw(port, method, path)
        assert head.startswith(f"HTTP/1.1 {status} ")
        assert body == b""
        assert "content-type" not in head
    head, _ = await raw(port, "OPTIONS", CHATS)
    assert "allow: POST" in head


async def test_another_content_type_is_415(port: int) -> None:
    reader_head, _ = await raw(port, "POST", CHATS, headers="content-type: text/plain\r\ncontent-length: 2\r\n")
    assert reader_head.startswith("HTTP/1.1 415 ")


@pytest.mark.parametrize("path", [f"/v1/models/{MODEL}", "/v1/models/meta-llama%2FTiny"])
async def test_models_tell_the_window(port: int, path: str) -> None:
    head, body = await raw(port, "GET", path)
    assert f"content-length: {len(body)}" in head
    assert json.loads(body)["context_window"] == 8192
    _, listed = await raw(port, "GET", "/v1/models")
    assert [model["id"] for model in json.loads(listed)["data"]] == [MODEL]
    _, ready = await raw(port, "GET", path + "/ready")
    assert json.loads(ready)["ready"] is True
    head, body = await raw(port, "HEAD", "/v1/models")
    assert head.startswith("HTTP/1.1 200")
    assert body == b""


async def test_without_a_worker_it_is_healthy_and_serves_nothing() -> None:
    async with serving({replace(REGION, has_worker=False): 0}) as (port,):
        head, body = await raw(port, "POST", CHATS, CHAT)
        assert head.startswith("HTTP/1.1 404 ")
        assert body == b""
        assert "content-type" not in head
        _, listed = await raw(port, "GET", "/v1/models")
        assert json.loads(listed) == {"object": "list", "data": []}
        assert (await raw(port, "GET", f"/v1/models/{MODEL}/ready"))[0].startswith("HTTP/1.1 404 ")
        for path in ("/health", "/live"):
            assert (await raw(port, "GET", path))[0].startswith("HTTP/1.1 200 ")


async def test_the_openai_sdk_reads_all_four_kinds(port: int) -> None:
    async with openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="x", max_retries=0) as client:
        chat = await client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "x"}], max_tokens=2
        )
        assert chat.choices[0].message.content == " r7w1000 r7w1001"
        text = await client.completions.create(model=MODEL, prompt="x", max_tokens=2)
        assert text.choices[0].text == " r7w1000 r7w1001"
        events = await client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "x"}], max_tokens=2, stream=True
        )
        said = [event.choices[0].delta.content or "" async for event in events]
        assert "".join(said) == " r7w1000 r7w1001"
        pieces = await client.completions.create(model=MODEL, prompt="x", max_tokens=2, stream=True)
        assert [piece.choices[0].text async for piece in pieces] == [" r7w1000", " r7w1001", ""]
        assert [model.id async for model in client.models.list()] == [MODEL]
        with pytest.raises(openai.NotFoundError, match="Model not found"):
            await client.completions.create(model="other", prompt="x", max_tokens=2)
