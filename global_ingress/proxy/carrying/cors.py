"""Which web pages may call, told to browsers in their words (B102). Pure.

The decision is the browser's: an answer to a page that may not call is the same, but for the lines that would let the
page read it. Credentials of the browser (cookies) are never allowed: a key is a header that the page sets itself.
"""

from __future__ import annotations

import re

from global_ingress.proxy.carrying.headers import Head
from global_ingress.proxy.shared.routes import Cors

_TOKENS = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:[ \t]*,[ \t]*[!#$%&'*+.^_`|~0-9A-Za-z-]+)*\Z")
_THEIRS = re.compile(rb"\r\naccess-control-[^\r\n]*", re.IGNORECASE)
_EXPOSED = (
    b"Access-Control-Expose-Headers: x-request-id, retry-after, retry-after-ms, x-should-retry, "
    b"x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests, "
    b"x-dynamo-pool-id, x-dynamo-pool, x-dynamo-target-region, x-dynamo-attempts, x-dynamo-decision\r\n"
)


class CorsRules:
    """The operator's list of origins."""

    def __init__(self, cors: Cors) -> None:
        self._any = "*" in cors.origins
        self._origins = frozenset(origin.encode() for origin in cors.origins)
        self._age = cors.max_age

    def allowed(self, origin: bytes) -> bytes:
        """What `Access-Control-Allow-Origin` says to this page, b"" when it may not call."""
        if self._any:
            return b"*"
        return origin if origin.lower() in self._origins else b""

    def lines(self, origin: bytes) -> bytes:
        """Header lines of every answer, each with CRLF after it."""
        allowed = self.allowed(origin) if origin else b""
        lines = b"" if self._any else b"Vary: Origin\r\n"
        if allowed:
            lines += b"Access-Control-Allow-Origin: %b\r\n%b" % (allowed, _EXPOSED)
        return lines

    def preflight(self, head: Head) -> bytes:
        """Header lines of the answer to a browser that asks before it sends the request itself; those of `lines`
        stand beside them."""
        if not self.allowed(head.origin):
            return b""
        lines = b"Access-Control-Allow-Methods: GET, HEAD, POST\r\nAccess-Control-Max-Age: %d\r\n" % self._age
        if _TOKENS.match(head.asks_headers):
            lines += b"Access-Control-Allow-Headers: %b\r\n" % head.asks_headers
        return lines

    def replaced(self, start: bytes, origin: bytes) -> bytes:
        """The beginning of a frontend's answer with our lines in the place of its own."""
        ours = self.lines(origin)
        return _THEIRS.sub(b"", start) + (b"\r\n" + ours[:-2] if ours else b"")


def is_preflight(head: Head) -> bool:
    return head.method == b"OPTIONS" and bool(head.origin) and head.asks_method
