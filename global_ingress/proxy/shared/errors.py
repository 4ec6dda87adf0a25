"""Every error the ingress makes: one closed table from code to status, type and what a client may do next.

An error says whose fault it is and whether to try again; it becomes HTTP here and nowhere else. The words of `type`
are OpenAI's where it has one, else Dynamo's own. On `/v1/messages` the shape is Anthropic's.
"""

from __future__ import annotations

from typing import NamedTuple

import orjson


class Fault(NamedTuple):
    """What a code means. `retry_after` in seconds, None is no header; `again` False adds `x-should-retry: false`."""

    status: int
    type: str
    code: str
    retry_after: int | None = None
    again: bool = True


_INVALID = "invalid_request_error"
_AWAY = "service_unavailable"

FAULTS: dict[str, Fault] = {
    fault.code: fault
    for fault in (
        Fault(400, _INVALID, "invalid_json"),
        Fault(400, _INVALID, "missing_model"),
        Fault(400, _INVALID, "bad_path"),
        Fault(400, _INVALID, "bad_request"),
        Fault(401, _INVALID, "invalid_api_key"),
        Fault(403, "permission_error", "model_not_allowed"),
        Fault(404, _INVALID, "model_not_found"),
        Fault(404, _INVALID, "unknown_url"),
        Fault(405, _INVALID, "method_not_allowed"),
        Fault(408, "timeout_error", "request_timeout"),
        Fault(413, _INVALID, "request_too_large", again=False),
        Fault(415, _INVALID, "unsupported_encoding"),
        Fault(429, "rate_limit_error", "rate_limit_exceeded"),
        Fault(431, _INVALID, "headers_too_large", again=False),
        Fault(502, "upstream_error", "upstream_unreachable", retry_after=1),
        Fault(502, "upstream_error", "upstream_reset", again=False),
        Fault(502, "upstream_error", "upstream_bad_response", again=False),
        Fault(502, "upstream_error", "upstream_truncated", again=False),
        Fault(502, "upstream_error", "upstream_redirect", again=False),
        Fault(503, _AWAY, "no_ready_pool", retry_after=1),
        Fault(503, _AWAY, "overloaded", retry_after=2),
        Fault(503, _AWAY, "draining", retry_after=1),
        Fault(504, "timeout_error", "connect_timeout", retry_after=1),
        Fault(504, "timeout_error", "first_byte_timeout", again=False),
        Fault(504, "timeout_error", "idle_timeout", again=False),
        Fault(504, "timeout_error", "total_timeout", again=False),
        Fault(508, _INVALID, "loop_detected", again=False),
    )
}

_REASONS = {
    200: b"OK",
    400: b"Bad Request",
    401: b"Unauthorized",
    403: b"Forbidden",
    404: b"Not Found",
    405: b"Method Not Allowed",
    408: b"Request Timeout",
    413: b"Content Too Large",
    415: b"Unsupported Media Type",
    429: b"Too Many Requests",
    431: b"Request Header Fields Too Large",
    502: b"Bad Gateway",
    503: b"Service Unavailable",
    504: b"Gateway Timeout",
    508: b"Loop Detected",
}

_ANTHROPIC = {
    400: _INVALID,
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


class Refusal(Exception):
    """We say no to a request before trying it. `code` is one of FAULTS; `param` names the field at fault,
    `headers` are further lines of the answer, each with CRLF after it."""

    def __init__(self, code: str, message: str, param: str | None = None, headers: bytes = b"") -> None:
        super().__init__(message)
        self.fault = FAULTS[code]
        self.message = message
        self.param = param
        self.headers = headers


def error_body(fault: Fault, message: str, param: str | None = None, *, anthropic: bool = False) -> bytes:
    """The JSON object of an error, in OpenAI's shape or Anthropic's."""
    if anthropic:
        kind = _ANTHROPIC.get(fault.status, "api_error")
        return orjson.dumps({"type": "error", "error": {"type": kind, "message": message}})
    return orjson.dumps({"error": {"message": message, "type": fault.type, "param": param, "code": fault.code}})


def error_frame(fault: Fault, message: str, *, anthropic: bool = False) -> bytes:
    """The one SSE frame that tells the truth about a stream that we have to cut (R1); `[DONE]` never follows."""
    head = b"event: error\n" if anthropic else b""
    return b"%bdata: %b\n\n" % (head, error_body(fault, message, anthropic=anthropic))


def response(status: int, body: bytes, headers: bytes = b"", *, close: bool = False, head_only: bool = False) -> bytes:
    """A whole JSON answer of ours. `headers` are complete lines; the body is left out for HEAD."""
    if status == 204:
        return b"HTTP/1.1 204 No Content\r\n%b%b\r\n" % (headers, b"Connection: close\r\n" if close else b"")
    return b"HTTP/1.1 %d %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%b%b\r\n%b" % (
        status,
        _REASONS.get(status, b"Error"),
        len(body),
        headers,
        b"Connection: close\r\n" if close else b"",
        b"" if head_only else body,
    )


def fault_headers(fault: Fault, retry_after: int | None = None) -> bytes:
    """Header lines that tell an SDK what to do next: a small `Retry-After`, or that a repeat is pointless."""
    lines = b""
    after = fault.retry_after if retry_after is None else retry_after
    if after is not None:
        lines += b"Retry-After: %d\r\n" % after
    if not fault.again:
        lines += b"x-should-retry: false\r\n"
    return lines
