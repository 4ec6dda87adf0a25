"""Heads made by chance, and short ways to read them, for the tests of the header rules."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

from global_ingress.proxy.carrying.headers import HOP, HOP_BY_HOP, Head, Peer, read_head

STRANGER = Peer(b"192.0.2.7", b"http", False)
FRIEND = Peer(b"10.0.0.1", b"https", True)
NAMES = frozenset({b"x-session-id"})  # of affinity
NEVER_PASS = (
    *("Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "TE", "Trailer"),
    *("Transfer-Encoding", "Upgrade"),
)
OURS = {b"host", b"content-length", b"expect", b"x-request-id", b"x-forwarded-for"}

Field = tuple[bytes, bytes]


def any_case(name: str) -> st.SearchStrategy[str]:
    return st.lists(st.booleans(), min_size=len(name), max_size=len(name)).map(
        lambda ups: "".join(c.upper() if up else c.lower() for c, up in zip(name, ups, strict=True))
    )


TOKEN = st.text("abcXYZ09-_!#$%&'*+.^`|~", min_size=1, max_size=6)
VALUE = st.text('aB9 \t,;:="/\\()<>é', max_size=10).map(lambda v: v.strip(" \t"))
PLAIN = st.sampled_from(
    ("Set-Cookie", "Authorization", "X-A", "x-a", "Accept", "traceparent", "X-Long-Name", "Server", "Date")
)
OTHER_NAME = st.one_of(PLAIN, TOKEN).filter(
    lambda n: n.lower().encode() not in OURS | HOP_BY_HOP | {b"content-encoding"}
)


def fields(names: st.SearchStrategy[str]) -> st.SearchStrategy[list[Field]]:
    one = st.tuples(names.map(str.encode), VALUE.map(lambda v: v.encode("latin-1")))
    return st.lists(one, max_size=7)


OTHERS = fields(OTHER_NAME)
HOPS = fields(
    st.sampled_from([n for n in NEVER_PASS if n not in ("Connection", "Transfer-Encoding")]).flatmap(any_case)
)


def lines(pairs: list[Field]) -> bytes:
    return b"".join(b"\r\n%b: %b" % pair for pair in pairs)


def head_of(pairs: list[Field], first: bytes = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a") -> bytes:
    return first + lines(pairs)


def read(pairs: list[Field], peer: Peer = STRANGER, **more: bytes) -> Head:
    return read_head(head_of(pairs, **more), peer, NAMES)


def pairs_of(raw: bytes) -> list[Field]:
    return [(n, v.strip(b" \t")) for n, _, v in (line.partition(b":") for line in raw.split(b"\r\n")[1:])]


def forwarded(head: Head) -> list[Field]:
    return pairs_of(head.forward)


def without_ours(pairs: list[Field]) -> list[Field]:
    """Without what we add at the end."""
    added = (b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", HOP)
    return [pair for pair in pairs if pair[0].lower() not in added]


class Mixed(NamedTuple):
    pairs: list[Field]
    passing: list[Field]


@st.composite
def mixed(draw: st.DrawFn) -> Mixed:
    """Headers that pass, hop-by-hop ones and ones that Connection names, in any order and case."""
    others = draw(OTHERS)
    named = draw(st.lists(st.sampled_from([name for name, _ in others] or [b"x-none"]), max_size=2, unique=True))
    named_strange = [draw(any_case(name.decode())) for name in named]
    tokens = draw(
        st.permutations(
            [*named_strange, *draw(st.lists(st.sampled_from(("close", "keep-alive", "Host", "")), max_size=2))]
        )
    )
    pad = draw(st.sampled_from(("", " ", "\t", " \t")))
    connections: list[Field] = []
    for token_list in (tokens[:1], tokens[1:]):
        if token_list:
            name = draw(any_case("connection"))
            connections.append((name.encode(), f"{pad},{pad}".join(token_list).encode()))
    hops = [*draw(HOPS), *connections]
    order = draw(st.permutations([*range(len(hops)), *[-1] * len(others)]))
    waiting = iter(others)
    pairs = [hops[n] if n >= 0 else next(waiting) for n in order]
    gone = {name.lower() for name in named}
    return Mixed(pairs, [pair for pair in others if pair[0].lower() not in gone])
