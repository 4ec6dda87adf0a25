"""Controllers as processes: they are killed, stand still, lose their API server, and are started again.

Owns the composition: the production controller whole (leader election, caches, exporter, importer), with a client of
the simulated API server in place of one that has sockets.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import orjson

from discovery.kube import labels
from discovery.kube.client import Access
from discovery.kube.errors import Unreachable
from discovery.kube.events import Query
from discovery.kube.lease_lock import LeadershipLost
from discovery.kube.writes import KubeWriter
from discovery.mcs.controller.app import Controller
from discovery.mcs.controller.exporter import Fenced
from discovery.mcs.controller.settings import Settings, check
from discovery.mcs.digest import digest
from tests.sim.mcs.api import Api, ApiError, Stream
from tests.sim.mcs.replicas import Line

if TYPE_CHECKING:
    from tests.sim.mcs.world import World

HOLD_DOWN = 120.0
BRAKE_WAIT = 30.0
SETTLE = 45.0
LEASE = ("mcs", "mcs-controller.dynamo.nvidia.com")


def settings(cluster: str, stale: str, *, elect: bool) -> Settings:
    found = check(
        {
            "registry": ["http://127.0.0.1:1"],
            "cluster_id": cluster,
            "clusterset": "set",
            "export_label": labels.MCS_EXPORT,
            "unexport_timeout": "60s",
            "hold_down": f"{HOLD_DOWN:g}s",
            "settle": f"{SETTLE:g}s",
            "brake_wait": f"{BRAKE_WAIT:g}s",
            "max_delete_ratio": 0.3,
            "stale_endpoints": stale,
            "leader_elect": elect,
            "listen": "127.0.0.1:0",
            "log_format": "json",
            "log_level": "error",
        }
    )
    assert isinstance(found, Settings), found
    return found


class Member:
    """One cluster: its API server and the processes of its controller."""

    def __init__(self, world: World, id_: str, ahead: float, *, elect: bool) -> None:
        self.world = world
        self.id = id_
        self.elect = elect
        self.api = Api(id_, world.loop, world.chance, ahead)
        self.settings = settings(id_, world.stale, elect=elect)
        self.processes = [Process(self, index, ahead) for index in range(2 if elect else 1)]

    def __repr__(self) -> str:
        return f"<Member {self.id}>"

    @property
    def holder(self) -> str:
        lease = self.api.get("leases", *LEASE)
        return str((lease or {}).get("spec", {}).get("holderIdentity") or "")


class Process:
    """One replica of a controller, life after life. `home`: the registry that it asks first."""

    def __init__(self, member: Member, index: int, ahead: float) -> None:
        self.member = member
        self.index = index
        self.ahead = ahead
        self.world = member.world
        self.home = self.world.chance.randrange(len(self.world.replicas))
        self.running = asyncio.Event()
        self.running.set()
        self.woken_at = -1e9
        self.life = 0
        self.api_cut = False
        self.controller: Controller | None = None
        self.me = ""
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Process {self.me or self.member.id}>"

    def start(self) -> None:
        self.life += 1
        self.me = f"{self.member.id}-{self.index}_{self.life}"
        controller = Controller(
            self.member.settings,
            lambda _, __: contextlib.nullcontext(Line(self.world, self)),
            digest,
            self.world.clock(self.ahead, self.running),
            self.world.chance.random,
            me=self.me,
            lease_namespace="mcs",
            clients=lambda: SimClient(self, self.life),
        )
        self.controller = controller
        self._task = asyncio.create_task(self._run(controller, self.life))

    async def _run(self, controller: Controller, life: int) -> None:
        try:
            await controller.work()
        except (LeadershipLost, Fenced) as error:
            self.world.note(f"{self.me} ends: {type(error).__name__}")
            if self.life == life:
                self.world.loop.call_later(self.world.chance.uniform(1, 5), self._restart, life)

    def _restart(self, life: int) -> None:
        if self.life == life and not self.world.over:
            self.start()

    def kill(self) -> None:
        """As SIGKILL: not one request more."""
        self.life += 1
        self.controller = None
        self.running.set()
        if self._task is not None:
            self._task.cancel()

    def freeze(self) -> None:
        self.running.clear()

    def thaw(self) -> None:
        if not self.running.is_set():
            self.woken_at = self.world.now
            self.running.set()

    async def working(self) -> None:
        if not self.running.is_set():
            await self.running.wait()

    @property
    def is_settled(self) -> bool:
        """It leads, and both sides have told each other everything."""
        controller = self.controller
        if controller is None or not controller.leads or controller.importer is None or controller.exporter is None:
            return False
        return controller.exporter.synced and controller.importer.connected and controller.importer.mirror.complete


class SimAnswer:
    """Of one object, or of a watch."""

    def __init__(self, process: Process, status: int, body: bytes, stream: Stream | None = None) -> None:
        self.status = status
        self.retry_after = None
        self._process = process
        self._body = body
        self._stream = stream

    async def read(self) -> bytes:
        if self._stream is None:
            body, self._body = self._body, b""
            return body
        line = await self._stream.waiting.get()
        await self._process.working()
        if isinstance(line, Exception):
            raise line
        return line or b""


class SimClient(KubeWriter):
    """The cluster as one life of a process reaches it."""

    def __init__(self, process: Process, life: int) -> None:
        super().__init__(Access("/nowhere"))
        self._process = process
        self._life = life

    @asynccontextmanager
    async def _exchange(
        self, method: str, path: str, query: Query, headers: Mapping[str, str], body: Any
    ) -> AsyncIterator[Any]:
        process, world, api = self._process, self._process.world, self._process.member.api
        await process.working()
        if method != "GET" and "/leases" not in path:
            world.watch_leader(process)
        await asyncio.sleep(world.chance.uniform(0.002, 0.02))
        if process.life != self._life or api.away or process.api_cut:
            raise Unreachable("cut")
        asked = dict(query)
        if asked.get("watch"):
            stream = api.watch(path, asked, lambda: world.chance.uniform(0.001, world.lag))
            try:
                yield SimAnswer(process, 200, b"", stream)
            finally:
                api.leave(stream)
            return
        try:
            if method == "DELETE":
                world.judge_deletion(process, path)
            status, answer = (200, api.answer(method, path, asked, headers, body))
            if method != "GET" and "/leases" not in path:
                world.wrote(process, method, path)
        except ApiError as error:
            status, answer = error.code, error.body
        if world.trouble and method != "GET" and world.chance.random() < world.lossy:
            raise Unreachable("the answer was lost")
        await process.working()
        yield SimAnswer(process, status, orjson.dumps(answer))
