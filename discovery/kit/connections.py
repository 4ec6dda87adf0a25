"""How long a request may take to arrive, and how many connections a listener keeps open.

Owns uvicorn's connection with the two bounds it lacks. A request, head and body, must be whole within a time counted
from connecting, or from its first byte after the answer before; else the connection is closed. An answer under way is
never ended by it, however long it is: a watch has no end. A connection beyond the bound is closed at once.
"""

from __future__ import annotations

import asyncio
import resource
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

ARRIVAL_S = 20.0


def room(wanted: int) -> int:
    """At most `wanted` connections, and so many that files and outgoing connections still find a descriptor."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(allowed // 2, allowed - 256))


def bounded(connections: int, arrival_s: float = ARRIVAL_S) -> type[HttpToolsProtocol]:
    """The class of connections of one listener."""

    class Bounded(_Bounded):
        most = connections
        arrival = arrival_s

    return Bounded


class _Bounded(HttpToolsProtocol):
    most: int
    arrival: float

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        is_full = len(self.connections) >= self.most
        super().connection_made(transport)
        if is_full:
            transport.abort()
        else:
            self._start()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        # Also for empty lines before a head, which begin no message for the parser.
        if self._deadline is None and not self._is_answering():
            self._start()
        super().data_received(data)

    def on_message_begin(self) -> None:
        if self._deadline is None:
            self._start()
        super().on_message_begin()

    def on_message_complete(self) -> None:
        self._stop()
        super().on_message_complete()
        if self.cycle.response_complete and self.timeout_keep_alive_task is None:
            # Answered before its body had come: the time of an idle connection was dropped when the rest came.
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _is_answering(self) -> bool:
        """An earlier request, whole, waits for the end of its answer."""
        if self.pipeline:
            return True
        # uvicorn declares it without None, which it is until the first head.
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is not None and not cycle.response_complete and not cycle.more_body

    def _start(self) -> None:
        self._deadline = self.loop.call_later(self.arrival, self._overdue)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _overdue(self) -> None:
        self._deadline = None
        if self._is_answering():
            # The next request of the connection, perhaps not read on purpose: its time begins anew.
            self._start()
        else:
            self.transport.abort()
