"""Fuzz requests: what we take, h11 must read alike, and no cut may change it.

    python -m tests.fuzz.fuzz_framing -max_total_time=60

The first byte says where the rest is cut. What we refuse may be anything; what we take must be what another strict
reader takes, and must go on in a form that it reads as the same message again.
"""

from __future__ import annotations

import sys

from global_ingress.proxy.carrying.headers import HOP_BY_HOP
from tests.fuzz.running import run
from tests.proxy.reading import Message, read, read_with_h11
from tests.proxy.smuggling import BAD_UPGRADES, NEXT, REQUESTS


def check(data: bytes) -> None:
    """Raises AssertionError when an invariant does not hold."""
    if len(data) < 2:
        return
    raw = data[1:]
    whole = read([raw], routed=False)
    at = 1 + data[0] * len(raw) // 256
    for pieces in ([raw[:at], raw[at:]], [raw[n : n + 1] for n in range(min(len(raw), 300))] + [raw[300:]]):
        cut = read(pieces, routed=False)
        assert cut.what() == whole.what(), (pieces[:2], cut, whole)
    repeated = read([NEXT, raw], routed=False)
    assert repeated.what() == read([NEXT, raw], routed=False, quick=False).what()
    agree(raw, whole.messages)
    for message in whole.messages:
        goes_on(message)


def agree(raw: bytes, ours: list[Message]) -> None:
    """h11 takes the same messages, as far as we took any. Blank lines before a request are ours to read over."""
    rest = raw.lstrip(b"\r\n")
    if b"\n\r\n\r\n" in raw or b"\n\r\n\r" in raw:
        ours = ours[:1]  # such a blank line may stand before a second request, where h11 takes none
    theirs, _ = read_with_h11(rest)
    assert len(theirs) >= len(ours[:1]), "h11 refuses what we take"
    for our, their in zip(ours, theirs, strict=False):
        assert (our.head.method, our.head.target, our.body) == (their.method, their.target, their.body)


def goes_on(message: Message) -> None:
    """What a frontend is sent is the same message to h11, and nothing hop by hop is in it."""
    head = message.head
    sent = b"%bf:80%b\r\nContent-Length: %d\r\nx-request-id: r\r\n\r\n%b" % (
        head.begin,
        head.forward,
        len(message.body),
        message.body,
    )
    theirs, refused = read_with_h11(sent)
    assert not refused
    [their] = theirs
    assert (their.method, their.target, their.body) == (head.method, head.target, message.body)
    names = [name for name, _ in their.headers]
    assert not set(names) & HOP_BY_HOP
    assert all(names.count(name) == 1 for name in (b"host", b"content-length", b"x-request-id", b"x-forwarded-for"))


SEEDS = [b"\x80" + case.raw for case in (*REQUESTS, *BAD_UPGRADES)]

if __name__ == "__main__":
    sys.exit(run(check, SEEDS, sys.argv[1:]))
