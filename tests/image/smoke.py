"""Eight requests through the image: discovery and ingress from it, four simulated frontends beside it.

Owns the expectation: unary and SSE, chat and completions, every pool exactly two, every answer whole.
"""

from __future__ import annotations

import collections
import json
import socket
import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from global_ingress.demo.regions import MODEL, Place, layout
from global_ingress.demo.slices import slice_list
from tests.image.building import BuildFailed
from tests.image.running import UID, Inside, running, state_of, until_answers

REGIONS, REQUESTS = 4, 8
EXPECTED_STATE = {"uids": "\t".join([str(UID)] * 4), "capabilities": "0" * 16, "root": "ro"}


def smoke(inside: Inside, files: Path, logs: Path) -> dict[str, Any]:
    """Figures of the run. Raises BuildFailed when anything is not as expected."""
    places = layout(REGIONS, _free_block())
    place = places[0]
    (files / "slices").mkdir()
    (files / "slices" / "endpointslices.yaml").write_text(slice_list(places))
    settings = {"discovery": {"urls": [place.discovery]}, "models": [{"id": MODEL}], "workers": 2}
    (files / "ingress.yaml").write_text(json.dumps(settings))
    with ExitStack() as stack, httpx.Client(timeout=30, trust_env=False) as client:
        marks = [f"{place.mark}={place.frontend_port}" for place in places]
        simulated = [sys.executable, "-m", "global_ingress.demo.frontends", "--model", MODEL, *marks]
        frontends = stack.enter_context(running(logs / "frontends.log", simulated))
        ready = f"/v1/models/{MODEL}/ready"
        for each in places:
            until_answers(partial(_ok, client, each.frontend + ready), frontends, logs / "frontends.log")
        listen = ["--listen", f"127.0.0.1:{place.discovery_port}"]
        source = ["--pool-discovery", "files", "--files", "/tmp/files/slices"]
        command = ["global-discovery-service", *source, *listen]
        directory = stack.enter_context(inside.program(logs / "discovery.log", *command))
        discovery_s = until_answers(lambda: _ok(client, place.discovery + "/readyz"), directory, logs / "discovery.log")
        listen = ["--listen", f"127.0.0.1:{place.ingress_port}", "--admin", f"127.0.0.1:{place.admin_port}"]
        command = ["global-ingress", "serve", "--config", "/tmp/files/ingress.yaml", *listen]
        ingress = stack.enter_context(inside.program(logs / "ingress.log", *command))
        ingress_s = until_answers(lambda: _all_routable(client, place), ingress, logs / "ingress.log")
        for process in (directory, ingress):
            if (state := state_of(process.pid)) != EXPECTED_STATE:
                raise BuildFailed(f"a program of the image does not run as it must: {state}")
        split = collections.Counter(_ask(client, place.ingress, k) for k in range(REQUESTS))
    if split != {place.pool: REQUESTS // REGIONS for place in places}:
        raise BuildFailed(f"the requests were not spread exactly: {dict(split)}")
    return {"discovery_ready_s": discovery_s, "ingress_routes_s": ingress_s, "split": dict(sorted(split.items()))}


def _ask(client: httpx.Client, ingress: str, k: int) -> str:
    """The pool that answered request k, whose kind is such that every pool gets several kinds."""
    chat, stream = kind(k)
    path = "/v1/chat/completions" if chat else "/v1/completions"
    asked: dict[str, Any] = {"model": MODEL, "stream": stream, "max_tokens": 4}
    asked |= {"messages": [{"role": "user", "content": "Which region?"}]} if chat else {"prompt": "Which region?"}
    answer = client.post(ingress + path, json=asked)
    whole = answer.text.endswith("data: [DONE]\n\n") if stream else "choices" in answer.json()
    if answer.status_code != 200 or not whole:
        raise BuildFailed(f"request {k} to {path}: {answer.status_code} {answer.text[:300]}")
    return answer.headers["x-dynamo-pool"]


def kind(k: int) -> tuple[bool, bool]:
    """Whether request k is a chat, and whether it streams."""
    chat, stream = divmod((k + k // REGIONS) % 4, 2)
    return bool(chat), bool(stream)


def _ok(client: httpx.Client, url: str) -> bool:
    try:
        return client.get(url).status_code == 200
    except httpx.TransportError:
        return False


def _all_routable(client: httpx.Client, place: Place) -> bool:
    try:
        pools = client.get(place.admin + "/pools").json()["pools"]
    except (httpx.TransportError, ValueError):
        return False
    return len([pool for pool in pools if pool["routable"]]) == REGIONS


def _free_block() -> int:
    """A port from which the layout's ports are free."""
    for port in range(19000, 31000, 500):
        if all(_free(number) for place in layout(REGIONS, port) for number, _ in place.ports()):
            return port
        time.sleep(0)
    raise BuildFailed("no free ports")


def _free(port: int) -> bool:
    with socket.socket() as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
