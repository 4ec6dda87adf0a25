"""Admission at its edges (I62), SDKs with a key, and what the ingress does not hold (I64)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from pathlib import Path

import grimp
import openai
import pytest

from tests.service.ingress.client import MODEL, Answer, request
from tests.service.ingress.frontend import whole
from tests.service.ingress.process import ROOT, eventually
from tests.service.ingress.rig import Rig, Start

pytestmark = [pytest.mark.outside, pytest.mark.asyncio(loop_scope="session")]


def overloaded(answer: Answer) -> None:
    assert (answer.status, answer.error["code"]) == (503, "overloaded")
    assert int(answer.one("retry-after") or 0) >= 1


async def test_i62_one_connection_too_many_is_answered_and_not_left_hanging(start: Start) -> None:
    rig = await start(alone=True, limits={"connections": 4})
    kept = [await rig.client() for _ in range(4)]
    for client in kept:
        assert (await rig.ask(on=client)).status == 200
    beyond = await rig.client()
    overloaded(await beyond.answer())  # it has not even asked
    await beyond.ended()
    kept[0].fin()

    async def room() -> bool:
        client = await rig.client()
        answer = await rig.ask(on=client)
        client.fin()
        return answer.status == 200

    await eventually(room, "there is room again")
    assert (await rig.ask(on=kept[1])).status == 200


async def test_i62_bodies_held_together_at_the_edge(start: Start) -> None:
    rig = await start(alone=True, limits={"body": "1MiB", "buffered": "1MiB"})
    half = b"x" * (1 << 19)
    first = await rig.client()
    await first.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\n" + half)

    async def held() -> bool:
        return (await rig.metrics()).value("buffered_bytes") == len(half)

    await eventually(held, "half of it is held")
    words = {"model": MODEL, "fill": ""}
    words["fill"] = "y" * (len(half) - len(json.dumps(words)))
    assert (await rig.ask(request(words))).status == 200, "exactly as much as may be held"
    words["fill"] += "y"
    overloaded(await rig.ask(request(words)))


async def test_i62_a_head_that_drips_ends_at_its_limit_however_often_it_drips(start: Start) -> None:
    rig = await start(alone=True, timeouts={"client_header": "800ms"})
    client = await rig.client()
    began = rig.loop.time()
    await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nx-a: ")
    while not client.end and rig.loop.time() - began < 10:
        await client.send(b"a")
        await asyncio.sleep(0.1)
        if b"408" in client.raw:
            break
    assert 0.7 < rig.loop.time() - began < 5


async def test_i60_the_sdk_with_a_key(start: Start, tmp_path: Path) -> None:
    digest = hashlib.sha256(b"gi-sdk").hexdigest()
    file = tmp_path / "keys.yaml"
    file.write_text(f"keys: [{{name: sdk, sha256: '{digest}', models: [acme/*]}}]")
    rig = await start(alone=True, auth={"keys_file": str(file)})
    chat = {"id": "1", "object": "chat.completion", "created": 1, "model": MODEL, "choices": []}
    rig.play((whole(json.dumps(chat).encode()),))
    async with _sdk(rig, "gi-sdk") as client:
        assert (await client.chat.completions.create(model=MODEL, messages=[])).id == "1"
        assert [one.id async for one in client.models.list()] == [MODEL]
        with pytest.raises(openai.PermissionDeniedError):
            await client.chat.completions.create(model="other", messages=[])
    async with _sdk(rig, "gi-wrong") as client:
        with pytest.raises(openai.AuthenticationError) as caught:
            await client.models.list()
        assert caught.value.code == "invalid_api_key"


def _sdk(rig: Rig, key: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(api_key=key, base_url=f"http://127.0.0.1:{rig.ingress.port}/v1", max_retries=0)


async def test_i64_nothing_of_the_ingress_speaks_to_kubernetes() -> None:
    graph = grimp.build_graph("global_ingress", "discovery", include_external_packages=True, cache_dir=None)
    for module in graph.find_descendants("global_ingress.proxy"):
        upstream = graph.find_upstream_modules(module)
        assert not {one for one in upstream if one.startswith(("kubernetes", "discovery.kube"))}, module
    text = "".join(path.read_text() for path in (ROOT / "global_ingress" / "proxy").glob("*.py"))
    assert not re.search(r"serviceaccount|KUBECONFIG|KUBERNETES_SERVICE", text)
