"""What can go wrong between us and an API server, each in its own words.

Pure. Foreign exceptions are turned into these at the seam (`discovery.kube.client`).
"""

from __future__ import annotations

from enum import StrEnum

from discovery.errors import DiscoveryError


class KubeError(DiscoveryError):
    """The root of what the Kubernetes side raises."""


class BadKubeConfig(KubeError):
    """There are no usable credentials: no kubeconfig, no such context, not in a cluster. One line for people."""


class Unreachable(KubeError):
    """A request ended without a whole answer: refused, reset, cut, or no answer in time."""


class NotAnAnswer(KubeError):
    """Bytes that no API server would send: HTML, half of JSON, a list without a version."""


class Refusal(StrEnum):
    """Why an API server did not do what was asked: a closed set, for decisions and metrics."""

    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    """Another object, another version, or one that is there already."""
    INVALID = "invalid"
    FORBIDDEN = "forbidden"
    TERMINATING = "namespace_terminating"
    UNAUTHORIZED = "unauthorized"
    THROTTLED = "throttled"
    SERVER = "server"


class Refused(KubeError):
    """The server answered, and the answer is no. `message` is the server's own."""

    def __init__(self, refusal: Refusal, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(f"{refusal}: {message}")
        self.refusal = refusal
        self.message = message
        self.retry_after_s = retry_after_s
