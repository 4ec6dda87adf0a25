"""What is kept of one request's choice: who could have had it, who had it, and how each try went. Pure values.

A worker writes such a record for requests that were not plain and for a sample of the others; the supervisor keeps the
newest. It holds names, words of closed sets, times and, for the admin listener only, addresses; never a prompt, a key
or a header's value. Bounded: of many candidates or tries the first are kept and the rest is counted.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

MOST_CANDIDATES = 32
MOST_TRIES = 16
MOST_TOLD = 400  # bytes of the header and of the access log's field

# Why a candidate did not get the request, or that it did.
STANDINGS = {
    "chosen": "was chosen first",
    "tried": "was tried afterwards",
    "other_turn": "could have had it; it was another's turn",
    "full": "has as many requests as it may have",
    "ejected": "its frontends failed too often and are left out for a while",
    "not_ready": "has no ready frontend",
}


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A pool that is routable for the model, as it stood when the choice was made. `standing` is of STANDINGS."""

    pool: str
    region: str
    standing: str


class Try(msgspec.Struct, frozen=True, gc=False):
    """One try. `ended` is "answered", a reason of the attempts metric, or why we gave it up; times are since the
    request came."""

    pool: str
    region: str
    frontend: str
    began_ms: float
    ended_ms: float
    ended: str
    status: int | None = None


class Decision(msgspec.Struct, frozen=True, gc=False):
    """The record of one request. `why` says why it was kept: failed, retried, refused, hedged or sampled."""

    at: float
    request_id: str
    model: str
    why: str
    status: int
    outcome: str
    code: str | None
    stream: bool
    total_ms: float
    generation: int
    candidates: tuple[Candidate, ...]
    candidates_beyond: int
    tries: tuple[Try, ...]


class Decisions(msgspec.Struct):
    """What a worker hands on: the newest records, and how many it could not keep."""

    records: list[Decision]
    dropped: int = 0


def told(tries: Sequence[Try], candidates: int) -> str:
    """The record in one short line, without addresses: `of=3; c1/n/p unreachable 2ms; c2/n/p 200`."""
    parts = [f"of={candidates}"]
    for one in tries:
        ended = str(one.status) if one.ended == "answered" and one.status else one.ended
        parts.append(f"{one.pool} {ended} {one.ended_ms - one.began_ms:.0f}ms")
    text = "; ".join(parts)
    return text if len(text) <= MOST_TOLD else text[: MOST_TOLD - 1] + "…"


encode_decisions = msgspec.msgpack.Encoder().encode
decode_decisions = msgspec.msgpack.Decoder(Decisions).decode
