"""The route table is exact; what could be read as another path is refused (section 3)."""

from __future__ import annotations

import posixpath
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_ingress.proxy.carrying.paths import Kind, MethodNotAllowed, match
from global_ingress.proxy.shared.errors import Refusal

PROXIED = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/messages")
READ = {
    "/v1/models": Kind.MODELS,
    "/live": Kind.LIVE,
    "/livez": Kind.LIVE,
    "/health": Kind.READY,
    "/healthz": Kind.READY,
    "/ready": Kind.READY,
    "/readyz": Kind.READY,
}


def code(method: str, target: str) -> str:
    try:
        return match(method.encode(), target.encode()).kind.value
    except Refusal as refusal:
        return refusal.fault.code


@pytest.mark.parametrize("path", PROXIED)
@pytest.mark.parametrize("query", ["", "?", "?a=/../b%2F//", "?x#y"])
def test_what_is_proxied(path: str, query: str) -> None:
    found = match(b"POST", (path + query).encode())
    assert (found.kind, found.anthropic) == (Kind.PROXY, path == "/v1/messages")


@pytest.mark.parametrize("path", READ)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_what_is_answered_here(path: str, method: str) -> None:
    assert match(method.encode(), path.encode() + b"?q").kind is READ[path]


@pytest.mark.parametrize(("path", "allow"), [*((p, "POST") for p in PROXIED), *((p, "GET, HEAD") for p in READ)])
@pytest.mark.parametrize("method", ["DELETE", "PUT", "OPTIONS", "PATCH"])
def test_other_methods_say_what_is_allowed(path: str, allow: str, method: str) -> None:
    with pytest.raises(MethodNotAllowed) as caught:
        match(method.encode(), path.encode())
    assert (caught.value.allow, caught.value.fault.status) == (allow, 405)


def test_get_and_post_are_not_exchanged() -> None:
    assert [code("GET", path) for path in PROXIED] == ["method_not_allowed"] * len(PROXIED)
    assert [code("POST", path) for path in READ] == ["method_not_allowed"] * len(READ)


@pytest.mark.parametrize(
    ("target", "model"),
    [
        ("/v1/models/a", "a"),
        ("/v1/models/meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B"),
        ("/v1/models/meta-llama%2FLlama%2fx?y", "meta-llama/Llama/x"),
        ("/v1/models/a%20b%25", "a b%"),
        ("/v1/models/%d0%ba", "к"),
        ("/v1/models/..a/b..", "..a/b.."),
        ("/v1/models/%252e%252e", "%2e%2e"),
        ("/v1/models/a%", "a%"),
    ],
)
def test_a_model_id_may_hold_slashes(target: str, model: str) -> None:
    found = match(b"GET", target.encode())
    assert (found.kind, found.model) == (Kind.MODEL, model)


@pytest.mark.parametrize(
    "target",
    [
        "*",
        "http://host/v1/models",
        "host:80",
        "v1/models",
        "//v1/models",
        "/v1//models",
        "/v1/./models",
        "/v1/../models",
        "/v1/models/..",
        "/v1/%2e%2e/metrics",
        "/v1/%2E./metrics",
        "/v1/.%2e",
        "/v1/chat%2Fcompletions",
        "/v1/chat%5ccompletions",
        "/v1\\models",
        "/v1/models/a/../../metrics",
        "/v1/models/a%2F..%2Fb",
        "/v1/models/a%2f%2e%2e",
        "/v1/models/%2Fa",
        "/v1/models/a//b",
        "/v1/models/a%5C..%5Cb",
        "/v1/models/%ff",
        "/v1/chat/completions#x",
        "/v1/models#x",
    ],
)
def test_ambiguous_paths_are_refused_for_every_method(target: str) -> None:
    assert {code(method, target) for method in ("GET", "POST", "OPTIONS")} == {"bad_path"}


@pytest.mark.parametrize("target", ["/", "/v1", "/metrics", "/v1/models/", "/v1/chat/completions/", "/V1/models"])
def test_unknown_paths(target: str) -> None:
    assert code("GET", target) == "unknown_url"


def test_a_doubled_prefix_gets_a_hint() -> None:
    with pytest.raises(Refusal, match="ends in /v1"):
        match(b"POST", b"/v1/v1/chat/completions")


TARGETS = st.lists(
    st.sampled_from(
        ["/", "v1", "models", "chat", "completions", ".", "..", "%2e", "%2F", "%5c", "\\", "?", "#", ";", "%", "a"]
    ),
    max_size=9,
).map("".join)


@given(TARGETS, st.sampled_from(["GET", "POST"]))
def test_nothing_passes_that_another_reader_would_take_for_another_path(target: str, method: str) -> None:
    if code(method, target) in ("bad_path", "unknown_url", "method_not_allowed"):
        return
    found = match(method.encode(), target.encode())
    path = target.partition("?")[0]
    decoded = unquote_to_bytes(path).decode("utf-8", "replace")
    assert posixpath.normpath(decoded) == decoded
    if found.kind is Kind.PROXY:
        assert path in PROXIED
    else:
        assert decoded.startswith("/v1/models") or path in READ
