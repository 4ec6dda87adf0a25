"""One simulated clusterset: what stands in it, who may reach whom, and the invariants that hold after every step.

Owns the truth: what people have exported, known without asking the code under test. An import, derived Service or slice
that a controller deletes is judged at that moment; the whole is compared with the truth when the trouble is over.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from discovery.kube import labels
from discovery.mcs import names
from discovery.mcs.model import ServiceKey
from discovery.mcs.store import Store
from discovery.mcs.store_memory import MemoryStore
from tests.sim.mcs.api import Object, _parts
from tests.sim.mcs.loop import HostClock, VirtualLoop
from tests.sim.mcs.processes import HOLD_DOWN, Member, Process
from tests.sim.mcs.replicas import RULES, Replica, Sessions, regions_of

NAMESPACE = "mcs"
Kind = Literal["memory", "shared", "regions"]
SKEW = 60.0


class Fault(AssertionError):
    """An invariant is broken."""


@dataclass
class Standing:
    """An export that people made. `again`: there was one before, so that old news of it may still be on their way."""

    since: float
    affinity: str
    slices: dict[str, str] = field(default_factory=dict)
    again: bool = False
    removed: bool = False
    """An operator has removed its cluster meanwhile: evidence that was given on purpose."""


class World:
    def __init__(self, loop: VirtualLoop, seed: int, kind: Kind, *, elect: bool, clusters: int) -> None:
        self.loop = loop
        self.chance = random.Random(seed)
        self.kind = kind
        self.trouble = True
        self.over = False
        self.lossy = self.chance.choice([0.0, 0.01, 0.05])
        self.lag = self.chance.choice([0.01, 0.1, 1.0])
        self.stale = cast(Literal["withdraw", "keep"], self.chance.choice(["withdraw", "keep"]))
        self.notes: list[str] = []
        self.broken: Fault | None = None
        self.epochs: dict[str, tuple[float, Replica]] = {}
        self.later_heard: list[tuple[float, int, str]] = []
        self.sessions = Sessions(self)
        self.standing: dict[tuple[str, ServiceKey], Standing] = {}
        self.ever: set[tuple[str, ServiceKey]] = set()
        self.writes: list[tuple[float, str, str]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.regions = regions_of(self) if kind == "regions" else None
        self.replicas = self._make_replicas()
        elected = self.chance.randrange(clusters) if elect else -1
        self.members = [
            Member(self, f"c{number + 1}", self.skew(), elect=number == elected) for number in range(clusters)
        ]
        self.services = [ServiceKey(NAMESPACE, name) for name in ("red", "green", "blue")]

    def _make_replicas(self) -> list[Replica]:
        stores: list[Store | None]
        if self.regions is not None:
            stores = [cast(Store, self.regions.first), cast(Store, self.regions.second)]
        elif self.kind == "shared":
            stores = [shared := MemoryStore(durable=True), shared]
        else:
            stores = [None]
        return [Replica(self, index, store, self.skew()) for index, store in enumerate(stores)]

    def skew(self) -> float:
        return self.chance.choice([0.0, self.chance.uniform(-SKEW / 2, SKEW / 2)])

    def clock(self, ahead: float, awake: asyncio.Event | None = None) -> HostClock:
        return HostClock(self.loop, ahead, awake)

    @property
    def now(self) -> float:
        return self.loop.time()

    @property
    def processes(self) -> list[Process]:
        return [process for member in self.members for process in member.processes]

    def note(self, text: str) -> None:
        self.notes.append(f"{self.now:9.3f}  {text}")

    def fault(self, rule: str, text: str) -> None:
        self.note(f"FAULT  {rule}: {text}")
        if self.broken is None:
            self.broken = Fault(f"{rule}: {text}")

    def later(self, seconds: float, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def wait() -> None:
            await asyncio.sleep(seconds)
            await work()

        task = asyncio.ensure_future(wait())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def start(self) -> None:
        for replica in self.replicas:
            replica.start()
        for process in self.processes:
            process.start()
        if self.regions is not None:
            self.later(0.5, self._carry)

    async def _carry(self) -> None:
        assert self.regions is not None
        while True:
            if not self.regions.cut:
                self.regions.deliver()
                self.sessions.carried()
            await asyncio.sleep(0.5)

    async def stop(self) -> None:
        self.over = True
        for process in self.processes:
            process.kill()
        for replica in self.replicas:
            replica.stop()

    # What people do

    def export(self, member: Member, service: ServiceKey) -> None:
        place = (member.id, service)
        affinity = self.chance.choice(["None", "None", "None", "ClientIP"])
        spec: Object = {"type": "ClusterIP", "sessionAffinity": affinity, "ports": [_PORT]}
        if affinity == "ClientIP":
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10}}
        marks = {labels.MCS_EXPORT: "true"} if self.chance.random() < 0.5 else {}
        metadata = {"namespace": service.namespace, "name": service.name}
        member.api.put("services", {"metadata": {**metadata, "labels": marks}, "spec": spec})
        if not marks:
            member.api.put("serviceexports", {"metadata": metadata, "spec": {}})
        self.standing[place] = Standing(self.now, affinity, again=place in self.ever)
        self.ever.add(place)
        self.slice(member, service, "a")

    def slice(self, member: Member, service: ServiceKey, suffix: str) -> None:
        standing = self.standing[member.id, service]
        address = f"10.{self.chance.randrange(1, 250)}.{self.chance.randrange(250)}.1"
        name = f"{service.name}-{suffix}"
        body = {
            "metadata": {
                "namespace": service.namespace,
                "name": name,
                "labels": {labels.SERVICE_NAME: service.name, labels.MANAGED_BY: "endpointslice-controller.k8s.io"},
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
            "ports": [{"name": "http", "protocol": "TCP", "port": 8000}],
        }
        member.api.put("endpointslices", body)
        standing.slices[name] = address

    def unexport(self, member: Member, service: ServiceKey) -> None:
        del self.standing[member.id, service]
        api, where = member.api, (service.namespace, service.name)
        live = api.get("services", *where)
        assert live is not None
        if self.chance.random() < 0.3 or labels.MCS_EXPORT in live["metadata"]["labels"]:
            # With the Service goes what its label made; what people made by hand they delete, too.
            api.remove("services", *where)
        api.remove("serviceexports", *where)
        if api.get("services", *where) is not None:
            api.remove("services", *where)
        for name in ("a", "b"):
            api.remove("endpointslices", service.namespace, f"{service.name}-{name}")

    # What is watched

    def wrote(self, process: Process, method: str, path: str) -> None:
        self.writes.append((self.now, process.me, f"{method} {path}"))

    def watch_leader(self, process: Process) -> None:
        """Called before each write. Who stood still may find out a moment later that others lead."""
        member = process.member
        if not member.elect or self.now - process.woken_at < 1.0 or not member.holder:
            return
        if member.holder != process.me:
            self.fault("a stale leader writes nothing", f"{process.me} writes while {member.holder} holds the Lease")

    def judge_deletion(self, process: Process, path: str) -> None:
        resource, namespace, name, _ = _parts(path)
        thing = process.member.api.get(resource, namespace, name)
        if thing is None or thing["metadata"].get("labels", {}).get(labels.MCS_OURS) is None:
            return
        if resource == "endpointslices":
            self._judge_slice(process, thing)
        elif resource in ("serviceimports", "services"):
            self._judge_import(process, resource, thing)

    def _judge_import(self, process: Process, resource: str, thing: Object) -> None:
        name = thing["metadata"]["name"]
        for service in self.services:
            if name not in (service.name, names.derived_service(service)):
                continue
            owner = process.member.api.get("serviceimports", *service) or thing
            said = owner["metadata"].get("annotations", {}).get(labels.MCS_SOURCES, "").split(",")
            said += [one["cluster"] for one in owner.get("status", {}).get("clusters", ())]
            for cluster in sorted(set(said)):
                standing = self.standing.get((cluster, service))
                if standing and not standing.again and not standing.removed and not self._held_down(process, cluster):
                    self.fault(
                        "no import or derived Service is deleted while its export stands",
                        f"{process.me} deletes {resource} {service}; {cluster} exports it since {standing.since:.3f}",
                    )

    def _judge_slice(self, process: Process, thing: Object) -> None:
        found = thing["metadata"]["labels"]
        cluster = found[labels.MCS_SOURCE_CLUSTER]
        service = ServiceKey(thing["metadata"]["namespace"], found[labels.MCS_SERVICE_NAME])
        standing = self.standing.get((cluster, service))
        if standing is None or standing.again or standing.removed:
            return
        ours = {names.imported_slice(service, cluster, one) for one in standing.slices}
        if thing["metadata"]["name"] not in ours or self._held_down(process, cluster):
            return
        if self._lapsed(process, cluster):
            return
        self.fault(
            "no slice is deleted while its export stands",
            f"{process.me} deletes a slice of {service} from {cluster}, which stands since {standing.since:.3f}",
        )

    def _followed(self, process: Process) -> tuple[float, Replica] | None:
        controller = process.controller
        importer = controller.importer if controller is not None else None
        return self.epochs.get(importer.mirror.epoch) if importer is not None else None

    def _held_down(self, process: Process, cluster: str) -> bool:
        """Rule D40 (c): a registry that has been there for so long and does not know this cluster as one that lives."""
        followed = self._followed(process)
        if followed is None or self.now - followed[0] < HOLD_DOWN:
            return False
        service = followed[1].service
        shown = service.board.clusters.get(cluster) if service is not None else None
        return shown is None or not shown.live

    def _lapsed(self, process: Process, cluster: str) -> bool:
        """Its lease was not renewed for its ttl where this process reads, and the process was told so."""
        followed = self._followed(process)
        if self.stale != "withdraw" or followed is None:
            return False
        assert process.controller is not None
        assert process.controller.importer is not None
        known = process.controller.importer.mirror.clusters.get(cluster)
        told = known is not None and not known.live
        # A deletion is on its way for a moment, in which the cluster may come back.
        return self.sessions.was_silent(followed[1], cluster, within=300.0 if told else 15.0)

    # What must be when all is well

    def missing(self) -> str:
        """What is not yet as it should be; "" when everything is."""
        for replica in self.replicas:
            if replica.service is None or not replica.service.complete or replica.service.stale_for_s:
                return f"{replica} is not complete"
        for member in self.members:
            if not any(process.is_settled for process in member.processes):
                return f"{member.id} has no leader that has told and heard everything"
            for service in self.services:
                if wrong := self._wrong_import(member, service) or self._wrong_export(member, service):
                    return f"{member.id} {service}: {wrong}"
        return ""

    def _exporters(self, service: ServiceKey) -> dict[str, Standing]:
        return {cluster: one for (cluster, key), one in sorted(self.standing.items()) if key == service}

    def _wrong_import(self, member: Member, service: ServiceKey) -> str:
        exporters = self._exporters(service)
        api = member.api
        live = api.get("serviceimports", *service)
        derived = api.get("services", service.namespace, names.derived_service(service))
        slices = {
            name: one
            for (_, name), one in api.objects["endpointslices"].items()
            if one["metadata"]["labels"].get(labels.MCS_SERVICE_NAME) == service.name
        }
        if not exporters:
            return "something is left" if live or derived or slices else ""
        if live is None or derived is None:
            return "no import or no derived Service"
        wanted = {
            names.imported_slice(service, cluster, name): address
            for cluster, one in exporters.items()
            for name, address in one.slices.items()
        }
        found = {name: one["endpoints"][0]["addresses"][0] for name, one in slices.items()}
        if found != wanted:
            return f"slices {found}, not {wanted}"
        if any(labels.STALE_SINCE in one["metadata"].get("annotations", {}) for one in slices.values()):
            return "a slice is marked stale"
        status = live.get("status", {})
        if [one["cluster"] for one in status.get("clusters", ())] != sorted(exporters):
            return f"status.clusters {status}"
        if live["metadata"]["annotations"].get(labels.MCS_SOURCES) != ",".join(sorted(exporters)):
            return f"sources {live['metadata']['annotations']}"
        if {one["type"]: one["status"] for one in status["conditions"]} != {"Ready": "True"}:
            return f"conditions {status['conditions']}"
        affinity = exporters[self._oldest(service, exporters)].affinity
        if (live["spec"]["sessionAffinity"], derived["spec"]["sessionAffinity"]) != (affinity, affinity):
            return f"affinity {live['spec']['sessionAffinity']}, not {affinity}"
        return "" if live["spec"].get("ips") == derived["spec"]["clusterIPs"] else "addresses"

    def _oldest(self, service: ServiceKey, exporters: dict[str, Standing]) -> str:
        by_id = {member.id: member for member in self.members}

        def age(cluster: str) -> tuple[str, str]:
            live = by_id[cluster].api.get("serviceexports", *service)
            return (live["metadata"]["creationTimestamp"] if live else "9", cluster)

        return min(exporters, key=age)

    def _wrong_export(self, member: Member, service: ServiceKey) -> str:
        exporters = self._exporters(service)
        live = member.api.get("serviceexports", *service)
        if member.id not in exporters:
            return "" if live is None else "an export is left"
        if live is None:
            return "no export"
        found = {one["type"]: one["status"] for one in live.get("status", {}).get("conditions", ())}
        conflict = len({one.affinity for one in exporters.values()}) > 1
        wanted = {"Valid": "True", "Ready": "True", "Conflict": str(conflict)}
        return "" if found == wanted else f"conditions {found}, not {wanted}"


_PORT = {"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8000}
__all__ = ["RULES", "Fault", "World"]
