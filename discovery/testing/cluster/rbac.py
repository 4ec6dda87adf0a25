"""Who may do what by the roles and bindings that stand in the cluster: the answer to a SubjectAccessReview.

Owns RBAC's rules as the API server reads them: rules only allow, a binding gives a role to users, groups and service
accounts, a RoleBinding within its namespace. What the fake lets its own clients do is `access`, not this.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from discovery.testing.cluster.failures import bad_request
from discovery.testing.cluster.kinds import Object
from discovery.testing.cluster.store import Store

_GROUP = "rbac.authorization.k8s.io"


def reviewed(store: Store, review: Object) -> Object:
    """The review with its status. Raises ApiFailure 400."""
    spec: Object = review.get("spec") or {}
    asked = spec.get("resourceAttributes")
    if not isinstance(asked, dict) or not (spec.get("user") or spec.get("groups")):
        raise bad_request("spec.resourceAttributes, and spec.user or spec.groups are needed")
    who = (spec.get("user", ""), frozenset(spec.get("groups") or ()))
    status: Object = {"allowed": False}
    for binding, rule in _rules(store, who, asked.get("namespace", "")):
        if _allows(rule, asked):
            status = {"allowed": True, "reason": f'RBAC: allowed by {binding["kind"]} "{binding["name"]}"'}
            break
    metadata: Object = {"creationTimestamp": None}
    return {"kind": "SubjectAccessReview", "metadata": metadata, "spec": spec, "status": status}


def _rules(store: Store, who: tuple[str, frozenset[str]], namespace: str) -> Iterator[tuple[Object, Object]]:
    """Every rule that holds for `who` in the namespace, with the binding that gives it."""
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        for (home, name), binding in store.now(f"{kind.lower()}s.{_GROUP}").items():
            if home not in {"", namespace} or not any(_is(one, who) for one in binding.get("subjects") or ()):
                continue
            role = binding["roleRef"]
            where = (home if role["kind"] == "Role" else "", role["name"])
            found = store.get(f"{role['kind'].lower()}s.{_GROUP}", where) or {}
            for rule in found.get("rules") or ():
                yield {"kind": kind, "name": name}, rule


def _is(subject: Any, who: tuple[str, frozenset[str]]) -> bool:
    user, groups = who
    if subject["kind"] == "ServiceAccount":
        return bool(user == f"system:serviceaccount:{subject.get('namespace', '')}:{subject['name']}")
    return subject["name"] in groups if subject["kind"] == "Group" else subject["name"] == user


def _allows(rule: Object, asked: Object) -> bool:
    resource = asked.get("resource", "")
    full = f"{resource}/{asked['subresource']}" if asked.get("subresource") else resource
    named = rule.get("resourceNames") or ()
    return (
        _in(rule, "verbs", asked.get("verb", ""))
        and _in(rule, "apiGroups", asked.get("group", ""))
        and (_in(rule, "resources", full) or f"*/{asked.get('subresource')}" in rule.get("resources", ()))
        and (not named or asked.get("name", "") in named)
    )


def _in(rule: Object, key: str, wanted: str) -> bool:
    return bool({wanted, "*"} & set(rule.get(key) or ()))
