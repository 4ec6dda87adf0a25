"""What the operator's file may say: every key, its type, unit, default and meaning, declared once.

The JSON Schema and `docs/settings.md` are made from these declarations. Values are frozen. A `Settings` is made by
`settings.load`, which also checks what holds between keys (`settings_checks`); made by hand,
it is checked key by key only.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FieldSerializationInfo, field_serializer, model_validator

from global_ingress.proxy.settings.types import (
    AccessLog,
    Count,
    Duration,
    DurationOrZero,
    FilePath,
    HeaderName,
    HeaderSize,
    HeaderValue,
    HedgeAfter,
    Listen,
    Name,
    Network,
    OneOrMore,
    Optional,
    Origin,
    OrOff,
    OwnHeaderName,
    Several,
    Share,
    Size,
    Status,
    Switch,
    Url,
    Weight,
)
from global_ingress.proxy.settings.values import MAX_WORKERS, Address, NotAllowed, name


class Section(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


class StaticPool(Section):
    """A pool whose frontends are written down instead of discovered."""

    cluster: Name = Field(description="The cluster the pool runs in.")
    namespace: Name = Field(description="The pool's namespace.")
    name: Name = Field(description="The pool's name.")
    region: Name = Field(default="", description="The pool's region; left out, the cluster's name.")
    frontends: OneOrMore[Url] = Field(description="The pool's OpenAI servers, `scheme://host:port` without a path.")

    @model_validator(mode="before")
    @classmethod
    def _region_from_cluster(cls, data: Any) -> Any:
        if isinstance(data, dict) and "region" not in data and isinstance(data.get("cluster"), str):
            try:
                return {**data, "region": name(data["cluster"])}
            except NotAllowed:
                return data  # told once, at `cluster`
        return data


class Discovery(Section):
    """Where pools are learned from: exactly one of `urls` and `pools`."""

    urls: Optional[OneOrMore[Url]] = Field(
        default=None, description="The directory of this cluster; more than one are fallbacks, in order."
    )
    pools: Optional[OneOrMore[StaticPool]] = Field(default=None, description="Pools written down here.")
    hold_last_good: DurationOrZero = Field(
        default=60.0,
        description="How long a model's pools stay when one update removes them all and probes succeed; 0 = never.",
    )
    hold_incomplete: DurationOrZero = Field(
        default=600.0, description="How long a pool stays that an incomplete table no longer lists; 0 = not at all."
    )


class Selector(Section):
    """Pools that agree with every key given; at least one."""

    cluster: Optional[Name] = Field(default=None, description="Only pools of this cluster.")
    region: Optional[Name] = Field(default=None, description="Only pools of this region.")
    namespace: Optional[Name] = Field(default=None, description="Only pools of this namespace.")
    name: Optional[Name] = Field(default=None, description="Only pools of this name.")


class Affinity(Section):
    """Requests with the same value of this header go to the same pool."""

    header: HeaderName = Field(
        description="The header whose value is hashed; without it in a request, the policy chooses."
    )


Policy = Literal["round_robin", "least_requests", "local_first"]


class Model(Section):
    """A model clients may ask for. Its identity stands here, its addresses are discovered."""

    id: Name = Field(description="The name the pools serve it by.")
    aliases: Several[Name] = Field(
        default=(), description="Other names for it; rewritten to the id in the body that is sent on."
    )
    pools: Optional[OneOrMore[Selector]] = Field(
        default=None, description="Which pools may serve it: those that one of these selectors matches; left out, any."
    )
    policy: Policy = Field(
        default="round_robin",
        description="How a pool is chosen: in turn, by fewest requests in flight, or the own region's first.",
    )
    weights: dict[Name, Weight] = Field(
        default={},
        description="Turns of each pool, by cluster or else region, from 0 (drained) to 1000; 1 where none is given.",
    )
    affinity: OrOff[Affinity] = Field(default=None, description="Keep the requests of a session at one pool.")


class Timeouts(Section):
    """How long to wait for what."""

    connect: Duration = Field(default=5.0, description="For a connection to a frontend, TLS included.")
    first_byte: Duration = Field(
        default=300.0,
        description="From the request sent to the answer's first byte, or first event with `retries.first_event_gate`.",
    )
    idle: Duration = Field(default=120.0, description="Between two pieces of an answer.")
    total: OrOff[Duration] = Field(default=None, description="For the whole answer.")
    client_header: Duration = Field(default=10.0, description="For a request's head to arrive.")
    client_body: Duration = Field(default=30.0, description="Between two pieces of a request's body.")
    client_write: Duration = Field(default=60.0, description="For a client that reads nothing.")
    keep_alive: Duration = Field(default=75.0, description="How long an idle client connection stays open.")
    upstream_keep_alive: Duration = Field(
        default=4.0,
        description="How long an idle connection to a frontend stays open; less than the frontend's own limit.",
    )


class Limits(Section):
    """How much is taken in at once."""

    body: Size = Field(default=32 << 20, description="A request's body; beyond it 413. At most `limits.buffered`.")
    header: HeaderSize = Field(default=32 << 10, description="A request's head; beyond it 431.")
    connections: int = Field(default=10_000, ge=1, le=1_000_000, description="Open client connections; beyond it 503.")
    buffered: Size = Field(default=512 << 20, description="Request bodies held in memory, all together; beyond it 503.")
    in_flight_per_pool: OrOff[Count] = Field(default=None, description="Requests in flight at one pool; beyond it 503.")


class Retries(Section):
    """When a request is tried elsewhere."""

    attempts: int = Field(default=2, ge=1, le=20, description="Tries that reach a frontend; 2 = one repeat.")
    budget: float = Field(default=0.2, ge=0, le=10, description="Repeats allowed per request, on average over 10 s.")
    statuses: Several[Status] = Field(default=(502, 503, 504, 529), description="Answers that are tried elsewhere.")
    first_event_gate: bool = Field(
        default=True,
        description="Hold an SSE answer's head until its first event, so that an error there can be tried elsewhere.",
    )


class Hedge(Section):
    """A second attempt in another region when the first is late."""

    after: HedgeAfter = Field(
        default="p95", description="When the pool's recent first events say that this one is late."
    )
    max_share: Share = Field(default=0.05, description="Share of requests that may be hedged.")
    max_body: Size = Field(default=64 << 10, description="Larger requests are not hedged.")


class Ejection(Section):
    """When a frontend that fails is left out."""

    failures: int = Field(default=5, ge=1, le=1_000_000, description="Failures in a row that eject a frontend.")
    base: Duration = Field(
        default=10.0, description="How long the first time; doubled each time. At most `ejection.max`."
    )
    max: Duration = Field(default=300.0, description="How long at most.")
    max_share: Share = Field(
        default=0.5, description="Share of a model's frontends that may be out on this evidence alone."
    )


class Probe(Section):
    """How frontends are asked whether they live, and what they serve."""

    interval: Duration = Field(default=5.0, description="Between two probes of a frontend.")
    timeout: Duration = Field(default=2.0, description="For a probe's answer.")
    headers: dict[OwnHeaderName, HeaderValue] = Field(default={}, description="Sent with every probe.")

    @field_serializer("headers", when_used="json")
    def _headers(self, value: dict[str, str], info: FieldSerializationInfo) -> dict[str, str]:
        return dict.fromkeys(value, "***") if (info.context or {}).get("masked") else value


class Drain(Section):
    """What happens on SIGTERM."""

    delay: DurationOrZero = Field(default=5.0, description="How long to go on serving while `/readyz` says no.")
    timeout: Duration = Field(default=300.0, description="How long open streams may go on after that.")


class Sse(Section):
    """What is added to streams."""

    heartbeat: OrOff[Duration] = Field(default=None, description="A comment between events after this long in silence.")


class Headers(Section):
    """What answers tell."""

    expose_pool: bool = Field(
        default=True, description="Name the pool, its region and the attempts in each answer's headers."
    )
    explain: bool = Field(default=False, description="Tell the tries and how each went in `x-dynamo-decision`.")


class Cors(Section):
    """Which web pages may call."""

    origins: OneOrMore[Origin] = Field(description="Origins that may, such as `https://chat.example.com`, or `*`.")
    max_age: Duration = Field(default=600.0, description="How long a browser may remember that.")


class Auth(Section):
    """Who may call."""

    keys_file: FilePath = Field(description="The file of keys.")
    forward_credentials: bool = Field(default=False, description="Send the client's credentials on to the frontend.")


class Tls(Section):
    """How the data listener speaks TLS."""

    certificate: FilePath = Field(description="The certificate chain, PEM.")
    key: FilePath = Field(description="Its private key, PEM.")
    client_ca: Optional[FilePath] = Field(default=None, description="Clients must show a certificate of this CA, PEM.")


class UpstreamTls(Section):
    """How frontends with `https` URLs are spoken to."""

    ca: Optional[FilePath] = Field(default=None, description="The CA frontends must have, PEM; left out, the system's.")
    server_name: Optional[Name] = Field(
        default=None, description="The name frontends must have; left out, the URL's host."
    )
    certificate: Optional[FilePath] = Field(default=None, description="Our own certificate chain, PEM; with `key`.")
    key: Optional[FilePath] = Field(default=None, description="Its private key, PEM; with `certificate`.")


class Upstream(Section):
    """How frontends are spoken to."""

    tls: OrOff[UpstreamTls] = Field(default=None, description="For frontends with `https` URLs.")


class Log(Section):
    """What is written down."""

    level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="The least that is logged.")
    format: Literal["auto", "json", "text"] = Field(default="auto", description="auto = text on a terminal, else JSON.")
    access: OrOff[AccessLog] = Field(
        default="stdout", description="Where the access log goes: stdout or a path with a `/`."
    )


class Settings(Section):
    """The operator's file of global-ingress."""

    listen: Listen = Field(
        default=Address("0.0.0.0", 8000), description="Where clients connect; port 0 = any free one."
    )
    admin: OrOff[Listen] = Field(
        default=Address("127.0.0.1", 9090), description="Where status, metrics and health are served."
    )
    workers: int = Field(default=1, ge=1, le=MAX_WORKERS, description="Processes that serve clients.")
    region: Name | None = Field(default=None, description="Where this ingress runs; for `local_first` and metrics.")
    discovery: Discovery
    models: Optional[OneOrMore[Model]] = Field(
        default=None, description="The models served; left out, every model that routable pools list."
    )
    timeouts: Timeouts = Timeouts()
    limits: Limits = Limits()
    retries: Retries = Retries()
    hedge: OrOff[Hedge] = None
    ejection: Ejection = Ejection()
    probe: OrOff[Probe] = Field(default=Probe(), description="How frontends are asked whether they live.")
    slow_start: OrOff[Duration] = Field(default=None, description="How long a joining pool's share ramps up.")
    drain: Drain = Drain()
    sse: Sse = Sse()
    headers: Headers = Headers()
    trusted_proxies: Several[Network] = Field(default=(), description="Whose `X-Forwarded-*` headers are believed.")
    cors: OrOff[Cors] = None
    auth: OrOff[Auth] = None
    tls: OrOff[Tls] = None
    upstream: Upstream = Upstream()
    log: Log = Log()
    trace: Switch = Field(
        default=False, description="Send traces by OTLP, as the `OTEL_*` variables say; needs the extra `otel`."
    )
