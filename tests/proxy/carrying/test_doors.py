"""Who is let in, by head alone (I60), and what pages are told (B102)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator

import pytest

from global_ingress.proxy.carrying.cors import CorsRules, is_preflight
from global_ingress.proxy.carrying.doors import Doors, may_use
from global_ingress.proxy.carrying.headers import Head, Peer, read_head
from global_ingress.proxy.shared.allowance import Allowance
from global_ingress.proxy.shared.errors import Refusal
from global_ingress.proxy.shared.ledger import create_ledger
from global_ingress.proxy.shared.routes import Auth, Cors, KeyRoute

OPEN, KNOWN = Peer(b"192.0.2.7", b"http", False), Peer(b"192.0.2.7", b"http", False, True)
LINE = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x"


def head(*lines: bytes, peer: Peer = KNOWN, first: bytes = LINE) -> Head:
    return read_head(b"\r\n".join([first, *lines]), peer, frozenset())


def key(secret: bytes, slot: int = 0, **given: object) -> KeyRoute:
    return KeyRoute(f"k{slot}", hashlib.sha256(secret).digest(), slot, **given)  # type: ignore[arg-type]


@pytest.fixture
def allowance() -> Iterator[Allowance]:
    fd = create_ledger(1)
    yield Allowance(fd, 1, 0)
    os.close(fd)


def doors(allowance: Allowance, *keys: KeyRoute, now: float = 1000.0) -> Doors:
    return Doors(Auth(keys, False), allowance, lambda: now, lambda: 10**15)


@pytest.mark.parametrize(
    ("lines", "secret"),
    [
        ([b"Authorization: Bearer abc"], b"abc"),
        ([b"authorization: bearer  abc "], b"abc"),
        ([b"X-API-Key: abc"], b"abc"),
        ([b"Authorization: Bearer abc", b"x-api-key: abc"], b"abc"),
        ([b"Authorization: Basic abc", b"x-api-key: k"], b"k"),
        ([], b""),
        ([b"Authorization: Bearer abc", b"x-api-key: abd"], b""),
        ([b"Authorization: Bearer abc", b"Authorization: Bearer abd"], b""),
        ([b"Authorization: Bearer a", b"Authorization: Bearer b", b"Authorization: Bearer a"], b""),
        ([b"Authorization: Bearer a b"], b""),
        ([b"Authorization: abc"], b""),
        ([b"Connection: authorization", b"Authorization: Bearer abc"], b""),
    ],
)
@pytest.mark.parametrize("peer", [OPEN, KNOWN])
def test_where_a_key_is_shown(lines: list[bytes], secret: bytes, peer: Peer) -> None:
    assert head(*lines, peer=peer).secret == secret


def test_every_credential_ends_here_and_only_when_we_look_ourselves() -> None:
    lines = [
        b"Authorization: Bearer s",
        b"X-Api-Key: s",
        b"api-key: s",
        b"x-goog-api-key: s",
        b"Cookie: s",
        b"x-other: 1",
    ]
    assert head(*lines).forward.startswith(b"\r\nx-other: 1\r\nX-Forwarded-For")
    assert all(b"\r\n" + line in head(*lines, peer=OPEN).forward for line in lines)


def test_nobody_and_strangers_and_the_expired_hear_the_same(allowance: Allowance) -> None:
    guarded = doors(allowance, key(b"right", 1), key(b"old", 2, expires=999.0), key(b"", 3), now=999.0)
    assert guarded.enter(b"right").key.slot == 1
    told = set()
    for secret in (b"", b"wrong", b"old", b"righ", b"right "):
        with pytest.raises(Refusal) as caught:
            guarded.look(secret)
        told.add((caught.value.fault.code, str(caught.value), caught.value.headers))
    assert len(told) == 1
    assert told.pop()[0] == "invalid_api_key"


def test_a_key_ends_at_its_second(allowance: Allowance) -> None:
    assert doors(allowance, key(b"s", 1, expires=1000.0), now=999.9).find(b"s").key.slot == 1
    with pytest.raises(Refusal):
        doors(allowance, key(b"s", 1, expires=1000.0), now=1000.0).find(b"s")


def test_rate_and_concurrency_at_their_edges(allowance: Allowance) -> None:
    guarded = doors(allowance, key(b"r", 1, rate=(2, 60.0)), key(b"c", 2, concurrent=1))
    for _ in range(2):
        guarded.look(b"r")
        guarded.enter(b"r")
    for act in (guarded.look, guarded.enter):
        with pytest.raises(Refusal) as caught:
            act(b"r")
        assert b"Retry-After: 30\r\nx-ratelimit-limit-requests: 2\r\n" in caught.value.headers
    holder = guarded.enter(b"c")
    with pytest.raises(Refusal, match="1 requests in flight"):
        guarded.enter(b"c")
    allowance.end(holder.key.slot)
    guarded.enter(b"c")


@pytest.mark.parametrize(
    ("globs", "model", "may"),
    [
        (("*",), "any/thing", True), (("acme/*",), "acme/tiny", True), (("acme/*",), "acmee/tiny", False),
        (("a", "b?"), "b1", True), (("a", "b?"), "b12", False), (("a.c",), "abc", False), (("A",), "a", False),
        (("a",), "a\n", False), (("a[1]",), "a1", False), (("a[1]*",), "a[1]b", True), (("[!a]",), "b", False),
    ],
)  # fmt: skip
def test_models_by_globs(allowance: Allowance, globs: tuple[str, ...], model: str, may: bool) -> None:
    holder = doors(allowance, key(b"s", 1, models=globs)).find(b"s")
    assert holder.allows(model) is may
    if not may:
        with pytest.raises(Refusal, match="does not allow"):
            may_use(holder, model)


def preflight(origin: bytes, asked: bytes = b"authorization,x-stainless-os") -> Head:
    lines = (b"Origin: " + origin, b"Access-Control-Request-Method: POST", b"Access-Control-Request-Headers: " + asked)
    return head(*lines, first=LINE.replace(b"POST", b"OPTIONS"))


def test_a_page_that_may_call() -> None:
    rules = CorsRules(Cors(("https://a.example",), 60))
    asked = preflight(b"https://a.example")
    assert is_preflight(asked)
    assert not is_preflight(head(b"Origin: https://a.example"))
    assert b"Allow-Headers: authorization,x-stainless-os\r\n" in rules.preflight(asked)
    assert b"Access-Control-Max-Age: 60\r\n" in rules.preflight(asked)
    assert b"Access-Control-Allow-Origin: https://a.example\r\n" in rules.lines(b"https://a.example")
    assert b"credentials" not in (rules.preflight(asked) + rules.lines(b"https://a.example")).lower()


@pytest.mark.parametrize("origin", [b"https://b.example", b"null", b"https://a.example.evil", b""])
def test_a_page_that_may_not(origin: bytes) -> None:
    rules = CorsRules(Cors(("https://a.example",), 60))
    assert rules.preflight(preflight(origin)) == b""
    assert rules.lines(origin) == b"Vary: Origin\r\n"


def test_what_is_asked_for_is_echoed_only_when_it_is_names() -> None:
    rules = CorsRules(Cors(("*",), 60))
    assert b"Allow-Headers" not in rules.preflight(preflight(b"https://x", b"a; b"))
    assert rules.lines(b"https://x").startswith(b"Access-Control-Allow-Origin: *\r\n")


def test_ours_stand_in_the_place_of_a_frontends() -> None:
    rules = CorsRules(Cors(("https://a.example",), 60))
    start = b"HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nx: 1\r\naccess-control-allow-credentials: true"
    got = rules.replaced(start, b"https://b.example")
    assert got == b"HTTP/1.1 200 OK\r\nx: 1\r\nVary: Origin"
