"""Header rules, both ways: what passes, what is dropped, what is added (I2, I3, I12, I13).

Works on raw heads. llhttp checks the same bytes elsewhere; here stands what it lets pass and we refuse, and what we
read ourselves, so that two readers agree on every message before a byte of it goes on.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from global_ingress.proxy.shared.errors import Refusal

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
# Read or replaced by us; never copied from the client's head.
_OURS = frozenset({b"host", b"content-length", b"expect", b"x-request-id", b"x-forwarded-for"})
_FORWARDED = frozenset({b"x-forwarded-proto", b"x-forwarded-host"})
# Where clients show who they are; dropped when we have looked ourselves (B111).
CREDENTIALS = frozenset({b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key", b"cookie"})
CONTEXT = frozenset({b"traceparent", b"tracestate"})  # continued by us when we trace, else none of our business
HOP = b"x-dynamo-global-router-hop"

_REQUEST_LINE = re.compile(rb"([A-Z]+) ([!-~]+) HTTP/1\.([01])\Z")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,128}\Z")
_HOST = re.compile(rb"(?:[A-Za-z0-9._~%!$&'()*+,;=-]+|\[[0-9A-Fa-f:.]+(?:%25[A-Za-z0-9._~-]+)?\])?(?::\d{0,5})?\Z")
_SECONDS = re.compile(rb"\d{1,9}(?:\.\d{1,9})?\Z")


class Head(NamedTuple):
    """One request's head, read. `length` is -1 without Content-Length; `forward` are the lines that go on (each with
    CRLF before it), without Host, Content-Length and x-request-id, which are added for each try."""

    method: bytes
    target: bytes
    minor: int  # of HTTP/1.x
    length: int
    chunked: bool
    expects: bool
    closes: bool  # the client wants the connection closed after the answer
    request_id: bytes  # the client's, if it is acceptable, else b""
    looped: bool
    patience: float | None  # seconds the client says it waits for the first byte
    affinity: dict[bytes, bytes]
    path: str  # without the query, for the log
    begin: bytes  # what goes on before the frontend's host
    forward: bytes
    length_at: tuple[int, int]  # where the digits of Content-Length stand in the head, (0, 0) without
    secret: bytes = b""  # the client's API key, as it says
    origin: bytes = b""  # the web page that asks, as a browser says
    asks_method: bool = False  # Access-Control-Request-Method: a browser asks before it sends the request itself
    asks_headers: bytes = b""  # Access-Control-Request-Headers
    traceparent: bytes = b""  # these two only when we trace
    tracestate: bytes = b""


_Fields = list[tuple[bytes, bytes, bytes]]  # name in lower case, value, the line


class Peer(NamedTuple):
    """Who is at the other end of the client's connection. `trusted`: its X-Forwarded-* are believed.
    `known`: we look at its credentials ourselves, and they go no further. `traced`: its trace is continued by us."""

    address: bytes
    scheme: bytes
    trusted: bool
    known: bool = False
    traced: bool = False


def read_head(head: bytes, peer: Peer, affinity_names: frozenset[bytes]) -> Head:
    """Read a head (without its blank line). Raises Refusal: bad_request, bad_path or unsupported_encoding."""
    lines = head.split(b"\r\n")
    line = _REQUEST_LINE.match(lines[0])
    if line is None:
        raise Refusal("bad_request", "the request line is not that of HTTP/1.1 or HTTP/1.0")
    method, target, minor = line[1], line[2], line[3] == b"1"
    fields = [
        (name.lower(), value.strip(b" \t"), raw) for raw in lines[1:] for name, _, value in (raw.partition(b":"),)
    ]
    named = _connection_names(fields)
    host = _host(fields, required=minor)
    length, chunked = _framing(fields, minor=minor)
    found, passing = _sorted_out(fields, named, peer)
    passing += _added(found, peer, host)
    request_id = found.get(b"x-request-id", b"")
    return Head(
        method=method,
        target=target,
        minor=int(minor),
        length=length,
        chunked=chunked,
        expects=found.get(b"expect", b"").lower() == b"100-continue" and minor,
        closes=b"close" in named,
        request_id=request_id if _REQUEST_ID.match(request_id) else b"",
        looped=HOP in found,
        patience=_patience(found),
        affinity={name: found[name] for name in affinity_names if name in found},
        path=target.partition(b"?")[0].decode("ascii"),
        begin=b"%b %b HTTP/1.1\r\nHost: " % (method, target),
        forward=b"".join(b"\r\n" + raw for raw in passing),
        length_at=_length_place(head) if length >= 0 else (0, 0),
        secret=_secret(found),
        origin=found.get(b"origin", b""),
        asks_method=b"access-control-request-method" in found,
        asks_headers=found.get(b"access-control-request-headers", b""),
        traceparent=found.get(b"traceparent", b"") if peer.traced else b"",
        tracestate=found.get(b"tracestate", b"") if peer.traced else b"",
    )


def _sorted_out(fields: _Fields, named: set[bytes], peer: Peer) -> tuple[dict[bytes, bytes], list[bytes]]:
    """What we read ourselves, by name, and the lines that pass as they came."""
    found: dict[bytes, bytes] = {}
    passing: list[bytes] = []
    for name, value, raw in fields:
        if name in HOP_BY_HOP or name in named:
            continue
        if name == b"x-forwarded-for" or (peer.traced and name in CONTEXT):
            found[name] = found[name] + b", " + value if name in found else value
            continue
        if name == b"content-encoding" and value.lower() != b"identity":
            raise Refusal("unsupported_encoding", "a request body must not be encoded", "content-encoding")
        if name in CREDENTIALS:
            if found.get(name, value) != value:
                value = b""  # two that differ are none
            if peer.known:
                found[name] = value
                continue
        found[name] = value
        if name not in _OURS and (peer.trusted or name not in _FORWARDED):
            passing.append(raw)
    return found, passing


_BEARER = re.compile(rb"bearer +([!-~]+)\Z", re.IGNORECASE)


def _secret(found: dict[bytes, bytes]) -> bytes:
    """The API key that is shown; two that differ are none."""
    bearer = _BEARER.match(found.get(b"authorization", b""))
    key = found.get(b"x-api-key", b"")
    if bearer is None:
        return key
    return bearer[1] if not key or key == bearer[1] else b""


def _added(found: dict[bytes, bytes], peer: Peer, host: bytes) -> list[bytes]:
    """Our own lines: where the request came from, and that it came through here."""
    chain = found.get(b"x-forwarded-for")
    lines = [b"X-Forwarded-For: " + (peer.address if chain is None else chain + b", " + peer.address)]
    if not (peer.trusted and b"x-forwarded-proto" in found):
        lines.append(b"X-Forwarded-Proto: " + peer.scheme)
    if host and not (peer.trusted and b"x-forwarded-host" in found):
        lines.append(b"X-Forwarded-Host: " + host)
    lines.append(HOP + b": 1")
    return lines


def _connection_names(fields: _Fields) -> set[bytes]:
    """What Connection names is dropped too, but never what frames or addresses the message."""
    named: set[bytes] = set()
    for name, value, _ in fields:
        if name == b"connection":
            named.update(token.strip(b" \t").lower() for token in value.split(b","))
    return named - {b"host", b"content-length", b"transfer-encoding", b"x-forwarded-for", HOP}


def _host(fields: _Fields, *, required: bool) -> bytes:
    hosts = [value for name, value, _ in fields if name == b"host"]
    if len(hosts) > 1 or (required and not hosts):
        raise Refusal("bad_request", "HTTP/1.1 wants exactly one Host header", "host")
    host = hosts[0] if hosts else b""
    if not _HOST.match(host):
        raise Refusal("bad_request", "the Host header is not a host and port", "host")
    return host


def _framing(fields: _Fields, *, minor: bool) -> tuple[int, bool]:
    """(Content-Length or -1, chunked), or a refusal when the two could be read in more than one way."""
    lengths = [value for name, value, _ in fields if name == b"content-length"]
    codings = [value for name, value, _ in fields if name == b"transfer-encoding"]
    if codings:
        if lengths:
            raise Refusal("bad_request", "Content-Length and Transfer-Encoding exclude each other")
        if len(codings) > 1 or codings[0].lower() != b"chunked" or not minor:
            raise Refusal("bad_request", "the only transfer coding is chunked, once, in HTTP/1.1")
        return -1, True
    if not lengths:
        return -1, False
    if len(lengths) > 1 or not lengths[0].isdigit() or len(lengths[0]) > 15:
        raise Refusal("bad_request", "Content-Length must be one decimal number")
    return int(lengths[0]), False


_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)


def _length_place(head: bytes) -> tuple[int, int]:
    found = _LENGTH.search(head)
    return found.span(1) if found else (0, 0)


def _patience(found: dict[bytes, bytes]) -> float | None:
    """The shorter of the SDKs' read and total time limits; what is no positive number is ignored."""
    limits = [
        float(value)
        for name in (b"x-stainless-read-timeout", b"x-stainless-timeout")
        if _SECONDS.match(value := found.get(name, b"")) and float(value) > 0
    ]
    return min(limits, default=None)


