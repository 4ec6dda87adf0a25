"""The data listener's sockets: one per worker on one address, made and kept open by the supervisor.

A worker that dies leaves its queue of connections in a socket that is still open, so its replacement answers them.
Refuses an address that somebody else listens on: a second listener with SO_REUSEPORT would bind silently and steal half
of the traffic, so the address is bound once without that option first (with SO_REUSEADDR, or connections in TIME_WAIT
would keep a restart out for a minute).
"""

from __future__ import annotations

import socket
from typing import Any

BACKLOG = 4096


class CannotListen(Exception):
    """The address cannot be listened on; the message names it and the reason, in one line."""


def open_listeners(host: str, port: int, count: int) -> list[socket.socket]:
    """`count` listening sockets on one address; port 0 is any free one, the same for all. Raises CannotListen."""
    made: list[socket.socket] = []
    try:
        family, address = _resolve(host, port)
        with _bound(family, address, shared=False):
            pass
        for _ in range(count):
            one = _bound(family, address, shared=True)
            made.append(one)
            address = one.getsockname()
            one.listen(BACKLOG)
            one.setblocking(False)
    except OSError as error:
        for one in made:
            one.close()
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        raise CannotListen(f"cannot listen on {where}: {_reason(error)}") from error
    return made


def _resolve(host: str, port: int) -> tuple[int, Any]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = found[0]
    return family, address


def _bound(family: int, address: Any, *, shared: bool) -> socket.socket:
    # Protocol 6 by name: asyncio sets TCP_NODELAY only on accepted sockets that say so.
    one = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        one.bind(address)
    except OSError:
        one.close()
        raise
    return one


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower() if not isinstance(error, socket.gaierror) else str(error.strerror)
