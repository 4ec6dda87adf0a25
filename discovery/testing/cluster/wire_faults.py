"""What faults do on the wire: answers of their own, silence, cut connections, slow pieces."""

from __future__ import annotations

import asyncio

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from discovery.kit.clock import Clock
from discovery.testing.cluster.faults import Answer, Cut, Drop, Silence, Slow, Stall


class ConnectionCut(Exception):
    """A fault has cut the connection: there is nobody to answer any more."""


async def refuse_service(
    fault: Answer | Silence | Drop, scope: Scope, receive: Receive, send: Send, clock: Clock, ended: asyncio.Event
) -> None:
    """The fault is the whole answer."""
    if isinstance(fault, Answer):
        response = Response(fault.body, fault.status, dict(fault.headers), media_type=fault.content_type)
        await response(scope, receive, send)
        return
    if isinstance(fault, Silence):
        await hang(receive, clock, ended, fault.seconds)
    cut(receive)


async def hang(receive: Receive, clock: Clock, ended: asyncio.Event, seconds: float | None = None) -> None:
    """Do nothing until the client has gone, everything ends or the time is over."""

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    waits = [asyncio.ensure_future(gone()), asyncio.ensure_future(ended.wait())]
    if seconds is not None:
        waits.append(asyncio.ensure_future(clock.sleep(seconds)))
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.wait(waits)


def cut(receive: Receive) -> None:
    """Cut the connection of the request that `receive` belongs to."""
    # ASGI has no word for this. uvicorn's receive is a method of the request's cycle, which knows its transport.
    cycle = getattr(receive, "__self__", None)
    transport = getattr(cycle, "transport", None)
    if transport is None:
        raise TypeError(f"a connection can only be cut under uvicorn, not under {type(cycle).__name__}")
    transport.abort()


class Disturbed:
    """A `send` that disturbs the answer that goes through it."""

    def __init__(
        self, fault: Slow | Cut | Stall, receive: Receive, send: Send, clock: Clock, ended: asyncio.Event
    ) -> None:
        self._fault = fault
        self._receive = receive
        self._send = send
        self._clock = clock
        self._ended = ended
        self._left = 0 if isinstance(fault, Slow) else fault.after

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if isinstance(self._fault, Slow):
                await self._clock.sleep(self._fault.delay)
            headers = message.get("headers", [])
            if not isinstance(self._fault, Slow):
                # The length would tell the client at once; a chunked answer breaks off unforeseen.
                headers = [(name, value) for name, value in headers if name != b"content-length"]
            await self._send({**message, "headers": headers})
            return
        if isinstance(self._fault, Slow):
            await self._slowly(self._fault, message)
            return
        body = message.get("body", b"")[: self._left]
        self._left -= len(body)
        await self._send({**message, "body": body, "more_body": True})
        if self._left > 0 and message.get("more_body", False):
            return
        if isinstance(self._fault, Stall):
            await hang(self._receive, self._clock, self._ended)
        else:
            # What is written is on its way before the transport is cut.
            await self._clock.sleep(0.05)
        cut(self._receive)
        raise ConnectionCut

    async def _slowly(self, fault: Slow, message: Message) -> None:
        body = message.get("body", b"")
        for at in range(0, len(body), fault.piece):
            await self._clock.sleep(fault.every)
            await self._send({**message, "body": body[at : at + fault.piece], "more_body": True})
        if not message.get("more_body", False):
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
