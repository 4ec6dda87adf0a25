"""Who may do what: a small table by token, in the words of RBAC.

Owns the answer 401 (nobody knows the token) and 403 (it may not). Without a table everybody may do everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from discovery.testing.cluster.failures import ApiFailure, unauthorized
from discovery.testing.cluster.kinds import Kind

ANONYMOUS = "system:anonymous"


@dataclass(frozen=True, slots=True)
class Rule:
    """`verbs` on `resources` (`endpointslices.discovery.k8s.io`, `serviceexports.multicluster.x-k8s.io/status`, `*`)
    in `namespaces`, all of them and the cluster itself when None."""

    verbs: frozenset[str]
    resources: frozenset[str]
    namespaces: frozenset[str] | None = None

    def allows(self, verb: str, resource: str, namespace: str | None) -> bool:
        if self.namespaces is not None and namespace not in self.namespaces:
            return False
        return _in(verb, self.verbs) and _in(resource, self.resources)


def _in(word: str, words: frozenset[str]) -> bool:
    return word in words or "*" in words


def rule(verbs: str, resources: str, namespaces: str | None = None) -> Rule:
    """`rule("get list watch", "endpointslices.discovery.k8s.io", "prod dev")`: words, apart by blanks."""
    homes = None if namespaces is None else frozenset(namespaces.split())
    return Rule(frozenset(verbs.split()), frozenset(resources.split()), homes)


READ_SLICES = rule("get list watch", "endpointslices.discovery.k8s.io")
EVERYTHING = rule("*", "*")


@dataclass
class Access:
    """Change it at will; it holds from the next request on."""

    table: dict[str, Sequence[Rule]] = field(default_factory=dict)
    open: bool = True

    def grant(self, token: str, *rules: Rule) -> None:
        """Let `token` do what the rules say and nothing else; other tokens are unknown unless granted too."""
        self.open = False
        self.table[token] = rules

    def revoke(self, token: str) -> None:
        """Forget the token: 401."""
        self.open = False
        self.table.pop(token, None)

    def check(
        self, token: str, verb: str, kind: Kind | None, subresource: str, namespace: str | None, name: str
    ) -> None:
        """Raises ApiFailure 401 or 403. `kind` None: a path that is no resource (/version), for all who are known."""
        if self.open:
            return
        if token and token not in self.table:
            raise unauthorized()
        if kind is None:
            return
        resource = kind.resource + (f"/{subresource}" if subresource else "")
        if not any(one.allows(verb, resource, namespace) for one in self.table.get(token, ())):
            raise _forbidden(self._user(token), verb, kind, subresource, namespace, name)

    def _user(self, token: str) -> str:
        """Never the token: messages end up in logs."""
        return f"token-{list(self.table).index(token)}" if token else ANONYMOUS


def _forbidden(user: str, verb: str, kind: Kind, sub: str, namespace: str | None, name: str) -> ApiFailure:
    what = f"{kind.plural}/{sub}" if sub else kind.plural
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    who = f'{kind.resource} "{name}" is forbidden' if name else f"{kind.resource} is forbidden"
    message = f'{who}: User "{user}" cannot {verb} resource "{what}" in API group "{kind.group}" {where}'
    details: Mapping[str, str] = {"name": name, "group": kind.group, "kind": kind.plural}
    return ApiFailure(403, "Forbidden", message, details={key: value for key, value in details.items() if value})
