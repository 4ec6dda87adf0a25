"""What NetworkPolicies and Roles mean: who may talk to whom, who may ask what. Kubernetes' rules, read anew here.

A connection is allowed when every policy side that is closed has a rule for it: the sender's egress and the receiver's
ingress; a pod that no policy selects is open, and so is whatever is no pod of ours.
"""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Actor:
    """Somebody who talks or listens: a pod when it has a namespace."""

    name: str
    address: str
    namespace: str = ""
    labels: dict[str, str] = field(default_factory=dict, hash=False)


PORTS = (53, 80, 443, 4317, 6443, 8000, 8080, 9090)


def flows(objects: Sequence[Object], actors: Sequence[Actor], home: str) -> dict[tuple[str, str], tuple[int, ...]]:
    """The TCP ports that may be reached, by sender and receiver; between strangers to `home` nothing is asked."""
    policies = [one for one in objects if one["kind"] == "NetworkPolicy"]
    found = {}
    for sender in actors:
        for receiver in actors:
            if sender is receiver or home not in (sender.namespace, receiver.namespace):
                continue
            ports = tuple(port for port in PORTS if _allowed(policies, sender, receiver, port))
            if ports:
                found[sender.name, receiver.name] = ports
    return found


def _allowed(policies: Iterable[Object], sender: Actor, receiver: Actor, port: int) -> bool:
    sides = (("Egress", "egress", "to", sender, receiver), ("Ingress", "ingress", "from", receiver, sender))
    for kind, key, direction, one, other in sides:
        closing = [p for p in policies if kind in p["spec"]["policyTypes"] and _selects(p, one)]
        rules = [(p, rule) for p in closing for rule in p["spec"].get(key) or []]
        if closing and not any(_admits(p, rule, direction, other, port) for p, rule in rules):
            return False
    return True


def _selects(policy: Object, actor: Actor) -> bool:
    return actor.namespace == policy["metadata"]["namespace"] and _matches(policy["spec"]["podSelector"], actor.labels)


def _admits(policy: Object, rule: Object, direction: str, other: Actor, port: int) -> bool:
    ports = rule.get("ports")
    if ports and not any(one["port"] == port and one["protocol"] == "TCP" for one in ports):
        return False
    peers = rule.get(direction)
    return not peers or any(_is(policy, peer, other) for peer in peers)


def _is(policy: Object, peer: Object, other: Actor) -> bool:
    if "ipBlock" in peer:
        return ipaddress.ip_address(other.address) in ipaddress.ip_network(peer["ipBlock"]["cidr"])
    if not other.namespace:
        return False
    if "namespaceSelector" in peer:
        near = _matches(peer["namespaceSelector"], {"kubernetes.io/metadata.name": other.namespace})
    else:
        near = other.namespace == policy["metadata"]["namespace"]
    return near and _matches(peer.get("podSelector", {}), other.labels)


def _matches(selector: Object, labels: Mapping[str, str]) -> bool:
    assert not selector.keys() - {"matchLabels"}, selector
    wanted = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in wanted.items())


def rights(objects: Sequence[Object]) -> dict[tuple[str, str, str], tuple[str, ...]]:
    """Verbs by (account, group/resource, where); where is a namespace, or * for the whole cluster."""
    roles = {_role(one): one["rules"] for one in objects if one["kind"] in ("Role", "ClusterRole")}
    found: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for binding in objects:
        if binding["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        where = binding["metadata"].get("namespace", "*")
        ref = binding["roleRef"]
        rules = roles[ref["kind"], where if ref["kind"] == "Role" else "*", ref["name"]]
        for subject in binding["subjects"]:
            for resource, verb in _granted(rules):
                found[subject["name"], resource, where].add(verb)
    return {key: tuple(sorted(verbs)) for key, verbs in found.items()}


def _role(one: Object) -> tuple[str, str, str]:
    return one["kind"], one["metadata"].get("namespace", "*"), one["metadata"]["name"]


def _granted(rules: Iterable[Object]) -> Iterator[tuple[str, str]]:
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield f"{group or 'core'}/{resource}", verb
