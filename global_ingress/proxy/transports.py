"""What asyncio's transports do not tell or do: what the client has not taken, and an end that is seen as one."""

from __future__ import annotations

import fcntl
import socket
import struct
import sys
import termios
from typing import Any


def unsent(transport: Any) -> int:
    """Bytes that the client has not taken: those that wait here, and those in the kernel."""
    waiting: int = transport.get_write_buffer_size()
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.fileno() >= 0:
        queued = fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4))
        waiting += int.from_bytes(queued, sys.byteorder)
    return waiting


def reset_when_closed(transport: Any) -> None:
    """Let the close of the connection be a reset and no proper end."""
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.fileno() >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
