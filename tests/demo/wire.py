"""A raw HTTP/1.1 exchange on a socket: what really stands on the wire."""

from __future__ import annotations

import asyncio
import json


async def raw(port: int, method: str, path: str, body: object = None, *, headers: str = "") -> tuple[str, bytes]:
    """Head and the rest, as they came; the connection is closed by request."""
    payload = b"" if body is None else (body if isinstance(body, bytes) else json.dumps(body).encode())
    length = f"content-type: application/json\r\ncontent-length: {len(payload)}\r\n" if body is not None else ""
    head = f"{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}{length}\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(head.encode() + payload)
        await writer.drain()
        answer = await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()
    before, _, after = answer.partition(b"\r\n\r\n")
    return before.decode(), after


def chunks(body: bytes) -> list[bytes]:
    """The chunks of a chunked body, the last one (empty) included; the body must end with it."""
    found = []
    while True:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        found.append(rest[:length])
        assert rest[length : length + 2] == b"\r\n"
        body = rest[length + 2 :]
        if length == 0:
            assert body == b""
            return found
