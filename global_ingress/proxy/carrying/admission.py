"""What is decided about a request by its head alone, before its body is read, and how a no is told and counted
(sections 3, 4 and 9).

Browsers' questions come first, then the key, then all else, so that whoever may not come in learns nothing more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from global_ingress.proxy.carrying.accesslog import refused_entry
from global_ingress.proxy.carrying.cors import is_preflight
from global_ingress.proxy.carrying.headers import Head
from global_ingress.proxy.carrying.paths import Kind, MethodNotAllowed, Path, match
from global_ingress.proxy.carrying.tally import bump
from global_ingress.proxy.shared.errors import Refusal, error_body, fault_headers

if TYPE_CHECKING:
    from global_ingress.proxy.carrying.plane import Plane

_GUARDED = b"/v1"  # what begins so needs a key; all else is health, or leads nowhere
_PREFLIGHT = Path(Kind.PREFLIGHT)


def admit(head: Head, plane: Plane) -> Path:
    """The route of the request. Raises Refusal."""
    if head.looped:
        raise Refusal("loop_detected", "the request has come through a global ingress before")
    if plane.cors is not None and is_preflight(head):
        return _bodiless(head, _PREFLIGHT)
    if plane.doors is not None and head.target.startswith(_GUARDED):
        plane.doors.look(head.secret)
    if head.length > plane.limits.body:
        raise Refusal("request_too_large", f"the body is larger than the limit of {plane.limits.body} bytes")
    path = match(head.method, head.target)
    return path if path.kind is Kind.PROXY else _bodiless(head, path)


def _bodiless(head: Head, path: Path) -> Path:
    """What is answered here has no use for a body, so nobody, and least of all somebody without a key, has one held."""
    if head.length > 0 or head.chunked:
        raise Refusal("request_too_large", "this request has no body here")
    return path


def refused(refusal: Refusal, head: Head | None) -> tuple[bytes, bytes]:
    """Header lines and body of the answer that says no."""
    fault = refusal.fault
    headers = fault_headers(fault) + refusal.headers
    if isinstance(refusal, MethodNotAllowed):
        headers += b"Allow: %b\r\n" % refusal.allow.encode()
    anthropic = head is not None and head.target.startswith(b"/v1/messages")
    return headers, error_body(fault, str(refusal), refusal.param, anthropic=anthropic)


def account(
    plane: Plane, address: str, head: Head | None, status: int, outcome: str, code: str | None, request_id: bytes
) -> None:
    """Count and log what no exchange has taken: refusals of ours, and what is answered here."""
    if outcome == "refused":
        plane.nowhere.request(status, outcome, False, 0.0)
        bump(plane.tally.refusals, code or "local")
    tracing = plane.tracing
    if plane.log is None and tracing is None:
        return
    method = head.method.decode("ascii", "replace") if head is not None else "-"
    path = head.path if head is not None else "-"
    entry = refused_entry(plane.wall(), request_id.decode(), method, path, status, outcome, code, address)
    if plane.log is not None:
        plane.log.add(entry)
    if tracing is not None and head is not None:
        tracing.local(entry, head.traceparent, head.tracestate)
