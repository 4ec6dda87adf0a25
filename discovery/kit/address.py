"""The form of an address to listen on."""

from __future__ import annotations


def host_and_port(text: str) -> tuple[str, int]:
    """Of `HOST:PORT` or `[V6]:PORT`; the host comes without brackets. Raises ValueError, which says what is allowed."""
    host, _, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    name = host[1:-1] if bracketed else host
    right = port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) <= 65_535
    if not right or not name or "[" in name or "]" in name or (":" in name) != bracketed:
        raise ValueError(f"{text!r} is not HOST:PORT, as 0.0.0.0:8080 or [::]:8080")
    return name, int(port)
