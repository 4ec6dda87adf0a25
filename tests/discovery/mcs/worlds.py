"""Worlds for properties: what clusters may tell, and a cluster that takes plans as an API server does, in no time."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson
from hypothesis import strategies as st

from discovery.kube import labels
from discovery.mcs import names
from discovery.mcs.controller.changes import Apply, ApplyStatus, Change, Delete, Merge, Ref
from discovery.mcs.controller.importing import IMPORTS, SERVICES, SLICES, Local
from discovery.mcs.model import (
    Endpoint,
    EndpointSet,
    Import,
    ServiceKey,
    ServicePort,
    ServiceType,
    SlicePort,
)
from discovery.testing.cluster.kinds import ENDPOINT_SLICES, SERVICE_IMPORTS, Kind, Object
from discovery.testing.cluster.kinds import SERVICES as SERVICE_KIND
from discovery.testing.cluster.patching import patch
from discovery.testing.cluster.rules import RULES, Surroundings
from discovery.testing.cluster.store import Store
from discovery.testing.cluster.writes import Target, Writer, Writes

DATE = datetime(2026, 1, 1, tzinfo=UTC)
KEY = ServiceKey("dynamo", "hello")
PORTS = (ServicePort("http", "TCP", 80), ServicePort("", "TCP", 90), ServicePort("udp", "UDP", 80, "x"))
KINDS = {SLICES: ENDPOINT_SLICES, SERVICES: SERVICE_KIND, IMPORTS: SERVICE_IMPORTS}


def import_values(key: ServiceKey = KEY) -> st.SearchStrategy[Import]:
    affinity = st.sampled_from([("None", None), ("ClientIP", 10_800), ("ClientIP", 10)])
    words = st.dictionaries(st.sampled_from(["team", "a/b", labels.MCS_EXPORT]), st.sampled_from(["x", "y"]))

    def made(ports: list[ServicePort], aff: tuple[str, int | None], said: dict[str, str], **rest: Any) -> Import:
        kept = tuple(sorted(said.items()))
        return Import(key, ports=tuple(ports), session_affinity=aff[0], affinity_seconds=aff[1], labels=kept, **rest)

    return st.builds(
        made,
        st.lists(st.sampled_from(PORTS), unique=True),
        affinity,
        words,
        type=st.sampled_from(ServiceType),
        ip_families=st.sampled_from([(), ("IPv4",)]),
        traffic_distribution=st.sampled_from(["", "PreferClose"]),
        clusters=st.sampled_from([(), ("c1",), ("c1", "c2")]),
    )


def endpoint_sets(cluster: str, key: ServiceKey = KEY) -> st.SearchStrategy[EndpointSet]:
    ends = st.builds(
        Endpoint,
        st.sampled_from([("10.0.0.1",), ("10.0.0.2",)]),
        ready=st.sampled_from([None, True, False]),
        hostname=st.sampled_from(["", "pod-0"]),
    )
    ports = st.sampled_from([(), (SlicePort("http", "TCP", 8000),), (SlicePort("", "TCP", 9000),)])
    return st.builds(
        EndpointSet,
        st.just(cluster),
        st.just(key),
        st.sampled_from(["s1", "s2"]),
        st.just("IPv4"),
        ports,
        st.lists(ends, max_size=2).map(tuple),
        st.sampled_from([None, 1_700_000_000_000]),
    )


@dataclass
class World:
    """A cluster's store behind the fake API server's own rules."""

    store: Store = field(default_factory=lambda: Store(history=10, revision=1))
    deleted: list[Ref] = field(default_factory=list)

    def __post_init__(self) -> None:
        uids = itertools.count(1)
        self.writes = Writes(self.store, RULES, Surroundings(), lambda: DATE, lambda: f"uid-{next(uids)}")
        home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "dynamo"}}
        from discovery.testing.cluster.kinds import NAMESPACES

        self.writes.create(Target(NAMESPACES, "v1", "", "dynamo"), home, Writer())

    def carry_out(self, changes: list[Change]) -> int:
        """How many were carried out."""
        for change in changes:
            assert isinstance(change, Apply | ApplyStatus | Merge | Delete), change
            kind = KINDS[change.ref.resource]
            sub = "status" if isinstance(change, ApplyStatus) else ""
            target = Target(kind, kind.versions[0], change.ref.namespace, change.ref.name, sub)
            if isinstance(change, Delete):
                self.writes.delete(target, {"preconditions": {"uid": change.uid}})
                self.deleted.append(change.ref)
                continue
            media = "application/merge-patch+json" if isinstance(change, Merge) else "application/apply-patch+yaml"
            owner = names.STATUS_FIELD_OWNER if sub else names.FIELD_OWNER
            query = {"fieldManager": owner, "force": "true"}
            patch(self.writes, target, media, orjson.dumps(change.body), query, Writer(owner))
        return len(changes)

    def put(self, kind: Kind, body: Object) -> None:
        self.writes.create(
            Target(kind, kind.versions[0], body["metadata"]["namespace"], body["metadata"]["name"]), body, Writer("you")
        )

    def local(self, key: ServiceKey = KEY) -> Local:
        where = (key.namespace, key.name)
        derived = (key.namespace, names.derived_service(key))
        slices = {name: one for (_, name), one in self.store.now(ENDPOINT_SLICES.resource).items()}
        return Local(
            True,
            self.store.get(SERVICE_IMPORTS.resource, where),
            self.store.get(SERVICE_KIND.resource, derived),
            slices,
        )
