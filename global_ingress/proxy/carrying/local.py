"""What a worker answers by itself: the model list and health (section 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from global_ingress.proxy.carrying.doors import Holder
from global_ingress.proxy.carrying.headers import Head
from global_ingress.proxy.carrying.paths import Kind, Path
from global_ingress.proxy.shared.errors import FAULTS, error_body, fault_headers

if TYPE_CHECKING:
    from global_ingress.proxy.carrying.plane import Plane

_LIVE = b'{"status":"live"}'
_READY = b'{"status":"ready"}'
_NOT_READY = b'{"status":"not_ready"}'
_DRAINING = b'{"status":"draining"}'


def local_answer(path: Path, plane: Plane, head: Head, holder: Holder | None) -> tuple[int, bytes, bytes]:
    """(status, JSON body, header lines) of a request that no frontend is asked for. A holder sees its models only."""
    if path.kind is Kind.PREFLIGHT:
        return 204, b"", b"" if plane.cors is None else plane.cors.preflight(head)
    if path.kind is Kind.LIVE:
        return 200, _LIVE, b""
    if path.kind is Kind.READY:
        if plane.ready():
            return 200, _READY, b""
        return 503, _DRAINING if plane.draining else _NOT_READY, b""
    listing = plane.routes.listing if plane.routes is not None else None
    if plane.routes is None or listing is None:
        fault = FAULTS["no_ready_pool"]
        return fault.status, error_body(fault, "no model is known yet"), fault_headers(fault)
    if path.kind is Kind.MODELS:
        return 200, listing if holder is None else holder.listing(plane.routes), b""
    described = plane.routes.described.get(path.model)
    if described is None or (holder is not None and not holder.allows(path.model)):
        fault = FAULTS["model_not_found"]
        words = f"the model `{path.model[:200]}` does not exist, or no pool can serve it now"
        return fault.status, error_body(fault, words, "model"), fault_headers(fault)
    return 200, described, b""
