"""A small, honest Kubernetes API server for tests and demos.

    async with FakeCluster() as cluster:
        cluster.put(endpoint_slice)                 # from the inside
        path = cluster.kubeconfig(tmp / "config")   # for clients, kubectl among them
        cluster.faults.add(too_many_requests(), verbs="list")
        ...
        assert {entry.verb for entry in cluster.requests} <= {"get", "list", "watch"}

It has one resourceVersion for all, a past that is compacted, selectors, pages with tokens that expire, watches with
bookmarks, streaming lists, status subresources, patches and server-side apply, finalizers, garbage collection and a
small access table. `python -m discovery.testing.cluster` serves one by itself.

`FakeCluster(kinds=EVERYDAY, rules=EVERYDAY_RULES)` also serves pods, nodes, workloads with their scale, RBAC objects
and SubjectAccessReviews that are answered by them.

It departs from a real server where it says so: no controllers but the garbage collector, pods that are deleted are gone
at once, no admission, no protobuf, no tables, endpoints may be at loopback addresses (`Settings.loopback`), and only
those fields are validated that a client of endpoint slices, services, leases and multi-cluster objects runs into.
"""

from discovery.testing.cluster.access import EVERYTHING, READ_SLICES, Rule, rule
from discovery.testing.cluster.failures import ApiFailure
from discovery.testing.cluster.fake import FakeCluster
from discovery.testing.cluster.faults import (
    Answer,
    Cut,
    Drop,
    Silence,
    Slow,
    Stall,
    forbidden,
    gone,
    html,
    server_error,
    timed_out,
    too_many_requests,
    unauthorized,
)
from discovery.testing.cluster.journal import Entry
from discovery.testing.cluster.kinds import KINDS, Kind, custom_kind
from discovery.testing.cluster.settings import Settings
from discovery.testing.cluster.workloads import EVERYDAY, EVERYDAY_RULES

__all__ = [
    "EVERYDAY",
    "EVERYDAY_RULES",
    "EVERYTHING",
    "KINDS",
    "READ_SLICES",
    "Answer",
    "ApiFailure",
    "Cut",
    "Drop",
    "Entry",
    "FakeCluster",
    "Kind",
    "Rule",
    "Settings",
    "Silence",
    "Slow",
    "Stall",
    "custom_kind",
    "forbidden",
    "gone",
    "html",
    "rule",
    "server_error",
    "timed_out",
    "too_many_requests",
    "unauthorized",
]
