"""What a worker reports: plain counts, added up by the supervisor and turned into metrics there.

Counters only grow and are those of one worker's life; the supervisor adds the last report of a dead worker to its
own sum, so that totals never fall.
"""

from __future__ import annotations

import msgspec

# Upper bounds in seconds; a last bucket holds the rest. Model answers take long: they reach 300 s.
DURATION_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
FIRST_BYTE_BOUNDS = DURATION_BOUNDS
INTER_CHUNK_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 120.0)

OUTCOMES = ("ok", "refused", "client_error", "upstream_error", "stream_error", "client_closed", "drained")
STREAM_ENDS = (
    "done",
    "upstream_error_event",
    "upstream_reset",
    "upstream_truncated",
    "no_done",
    "idle_timeout",
    "total_timeout",
    "client_closed",
    "client_stalled",
    "drain",
)


class Histogram(msgspec.Struct):
    """`buckets[i]` counts values up to bound i, the last one the rest; `total` is their sum in seconds."""

    buckets: list[int]
    total: float = 0.0


class Series(msgspec.Struct):
    """Of one model and pool id ("other" and "" when there is none)."""

    model: str
    pool: str
    requests: dict[tuple[int, str, bool], int]  # (status, outcome, stream) → requests
    duration: Histogram
    first_byte: Histogram
    inter_chunk: Histogram


class Counts(msgspec.Struct):
    """Everything of one worker. `attempts` by reason, `ejections` by frontend url, `stream_ends` by STREAM_ENDS,
    `upstream_connections` is a gauge by state (idle, active, connecting)."""

    series: list[Series]
    attempts: dict[str, int]
    ejections: dict[str, int]
    stream_ends: dict[str, int]
    client_disconnects: int
    client_connections: int
    ejection_capped: int
    panics: int
    refusals: dict[str, int]
    upstream_connections: dict[str, int]
    buffered: int
    log_dropped: int
    loop_lag: float
    last_tick: float


class Notice(msgspec.Struct, frozen=True):
    """An event worth a place on the status page: `kind` is a constant word (ejected, readmitted, panic)."""

    kind: str
    subject: str
    detail: str


encode_counts = msgspec.msgpack.Encoder().encode
decode_counts = msgspec.msgpack.Decoder(Counts).decode
encode_notice = msgspec.msgpack.Encoder().encode
decode_notice = msgspec.msgpack.Decoder(Notice).decode
