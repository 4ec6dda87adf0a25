"""Evidence: what was asked, what was seen, when, and how long it took.

Owns the frozen values that the probes return. Refuses to judge: nothing here says good or bad, and a thing that could
not be seen is a value of its own (`Unknown`, `Unanswered`), never an empty list or a zero.
Times: `at` is seconds since 1970, durations are seconds.
"""

from __future__ import annotations

from dataclasses import dataclass


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
    """One request of the plan: the `number`-th of `run` sent to the ingress of cluster `ingress`."""

    ingress: str
    run: int
    number: int
    kind: Kind

    def __str__(self) -> str:
        return f"run {self.run}, {self.ingress} #{self.number} ({self.kind})"


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
class Unknown:
    """No list could be had; `reason` says why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at what the discovery of cluster `discovery` lists."""

    discovery: str
    seen: Listing | Unknown
    at: float
    took_s: float


@dataclass(frozen=True, slots=True)
class Task:
    """What was to be shown: the question to which evidence is the answer.

    `ingresses` and `discoveries` are (cluster, URL) pairs; `marks` are (pool key, word) pairs: a pool whose frontends
    sign their text with a word can be told from its body, whatever the header claims.
    """

    model: str
    ingresses: tuple[tuple[str, str], ...]
    discoveries: tuple[tuple[str, str], ...]
    per_pool: int = 10
    runs: int = 2
    equal_readings: int = 3
    expect_pools: int | None = None
    marks: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything one validation saw, in the order in which it was seen, between `began` and `ended`."""

    task: Task
    began: float
    ended: float
    readings: tuple[Reading, ...] = ()
    exchanges: tuple[Exchange, ...] = ()
