"""A corpus of messages that two readers could take for different ones, and what must become of each (I2).

A request case says which bodies are taken, in order, and how it ends: the code of the refusal, or None when the
connection waits for more. An answer case says what the reader is given: status and body and whether the connection is
kept, or that the answer is bad.
"""

from __future__ import annotations

from typing import NamedTuple


class RequestCase(NamedTuple):
    """`taken`: the bodies of the requests that are accepted. `refused`: the code of the refusal that ends it."""

    name: str
    raw: bytes
    taken: tuple[bytes, ...]
    refused: str | None


class AnswerCase(NamedTuple):
    """`status` None: the answer is bad and nothing past `body` may be passed on. `kept`: the connection may be used
    again after it. `closed`: the frontend closes after these bytes."""

    name: str
    raw: bytes
    status: int | None
    body: bytes = b""
    kept: bool = False
    closed: bool = False


B = b'{"model":"m"}'
LINE = b"POST /v1/chat/completions HTTP/1.1\r\n"
P = LINE + b"Host: a\r\n"
CL = b"Content-Length: 13\r\n"
TE = b"Transfer-Encoding: chunked\r\n"
C = b"d\r\n" + B + b"\r\n0\r\n\r\n"
NEXT = P + CL + b"\r\n" + B
EVIL = b"GET /admin HTTP/1.1\r\nHost: a\r\n\r\n"
BAD = "bad_request"


def _refused(name: str, raw: bytes, code: str = BAD, *before: bytes) -> RequestCase:
    return RequestCase(name, raw, before, code)


def _taken(name: str, raw: bytes, *bodies: bytes) -> RequestCase:
    return RequestCase(name, raw, bodies or (B,), None)


