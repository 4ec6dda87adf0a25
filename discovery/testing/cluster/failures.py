"""The API server's way of saying no: a `Status` object and an HTTP code.

Owns the wording and the shape of every refusal; code that refuses raises `ApiFailure` and knows nothing of HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from discovery.testing.cluster.kinds import Kind


class ApiFailure(Exception):
    """`code` is the HTTP status, `reason` a word for programs. `token` is the new token of an expired page."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        token: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = dict(details or {})
        self.headers = dict(headers or {})
        self.token = token

    def status(self) -> dict[str, Any]:
        """The `Status` object that says this."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.token} if self.token else {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        if self.details:
            status["details"] = self.details
        return status | {"code": self.code}


@dataclass(frozen=True, slots=True)
class Cause:
    """One fault of one field; `reason` as the API server names it (FieldValueRequired, FieldValueInvalid, …)."""

    field: str
    reason: str
    message: str

    def text(self) -> str:
        return f"{self.field}: {self.message}"


def required(field: str, message: str = "") -> Cause:
    return Cause(field, "FieldValueRequired", f"Required value{': ' + message if message else ''}")


def wrong(field: str, value: object, message: str) -> Cause:
    shown = f'"{value}"' if isinstance(value, str) else f"{value}"
    return Cause(field, "FieldValueInvalid", f"Invalid value: {shown}: {message}")


def forbidden_field(field: str, message: str) -> Cause:
    return Cause(field, "FieldValueForbidden", f"Forbidden: {message}")


def duplicate(field: str, value: object) -> Cause:
    return Cause(field, "FieldValueDuplicate", f'Duplicate value: "{value}"')


def too_many(field: str, count: int, most: int) -> Cause:
    return Cause(field, "FieldValueTooMany", f"Too many: {count}: must have at most {most} items")


def invalid(kind: str, group: str, name: str, causes: Sequence[Cause]) -> ApiFailure:
    texts = [cause.text() for cause in causes]
    said = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    what = f"{kind}.{group}" if group else kind
    details = {
        "name": name,
        "group": group,
        "kind": kind,
        "causes": [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes],
    }
    return ApiFailure(422, "Invalid", f'{what} "{name}" is invalid: {said}', details=details)


def invalid_options(causes: Sequence[Cause]) -> ApiFailure:
    """Query parameters of a list or watch that do not go together."""
    return invalid("ListOptions", "meta.k8s.io", "", causes)


def _named(kind: Kind, name: str) -> dict[str, Any]:
    details = {"name": name, "group": kind.group, "kind": kind.plural}
    return {key: value for key, value in details.items() if value}


def not_found(kind: Kind, name: str) -> ApiFailure:
    return ApiFailure(404, "NotFound", f'{kind.resource} "{name}" not found', details=_named(kind, name))


def no_such_path() -> ApiFailure:
    return ApiFailure(404, "NotFound", "the server could not find the requested resource")


def already_exists(kind: Kind, name: str) -> ApiFailure:
    return ApiFailure(409, "AlreadyExists", f'{kind.resource} "{name}" already exists', details=_named(kind, name))


def conflict(kind: Kind, name: str, why: str) -> ApiFailure:
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return ApiFailure(409, "Conflict", message, details=_named(kind, name))


def modified(kind: Kind, name: str) -> ApiFailure:
    return conflict(
        kind, name, "the object has been modified; please apply your changes to the latest version and try again"
    )


def bad_request(message: str) -> ApiFailure:
    return ApiFailure(400, "BadRequest", message)


def method_not_allowed() -> ApiFailure:
    return ApiFailure(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def unsupported_media(given: str, allowed: Sequence[str]) -> ApiFailure:
    message = f'the body of the request was in an unknown format "{given}" - accepted media types include: '
    return ApiFailure(415, "UnsupportedMediaType", message + ", ".join(allowed))


def unauthorized() -> ApiFailure:
    return ApiFailure(401, "Unauthorized", "Unauthorized")


def too_old(asked: int, oldest: int) -> ApiFailure:
    return ApiFailure(410, "Expired", f"too old resource version: {asked} ({oldest})")


def expired_page(token: str) -> ApiFailure:
    message = (
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
        "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
        "results."
    )
    return ApiFailure(410, "Expired", message, token=token)


def from_the_future(asked: int, current: int) -> ApiFailure:
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    message = f"Too large resource version: {asked}, current: {current}"
    return ApiFailure(504, "Timeout", message, details=details, headers={"retry-after": "1"})


def internal(message: str) -> ApiFailure:
    return ApiFailure(500, "InternalError", f"Internal error occurred: {message}")
