"""The plain counters of one worker. Nothing is formatted or locked here; the supervisor reads them by report."""

from __future__ import annotations

from bisect import bisect_left

from global_ingress.proxy.shared.counts import (
    DURATION_BOUNDS,
    FIRST_BYTE_BOUNDS,
    INTER_CHUNK_BOUNDS,
    Counts,
    Histogram,
    Series,
)

OTHER = "other"


class Track:
    """Counters of one (model, pool); models and pools are only those of the routes, else OTHER and ""."""

    __slots__ = ("chunk_buckets", "chunk_total", "duration", "first_byte", "model", "pool", "requests")

    def __init__(self, model: str, pool: str) -> None:
        self.model = model
        self.pool = pool
        self.requests: dict[tuple[int, str, bool], int] = {}
        self.duration = Histogram([0] * (len(DURATION_BOUNDS) + 1))
        self.first_byte = Histogram([0] * (len(FIRST_BYTE_BOUNDS) + 1))
        self.chunk_buckets = [0] * (len(INTER_CHUNK_BOUNDS) + 1)
        self.chunk_total = 0.0

    def request(self, status: int, outcome: str, stream: bool, seconds: float) -> None:
        key = (status, outcome, stream)
        self.requests[key] = self.requests.get(key, 0) + 1
        duration = self.duration
        duration.buckets[bisect_left(DURATION_BOUNDS, seconds)] += 1
        duration.total += seconds

    def first(self, seconds: float) -> None:
        first_byte = self.first_byte
        first_byte.buckets[bisect_left(FIRST_BYTE_BOUNDS, seconds)] += 1
        first_byte.total += seconds

    def chunk(self, seconds: float) -> None:
        self.chunk_buckets[bisect_left(INTER_CHUNK_BOUNDS, seconds)] += 1
        self.chunk_total += seconds

    def series(self) -> Series:
        return Series(
            self.model,
            self.pool,
            dict(self.requests),
            self.duration,
            self.first_byte,
            Histogram(self.chunk_buckets, self.chunk_total),
        )


class Tally:
    """All counters of this worker."""

    __slots__ = (
        "attempts",
        "client_connections",
        "client_disconnects",
        "ejection_capped",
        "ejections",
        "panics",
        "refusals",
        "stream_ends",
        "tracks",
        "upstream",
    )

    def __init__(self) -> None:
        self.tracks: dict[tuple[str, str], Track] = {}
        self.attempts: dict[str, int] = {}
        self.ejections: dict[str, int] = {}
        self.stream_ends: dict[str, int] = {}
        self.refusals: dict[str, int] = {}
        self.upstream = {"idle": 0, "active": 0, "connecting": 0, "closing": 0}
        self.client_connections = 0
        self.client_disconnects = 0
        self.ejection_capped = 0
        self.panics = 0

    def track(self, model: str, pool: str) -> Track:
        """The counters of this pair, made when it is new. Only for names that the routes hold."""
        found = self.tracks.get((model, pool))
        if found is None:
            found = self.tracks[model, pool] = Track(model, pool)
        return found

    def counts(self, *, buffered: int, log_dropped: int, loop_lag: float, last_tick: float) -> Counts:
        """Everything as one report."""
        return Counts(
            series=[track.series() for track in self.tracks.values() if track.requests],
            attempts=self.attempts,
            ejections=self.ejections,
            stream_ends=self.stream_ends,
            client_disconnects=self.client_disconnects,
            client_connections=self.client_connections,
            ejection_capped=self.ejection_capped,
            panics=self.panics,
            refusals=self.refusals,
            upstream_connections=self.upstream,
            buffered=buffered,
            log_dropped=log_dropped,
            loop_lag=loop_lag,
            last_tick=last_tick,
        )


def bump(counters: dict[str, int], key: str) -> None:
    """Count one more of `key`, a word of a closed set."""
    counters[key] = counters.get(key, 0) + 1
