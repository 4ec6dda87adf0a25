"""Things that go wrong, on demand.

Owns which request a fault strikes and how often. What each fault does on the wire is in `wire_faults`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson

from discovery.testing.cluster.failures import ApiFailure
from discovery.testing.cluster.journal import Entry


@dataclass(frozen=True, slots=True)
class Answer:
    """This answer instead of the real one."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Silence:
    """The request is taken and nothing ever comes; after `seconds`, if given, the connection is dropped."""

    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Drop:
    """The connection is cut without an answer."""


@dataclass(frozen=True, slots=True)
class Slow:
    """The answer comes, `delay` seconds late and in pieces of `piece` bytes, `every` seconds."""

    delay: float = 0.0
    piece: int = 64 * 1024
    every: float = 0.0


@dataclass(frozen=True, slots=True)
class Cut:
    """The answer breaks off after `after` bytes: the connection is cut, in the middle of a line perhaps."""

    after: int


@dataclass(frozen=True, slots=True)
class Stall:
    """The answer stops after `after` bytes and the connection stays open: half-open, as it looks to the client."""

    after: int


Fault = Answer | Silence | Drop | Slow | Cut | Stall


def status_answer(failure: ApiFailure) -> Answer:
    return Answer(failure.code, orjson.dumps(failure.status()), headers=failure.headers)


def gone() -> Answer:
    """410 as an HTTP answer, for a list or a watch."""
    return status_answer(ApiFailure(410, "Expired", "The resourceVersion for the provided watch is too old."))


def too_many_requests(retry_after: int = 1) -> Answer:
    message = "The server has received too many requests and has asked us to try again later"
    details = {"retryAfterSeconds": retry_after}
    headers = {"retry-after": str(retry_after)}
    return status_answer(ApiFailure(429, "TooManyRequests", message, details=details, headers=headers))


def server_error() -> Answer:
    return status_answer(ApiFailure(500, "InternalError", "Internal error occurred: etcdserver: no leader"))


def timed_out() -> Answer:
    message = "Timeout: request did not complete within the allotted timeout"
    return status_answer(ApiFailure(504, "Timeout", message))


def forbidden() -> Answer:
    return status_answer(ApiFailure(403, "Forbidden", "forbidden: the authorizer says no"))


def unauthorized() -> Answer:
    return status_answer(ApiFailure(401, "Unauthorized", "Unauthorized"))


def html(status: int = 503) -> Answer:
    """What a proxy in front of the server says, or a login page (200)."""
    return Answer(status, b"<html>\n<body>\n<h1>Not the API server</h1>\n</body>\n</html>\n", "text/html")


@dataclass
class Strike:
    """A fault and whom it strikes; `times` None: until it is taken away."""

    fault: Fault
    verbs: frozenset[str]
    resource: str
    token: str | None
    times: int | None
    skip: int
    struck: int = 0

    def fits(self, entry: Entry) -> bool:
        if self.verbs and entry.verb not in self.verbs:
            return False
        if self.resource and entry.resource != self.resource:
            return False
        return self.token is None or entry.token == self.token


class Faults:
    """The faults in force. The first that fits strikes; the order is that of adding."""

    def __init__(self) -> None:
        self._strikes: list[Strike] = []

    def add(
        self,
        fault: Fault,
        *,
        verbs: str = "",
        resource: str = "",
        token: str | None = None,
        times: int | None = 1,
        skip: int = 0,
    ) -> Strike:
        """Strike the next `times` requests (None: all) of these verbs ("list watch"; "" any), of this resource
        ("endpointslices.discovery.k8s.io"; "" any) and token, after `skip` that fit have passed."""
        strike = Strike(fault, frozenset(verbs.split()), resource, token, times, skip)
        self._strikes.append(strike)
        return strike

    def remove(self, strike: Strike) -> None:
        self._strikes.remove(strike)

    def clear(self) -> None:
        self._strikes.clear()

    def next(self, entry: Entry) -> Fault | None:
        for strike in self._strikes:
            if not strike.fits(entry) or (strike.times is not None and strike.struck >= strike.times):
                continue
            if strike.skip:
                strike.skip -= 1
                continue
            strike.struck += 1
            return strike.fault
        return None
