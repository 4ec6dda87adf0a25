"""The course of asking the API servers: before anything is sent, and once more when all is done.

Owns what is asked when. The rule: what runs is looked at twice, so that what changed meanwhile is seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from global_ingress.validate.bundle import Object
from global_ingress.validate.clusters import Cluster
from global_ingress.validate.evidence import PHASES, Listing, Reading, Task
from global_ingress.validate.platform import Bundle, ClusterEvidence, Compared, Look, Unknown


@dataclass(frozen=True, slots=True)
class Given:
    """What the operator gives beside addresses: as in `Task`."""

    kubeconfigs: tuple[tuple[str, str, str], ...] = ()
    bundle: Bundle | None = None
    rollback: Bundle | None = None
    fleet_sha256: str = ""
    protect: tuple[str, ...] = ()
    phases: tuple[int, ...] = PHASES
    verifier: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rendered:
    """The objects of the bundle and of the rollback bundle, by cluster."""

    objects: Mapping[str, Sequence[Object]] = field(default_factory=dict)
    rollback: Mapping[str, Sequence[Object]] = field(default_factory=dict)


class Asking:
    def __init__(self, clusters: Sequence[Cluster], task: Task, rendered: Rendered) -> None:
        self._clusters = clusters
        self._task = task
        self._rendered = rendered
        self._homes: dict[str, tuple[str, ...]] = {}
        self._found: list[ClusterEvidence] = []

    async def first(self, readings: Sequence[Reading], say: Callable[[str], None]) -> None:
        """Everything, once."""
        if not self._clusters:
            return
        say(f"API servers of {', '.join(one.name for one in self._clusters)}")
        self._homes = {one.name: self._namespaces(one.name, readings) for one in self._clusters}
        self._found = list(await asyncio.gather(*(self._ask(one) for one in self._clusters)))

    async def last(self) -> tuple[ClusterEvidence, ...]:
        """The same, with one more look at what runs."""
        looks = await asyncio.gather(*(one.look(self._homes[one.name]) for one in self._clusters))
        return tuple(_later(one, look) for one, look in zip(self._found, looks, strict=True))

    def _namespaces(self, cluster: str, readings: Sequence[Reading]) -> tuple[str, ...]:
        """Where what matters runs, as far as it is known."""
        listed = [pool for reading in readings if isinstance(reading.seen, Listing) for pool in reading.seen.pools]
        keys = [pool.key.split("/") for pool in listed]
        bundle = self._task.bundle
        ours = [bundle.namespace] if bundle and bundle.namespace else []
        return tuple(sorted({*ours, *self._task.protect, *(key[1] for key in keys if key[0] == cluster)}))

    async def _ask(self, cluster: Cluster) -> ClusterEvidence:
        look = await cluster.look(self._homes[cluster.name])
        compared, config = await self._compared(cluster)
        return ClusterEvidence(
            cluster=cluster.name,
            version=await cluster.version(),
            served=await cluster.served(),
            before=look,
            after=look,
            access=look.pods if isinstance(look.pods, Unknown) else await cluster.access(look.pods, self._task),
            objects=compared,
            live_config=config,
            rollback=await self._rollback(cluster),
        )

    async def _compared(
        self, cluster: Cluster
    ) -> tuple[tuple[Compared, ...] | Unknown, tuple[tuple[str, str], ...] | Unknown]:
        objects = self._rendered.objects.get(cluster.name, ())
        if not objects:
            missing = _missing(self._task.bundle, "bundle", cluster)
            return missing, missing
        compared, config = await cluster.compared(objects)
        unread = [one for one in compared if one.unknown and one.name.startswith("ConfigMap ")]
        if unread and not config:
            return compared, Unknown(unread[0].unknown)
        return compared, tuple(sorted(config.items()))

    async def _rollback(self, cluster: Cluster) -> tuple[Compared, ...] | Unknown:
        objects = self._rendered.rollback.get(cluster.name, ())
        return await cluster.applicable(objects) if objects else _missing(self._task.rollback, "rollback", cluster)


def _missing(bundle: Bundle | None, flag: str, cluster: Cluster) -> Unknown:
    if bundle is None:
        return Unknown(f"no folder was given (--{flag})")
    return Unknown(f"{bundle.folder} has nothing for the cluster {cluster.name}")


def _later(one: ClusterEvidence, look: Look) -> ClusterEvidence:
    return ClusterEvidence(
        one.cluster, one.version, one.served, one.before, look, one.access, one.objects, one.live_config, one.rollback
    )
