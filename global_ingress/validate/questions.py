"""What the API server is asked about the rights of discovery and of the ingress. Pure.

Owns the list: what discovery must be able to do, and what nobody of ours may. The rule: all that is not asked for is
refused, so that one more right of an everyday kind is found, wherever it was given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from global_ingress.validate.bundle import DISCOVERY, INGRESS
from global_ingress.validate.platform import Bundle, Pod, Question

READ = ("get", "list", "watch")
_WRITE = ("create", "update", "patch", "delete")
_SLICES = ("discovery.k8s.io", "endpointslices", "")
_NEVER: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("*", "*", "", ("*",)),
    ("", "secrets", "", ("get", "list", "create", "patch")),
    ("", "configmaps", "", ("get", "list", "patch")),
    ("", "pods", "", ("list", "create", "delete")),
    ("", "pods", "exec", ("create",)),
    ("", "pods", "log", ("get",)),
    ("", "services", "", ("list", "create", "patch")),
    ("", "namespaces", "", ("list",)),
    ("", "serviceaccounts", "token", ("create",)),
    ("apps", "deployments", "", ("list", "create", "patch")),
    ("coordination.k8s.io", "leases", "", ("get", "update")),
    ("rbac.authorization.k8s.io", "rolebindings", "", ("list", "create")),
    (*_SLICES, _WRITE),
)
_NEVER_ANYWHERE: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("", "nodes", "", ("list",)),
    ("", "users", "", ("impersonate",)),
    ("rbac.authorization.k8s.io", "clusterroles", "", ("bind", "escalate")),
)
"""Of the cluster itself: asked for once, not for each namespace."""


def accounts(pods: Sequence[Pod], part: str, bundle: Bundle | None) -> tuple[tuple[str, str], ...]:
    """(namespace, account) of the pods of a part of ours; of this fleet when it is known."""
    ours = (pod for pod in pods if pod.part == part and (bundle is None or pod.instance == bundle.fleet))
    return tuple(sorted({(pod.namespace, pod.account) for pod in ours}))


def questions(cluster: str, pods: Sequence[Pod], bundle: Bundle | None) -> Iterator[tuple[str, Question]]:
    """(namespace of the account, question)."""
    watched = [home for name, home in bundle.watched if name == cluster] if bundle else []
    for part in (DISCOVERY, INGRESS):
        for namespace, account in accounts(pods, part, bundle):
            for home in dict.fromkeys(["", namespace, *watched]):
                yield from ((namespace, one) for one in _about(account, home, part, watched if bundle else None))


def _about(account: str, home: str, part: str, watched: Sequence[str] | None) -> Iterator[Question]:
    for group, resource, subresource, verbs in (*_NEVER, *(() if home else _NEVER_ANYWHERE)):
        for verb in verbs:
            yield Question(account, verb, group, resource, subresource, home, wanted=False)
    reads = part == DISCOVERY
    if reads and (watched is None or ("" in watched and home)):
        return  # Without a bundle it is not known where it should read.
    for verb in READ:
        yield Question(account, verb, *_SLICES, home, wanted=reads and home in (watched or ()))
