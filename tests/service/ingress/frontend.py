"""A frontend that plays a script on a raw socket and remembers what it was asked.

A script is a row of steps: bytes are sent exactly as they stand, a number is a pause in seconds, an event is waited
for, `fin`, `rst`, `half` and `hang` do what they say. After the last step the next request of the connection is read.
GET /v1/models is answered by the frontend itself.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.service.ingress.wire import Gone, Wire, free_port

Step = bytes | float | asyncio.Event | Callable[["Connection"], Awaitable[object]]
Script = Sequence[Step]

SSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
CHUNKED_JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(data: bytes) -> bytes:
    """One whole event in a chunk of its own."""
    return chunk(b"data: " + data + b"\n\n")


DONE = event(b"[DONE]")


def whole(
    body: bytes = b'{"ok":1}', status: str = "200 OK", *lines: str, kind: str | None = "application/json"
) -> bytes:
    """A whole answer with Content-Length; `lines` are further header lines."""
    head = [f"HTTP/1.1 {status}", *([f"content-type: {kind}"] if kind else []), *lines]
    return "\r\n".join([*head, f"content-length: {len(body)}", "", ""]).encode() + body


@dataclass
class Request:
    """One request as it came over the wire."""

    connection: Connection
    raw: bytes
    method: str
    target: str
    version: str
    headers: list[tuple[str, str]]  # names as written
    body: bytes
    at: float

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name]

    def one(self, name: str) -> str | None:
        found = self.all(name)
        return found[0] if found else None


class Connection(Wire):
    """One connection of the ingress to a frontend."""

    def __init__(self, frontend: Frontend) -> None:
        super().__init__()
        self.frontend = frontend
        self.requests: list[Request] = []
        self.asked_models = False
        self.busy = False  # its script is being played

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.frontend.connections.append(self)
        self.task = self.loop.create_task(self.frontend.serve(self))
        self.frontend.tasks.add(self.task)
        self.task.add_done_callback(self.frontend.tasks.discard)
        if not self.frontend.listening:
            self.transport.abort()  # it was accepted just before the listener closed

    async def request(self) -> Request:
        while (head_end := self.raw.find(b"\r\n\r\n", self.at)) < 0:
            await self.more()
        start = self.at
        lines = bytes(self.raw[start:head_end]).decode("latin-1").split("\r\n")
        self.at = head_end + 4
        method, target, version = lines[0].split(" ")
        headers = []
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            sound = colon and name and name == name.strip() and "\n" not in line
            assert sound, f"header line {line!r}"
            headers.append((name, value.strip()))
        found = Request(self, b"", method, target, version, headers, b"", 0.0)
        lengths, codings = found.all("content-length"), found.all("transfer-encoding")
        assert not codings, f"framing {codings}"
        assert len(lengths) <= 1, f"framing {lengths}"
        found.body = await self.take(int(lengths[0])) if lengths else b""
        found.raw, found.at = bytes(self.raw[start : self.at]), self.loop.time()
        return found


async def fin(connection: Connection) -> None:
    connection.fin()


async def rst(connection: Connection) -> None:
    connection.rst()


async def half(connection: Connection) -> None:
    connection.half()


async def hang(connection: Connection) -> None:
    """Say nothing until the ingress closes."""
    await connection.ended(60)
    connection.fin()


@dataclass
class Frontend:
    """`scripts`: the n-th request plays the n-th, all further ones the last. Several frontends may share one list."""

    name: str
    models: list[dict[str, Any]]
    port: int = 0
    requests: list[Request] = field(default_factory=list)
    connections: list[Connection] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    scripts: list[Script] = field(default_factory=list)
    ready: bool = True
    on_connect: Callable[[Connection], Awaitable[None]] | None = None
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    tls: ssl.SSLContext | None = None
    _server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"http{'' if self.tls is None else 's'}://127.0.0.1:{self.port}"

    @property
    def listening(self) -> bool:
        return self._server is not None

    @property
    def carriers(self) -> list[Connection]:
        """Connections that carried requests of clients."""
        return [one for one in self.connections if one.requests]

    @property
    def kept(self) -> list[Connection]:
        """Of these, the open ones."""
        return [one for one in self.carriers if one.open]

    def busy(self) -> bool:
        return any(one.busy for one in self.connections)

    def play(self, *scripts: Script) -> None:
        self.scripts = list(scripts)

    def forget(self) -> None:
        """As new, but for connections that are open."""
        self.requests.clear()
        self.faults.clear()
        for one in self.connections:
            if not one.open:
                one.task.cancel()
        self.connections = [one for one in self.connections if one.open]
        self.scripts = [(whole(b'{"served_by":"%b"}' % self.name.encode()),)]
        self.ready = True
        self.on_connect = None

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        while self._server is None:
            self.port = self.port or free_port()
            self._server = await loop.create_server(
                lambda: Connection(self), "127.0.0.1", self.port, backlog=512, ssl=self.tls
            )

    def refuse(self) -> None:
        """Nobody listens any more, and what is open is closed."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.drop()

    def drop(self) -> None:
        """Close what is open."""
        for one in self.connections:
            one.fin()

    async def stop(self) -> None:
        self.refuse()
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def serve(self, connection: Connection) -> None:
        try:
            if self.on_connect is not None:
                await self.on_connect(connection)
            while not connection.transport.is_closing():
                request = await connection.request()
                if request.method == "GET" and request.target.startswith("/v1/models"):
                    connection.asked_models = True
                    await connection.send(self._about_models(request.target))
                    continue
                connection.requests.append(request)
                self.requests.append(request)
                await self._play(connection)
        except (Gone, ConnectionError):
            pass  # the ingress has closed: so do we
        except Exception as error:  # noqa: BLE001 - the outermost frame: the fixture fails the test with it
            self.faults.append(f"{self.name}: {type(error).__name__}: {error}")
            connection.rst()
        finally:
            connection.fin()

    async def _play(self, connection: Connection) -> None:
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        connection.busy = True
        try:
            for step in script:
                if isinstance(step, bytes):
                    await connection.send(step)
                elif isinstance(step, asyncio.Event):
                    await step.wait()
                elif callable(step):
                    await step(connection)
                else:
                    await asyncio.sleep(step)
        finally:
            connection.busy = False

    def _about_models(self, target: str) -> bytes:
        if target.endswith("/ready"):
            return whole(b"{}", "200 OK" if self.ready else "503 Service Unavailable", "connection: close")
        listed = json.dumps({"object": "list", "data": self.models}).encode()
        return whole(listed, "200 OK" if self.ready else "503 Service Unavailable", "connection: close")
