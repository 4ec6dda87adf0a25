"""Where connections to frontends come from: the one kept last, or a fresh one (I54)."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING, Any

from global_ingress.proxy.carrying.choosing import Frontend
from global_ingress.proxy.carrying.upstream import Connection
from global_ingress.proxy.shared.attempt import Trouble

GOODBYE = 1.0  # seconds a TLS connection that is closed waits for the other side to say so too
_OURS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
"""What we lack ourselves: to blame frontends for it would eject them all. EADDRNOTAVAIL is none of it: ports run out
towards one address, or the address has no route."""

if TYPE_CHECKING:
    from global_ingress.proxy.carrying.plane import Plane


def take_idle(frontend: Frontend, plane: Plane) -> Connection | None:
    """The connection kept last, if one is still open."""
    idle = frontend.idle
    while idle:
        connection = idle.pop()
        plane.tally.upstream["idle"] -= 1
        if not connection.transport.is_closing():
            return connection
    return None


def close_idle(frontend: Frontend, plane: Plane) -> None:
    """Close all kept connections, when the frontend has left the table."""
    while frontend.idle:
        frontend.idle.pop().transport.close()
        plane.tally.upstream["idle"] -= 1


async def connect(plane: Plane, frontend: Frontend) -> Connection | Trouble:
    """A fresh connection, or why there is none. Being cancelled leaves nothing behind."""
    plane.tally.upstream["connecting"] += 1
    try:
        async with asyncio.timeout(plane.timeouts.connect):
            connection = Connection(plane, frontend)
            factory: Any = lambda: connection  # asyncio calls a protocol by its methods' names, not by its type  # noqa: E731
            if frontend.tls:
                await plane.loop.create_connection(factory, frontend.host, frontend.port, **_tls(plane))
            else:
                await plane.loop.create_connection(factory, frontend.host, frontend.port)
    except TimeoutError:
        return Trouble.CONNECT_TIMEOUT
    except (OSError, UnicodeError) as error:  # a name that cannot be one, too
        return Trouble.EXHAUSTED if isinstance(error, OSError) and error.errno in _OURS else Trouble.UNREACHABLE
    finally:
        plane.tally.upstream["connecting"] -= 1
    return connection


def _tls(plane: Plane) -> dict[str, Any]:
    """How an https frontend is spoken to: the limit of the handshake is ours, and a good-bye waits for nobody."""
    given: dict[str, Any] = {"ssl": plane.ssl_context, "ssl_handshake_timeout": plane.timeouts.connect}
    given["ssl_shutdown_timeout"] = GOODBYE
    if plane.upstream_tls is not None and plane.upstream_tls.server_name is not None:
        given["server_hostname"] = plane.upstream_tls.server_name
    return given
