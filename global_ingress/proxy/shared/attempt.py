"""Whether a failed try may be repeated, and the budget that bounds all repeats together (I30, I31).

Pure decisions: what happened goes in, what to do comes out. Nothing is repeated once the client has seen a byte; the
exchange does not even ask then.
"""

from __future__ import annotations

from enum import Enum

START = 3.0
WINDOW = 10  # seconds


class Trouble(Enum):
    """How a try went wrong. The value is the `reason` of the attempts metric and part of what is logged."""

    UNREACHABLE = "unreachable"
    CONNECT_TIMEOUT = "connect_timeout"
    EXHAUSTED = "exhausted"  # we have no descriptor or memory for a connection: not the frontend's fault
    STALE_CONNECTION = "stale_connection"  # a kept connection that ended before the first byte
    RESET = "reset"  # closed or reset before the first byte of the answer
    TRUNCATED = "truncated"  # closed inside the answer
    BROKEN = "broken"  # reset inside the answer
    BAD_RESPONSE = "bad_response"
    FIRST_BYTE_TIMEOUT = "first_byte_timeout"
    IDLE_TIMEOUT = "idle_timeout"
    TOTAL_TIMEOUT = "total_timeout"
    STATUS = "status"
    NO_WORKERS = "no_workers"  # Dynamo's 404 without a body
    ERROR_EVENT = "error_event"
    REDIRECT = "redirect"


# No connection came about: nothing was sent, so it costs neither a try nor budget.
UNCONNECTED = frozenset({Trouble.UNREACHABLE, Trouble.CONNECT_TIMEOUT})
# May be tried elsewhere while the client has seen nothing.
REPEATABLE = frozenset({Trouble.RESET, Trouble.STATUS, Trouble.NO_WORKERS, Trouble.ERROR_EVENT})
# Count against the frontend (I33); the client's own faults never do.
BLAMED = frozenset(
    {
        Trouble.UNREACHABLE,
        Trouble.CONNECT_TIMEOUT,
        Trouble.RESET,
        Trouble.TRUNCATED,
        Trouble.BROKEN,
        Trouble.BAD_RESPONSE,
        Trouble.FIRST_BYTE_TIMEOUT,
        Trouble.IDLE_TIMEOUT,
        Trouble.STATUS,
        Trouble.NO_WORKERS,
    }
)
GATEWAY_STATUSES = frozenset({502, 503, 504, 529})

FAULT_OF = {
    Trouble.UNREACHABLE: "upstream_unreachable",
    Trouble.CONNECT_TIMEOUT: "connect_timeout",
    Trouble.EXHAUSTED: "overloaded",
    Trouble.STALE_CONNECTION: "upstream_reset",
    Trouble.RESET: "upstream_reset",
    Trouble.TRUNCATED: "upstream_truncated",
    Trouble.BROKEN: "upstream_reset",
    Trouble.BAD_RESPONSE: "upstream_bad_response",
    Trouble.FIRST_BYTE_TIMEOUT: "first_byte_timeout",
    Trouble.IDLE_TIMEOUT: "idle_timeout",
    Trouble.TOTAL_TIMEOUT: "total_timeout",
    Trouble.REDIRECT: "upstream_redirect",
}


class Budget:
    """Tokens for repeats, one bucket per worker: `start` at the start, `share` for each request, one for each repeat,
    never more than start + share × the requests of the last WINDOW seconds. So n requests make at most
    (1 + share) n + start requests to frontends."""

    __slots__ = ("_past", "_start", "requests", "share", "tokens")

    def __init__(self, share: float, start: float = START) -> None:
        self.share = share
        self.tokens = self._start = start
        self.requests = 0  # of the current second
        self._past = [0] * (WINDOW - 1)

    def deposit(self) -> None:
        """A request came."""
        self.requests += 1
        self.tokens += self.share

    def second(self) -> None:
        """A second has passed."""
        self._past.append(self.requests)
        del self._past[0]
        self.requests = 0
        self._cap()

    def has(self) -> bool:
        """Whether a repeat could be paid for."""
        self._cap()
        return self.tokens >= 1.0

    def spend(self) -> bool:
        """Take the price of one repeat; False when the bucket cannot pay."""
        if not self.has():
            return False
        self.tokens -= 1.0
        return True

    def _cap(self) -> None:
        cap = self._start + self.share * (sum(self._past) + self.requests)
        if self.tokens > cap:
            self.tokens = cap


WORDS = {
    Trouble.UNREACHABLE: "no frontend of the model could be reached",
    Trouble.CONNECT_TIMEOUT: "no frontend of the model accepted a connection in time",
    Trouble.EXHAUSTED: "the load balancer has nothing left to open a connection with",
    Trouble.STALE_CONNECTION: "the frontend closed the connection",
    Trouble.RESET: "the frontend closed the connection before it answered",
    Trouble.TRUNCATED: "the frontend closed the connection inside its answer",
    Trouble.BROKEN: "the connection to the frontend was reset inside its answer",
    Trouble.BAD_RESPONSE: "the frontend's answer is not valid HTTP",
    Trouble.FIRST_BYTE_TIMEOUT: "the frontend did not begin to answer in time",
    Trouble.IDLE_TIMEOUT: "the frontend fell silent inside its answer",
    Trouble.TOTAL_TIMEOUT: "the request took longer than it may",
    Trouble.REDIRECT: "the frontend answered with a redirect, which is never followed",
}
# The words of the stream_end metric.
STREAM_END = {
    Trouble.TRUNCATED: "upstream_truncated",
    Trouble.BROKEN: "upstream_reset",
    Trouble.RESET: "upstream_reset",
    Trouble.BAD_RESPONSE: "upstream_reset",
    Trouble.IDLE_TIMEOUT: "idle_timeout",
    Trouble.TOTAL_TIMEOUT: "total_timeout",
}