class Answer:
    """One response's head, read. Equal heads may share one, so it is never changed.

    `lines` are those that pass (each with CRLF before it), framing headers among them as they came; `length` is -1
    without Content-Length; `event_stream` by its content type; `plain`: of
    status 2xx and no event stream; `again` false: the frontend said x-should-retry: false.
    """

    __slots__ = ("again", "chunked", "event_stream", "first", "has_request_id", "length", "lines", "plain", "status")

    def __init__(
        self, status: int, first: bytes, lines: bytes, length: int, *, chunked: bool, event_stream: bool, again: bool
    ) -> None:
        self.status = status
        self.first = first
        self.lines = lines
        self.length = length
        self.chunked = chunked
        self.event_stream = event_stream
        self.again = again
        self.has_request_id = b"\r\nx-request-id:" in lines.lower()
        self.plain = 200 <= status < 300 and not event_stream


_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?: [\t -~\x80-\xff]*)?\Z")
_SIFT = re.compile(rb"\r\n(?:connection|keep-alive|proxy-|te:|trailer|upgrade|x-dynamo-)")
_REPLACED = frozenset(
    {b"x-dynamo-pool-id", b"x-dynamo-pool", b"x-dynamo-target-region", b"x-dynamo-attempts", b"x-dynamo-decision"}
)
_SSE_TYPE = re.compile(rb"\r\ncontent-type:[ \t]*text/event-stream[ \t]*(?:;|\r\n|\Z)")
_RETRY_FALSE = re.compile(rb"\r\nx-should-retry:[ \t]*false[ \t]*(?:\r\n|\Z)")
_FRAMING = re.compile(rb"\r\n(?:content-length|transfer-encoding)[ \t]*:[^\r\n]*", re.IGNORECASE)


