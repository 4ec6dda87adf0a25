"""A client on a raw socket: it sends bytes as given and tells how every byte of the answer was framed and ended."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.service.ingress.wire import LIMIT, Gone, Wire

MODEL = "acme/tiny"
CHAT = "/v1/chat/completions"


def request(
    body: bytes | dict[str, Any] | None = None,
    *,
    path: str = CHAT,
    method: str = "POST",
    headers: Sequence[str] = (),
    model: str = MODEL,
    stream: bool = False,
    version: str = "1.1",
    host: str | None = "ingress.test",
    length: bool = True,
) -> bytes:
    """A whole request. `length` False leaves Content-Length out."""
    if body is None:
        body = {"model": model, "stream": stream, "messages": [{"role": "user", "content": "hello"}]}
    data = json.dumps(body).encode() if isinstance(body, dict) else body
    lines = [f"{method} {path} HTTP/{version}"]
    if host is not None:
        lines.append(f"Host: {host}")
    lines += headers
    if method == "POST":
        lines.append("Content-Type: application/json")
        if length:
            lines.append(f"Content-Length: {len(data)}")
    else:
        data = b""
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + data


@dataclass
class Answer:
    """One answer. `whole`: its body ended as its framing says it must."""

    status: int = 0
    reason: str = ""
    version: str = ""
    headers: list[tuple[str, str]] = field(default_factory=list)
    interim: list[int] = field(default_factory=list)
    framing: str = "none"  # none, length, chunked, close
    pieces: list[bytes] = field(default_factory=list)
    whole: bool = False
    head_at: float = 0.0
    end_at: float = 0.0

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name]

    def one(self, name: str) -> str | None:
        found = self.all(name)
        return found[0] if found else None

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The error object of an answer made by the ingress; its shape is checked."""
        assert self.one("content-type") == "application/json", self
        assert self.whole, self
        assert len(self.all("x-request-id")) == 1, self
        found: dict[str, Any] = self.json()["error"]
        assert set(found) == {"message", "type", "param", "code"}, found
        assert isinstance(found["message"], str), found
        assert found["message"], found
        return found

    def __repr__(self) -> str:
        return f"<{self.status} {self.framing} {'whole' if self.whole else 'cut'} {self.body[:300]!r}>"


def _is_header(name: str, colon: str, line: str) -> bool:
    return bool(colon) and bool(name) and name == name.strip() and "\r" not in line and "\n" not in line


class Client(Wire):
    """One connection to the ingress."""

    @classmethod
    async def connect(cls, port: int, *, receive_buffer: int = 0) -> Client:
        sock = socket.socket()
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(LIMIT):
                await loop.sock_connect(sock, ("127.0.0.1", port))
        except BaseException:
            sock.close()
            raise
        _, client = await loop.create_connection(cls, sock=sock)
        return client

    async def answer(self, limit: float = LIMIT, *, method: str = "POST") -> Answer:
        """The next answer, whole or cut. Fails when the connection ends before a whole head."""
        found = Answer()
        try:
            async with asyncio.timeout(limit):
                await self._read(found, method)
        except TimeoutError:
            raise AssertionError(f"no whole answer in {limit:g} s: {found}, {bytes(self.raw[-300:])!r}") from None
        return found

    async def _read(self, found: Answer, method: str) -> None:
        try:
            await self._head(found)
        except Gone:
            raise AssertionError(f"ended ({self.end}) before an answer: {bytes(self.raw[self.at :][:300])!r}") from None
        lengths, codings = found.all("content-length"), found.all("transfer-encoding")
        assert len(lengths) + len(codings) <= 1, f"framed twice: {found.headers}"
        try:
            if method == "HEAD" or found.status in (204, 304):
                pass
            elif codings:
                assert codings == ["chunked"], codings
                found.framing = "chunked"
                await self._chunks(found)
            elif lengths:
                found.framing = "length"
                await self._counted(found, int(lengths[0]))
            else:
                found.framing = "close"
                await self._counted(found, 1 << 62)
            found.whole = True
        except Gone:
            found.whole = found.framing == "close" and self.end == "fin"
        found.end_at = self.loop.time() if found.whole else self.end_at

    async def _head(self, found: Answer) -> None:
        while True:
            first = (await self.line()).decode("latin-1")
            version, status, *reason = first.split(" ", 2)
            assert version.startswith("HTTP/1."), first
            found.version, found.status, found.reason = version, int(status), reason[0] if reason else ""
            found.headers = []
            while line := (await self.line()).decode("latin-1"):
                name, colon, value = line.partition(":")
                assert _is_header(name, colon, line), f"header {line!r}"
                found.headers.append((name, value.strip()))
            if found.status >= 200:
                found.head_at = self.when(self.at)
                return
            found.interim.append(found.status)

    async def _counted(self, found: Answer, left: int) -> None:
        while left:
            here = min(len(self.raw) - self.at, left)
            if here:
                found.pieces.append(await self.take(here))
                left -= here
            else:
                await self.more()

    async def _chunks(self, found: Answer) -> None:
        while size := int((await self.line()).partition(b";")[0], 16):
            await self._counted(found, size)
            assert await self.line() == b"", "a chunk is longer than it says"
        while await self.line():
            raise AssertionError("trailers reached the client")
