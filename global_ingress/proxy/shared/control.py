"""The control socket between the supervisor and a worker: whole messages both ways, with descriptors beside them.

One SOCK_SEQPACKET pair per worker, so that a message is never cut. A payload too large for one packet travels in a
memfd. Sending never blocks: what the peer does not take yet waits in order. The end of the peer is told once.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence

INLINE = 32 * 1024
FDS_PER_PACKET = 200
RETRY = 0.02  # seconds until descriptors that the kernel did not take are sent again

# Kinds of messages. To the worker:
ROUTES = b"R"  # routes.Routes; descriptors of new counters are sent before it by TURNS
TURNS = b"T"  # payload: counter numbers, 4 bytes each, one descriptor each
REPORT = b"Q"  # please send COUNTS
COMPLETE = b"A"  # every worker has accepted connections: this one may call itself ready
DRAIN = b"D"  # routes.Drain
END = b"E"  # end now
# To the supervisor:
LISTENING = b"L"  # the worker accepts connections
COUNTS = b"C"  # counts.Counts
SPANS = b"S"  # spans.pack, as they come
DECISIONS = b"X"  # decided.Decisions, before the counts
NOTICE = b"N"  # counts.Notice: something an operator should see

OnMessage = Callable[[bytes, bytes, list[int]], None]


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends, both non-blocking."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    theirs.setblocking(False)
    return ours, theirs


class Control:
    """One end. `on_message(kind, payload, descriptors)` owns the descriptors it gets; `on_end()` is called once."""

    def __init__(
        self, sock: socket.socket, loop: asyncio.AbstractEventLoop, on_message: OnMessage, on_end: Callable[[], None]
    ) -> None:
        self._sock = sock
        self._loop = loop
        self._on_message = on_message
        self._on_end = on_end
        self._waiting: deque[tuple[bytes, list[int]]] = deque()
        self._open = True
        loop.add_reader(sock.fileno(), self._readable)

    def send(self, kind: bytes, payload: bytes = b"", fds: Sequence[int] = ()) -> None:
        """Queue one message. The descriptors are duplicated, so the caller keeps its own. After the end: nothing."""
        if not self._open:
            return
        held = [os.dup(fd) for fd in fds]
        if len(payload) > INLINE:
            memory = os.memfd_create("payload", os.MFD_CLOEXEC)
            with os.fdopen(os.dup(memory), "wb") as file:
                file.write(payload)
            self._waiting.append((kind + b"m", [memory, *held]))
        else:
            self._waiting.append((kind + b"i" + payload, held))
        self._flush()

    @property
    def waiting(self) -> int:
        """Messages that the peer has not taken."""
        return len(self._waiting)

    def receive(self) -> None:
        """Take what has come already, without waiting for the loop: for the owner who knows that the peer has ended."""
        if self._open:
            self._readable()

    def close(self) -> None:
        """Give up this end; nothing is called afterwards."""
        if not self._open:
            return
        self._open = False
        self._loop.remove_reader(self._sock.fileno())
        self._loop.remove_writer(self._sock.fileno())
        self._sock.close()
        for _, fds in self._waiting:
            _close_all(fds)
        self._waiting.clear()

    def _flush(self) -> None:
        while self._waiting:
            packet, fds = self._waiting[0]
            try:
                socket.send_fds(self._sock, [packet], fds)
            except BlockingIOError:
                self._loop.add_writer(self._sock.fileno(), self._flush)
                return
            except OSError as error:
                if error.errno != errno.ETOOMANYREFS:
                    self._ended()
                    return
                # The kernel holds as many descriptors on their way as one user may: the peer has to take some first.
                self._loop.remove_writer(self._sock.fileno())
                self._loop.call_later(RETRY, self._retry)
                return
            self._waiting.popleft()
            _close_all(fds)
        self._loop.remove_writer(self._sock.fileno())

    def _retry(self) -> None:
        if self._open:
            self._flush()

    def _readable(self) -> None:
        while self._open:
            try:
                packet, fds, _, _ = socket.recv_fds(self._sock, INLINE + 16, FDS_PER_PACKET + 8)
            except BlockingIOError:
                return
            except OSError:
                packet, fds = b"", []
            if not packet:
                self._ended()
                return
            kind, form, payload = packet[:1], packet[1:2], packet[2:]
            if form == b"m":
                with os.fdopen(fds.pop(0), "rb") as file:
                    file.seek(0)
                    payload = file.read()
            self._on_message(kind, payload, fds)

    def _ended(self) -> None:
        if self._open:
            self.close()
            self._on_end()


def _close_all(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)
