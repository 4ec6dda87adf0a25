"""A DynamoDB on loopback (ministack), and a door in front of it that can be shut, slowed and throttled."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from discovery.kit.service import serve

MINISTACK = Path(sys.executable).with_name("ministack")
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "x",
    "AWS_SECRET_ACCESS_KEY": "x",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_DEFAULT_REGION": "eu-central-1",
}


@contextmanager
def ministack(folder: Path) -> Iterator[str]:
    """Its URL; it is ended by its id when the block is left."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {"BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(port), "SERVICES": "dynamodb", "HOME": str(folder)}
    with (folder / "ministack.log").open("wb") as log:
        process = subprocess.Popen([MINISTACK], env=os.environ | settings, stdout=log, stderr=log, cwd=folder)
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 60
        while not _answers(url):
            assert process.poll() is None, (folder / "ministack.log").read_text()
            assert time.monotonic() < deadline, "ministack does not answer"
            time.sleep(0.1)
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).status_code > 0
    except httpx.TransportError:
        return False


class Door:
    """What passes on the way to the table. `trouble` is asked for each call, with its name and body, and says
    throttle, hang, or nothing."""

    def __init__(self, behind: str) -> None:
        self.behind = behind
        self.url = ""
        self.trouble: Callable[[str, bytes], str | None] = lambda call, body: None
        self.lose: Callable[[str, bytes], bool] = lambda call, body: False
        """Whether the answer to a call that has been done gets lost on its way back."""
        self.calls: list[str] = []
        self.opened = asyncio.Event()

    async def __call__(self, request: Request) -> Response:
        body = await request.body()
        call = request.headers["x-amz-target"].partition(".")[2]
        self.calls.append(call)
        match self.trouble(call, body):
            case "throttle":
                kind = "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"
                said = b'{"__type":"%b","message":"slow down"}' % kind.encode()
                return Response(said, 400, media_type="application/x-amz-json-1.0")
            case "hang":
                await self.opened.wait()
        headers = {name: value for name, value in request.headers.items() if name not in ("host", "content-length")}
        headers["accept-encoding"] = "identity"
        async with httpx.AsyncClient(timeout=30) as client:
            answer = await client.post(self.behind, content=body, headers=headers)
        if self.lose(call, body):
            return Response(b"", 502)
        passed = ("content-type", "x-amzn-requestid", "date")
        kept = {name: value for name, value in answer.headers.items() if name in passed}
        return Response(answer.content, answer.status_code, kept)


@asynccontextmanager
async def door(behind: str, port: int = 0) -> AsyncIterator[Door]:
    """Open while the block runs."""
    made = Door(behind)

    def fail(error: Exception) -> None:
        raise error

    app = Starlette(routes=[Route("/", made.__call__, methods=["POST"])])
    async with serve(app, "127.0.0.1", port, on_failure=fail, drain=1) as bound:
        made.url = bound.url
        try:
            yield made
        finally:
            made.opened.set()
