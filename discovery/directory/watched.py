"""What is watched for a mode, and what to think of a list that comes.

Pure. Owns the choice of selectors and namespaces, the count of what a watch has missed, and the brake for a list that
would remove most of what is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from discovery.directory.naming import Attributed, NamingRules, Role, attribute
from discovery.kube import paths
from discovery.slices import Slice

KUBERNETES_MODES: Final = ("mcs", "karmada")
_BRAKE_FROM: Final = 10


@dataclass(frozen=True, slots=True)
class Target:
    """One list/watch: the slices of one namespace (None: of all) that fit a selector. `name` is unique."""

    name: str
    namespace: str | None
    selector: str

    @property
    def path(self) -> str:
        return paths.slices(self.namespace)


def targets(mode: str, namespaces: Sequence[str], router: tuple[str, str] | None) -> list[Target]:
    """`router` is the namespace and name of the Global Router's Service: its own slices here, or imported ones."""
    selector = {"mcs": paths.MCS_SELECTOR, "karmada": paths.KARMADA_SELECTOR}[mode]
    found = [Target(f"{mode}/imports/{one or '*'}", one, selector) for one in dict.fromkeys(namespaces or (None,))]
    if router is not None:
        namespace, service = router
        found.append(Target(f"{mode}/routers/own", namespace, paths.own_service_selector(service)))
        if namespaces and namespace not in namespaces:
            of_service = paths.mcs_service_selector if mode == "mcs" else paths.karmada_service_selector
            found.append(Target(f"{mode}/routers/imported", namespace, of_service(service)))
    return found


def missed(before: Mapping[tuple[str, str], Slice], listed: Iterable[Slice], after: str) -> Counter[str]:
    """What a safety list says that the watch up to version `after` had not told. Objects that are newer than that are
    no miss; one that went in the moment between watch and list cannot be told from one whose end was missed.

    Versions are compared by order only here, where nothing but a count depends on it.
    """
    found: Counter[str] = Counter()
    names = set()
    for one in listed:
        key = (one.namespace, one.name)
        names.add(key)
        known = before.get(key)
        if known != one and _is_not_after(one.resource_version, after):
            found["changed" if known is not None else "added"] += 1
    found["removed"] += sum(key not in names for key in before)
    return +found


def would_remove_most(before: Collection[Slice], after: Collection[Slice], rules: NamingRules) -> bool:
    """Whether a list takes away more than half of more than ten pools at once."""
    names = {(one.namespace, one.name) for one in after}
    if all((one.namespace, one.name) in names for one in before):
        return False
    known = _keys(before, rules)
    return len(known) > _BRAKE_FROM and 2 * len(known - _keys(after, rules)) > len(known)


def _keys(slices: Iterable[Slice], rules: NamingRules) -> set[object]:
    found = (attribute(one, rules) for one in slices if one.endpoints)
    return {one.key for one in found if isinstance(one, Attributed) and one.role is not Role.ROUTER}


def _is_not_after(version: str, other: str) -> bool:
    if not all(one.isascii() and one.isdecimal() and len(one) <= 40 for one in (version, other)):
        return False
    return int(version) <= int(other)
