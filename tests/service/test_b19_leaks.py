"""Nothing of a secret is told, whatever goes wrong (I63)."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.service.ingress.client import MODEL, request
from tests.service.ingress.frontend import DONE, SSE, Script, event, fin, hang, rst, whole
from tests.service.ingress.keys import Keys, bearer, entry
from tests.service.ingress.process import eventually
from tests.service.ingress.rig import Rig, Start

pytestmark = [pytest.mark.outside, pytest.mark.asyncio(loop_scope="session")]

SECRETS = {
    "key": "gi-SECRET-key-1", "wrong": "gi-SECRET-wrong-2", "cookie": "SECRET-cookie-3", "query": "SECRET-query-4",
    "body": "SECRET-body-5", "other": "SECRET-header-6",
    "narrow": "gi-SECRET-narrow-7", "probe": "SECRET-probe-8",
}  # fmt: skip


def asked_wrongly(shown: list[str], hidden: list[str], path: str, words: dict[str, Any]) -> list[bytes]:
    """Requests that are refused, each for another reason."""
    return [
        request(words, path=path, headers=[*bearer(SECRETS["wrong"]), *hidden]),
        request(words, path=path, headers=[*bearer(SECRETS["narrow"]), *hidden]),
        request(json.dumps(words).encode()[:-1], path=path, headers=shown),
        request({**words, "model": "not/there"}, path=path, headers=shown),
        request(b"[]" + SECRETS["body"].encode(), path=path, headers=shown),
        request(words, path=path.replace("chat", "nothing"), headers=shown),
        request(words, path=path.replace("/v1/", "/v1//"), headers=shown),
        request(words, path=path, method="PUT", headers=shown),
        request(words, path=path, headers=[*shown, "Content-Encoding: gzip"]),
        request(words, path=path, headers=[*shown, "x-dynamo-global-router-hop: 1"]),
        request(words, path=path, headers=[*shown, f"x-fill: {SECRETS['other'] * 400}"]),
        request(SECRETS["body"].encode() * 9000, path=path, headers=shown),
        request(words, path=path, headers=shown, host=f"{SECRETS['other']}/x"),
        request(words, path=path, headers=[*shown, f"Transfer-Encoding: {SECRETS['other']}"]),
        request(words, path=path, headers=[*shown, f"x y: {SECRETS['other']}"]),
        request(words, path=path, headers=[*shown, f" {SECRETS['key']}"]),
        request(words, path=path, headers=shown)[:-20],
        request(words, path=path, headers=shown)[:90],
    ]


ANSWERED_WRONGLY: list[Script] = [
    (rst,),
    (hang,),
    (fin,),
    (SSE, event(b'{"error":{"message":"no","code":500}}')),
    (SSE, event(b"{}"), rst),
    (whole(b"", "302 Found", "location: /x"),),
    (b"nonsense\r\n\r\n",),
    (whole(b"{}", "503 No"),),
    (SSE, event(b"{}"), DONE, b"0\r\n\r\n"),
]


async def pages_of(rig: Rig) -> bytes:
    """Everything the admin listener says."""
    seen = b""
    for page in ("/status", "/status.json", "/metrics", "/pools", "/config", "/readyz"):
        seen += (await rig.ingress.admin(page)).content
    for line in rig.ingress.access():
        seen += (await rig.ingress.admin(f"/decisions/{line['request_id']}")).content
    return seen


SETTINGS: dict[str, Any] = {
    "log": {"level": "debug", "format": "json"},
    "timeouts": {"first_byte": "500ms", "client_header": "500ms", "client_body": "500ms"},
    "limits": {"body": "64KiB", "header": "4KiB"},
    "headers": {"explain": True},
    "retries": {"first_event_gate": True},
    "ejection": {"failures": 3, "base": "1ms"},
    "probe": {"headers": {"authorization": SECRETS["probe"]}},
}


async def test_i63_no_output_holds_a_secret_whatever_goes_wrong(start: Start, tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    keys.write([entry(SECRETS["key"], "first", rate="24/10m"), entry(SECRETS["narrow"], "second", models=["x"])])
    rig = await start(alone=True, pools=2, auth=keys.auth, **SETTINGS)
    hidden = [f"Cookie: {SECRETS['cookie']}", f"x-mine: {SECRETS['other']}", f"x-request-id: {SECRETS['other']} x"]
    path = f"/v1/chat/completions?api_key={SECRETS['query']}"
    words = {"model": MODEL, "messages": [{"role": "user", "content": SECRETS["body"]}]}
    shown = [*bearer(SECRETS["key"]), *hidden]
    seen, statuses = b"", set()
    for raw in asked_wrongly(shown, hidden, path, words):
        client = await rig.client()
        await client.send(raw)
        statuses.add((await client.answer()).status)
        seen += bytes(client.raw)
    assert statuses == {400, 401, 403, 404, 405, 408, 413, 415, 431, 508}
    for script in ANSWERED_WRONGLY:
        rig.play(script)
        client = await rig.client()
        await client.send(request({**words, "stream": True}, path=path, headers=shown))
        statuses.add((await client.answer()).status)
        seen += bytes(client.raw)
    rig.play((hang,))
    gone = await rig.client()
    await gone.send(request(words, path=path, headers=shown))
    gone.rst()
    while 429 not in statuses:
        statuses.add((await rig.ask(request(words, path=path, headers=shown))).status)
    assert statuses >= {200, 429, 502, 504}
    rig.ingress.signal(signal.SIGHUP)
    await eventually(lambda: rig.ingress.log("settings read again, nothing to change"), "it has read its settings")
    seen += await pages_of(rig)
    outputs = {"client and admin": seen.decode(), "access": rig.ingress.written("out"), "log": rig.ingress.text()}
    assert all(outputs.values())
    assert [(name, where(text)) for name, text in outputs.items() if "SECRET" in text] == []


def where(text: str) -> str:
    at = text.find("SECRET")
    return text[max(0, at - 200) : at + 100]
