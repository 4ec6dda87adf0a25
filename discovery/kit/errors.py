"""One JSON error shape on every route: `{"error":{"message","type","code","param"}}`.

Owns how a refusal becomes HTTP. Code that refuses raises `Refusal` and knows nothing of responses.
"""

from __future__ import annotations

from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

_KNOWN = {
    400: ("bad_request", "The request is not acceptable."),
    404: ("unknown_url", "There is nothing at this path."),
    405: ("method_not_allowed", "This path does not take this method."),
    413: ("request_too_large", "The request body is too large."),
    503: ("not_ready", "The service is not ready."),
}


class Refusal(Exception):
    """We say no: `code` is a word for programs, `message` a sentence for people, `param` what it is about."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.headers = dict(headers or {})


def error_response(
    status: int, code: str, message: str, *, param: str | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    kind = {503: "service_unavailable", 401: "authentication_error", 403: "permission_error"}.get(status)
    if kind is None:
        kind = "server_error" if status >= 500 else "invalid_request_error"
    body = {"error": {"message": message, "type": kind, "code": code, "param": param}}
    return JSONResponse(body, status, dict(headers or {}))


def refusal_response(error: Refusal) -> Response:
    return error_response(error.status, error.code, error.message, param=error.param, headers=error.headers)


async def on_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return refusal_response(error)


async def on_http_exception(request: Request, error: Exception) -> Response:
    """What Starlette itself refuses: unknown paths and methods."""
    assert isinstance(error, HTTPException)
    code, message = _KNOWN.get(error.status_code, ("bad_request", error.detail))
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    if "allow" in headers:
        headers["allow"] = ", ".join(sorted(headers["allow"].split(", ")))
    return error_response(error.status_code, code, message, headers=headers)


async def on_failure(request: Request, error: Exception) -> Response:
    """Nobody foresaw this one: the caller learns that it was us, the log (written by the server) learns the rest."""
    return error_response(500, "internal_error", "The service failed to answer; its log says why.")
