"""Requests of the soak tests as bytes, and what makes an answer a whole one.

Owns the form of a request's mark (frontend.py reads it). Every answer is checked for its own id and for its proper
end, so that a mixed-up, cut or doubled answer is a failure and not a number.
"""

from __future__ import annotations

import asyncio
import json

MODEL = "soak-model"
END = b"0\r\n\r\n"


class Wrong(Exception):
    """An answer that is not the whole and right answer to its request; the message says why."""


def mark(id: str, *, events: int = 0, every: int = 0, size: int = 0, delay: int = 0) -> str:
    return f"[id={id} events={events} every={every}ms size={size} delay={delay}ms]"


def request(marked: str, *, model: str = MODEL, pad: int = 0, chunked: bool = False) -> bytes:
    body = json.dumps(
        {"model": model, "messages": [{"role": "user", "content": marked}], "stream": "events=0" not in marked}
        | ({"pad": "x" * pad} if pad else {})
    ).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: soak.test\r\ncontent-type: application/json\r\n"
    if not chunked:
        return b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body)
    half = len(body) // 2
    pieces = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (body[:half], body[half:]))
    return b"%btransfer-encoding: chunked\r\n\r\n%b0\r\n\r\n" % (head, pieces)


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """Status and headers, names in lower case."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as cut:
        raise Wrong(f"the connection ended in the head, after {len(cut.partial)} bytes") from None
    lines = raw.decode("latin-1").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
    return int(lines[0].split(" ")[1]), headers


async def read_chunk(reader: asyncio.StreamReader) -> bytes:
    """One chunk's content; empty at the body's end."""
    try:
        size = int(await reader.readuntil(b"\r\n"), 16)
        return (await reader.readexactly(size + 2))[:-2]
    except asyncio.IncompleteReadError as cut:
        raise Wrong(f"the stream was cut: {cut.partial[-200:]!r}") from None


async def read_unary(reader: asyncio.StreamReader, id: str) -> dict[str, str]:
    """The headers of a right unary answer."""
    status, headers = await read_head(reader)
    if "content-length" not in headers:
        raise Wrong(f"{status} without a length: {headers}")
    try:
        body = await reader.readexactly(int(headers["content-length"]))
    except asyncio.IncompleteReadError as cut:
        raise Wrong(f"the body was cut after {len(cut.partial)} bytes") from None
    if status != 200:
        raise Wrong(f"{status}: {body[:300]!r}")
    if json.loads(body)["id"] != id:
        raise Wrong(f"the answer to another request: {body[:200]!r}, asked as {id}")
    return headers


async def open_stream(reader: asyncio.StreamReader) -> dict[str, str]:
    """The headers of a stream that has begun."""
    status, headers = await read_head(reader)
    if status != 200 or headers.get("content-type") != "text/event-stream":
        body = await reader.read(int(headers.get("content-length", "0")))
        raise Wrong(f"{status} {headers.get('content-type')}: {body[:300]!r}")
    return headers


async def read_event(reader: asyncio.StreamReader, id: str, n: int) -> None:
    """One event; it must be the one with this number."""
    chunk = await read_chunk(reader)
    if not chunk.startswith(b"data: {"):
        raise Wrong(f"event {n} of {id} is {chunk[:300]!r}")
    told = json.loads(chunk[6:])
    if told.get("id") != id or told.get("n") != n:
        raise Wrong(f"event {n} of {id} is {chunk[:300]!r}")


async def read_rest(reader: asyncio.StreamReader, id: str, first: int, events: int) -> None:
    """The events from `first`, [DONE], and the body's end."""
    for n in range(first, events):
        await read_event(reader, id, n)
    done = await read_chunk(reader)
    if done != b"data: [DONE]\n\n":
        raise Wrong(f"instead of [DONE] after {events} events: {done[:300]!r}")
    if await read_chunk(reader):
        raise Wrong("bytes after [DONE]")