def read_answer(head: bytes, *, expose_pool: bool) -> Answer | None:
    """Read a response head (without its blank line); None when it is not acceptable (I2), whatever llhttp says."""
    low = head.lower()
    version = head[:9]
    if version != b"HTTP/1.1 " and version != b"HTTP/1.0 ":
        return None
    length, chunked = -1, False
    at = low.find(b"\r\ncontent-length:")
    if at >= 0:
        end = low.find(b"\r\n", at + 17)
        digits = low[at + 17 : end if end >= 0 else None].strip(b" \t")
        if not digits.isdigit() or len(digits) > 15 or low.find(b"\r\ncontent-length:", at + 17) >= 0:
            return None
        length = int(digits)
    at = low.find(b"\r\ntransfer-encoding:")
    if at >= 0:
        end = low.find(b"\r\n", at + 20)
        chunked = low[at + 20 : end if end >= 0 else None].strip(b" \t") == b"chunked"
        if not chunked or length >= 0 or version[7] == 48 or low.find(b"\r\ntransfer-encoding:", at + 20) >= 0:
            return None
    cut = head.find(b"\r\n")
    lines = b"" if cut < 0 else head[cut:]
    if _SIFT.search(low) is not None or b"\r\nx-request-id:" in low:
        lines = _sift(lines, expose_pool=expose_pool)
    line = _STATUS_LINE.match(head if cut < 0 else head[:cut])
    if line is None or line[1] == b"101":
        return None  # a control character in the phrase, or a switch of protocols that nobody asked for
    return Answer(
        int(line[1]),
        b"HTTP/1.1" + (head if cut < 0 else head[:cut])[8:],
        lines,
        length,
        chunked=chunked,
        event_stream=_SSE_TYPE.search(low) is not None,
        again=b"x-should-retry" not in low or _RETRY_FALSE.search(low) is None,
    )


def _sift(lines: bytes, *, expose_pool: bool) -> bytes:
    """The lines without those that are hop by hop, named by Connection or replaced by ours, and with one request id."""
    fields = [(raw.partition(b":")[0].lower(), raw) for raw in lines.split(b"\r\n")[1:]]
    dropped = HOP_BY_HOP - {b"transfer-encoding"}
    if expose_pool:
        dropped |= _REPLACED
    dropped |= _connection_names([(name, raw.partition(b":")[2], raw) for name, raw in fields])
    out: list[bytes] = []
    has_id = False
    for name, raw in fields:
        if name in dropped:
            continue
        if name == b"x-request-id":
            if has_id or not raw[13:].strip(b" \t"):
                continue
            has_id = True
        out.append(b"\r\n" + raw)
    return b"".join(out)


def without_framing(lines: bytes) -> bytes:
    """The lines without Content-Length and Transfer-Encoding, for a body that we frame anew."""
    return _FRAMING.sub(b"", lines)


def stream_lines(lines: bytes) -> bytes:
    """What an SSE answer gets added so that no proxy in front holds its events back (I13)."""
    low = lines.lower()
    added = b""
    if b"\r\ncache-control:" not in low:
        added += b"\r\nCache-Control: no-cache"
    if b"\r\nx-accel-buffering:" not in low:
        added += b"\r\nX-Accel-Buffering: no"
    return added
