"""The exact route table of the data listener: what is proxied, what is answered here, what is refused (section 3)."""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from global_ingress.proxy.shared.errors import Refusal


class Kind(Enum):
    """Where a request goes."""

    PROXY = "proxy"
    MODELS = "models"
    MODEL = "model"
    LIVE = "live"
    READY = "ready"
    PREFLIGHT = "preflight"  # a browser asks whether a page may call


NO_KEY = frozenset({Kind.LIVE, Kind.READY, Kind.PREFLIGHT})


class Path(NamedTuple):
    """A route that was matched. `model` is the id of GET /v1/models/{id}; `anthropic` picks the shape of errors."""

    kind: Kind
    model: str = ""
    anthropic: bool = False


class MethodNotAllowed(Refusal):
    """405; `allow` is the value of the Allow header."""

    def __init__(self, method: bytes, allow: str) -> None:
        super().__init__("method_not_allowed", f"the method {method.decode('ascii')} is not allowed here, only {allow}")
        self.allow = allow


_PROXIED = {
    b"/v1/chat/completions": Path(Kind.PROXY),
    b"/v1/completions": Path(Kind.PROXY),
    b"/v1/embeddings": Path(Kind.PROXY),
    b"/v1/responses": Path(Kind.PROXY),
    b"/v1/messages": Path(Kind.PROXY, anthropic=True),
}
_READ = {
    b"/v1/models": Path(Kind.MODELS),
    b"/live": Path(Kind.LIVE),
    b"/livez": Path(Kind.LIVE),
    b"/health": Path(Kind.READY),
    b"/healthz": Path(Kind.READY),
    b"/ready": Path(Kind.READY),
    b"/readyz": Path(Kind.READY),
}
_MODEL = b"/v1/models/"
_DOTS = re.compile(rb"/(?:\.|%2e){1,2}(?:/|\Z)", re.IGNORECASE)
_ENCODED = re.compile(rb"%(?:2f|5c)", re.IGNORECASE)
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")


def match(method: bytes, target: bytes) -> Path:
    """The route of a request. Raises Refusal: bad_path, unknown_url or method_not_allowed (with `allow`)."""
    path = target.partition(b"?")[0]
    found = _PROXIED.get(path)
    if found is not None:
        if method != b"POST":
            raise MethodNotAllowed(method, "POST")
        return found
    found = _READ.get(path) or _strange(path)
    if method not in (b"GET", b"HEAD"):
        raise MethodNotAllowed(method, "GET, HEAD")
    return found


def _strange(path: bytes) -> Path:
    if not path.startswith(b"/"):
        raise Refusal("bad_path", "the request target must be a path")
    is_model = path.startswith(_MODEL) and len(path) > len(_MODEL)
    plain = _ENCODED.sub(b"/", path) if is_model else path
    if b"//" in plain or b"\\" in plain or b"#" in plain or _DOTS.search(plain) or (_ENCODED.search(plain)):
        raise Refusal("bad_path", "the path holds dot segments, doubled or encoded slashes, or a backslash")
    if is_model:
        return Path(Kind.MODEL, model=_unescape(path[len(_MODEL) :]))
    hint = ""
    if path.startswith(b"/v1/v1/"):
        hint = " (the base URL ends in /v1 already: leave one out)"
    raise Refusal("unknown_url", f"unknown URL: {path[:200].decode('ascii', 'replace')}{hint}")


def _unescape(name: bytes) -> str:
    try:
        return _ESCAPE.sub(lambda found: bytes((int(found[1], 16),)), name).decode()
    except UnicodeDecodeError:
        raise Refusal("bad_path", "the model id is not UTF-8") from None
