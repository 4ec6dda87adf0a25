"""Evidence: what was asked, what was seen, when, and how long it took.

Owns the frozen values that the probes return. Refuses to judge: nothing here says good or bad, and a thing that could
not be seen is a value of its own (`Unknown`, `Unanswered`), never an empty list or a zero.
Times: `at` is seconds since 1970, durations are seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from global_ingress.validate.platform import Bundle, ClusterEvidence
from global_ingress.validate.platform import Unknown as Unknown


@dataclass(frozen=True, slots=True)
class Kind:
    """One of the ways to ask: `surface` is chat or completions, `stream` an SSE answer."""

    surface: str
    stream: bool

    @property
    def path(self) -> str:
        return "/v1/chat/completions" if self.surface == "chat" else "/v1/completions"

    def __str__(self) -> str:
        return f"{'sse' if self.stream else 'unary'} {self.surface}"


# Unary and SSE alternate, so that any even number of consecutive kinds is half SSE.
KINDS = (Kind("chat", False), Kind("chat", True), Kind("completions", False), Kind("completions", True))


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: the `number`-th of `run` sent to the ingress of cluster `ingress`. Run 0 is what is sent while
    something is disturbed."""

    ingress: str
    run: int
    number: int
    kind: Kind

    def __str__(self) -> str:
        when = f"run {self.run}" if self.run else "while disturbed"
        return f"{when}, {self.ingress} #{self.number} ({self.kind})"


@dataclass(frozen=True, slots=True)
class Told:
    """What a body said: its text, finish reasons, and what it lacked (`faults`, one line each, in words)."""

    text: str = ""
    finish: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer with a head. `cut` says in words how the body ended before its end, None when it ended properly.
    `pool`, `region`, `attempts`, `request_id` are the ingress's headers as they came; None = not sent."""

    status: int
    content_type: str
    pool: str | None
    region: str | None
    attempts: str | None
    request_id: str | None
    told: Told
    cut: str | None = None


