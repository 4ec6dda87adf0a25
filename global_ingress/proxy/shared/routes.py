"""What a worker is told: one message that holds everything it needs to route, as frozen values.

The supervisor makes it from the settings, the pool table and what it learned of the frontends; a worker applies it
whole, as one swap. It carries no secrets but what the data path needs, no addresses but those of frontends. A large
table is tens of thousands of these values; they hold no cycles, and the garbage collector is told to leave them alone.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Policy = Literal["round_robin", "least_requests", "local_first"]


class FrontendRoute(msgspec.Struct, frozen=True, gc=False):
    """One frontend. `slot` is its row in the shared ledger, the same for all workers while it is listed. `ready` is
    false for one that is only serving and terminating (used when a model has nothing better)."""

    url: str
    host: str
    port: int
    slot: int
    ready: bool = True
    tls: bool = False


class PoolRoute(msgspec.Struct, frozen=True, gc=False):
    """One pool; `name` is `cluster/namespace/name`."""

    id: str
    name: str
    cluster: str
    region: str
    frontends: tuple[FrontendRoute, ...]


class Member(msgspec.Struct, frozen=True, gc=False):
    """A pool that is routable for a model: `pool` is the id of a PoolRoute. `turn` numbers the shared counter over the
    pool's frontends, or is -1 when there is only one; `sequence` are indices into the pool's frontends."""

    pool: str
    weight: int
    turn: int
    sequence: tuple[int, ...]


class ModelRoute(msgspec.Struct, frozen=True, gc=False):
    """Where a model's requests may go. Draw n (from 1) of counter `turn` is the turn of member
    `sequence[(n - 1) % len(sequence)]`. Without a member, `why` says so in words for the client."""

    id: str
    aliases: tuple[str, ...]
    policy: Policy
    affinity: str | None
    members: tuple[Member, ...]
    turn: int
    sequence: tuple[int, ...]
    why: str = ""
    spill: int = -1  # with local_first, the counter of what the own region cannot take


class Timeouts(msgspec.Struct, frozen=True, gc=False):
    """Seconds; `total` None is no limit."""

    connect: float
    first_byte: float
    idle: float
    total: float | None
    client_header: float
    client_body: float
    client_write: float
    keep_alive: float
    upstream_keep_alive: float


class Limits(msgspec.Struct, frozen=True, gc=False):
    """Bytes and counts, per worker for `connections` and `buffered`; `in_flight_per_pool` None is no limit."""

    body: int
    header: int
    connections: int
    buffered: int
    in_flight_per_pool: int | None


class Retries(msgspec.Struct, frozen=True, gc=False):
    attempts: int
    budget: float
    statuses: frozenset[int]
    first_event_gate: bool


class Ejection(msgspec.Struct, frozen=True, gc=False):
    """`failures` in a row eject for `base` × 2ⁿ seconds, at most `max`; at most `max_share` of a model's frontends."""

    failures: int
    base: float
    max: float
    max_share: float


class Hedge(msgspec.Struct, frozen=True, gc=False):
    """A second try when a first event is later than `quantile` of the pool's recent ones; of at most `max_share` of all
    requests, and of bodies up to `max_body` bytes."""

    quantile: float
    max_share: float
    max_body: int


class KeyRoute(msgspec.Struct, frozen=True, gc=False):
    """One key of the keys file: never the key, its SHA-256. `slot` is its row in the shared allowance, `rate` a count
    and the seconds it is for, `expires` seconds since the epoch."""

    name: str
    digest: bytes
    slot: int
    models: tuple[str, ...] = ("*",)
    rate: tuple[int, float] | None = None
    concurrent: int | None = None
    expires: float | None = None


class Auth(msgspec.Struct, frozen=True, gc=False):
    """Only who shows one of these keys may come in."""

    keys: tuple[KeyRoute, ...]
    forward_credentials: bool


class Cors(msgspec.Struct, frozen=True, gc=False):
    """Web pages of these origins (`*`: of all) may call; a browser may remember that for `max_age` seconds."""

    origins: tuple[str, ...]
    max_age: int


class Sampling(msgspec.Struct, frozen=True, gc=False):
    """Which requests are traced: this share of them; with `parent`, where a caller has decided, as it did."""

    ratio: float
    parent: bool


class TlsFiles(msgspec.Struct, frozen=True, gc=False):
    """The content of PEM files, so that a certificate and its key are always those that were read together."""

    certificate: bytes | None = None
    key: bytes | None = None
    ca: bytes | None = None
    server_name: str | None = None

    def __repr__(self) -> str:
        return "<TlsFiles>"


class Routes(msgspec.Struct, frozen=True, gc=False):
    """Everything at once. `known`: a first pool table has come. `listing` is the JSON of GET /v1/models or None while
    nothing is known; `described` the JSON of each model it lists."""

    generation: int
    known: bool
    region: str | None
    timeouts: Timeouts
    limits: Limits
    retries: Retries
    ejection: Ejection
    expose_pool: bool
    trusted_proxies: tuple[str, ...]
    access_log: bool
    pools: tuple[PoolRoute, ...]
    models: tuple[ModelRoute, ...]
    listing: bytes | None = None
    described: dict[str, bytes] = msgspec.field(default_factory=dict)
    drain_timeout: float = 30.0  # seconds for what runs when the supervisor is gone and nobody will say more
    heartbeat: float | None = None  # seconds of silence after which a stream gets a comment
    hedge: Hedge | None = None
    auth: Auth | None = None
    cors: Cors | None = None
    tls: TlsFiles | None = None  # of the data listener
    upstream_tls: TlsFiles | None = None
    explain: bool = False  # answers tell the tries in a header
    trace: Sampling | None = None


class Drain(msgspec.Struct, frozen=True, gc=False):
    """SIGTERM came: serve on for `delay` seconds, then stop accepting and finish what runs within `timeout`."""

    delay: float
    timeout: float


encode_routes = msgspec.msgpack.Encoder().encode
decode_routes = msgspec.msgpack.Decoder(Routes).decode
encode_drain = msgspec.msgpack.Encoder().encode
decode_drain = msgspec.msgpack.Decoder(Drain).decode
