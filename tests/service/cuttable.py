"""A TCP line to a port of 127.0.0.1 that can be cut and mended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.service.ingress.wire import free_port


class CuttableLine:
    """Whoever connects to `port` reaches `far`; while the line is cut, nobody listens and what was open is closed."""

    def __init__(self, far: int) -> None:
        self.port = free_port()
        self._far = far
        self._server: asyncio.Server | None = None
        self._carrying: set[asyncio.Task[None]] = set()

    async def mend(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)

    async def cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        open_ = list(self._carrying)
        for task in open_:
            task.cancel()
        await asyncio.gather(*open_, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._carry(reader, writer))
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._far)
        except OSError:
            writer.transport.abort()
            return
        ways = [asyncio.create_task(_pass_on(*way)) for way in ((reader, far_writer), (far_reader, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            writer.transport.abort()
            far_writer.transport.abort()
            await asyncio.gather(*ways, return_exceptions=True)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(65536):
        writer.write(piece)
        await writer.drain()


@asynccontextmanager
async def cuttable(far: int) -> AsyncIterator[CuttableLine]:
    line = CuttableLine(far)
    await line.mend()
    try:
        yield line
    finally:
        await line.cut()