@dataclass(frozen=True, slots=True)
class Unanswered:
    """No head came; `reason` says what happened instead."""

    reason: str


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and what became of it. `first_byte_s` is the time to the first byte of the body, None without one."""

    asked: Asked
    seen: Answered | Unanswered
    at: float
    first_byte_s: float | None
    total_s: float


@dataclass(frozen=True, slots=True, order=True)
class Listed:
    """A pool as a discovery lists it: key `cluster/namespace/name`, its usable frontends' URLs sorted."""

    key: str
    region: str
    frontends: tuple[str, ...]
    stale_since: str | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """A pool list; `complete` as the discovery itself says. An empty list is a list."""

    complete: bool
    pools: tuple[Listed, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at what the discovery of cluster `discovery` lists."""

    discovery: str
    seen: Listing | Unknown
    at: float
    took_s: float
    epoch: str = ""
    """Of the discovery's table: another one is another life of that discovery."""


@dataclass(frozen=True, slots=True, order=True)
class ListedRouter:
    """A router as a discovery lists it."""

    id: str
    url: str
    cluster: str
    region: str


@dataclass(frozen=True, slots=True)
class RouterListing:
    """A list of routers; `complete` as the discovery itself says. An empty list is a list."""

    complete: bool
    routers: tuple[ListedRouter, ...]


@dataclass(frozen=True, slots=True)
class RouterReading:
    """One look at the routers that the discovery of cluster `discovery` lists."""

    discovery: str
    seen: RouterListing | Unknown
    at: float
    took_s: float


@dataclass(frozen=True, slots=True)
class ReachedFrontend:
    """A frontend as an ingress sees it: `state` and `why` are its words, `probed` whether it has asked it itself;
    `pool_why` says why its pool gets no requests, "" when it does."""

    pool: str
    url: str
    state: str
    why: str
    probed: bool
    in_flight: int
    pool_why: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """What an ingress's admin listener says. `started` tells one life of it from the next."""

    version: str
    started: str
    frontends: tuple[ReachedFrontend, ...]


@dataclass(frozen=True, slots=True)
class Viewing:
    """One look at the admin listener of the ingress of cluster `ingress`."""

    ingress: str
    seen: View | Unknown
    at: float
    took_s: float


@dataclass(frozen=True, slots=True)
class Departure:
    """A client that left in the middle of a stream. `left` is false when there was no stream to leave. `noticed_s` is
    how long it took until the ingress counted a client more that had left, None when it had not by the end of waiting;
    `cancelled` is how many cancellations the frontends counted meanwhile, None when they do not tell."""

    ingress: str
    left: bool
    reason: str
    at: float
    noticed_s: float | None
    cancelled: float | None


@dataclass(frozen=True, slots=True)
class Deed:
    """What was done to a pool by the means that were allowed: `action` is replace, cut or restore. `failure` says what
    went wrong, None when it was done."""

    action: str
    cluster: str
    pool: str
    at: float
    took_s: float
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Disturbance:
    """One disturbance under traffic: the pool as it was listed, what was done to it, what was seen meanwhile."""

    kind: str
    before: Listed
    deeds: tuple[Deed, ...]
    exchanges: tuple[Exchange, ...]
    readings: tuple[Reading, ...]


@dataclass(frozen=True, slots=True)
class Objectives:
    """What the fleet is to keep, as its operators declare it; None = not declared. Seconds, and shares of 1."""

    first_byte_p50_s: float | None = None
    first_byte_p99_s: float | None = None
    error_share: float | None = None
    recovery_s: float | None = None


PHASES = (1, 2, 3, 4, 5, 6, 7)
"""Inventory, compatibility, provenance, materialization, conformance, traffic, acceptance and rollback."""


@dataclass(frozen=True, slots=True)
class Task:
    """What was to be shown: the question to which evidence is the answer.

    `ingresses`, `discoveries` and `admins` are (cluster, URL) pairs; `marks` are (pool key, word) pairs: a pool
    whose frontends sign their text with a word can be told from its body, whatever the header claims.
    """

    model: str
    ingresses: tuple[tuple[str, str], ...]
    discoveries: tuple[tuple[str, str], ...]
    per_pool: int = 10
    runs: int = 2
    equal_readings: int = 3
    expect_pools: int | None = None
    expect_routers: int | None = None
    attempts: int = 2
    """The most tries per request that the ingresses are configured for."""
    admins: tuple[tuple[str, str], ...] = ()
    disturb: tuple[str, ...] = ()
    """The command that may disturb, with its first arguments; empty = nothing may be disturbed."""
    objectives: Objectives | None = None
    marks: tuple[tuple[str, str], ...] = ()
    kubeconfigs: tuple[tuple[str, str, str], ...] = ()
    """(cluster, path, context or ""): the API servers that may be asked."""
    bundle: Bundle | None = None
    """What was rendered and taken to the clusters."""
    rollback: Bundle | None = None
    """What could be gone back to."""
    fleet_sha256: str = ""
    """Of the fleet file that was declared, "" when none was given."""
    protect: tuple[str, ...] = ()
    """Namespaces whose pods must keep identity and health."""
    phases: tuple[int, ...] = PHASES
    """Those that were asked for; the checks of the others are skipped."""
    verifier: tuple[str, ...] = ()
    """The command that verifies the signature of an image; empty = there is none."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What the verifier said of an image; `trouble` is None when it is signed by who may."""

    image: str
    trouble: str | None
    at: float
    took_s: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything one validation saw, in the order in which it was seen, between `began` and `ended`."""

    task: Task
    began: float
    ended: float
    readings: tuple[Reading, ...] = ()
    exchanges: tuple[Exchange, ...] = ()
    after: tuple[Reading, ...] = ()
    """One more look at every discovery, when all was done."""
    routers: tuple[RouterReading, ...] = ()
    viewings: tuple[Viewing, ...] = ()
    departures: tuple[Departure, ...] = ()
    disturbances: tuple[Disturbance, ...] = ()
    clusters: tuple[ClusterEvidence, ...] = ()
    signatures: tuple[Signature, ...] = ()
