"""Fuzz answers of frontends: what is passed on as whole, h11 must read alike, and no cut may change it.

    python -m tests.fuzz.fuzz_answer -max_total_time=60

The first byte says where the rest is cut, the second whether the frontend closes afterwards.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import h11

from global_ingress.proxy.carrying.keeping import take_idle
from tests.fuzz.running import run
from tests.proxy.smuggling import ANSWERS
from tests.proxy.wirekit import Recorder, rigged


class Read(NamedTuple):
    status: int
    body: bytes
    whole: bool


def read_ours(pieces: list[bytes], *, closed: bool) -> tuple[Recorder, bool]:
    """What the reader was told, and whether the connection was kept."""
    with rigged() as rig:
        connection = rig.stock()
        assert take_idle(connection.frontend, rig.plane) is connection
        reader = Recorder()
        connection.begin(reader, b"", None, b"an-id-that-is-not-there", rig.now + 9)
        for piece in pieces:
            rig.feed(connection, connection.transport, piece)
        kept = bool(connection.frontend.idle) and not connection.transport.closed
        if closed and not connection.transport.closed:
            connection.connection_lost(None)
        assert rig.plane.tally.upstream["active"] == (reader.end == "")
    return reader, kept


def read_theirs(raw: bytes, *, closed: bool) -> Read | None:
    """The final answer by h11; None when it refuses."""
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=64 * 1024)
    connection.send(h11.Request(method="POST", target="/", headers=[("host", "a"), ("content-length", "0")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(raw)
    if closed:
        connection.receive_data(b"")
    status, body = 0, b""
    try:
        while True:
            event: Any = connection.next_event()
            if isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif not isinstance(event, h11.InformationalResponse):
                return Read(status, body, isinstance(event, h11.EndOfMessage))
    except h11.RemoteProtocolError:
        return Read(status, body, whole=False) if status else None


def check(data: bytes) -> None:
    """Raises AssertionError when an invariant does not hold."""
    if len(data) < 3:
        return
    raw, closed = data[2:], data[1] & 1 == 1
    whole, kept = read_ours([raw], closed=closed)
    theirs = read_theirs(raw, closed=closed)
    if whole.end == "whole":
        assert whole.answer is not None
        assert theirs is not None, "h11 refuses what we pass on"
        assert (whole.answer.status, whole.body) == (theirs.status, theirs.body)
        assert theirs.whole
    elif whole.answer is not None and theirs is not None:
        assert whole.answer.status == theirs.status
    at = 1 + data[0] * len(raw) // 256
    cut, cut_kept = read_ours([raw[:at], raw[at:]] if at < len(raw) else [raw], closed=closed)
    same(whole, cut)
    if kept:
        assert cut_kept or cut.end != "whole"


def same(whole: Recorder, cut: Recorder) -> None:
    """A cut changes nothing of an answer that is whole; of a bad one it may change how much was passed on before."""
    assert cut.end == whole.end or "whole" not in (cut.end, whole.end)
    if whole.end == "whole":
        assert whole.answer is not None
        assert cut.answer is not None
        assert (whole.answer.status, whole.answer.lines) == (cut.answer.status, cut.answer.lines)
        assert whole.body == cut.body


SEEDS = [b"\x80" + bytes((case.closed,)) + case.raw for case in ANSWERS]

if __name__ == "__main__":
    sys.exit(run(check, SEEDS, sys.argv[1:]))
