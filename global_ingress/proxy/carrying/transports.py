"""What asyncio's transports do not tell or do: what the client has not taken, and an end that is seen as one.

With TLS between them, a close says good-bye properly before anything else, nothing can be half closed, and what waits
below the encryption is not told; so all three are done otherwise there.
"""

from __future__ import annotations

import fcntl
import socket
import struct
import sys
import termios
from typing import Any

_ACKED = slice(120, 128)  # tcpi_bytes_acked in struct tcp_info


def is_tls(transport: Any) -> bool:
    return transport.get_extra_info("ssl_object") is not None


def untaken(transport: Any) -> int:
    """A number that falls when the client takes something: the bytes that wait here and in the kernel. With TLS it is
    what the other side has acknowledged, negative."""
    sock = transport.get_extra_info("socket")
    known = sock is not None and sock.fileno() >= 0
    if known and is_tls(transport):
        told = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)[_ACKED]
        if len(told) == 8:
            return -int.from_bytes(told, sys.byteorder)
    waiting: int = transport.get_write_buffer_size()
    if known:
        queued = fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4))
        waiting += int.from_bytes(queued, sys.byteorder)
    return waiting


def end_sending(transport: Any) -> None:
    """Nothing more comes from us, where that can be told without closing."""
    if transport.can_write_eof():
        transport.write_eof()


def cut_off(transport: Any) -> None:
    """Let the end of the connection be a reset and no proper end. With TLS it ends at once, since a close would begin
    with a proper good-bye; what the client had not taken by then is lost with it."""
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.fileno() >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if is_tls(transport):
        transport.abort()
