"""`--disturb kubernetes`: pods are deleted, frontends are scaled to none and back, by the clusters' API servers.

Owns what is done to a pool, and that it is undone: how many there were is read and told before anything is touched.
Refuses what it cannot undo: a pod that no workload keeps, frontends of several workloads, a number that somebody else
sets back. Verbs: list and delete pods; get replicasets; get and patch the scale of deployments, replicasets or
statefulsets. A cut is abrupt: pods get no time to drain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from discovery.kit.clock import Clock
from discovery.kube.errors import KubeError, Refusal, Refused
from discovery.kube.writes import KubeWriter
from global_ingress.validate.bundle import Object
from global_ingress.validate.clusters import Cluster
from global_ingress.validate.evidence import Listed
from global_ingress.validate.workloads import SCALED, Owner, by_hand, owner_of, pods_at

OWNER = "global-ingress-validate"
_POLL_S = 0.2
_TRIES = 5


class Cannot(Exception):
    """It is not done, or not undone; the message says why."""


@dataclass(frozen=True, slots=True)
class Held:
    """A pool's workload, and how many pods it kept before it was touched."""

    namespace: str
    owner: Owner
    replicas: int

    @property
    def path(self) -> str:
        return f"/apis/apps/v1/namespaces/{self.namespace}/{SCALED[self.owner.kind]}/{self.owner.name}/scale"


class Kubernetes:
    """The means, with a client for each cluster. Keeps `means.Means`."""

    def __init__(self, clusters: Sequence[Cluster], clock: Clock, patience_s: float = 60.0) -> None:
        self._clusters = {one.name: one for one in clusters}
        self._clock = clock
        self._patience_s = patience_s
        self._pools: dict[tuple[str, str], Listed] = {}
        self._held: dict[tuple[str, str], Held | Cannot] = {}
        self._cut: set[tuple[str, str]] = set()

    def __repr__(self) -> str:
        return f"<Kubernetes {', '.join(self._clusters)}>"

    def choose(self, pools: Sequence[Listed]) -> tuple[Listed, ...]:
        """Those that can be disturbed: whose clusters' API servers are known."""
        return tuple(pool for pool in pools if pool.key.partition("/")[0] in self._clusters)

    async def prepare(self, pools: Sequence[Listed]) -> list[str]:
        """Look at what is there; what will be touched and how it comes back by hand, a line each."""
        lines = []
        for pool in dict.fromkeys(pools):
            cluster, _, name = pool.key.partition("/")
            place = (cluster, name)
            self._pools[place] = pool
            try:
                held = await self._holder(pool)
                self._held[place] = held
                lines.append(
                    f"{cluster}: {held.owner.kind} {held.namespace}/{held.owner.name} keeps {held.replicas} pods; "
                    f"to bring them back by hand: {by_hand(held.namespace, held.owner, held.replicas)}"
                )
            except (KubeError, Cannot) as error:
                self._held[place] = Cannot(str(error))
                lines.append(f"{cluster}: {name} cannot be cut: {error}")
        return lines

    async def do(self, action: str, cluster: str, pool: str) -> str | None:
        place = (cluster, pool)
        if place not in self._pools:
            return f"{pool} in {cluster} was not looked at before"
        try:
            match action:
                case "replace":
                    await self._replace(place)
                case "cut":
                    await self._take(place)
                case _:
                    await self._give_back(place)
        except (KubeError, Cannot) as error:
            return str(error)
        return None

    async def _replace(self, place: tuple[str, str]) -> None:
        pods = await self._pods(self._pools[place])
        if owner_of(pods[0]) is None:
            raise Cannot(f"nothing would make the pod {pods[0]['metadata']['name']} anew")
        await self._delete(self._client(place), pods[0], None)

    async def _take(self, place: tuple[str, str]) -> None:
        held = self._held[place]
        if isinstance(held, Cannot):
            raise held
        pods, client = await self._pods(self._pools[place]), self._client(place)
        self._cut.add(place)  # before it is asked for: an answer that is lost may have been a yes
        await client.merge(held.path, {"spec": {"replicas": 0}}, OWNER)
        for pod in pods:
            await self._delete(client, pod, 0)
        await self._gone(place, held)

    async def _gone(self, place: tuple[str, str], held: Held) -> None:
        """Until no pod stands at the pool's addresses, and nobody has set the number back."""
        end = self._clock.monotonic() + self._patience_s
        while True:
            now = (await self._client(place).read(held.path))["spec"].get("replicas", 0)
            if now != 0:
                raise Cannot(f"somebody else set {held.owner.kind} {held.owner.name} to {now} replicas again")
            if not pods_at(await self._all(self._pools[place]), self._pools[place].frontends):
                return
            if self._clock.monotonic() >= end:
                raise Cannot(f"there are still pods of {held.owner.kind} {held.owner.name}")
            await self._clock.sleep(_POLL_S)

    async def _give_back(self, place: tuple[str, str]) -> None:
        held = self._held[place]
        if place not in self._cut or isinstance(held, Cannot):
            return
        for turn in range(_TRIES):
            try:
                await self._client(place).merge(held.path, {"spec": {"replicas": held.replicas}}, OWNER)
            except KubeError as error:
                if turn == _TRIES - 1:
                    raise Cannot(f"{error}; by hand: {by_hand(held.namespace, held.owner, held.replicas)}") from error
                await self._clock.sleep(1.0)
            else:
                self._cut.discard(place)
                return

    async def _holder(self, pool: Listed) -> Held:
        """The workload that keeps all frontends of the pool, and how many. Raises Cannot, KubeError."""
        namespace, client = pool.key.split("/")[1], self._clusters[pool.key.partition("/")[0]].client
        owners = {await self._owner(client, namespace, pod) for pod in await self._pods(pool)}
        if len(owners) > 1:
            raise Cannot(f"its frontends are kept by {len(owners)} workloads")
        owner = owners.pop()
        if owner is None or owner.kind not in SCALED:
            raise Cannot(f"its frontends are kept by {owner.kind if owner else 'nothing'}, which has no scale")
        held = Held(namespace, owner, 0)
        return Held(namespace, owner, int((await client.read(held.path))["spec"].get("replicas", 0)))

    async def _owner(self, client: KubeWriter, namespace: str, pod: Object) -> Owner | None:
        """A pod's workload: of its ReplicaSet the Deployment."""
        owner = owner_of(pod)
        if owner is None or owner.kind != "ReplicaSet":
            return owner
        above = await client.read(f"/apis/apps/v1/namespaces/{namespace}/replicasets/{owner.name}")
        return owner_of(above) or owner

    async def _pods(self, pool: Listed) -> list[Object]:
        """The pods at the pool's addresses, at least one. Raises Cannot."""
        found = [dict(one) for one in pods_at(await self._all(pool), pool.frontends)]
        if not found:
            raise Cannot(f"no pod of {pool.key.split('/')[1]} is at {', '.join(pool.frontends) or 'no address'}")
        return found

    async def _all(self, pool: Listed) -> list[Object]:
        cluster, namespace, _ = pool.key.split("/")
        return await self._clusters[cluster].list(f"/api/v1/namespaces/{namespace}/pods")

    def _client(self, place: tuple[str, str]) -> KubeWriter:
        return self._clusters[place[0]].client

    async def _delete(self, client: KubeWriter, pod: Object, grace_s: int | None) -> None:
        metadata: Mapping[str, str] = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        try:
            await client.delete(path, metadata["uid"], grace_s=grace_s)
        except Refused as error:
            if error.refusal not in (Refusal.NOT_FOUND, Refusal.CONFLICT):  # gone already, or another one by now
                raise
