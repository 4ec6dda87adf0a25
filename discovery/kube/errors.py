"""What can go wrong between us and an API server, each in its own words.

Pure. Foreign exceptions are turned into these at the seam (`discovery.kube.client`).
"""

from __future__ import annotations

from discovery.errors import DiscoveryError


class KubeError(DiscoveryError):
    """The root of what the Kubernetes side raises."""


class BadKubeConfig(KubeError):
    """There are no usable credentials: no kubeconfig, no such context, not in a cluster. One line for people."""


class Unreachable(KubeError):
    """A request ended without a whole answer: refused, reset, cut, or no answer in time."""


class NotAnAnswer(KubeError):
    """Bytes that no API server would send: HTML, half of JSON, a list without a version."""