REQUESTS = (
    # Two framings at once.
    _refused("CL.TE", P + CL + TE + b"\r\n" + C),
    _refused("TE.CL", P + TE + CL + b"\r\n" + C),
    _refused("CL.TE with a request inside", P + b"Content-Length: 50\r\n" + TE + b"\r\n0\r\n\r\n" + EVIL),
    _refused("CL 0 and TE", P + b"Content-Length: 0\r\n" + TE + b"\r\n" + C),
    _refused("an invalid CL beside TE", P + b"Content-Length: x\r\n" + TE + b"\r\n" + C),
    _refused("TE named by Connection", P + CL + TE + b"Connection: Transfer-Encoding\r\n\r\n" + C),
    _refused("CL named by Connection beside TE", P + CL + TE + b"Connection: Content-Length\r\n\r\n" + C),
    # Transfer codings.
    _refused("TE.TE", P + TE + TE + b"\r\n" + C),
    _refused("TE.TE, the second strange", P + TE + b"Transfer-Encoding: x\r\n\r\n" + C),
    _refused("TE twice in one", P + b"Transfer-Encoding: chunked, chunked\r\n\r\n" + C),
    _refused("gzip before chunked", P + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + C),
    _refused("chunked is not last", P + b"Transfer-Encoding: chunked, identity\r\n\r\n" + C),
    _refused("identity", P + b"Transfer-Encoding: identity\r\n" + CL + b"\r\n" + B),
    _refused("unknown coding", P + b"Transfer-Encoding: xchunked\r\n\r\n" + C),
    _refused("quoted coding", P + b'Transfer-Encoding: "chunked"\r\n\r\n' + C),
    _refused("coding with a parameter", P + b"Transfer-Encoding: chunked;q=1\r\n\r\n" + C),
    _refused("coding after a vertical tab", P + b"Transfer-Encoding: \x0bchunked\r\n\r\n" + C),
    _refused("coding after CR", P + b"Transfer-Encoding:\rchunked\r\n\r\n" + C),
    _refused("empty coding", P + b"Transfer-Encoding:\r\n" + CL + b"\r\n" + B),
    _refused("folded coding", P + b"Transfer-Encoding:\r\n chunked\r\n\r\n" + C),
    _refused("space before the colon of TE", P + CL + b"Transfer-Encoding : chunked\r\n\r\n" + C),
    _refused("tab before the colon of TE", P + b"Transfer-Encoding\t: chunked\r\n\r\n" + C),
    _refused("line that begins with a space", P + b" Transfer-Encoding: chunked\r\n" + CL + b"\r\n" + B),
    _refused("TE in HTTP/1.0", P.replace(b"1.1", b"1.0") + TE + b"\r\n" + C),
    _refused("NUL in the name of TE", P + b"Transfer\x00-Encoding: chunked\r\n" + CL + b"\r\n" + B),
    _taken("coding in capitals", P + b"TRANSFER-ENCODING: Chunked\r\n\r\n" + C),
    _taken("coding with spaces around", P + b"Transfer-Encoding:   chunked  \r\n\r\n" + C),
    _refused("coding with tabs around", P + b"Transfer-Encoding: \tchunked\t\r\n\r\n" + C),
    # Lengths.
    _refused("two different CL", P + CL + b"Content-Length: 5\r\n\r\n" + B),
    _refused("two equal CL", P + CL + CL + b"\r\n" + B),
    _refused("a list of CL", P + b"Content-Length: 13, 13\r\n\r\n" + B),
    _refused("CL with a sign", P + b"Content-Length: +13\r\n\r\n" + B),
    _refused("negative CL", P + b"Content-Length: -1\r\n\r\n" + B),
    _refused("hexadecimal CL", P + b"Content-Length: 0xd\r\n\r\n" + B),
    _refused("CL with an underscore", P + b"Content-Length: 1_3\r\n\r\n" + B),
    _refused("CL with a space inside", P + b"Content-Length: 1 3\r\n\r\n" + B),
    _refused("CL with a fraction", P + b"Content-Length: 13.0\r\n\r\n" + B),
    _refused("empty CL", P + b"Content-Length:\r\n\r\n" + B),
    _refused("CL in other digits", P + b"Content-Length: \xc2\xb9\xc2\xb3\r\n\r\n" + B),
    _refused("CL beyond 64 bits", P + b"Content-Length: 18446744073709551629\r\n\r\n" + B),
    _refused("space before the colon of CL", P + b"Content-Length : 13\r\n\r\n" + B),
    _refused("folded CL", P + b"Content-Length:\r\n 13\r\n\r\n" + B),
    _refused("CL after CR", P + b"X: y\rContent-Length: 13\r\n\r\n" + B),
    _taken("CL with zeros before", P + b"Content-Length: 00013\r\n\r\n" + B),
    RequestCase("a body longer than allowed", P + b"Content-Length: 99999999\r\n\r\n" + B, (), "request_too_large"),
    RequestCase("a body not yet whole", P + b"Content-Length: 14\r\n\r\n" + B, (), None),
    _taken("CL shorter than what follows", P + CL + b"\r\n" + B + NEXT, B, B),
    _refused("garbage after the body", P + CL + b"\r\n" + B + b"XX\r\n\r\n", BAD, B),
    _refused("GET with a body that is a request", P + CL + b"\r\n" + B + EVIL, "unknown_url", B),
    # Lines.
    _refused("bare LF", (P + CL + b"\r\n").replace(b"\r\n", b"\n") + B),
    _refused("bare LF after the request line", NEXT.replace(b"1.1\r\n", b"1.1\n")),
    _refused("bare LF inside", P + b"X: y\n" + CL + b"\r\n" + B),
    _refused("bare LF before the blank line", P + CL[:-2] + b"\n\r\n" + B),
    _refused("bare LF as blank line", P + CL + b"\n" + B),
    _refused("bare CR in a value", P + b"X: y\rz\r\n" + CL + b"\r\n" + B),
    _refused("bare CR as line end", P + b"X: y\r" + CL + b"\r\n" + B),
    _refused("obs-fold", P + b"X: y\r\n z\r\n" + CL + b"\r\n" + B),
    _refused("obs-fold of the first header", LINE + b" Host: a\r\n" + CL + b"\r\n" + B),
    _refused("NUL in a value", P + b"X: \x00\r\n" + CL + b"\r\n" + B),
    _refused("NUL in a name", P + b"X\x00: y\r\n" + CL + b"\r\n" + B),
    _refused("DEL in a value", P + b"X: \x7f\r\n" + CL + b"\r\n" + B),
    _refused("a name with a space", P + b"X Y: z\r\n" + CL + b"\r\n" + B),
    _refused("a name in brackets", P + b"X(Y): z\r\n" + CL + b"\r\n" + B),
    _refused("no name", P + b": z\r\n" + CL + b"\r\n" + B),
    _refused("no colon", P + b"XYZ\r\n" + CL + b"\r\n" + B),
    _refused("a name that is not ASCII", P + b"X\xc3\xa9: z\r\n" + CL + b"\r\n" + B),
    _taken("blank lines before the request", b"\r\n\r\n" + NEXT),
    _taken("blank lines between requests", NEXT + b"\r\n" + NEXT, B, B),
    _taken("bytes above ASCII in a value", P + b"X: \xc3\xa9\xff\r\n" + CL + b"\r\n" + B),
    # Chunks.
    _refused("hexadecimal mark in a size", P + TE + b"\r\n0xd\r\n" + B + b"\r\n0\r\n\r\n"),
    _refused("sign in a size", P + TE + b"\r\n+d\r\n" + B + b"\r\n0\r\n\r\n"),
    _refused("space before a size", P + TE + b"\r\n d\r\n" + B + b"\r\n0\r\n\r\n"),
    _refused("space after a size", P + TE + b"\r\nd \r\n" + B + b"\r\n0\r\n\r\n"),
    _refused("no size", P + TE + b"\r\n\r\n" + B + b"\r\n0\r\n\r\n"),
    _refused("underscore in a size", P + TE + b"\r\n0_d\r\n" + B + b"\r\n0\r\n\r\n"),
    _refused("negative size", P + TE + b"\r\n-1\r\n" + B + b"\r\n0\r\n\r\n"),
    _refused("a size beyond 64 bits", P + TE + b"\r\n1000000000000000d\r\n" + B + b"\r\n0\r\n\r\n"),
    RequestCase("a size beyond the limit", P + TE + b"\r\nfffffff\r\n" + B, (), "request_too_large"),
    _refused("bare LF after a size", P + TE + b"\r\nd\n" + B + b"\r\n0\r\n\r\n"),
    _refused("bare CR after a size", P + TE + b"\r\nd\r" + B + b"\r\n0\r\n\r\n"),
    _refused("bare LF after a chunk", P + TE + b"\r\nd\r\n" + B + b"\n0\r\n\r\n"),
    _refused("a chunk longer than said", P + TE + b"\r\n5\r\n" + B + b"\r\n0\r\n\r\n"),
    _refused("a chunk shorter than said", P + TE + b"\r\ne\r\n" + B + b"\r\n0\r\n\r\n"),
    _refused("bare LF at the end", P + TE + b"\r\nd\r\n" + B + b"\r\n0\n\n"),
    _refused("bare LF in an extension", P + TE + b"\r\nd;a\n" + B + b"\r\n0\r\n\r\n"),
    _refused("CR in an extension", P + TE + b"\r\nd;a\rb\r\n" + B + b"\r\n0\r\n\r\n"),
    _refused("an endless extension", P + TE + b"\r\nd;" + b"x" * 300 + b"\r\n" + B + b"\r\n0\r\n\r\n"),
    _refused("an obs-fold among the trailers", P + TE + b"\r\nd\r\n" + B + b"\r\n0\r\nX: y\r\n z\r\n\r\n"),
    _refused("NUL among the trailers", P + TE + b"\r\nd\r\n" + B + b"\r\n0\r\nX: \x00\r\n\r\n"),
    _refused("bare LF among the trailers", P + TE + b"\r\nd\r\n" + B + b"\r\n0\r\nX: y\n\r\n"),
    _taken("an extension is dropped", P + TE + b'\r\nd;a=b;c="d"\r\n' + B + b"\r\n0;e\r\n\r\n"),
    _taken("zeros before a size", P + TE + b"\r\n000d\r\n" + B + b"\r\n000\r\n\r\n"),
    _taken("a size in capitals", P + TE + b"\r\nD\r\n" + B + b"\r\n0\r\n\r\n"),
    _taken("trailers are dropped", P + TE + b"\r\nd\r\n" + B + b"\r\n0\r\nA: b\r\nX: y\r\n\r\n"),
    _refused("a length among the trailers", P + TE + b"\r\nd\r\n" + B + b"\r\n0\r\nContent-Length: 5\r\n\r\n"),
    _refused("a coding among the trailers", P + TE + b"\r\nd\r\n" + B + b"\r\n0\r\n" + TE + b"\r\n"),
    _taken("a request after chunks", P + TE + b"\r\n" + C + NEXT, B, B),
    _refused("garbage after the last chunk", P + TE + b"\r\n" + C + b"XX\r\n\r\n", BAD, B),
    # Versions, targets, hosts, methods.
    _refused("HTTP/0.9", b"GET /v1/models\r\n\r\n"),
    _refused("HTTP/2.0", NEXT.replace(b"HTTP/1.1", b"HTTP/2.0")),
    _refused("HTTP/1.2", NEXT.replace(b"HTTP/1.1", b"HTTP/1.2")),
    _refused("HTTP/1.10", NEXT.replace(b"HTTP/1.1", b"HTTP/1.10")),
    _refused("http/1.1", NEXT.replace(b"HTTP/1.1", b"http/1.1")),
    _refused("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    _refused("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
    _refused("two spaces in the request line", NEXT.replace(b"POST ", b"POST  ")),
    _refused("tab in the request line", NEXT.replace(b"POST ", b"POST\t")),
    _refused("space before the method", b" " + NEXT),
    _refused("space after the version", NEXT.replace(b"1.1\r\n", b"1.1 \r\n")),
    _refused("space in the target", NEXT.replace(b"/chat/", b"/ /")),
    _refused("NUL in the target", NEXT.replace(b"/chat/", b"/\x00/")),
    _refused("unknown method", NEXT.replace(b"POST", b"SMUGGLE")),
    _refused("method in small letters", NEXT.replace(b"POST", b"post")),
    _refused("absolute form", NEXT.replace(b"/v1/chat", b"http://b/v1/chat"), "bad_path"),
    _refused("CONNECT", b"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n" + EVIL),
    _refused("CONNECT with an upgrade", b"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\nUpgrade: x\r\n\r\n"),
    _refused("no Host", LINE + CL + b"\r\n" + B),
    _refused("two Hosts", P + b"Host: b\r\n" + CL + b"\r\n" + B),
    _refused("two equal Hosts", P + b"host: a\r\n" + CL + b"\r\n" + B),
    _refused("space before the colon of Host", LINE + b"Host : a\r\n" + CL + b"\r\n" + B),
    _refused("a Host that is a list", LINE + b"Host: a, b/c\r\n" + CL + b"\r\n" + B),
    _refused("a Host with a path", LINE + b"Host: a/b\r\n" + CL + b"\r\n" + B),
    _refused("a Host with a user", LINE + b"Host: a@b\r\n" + CL + b"\r\n" + B),
    _taken("Host named by Connection", P + CL + b"Connection: host\r\n\r\n" + B),
    # Upgrades are ignored, as if they had not been offered; they excuse nothing.
    _taken("an upgrade", P + CL + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + B),
    _taken("an upgrade to h2c", P + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n" + CL + b"\r\n" + B),
    _taken("an upgrade, then a request", P + CL + b"Connection: Upgrade\r\nUpgrade: x\r\n\r\n" + B + NEXT, B, B),
    _refused("an upgrade and two framings", P + CL + TE + b"Connection: Upgrade\r\nUpgrade: x\r\n\r\n" + C),
    _refused("an upgrade and bare LF", P + CL + b"Connection: Upgrade\r\nUpgrade: x\nX: y\r\n\r\n" + B),
    _refused("an upgrade and obs-fold", P + CL + b"Connection: Upgrade\r\nUpgrade: x\r\n y\r\n\r\n" + B),
)  # fmt: skip

# An upgrade is ignored, but its own line must be in order.
BAD_UPGRADES = (
    _refused("space before the colon of Upgrade", P + CL + b"Upgrade : x\r\n\r\n" + B),
    _refused("NUL in the value of Upgrade", P + CL + b"Upgrade: x\x00\r\n\r\n" + B),
)

OK = b"HTTP/1.1 200 OK\r\n"
LEN2 = OK + b"Content-Length: 2\r\n\r\n{}"
CHUNKS = OK + TE + b"\r\n"


def _bad(name: str, raw: bytes, body: bytes = b"") -> AnswerCase:
    return AnswerCase(name, raw, None, body)


def _kept(name: str, raw: bytes, body: bytes = b"{}", status: int = 200) -> AnswerCase:
    return AnswerCase(name, raw, status, body, kept=True)


def _closed(name: str, raw: bytes, body: bytes = b"{}", status: int = 200) -> AnswerCase:
    return AnswerCase(name, raw, status, body, closed=True)


ANSWERS = (
    _kept("a length", LEN2),
    _kept("length zero", OK + b"Content-Length: 0\r\n\r\n", b""),
    _kept("chunks", CHUNKS + b"2\r\n{}\r\n0\r\n\r\n"),
    _kept("no chunk but the last", CHUNKS + b"0\r\n\r\n", b""),
    _kept("zeros before a size", CHUNKS + b"0002\r\n{}\r\n0\r\n\r\n"),
    _kept("a size in capitals", CHUNKS + b"A\r\n0123456789\r\n0\r\n\r\n", b"0123456789"),
    _kept("204", b"HTTP/1.1 204 No Content\r\n\r\n", b"", 204),
    _kept("304 with a length", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", b"", 304),
    _kept("100 before it", b"HTTP/1.1 100 Continue\r\n\r\n" + LEN2),
    _kept("102, 103 before it", b"HTTP/1.1 102 P\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + LEN2),
    _kept("an odd phrase", b"HTTP/1.1 529 Site is overloaded\r\nContent-Length: 2\r\n\r\n{}", b"{}", 529),
    _kept("HTTP/1.0 that keeps alive", b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n{}"),
    _closed("until the end", OK + b"\r\n{}"),
    _closed("until the end, empty", OK + b"\r\n", b""),
    _closed("HTTP/1.0 until the end", b"HTTP/1.0 200 OK\r\n\r\n{}"),
    AnswerCase("Connection: close", OK + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}", 200, b"{}"),
    AnswerCase("HTTP/1.0 with a length", b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", 200, b"{}"),
    AnswerCase("a second answer after a length", LEN2 + LEN2, 200, b"{}"),
    AnswerCase("garbage after a length", LEN2 + b"x", 200, b"{}"),
    AnswerCase("CRLF after a length", LEN2 + b"\r\n", 200, b"{}"),
    AnswerCase("a body after 204", b"HTTP/1.1 204 N\r\n\r\nhello", 204),
    AnswerCase("a body after 304", b"HTTP/1.1 304 N\r\nContent-Length: 5\r\n\r\nhello", 304),
    _bad("CL.TE", OK + b"Content-Length: 2\r\n" + TE + b"\r\n2\r\n{}\r\n0\r\n\r\n"),
    _bad("TE.CL", OK + TE + b"Content-Length: 2\r\n\r\n2\r\n{}\r\n0\r\n\r\n"),
    _bad("two different CL", OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} "),
    _bad("two equal CL", OK + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}"),
    _bad("a list of CL", OK + b"Content-Length: 2, 2\r\n\r\n{}"),
    _bad("CL with a sign", OK + b"Content-Length: +2\r\n\r\n{}"),
    _bad("negative CL", OK + b"Content-Length: -2\r\n\r\n{}"),
    _bad("CL that is no number", OK + b"Content-Length: 2x\r\n\r\n{}"),
    _bad("empty CL", OK + b"Content-Length:\r\n\r\n{}"),
    _bad("space before the colon of CL", OK + b"Content-Length : 2\r\n\r\n{}"),
    _bad("space before the colon of TE", OK + b"Transfer-Encoding : chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"),
    _bad("TE twice", OK + TE + TE + b"\r\n2\r\n{}\r\n0\r\n\r\n"),
    _bad("gzip before chunked", OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"),
    _bad("unknown coding", OK + b"Transfer-Encoding: gzip\r\n\r\n{}"),
    _bad("TE in HTTP/1.0", b"HTTP/1.0 200 OK\r\n" + TE + b"\r\n2\r\n{}\r\n0\r\n\r\n"),
    _bad("obs-fold", OK + b"X: y\r\n z\r\nContent-Length: 2\r\n\r\n{}"),
    _bad("folded CL", OK + b"Content-Length:\r\n 2\r\n\r\n{}"),
    _bad("bare LF", LEN2.replace(b"\r\n", b"\n")),
    _bad("bare LF inside", OK + b"X: y\nContent-Length: 2\r\n\r\n{}"),
    _bad("bare CR in a value", OK + b"X: y\rz\r\nContent-Length: 2\r\n\r\n{}"),
    _bad("NUL in a value", OK + b"X: \x00\r\nContent-Length: 2\r\n\r\n{}"),
    _bad("NUL in a name", OK + b"X\x00: y\r\nContent-Length: 2\r\n\r\n{}"),
    _bad("no colon", OK + b"XYZ\r\nContent-Length: 2\r\n\r\n{}"),
    _bad("no status line", b"hello\r\n\r\n"),
    _bad("HTTP/2.0", LEN2.replace(b"1.1", b"2.0")),
    _bad("HTTP/1.2", LEN2.replace(b"1.1", b"1.2")),
    _bad("status of two digits", LEN2.replace(b"200", b"20")),
    _bad("status of four digits", LEN2.replace(b"200", b"2000")),
    _bad("a letter in the status", LEN2.replace(b"200", b"2o0")),
    _bad("101", b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n" + LEN2),
    _bad("garbage between 100 and the answer", b"HTTP/1.1 100 Continue\r\n\r\nxx" + LEN2),
    _bad("no size", CHUNKS + b"\r\n{}\r\n0\r\n\r\n"),
    _bad("a size that is no number", CHUNKS + b"zz\r\n{}\r\n0\r\n\r\n"),
    _bad("hexadecimal mark in a size", CHUNKS + b"0x2\r\n{}\r\n0\r\n\r\n"),
    _bad("a size beyond 64 bits", CHUNKS + b"10000000000000002\r\n{}\r\n0\r\n\r\n"),
    _bad("bare LF after a size", CHUNKS + b"2\n{}\r\n0\r\n\r\n"),
    _bad("a chunk longer than said", CHUNKS + b"2\r\n{}}\r\n0\r\n\r\n", b"{}"),
    _bad("bare LF after a chunk", CHUNKS + b"2\r\n{}\n0\r\n\r\n", b"{}"),
    _bad("a bad second size", CHUNKS + b"2\r\n{}\r\nzz\r\n{}\r\n0\r\n\r\n", b"{}"),
)

# llhttp lets these pass.
BAD_PHRASES = (
    _bad("NUL in the phrase", LEN2.replace(b"OK", b"O\x00K")),
    _bad("a control character in the phrase", LEN2.replace(b"OK", b"O\x01K")),
)
