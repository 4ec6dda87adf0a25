"""Asks the API servers: versions, what runs, what was deployed, who may do what.

Owns the requests; changes nothing (what would change something is a dry run). Refuses to judge, and to take a refusal
for an answer: what may not be read is `Unknown`, with the API server's reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

from discovery.kit.clock import Clock
from discovery.kube.client import Access as Credentials
from discovery.kube.errors import KubeError, Refusal, Refused
from discovery.kube.writes import KubeWriter
from global_ingress.validate.bundle import Object, config_of
from global_ingress.validate.cluster_reading import node_of, plural_of, pod_of, served_of
from global_ingress.validate.comparing import differences
from global_ingress.validate.evidence import Task
from global_ingress.validate.platform import (
    Access,
    Compared,
    Look,
    Node,
    Pod,
    Question,
    Unknown,
)
from global_ingress.validate.questions import questions

_OWNER = "global-ingress-validate"
_PAGE = "500"
_AT_ONCE = 8
_PATIENCE_S = 15.0
_OTHER_NAME = "-validate"

T = TypeVar("T")


class Cluster:
    """One cluster, by its API server."""

    def __init__(self, name: str, client: KubeWriter, clock: Clock) -> None:
        self.name = name
        self.client = client
        self._clock = clock
        self._documents: dict[str, Object] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)

    def __repr__(self) -> str:
        return f"<Cluster {self.name} {self.client!r}>"

    async def look(self, namespaces: Sequence[str]) -> Look:
        """What runs now; in these namespaces alone when not all may be listed."""
        at = self._clock.now().timestamp()
        pods, within = await self._pods(tuple(namespaces))
        return Look(at, pods, await _known(self._nodes), within)

    async def version(self) -> str | Unknown:
        async def asked() -> str:
            return str((await self._read("/version")).get("gitVersion", ""))

        return await _known(asked)

    async def served(self) -> tuple[str, ...] | Unknown:
        """All API resources."""

        async def asked() -> tuple[str, ...]:
            places = [str(one) for one in (await self._read("/api")).get("versions") or ()]
            for group in (await self._read("/apis")).get("groups") or ():
                places += [str(one["groupVersion"]) for one in group.get("versions") or ()]
            found = [served_of(place, await self.document(place)) for place in places]
            return tuple(sorted(one for kinds in found for one in kinds))

        return await _known(asked)

    async def access(self, pods: Sequence[Pod], task: Task) -> tuple[Access, ...] | Unknown:
        """The answers to every question about our accounts."""
        asked = list(questions(self.name, pods, task.bundle))
        if not asked:
            return Unknown("no pod of discovery or of the ingress was found, so whose rights to ask for is not known")

        async def answers() -> tuple[Access, ...]:
            first = await self._may(*asked[0])  # alone: who may not ask this may ask none of them
            return (first, *await self._in_turns([self._may(*one) for one in asked[1:]]))

        return await _known(answers)

    async def compared(self, objects: Sequence[Object]) -> tuple[tuple[Compared, ...], dict[str, str]]:
        """Each rendered object against the live one; and the sha256 of each live settings file."""
        found = await self._in_turns([self._compare(one) for one in objects])
        return tuple(one for one, _ in found), {name: digest for _, pair in found if pair for name, digest in [pair]}

    async def applicable(self, objects: Sequence[Object]) -> tuple[Compared, ...]:
        """Whether the API server would take each object, by a dry run."""
        return await self._in_turns([self._dry_run(one) for one in objects])

    async def document(self, place: str) -> Object:
        """The APIResourceList of `group/version`."""
        if place not in self._documents:
            self._documents[place] = await self._read(f"/apis/{place}" if "/" in place else f"/api/{place}")
        return self._documents[place]

    async def list(self, path: str) -> list[Object]:
        """All items of a collection."""
        found: list[Object] = []
        following = ""
        while True:
            query = (("limit", _PAGE), *((("continue", following),) if following else ()))
            page = await self.client.read(path, query, timeout=_PATIENCE_S)
            found += page.get("items") or ()
            following = (page.get("metadata") or {}).get("continue", "")
            if not following:
                return found

    async def _read(self, path: str) -> Object:
        return await self.client.read(path, timeout=_PATIENCE_S)

    async def _pods(self, namespaces: tuple[str, ...]) -> tuple[tuple[Pod, ...] | Unknown, tuple[str, ...] | None]:
        try:
            return _sorted(await self.list("/api/v1/pods")), None
        except Refused as error:
            if error.refusal is not Refusal.FORBIDDEN or not namespaces:
                return Unknown(str(error)), None
        except KubeError as error:
            return Unknown(str(error)), None
        within = [f"/api/v1/namespaces/{name}/pods" for name in namespaces]
        found = await _known(lambda: self._in_turns([self.list(path) for path in within]))
        return (found if isinstance(found, Unknown) else _sorted([o for part in found for o in part])), namespaces

    async def _nodes(self) -> tuple[Node, ...]:
        return tuple(sorted(node_of(one) for one in await self.list("/api/v1/nodes")))

    async def _may(self, namespace: str, one: Question) -> Access:
        user = f"system:serviceaccount:{namespace}:{one.account}"
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
        what = {"namespace": one.home, "verb": one.verb, "group": one.group, "resource": one.resource}
        what |= {"subresource": one.subresource} if one.subresource else {}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "groups": groups, "resourceAttributes": what},
        }
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        status = (await self.client.create(path, review, timeout=_PATIENCE_S)).get("status") or {}
        return Access(one, status.get("allowed") is True, str(status.get("reason") or ""))

    async def _compare(self, rendered: Object) -> tuple[Compared, tuple[str, str] | None]:
        name = named(rendered)
        try:
            path = await self._collection(rendered)
            if path is None:
                return Compared(name, (f"{rendered['apiVersion']} {rendered['kind']} is not served",)), None
            live = await self._read(f"{path}/{rendered['metadata']['name']}")
        except Refused as error:
            if error.refusal is Refusal.NOT_FOUND:
                return Compared(name, ("is not there",)), None
            return Compared(name, unknown=str(error)), None
        except KubeError as error:
            return Compared(name, unknown=str(error)), None
        config = config_of(live) if rendered["kind"] == "ConfigMap" else None
        settings = (rendered["metadata"]["name"], config) if config else None
        try:
            wanted = await self.client.create(path, _renamed(rendered), dry_run=True, timeout=_PATIENCE_S)
        except KubeError as error:
            return Compared(name, unknown=f"dry run: {error}"), settings
        return Compared(name, *differences(rendered, wanted, live)), settings

    async def _dry_run(self, rendered: Object) -> Compared:
        name = named(rendered)
        try:
            path = await self._collection(rendered)
            if path is None:
                return Compared(name, (f"{rendered['apiVersion']} {rendered['kind']} is not served",))
            await self.client.apply(
                f"{path}/{rendered['metadata']['name']}", rendered, _OWNER, dry_run=True, timeout=_PATIENCE_S
            )
        except Refused as error:
            if error.refusal in (Refusal.FORBIDDEN, Refusal.UNAUTHORIZED, Refusal.THROTTLED, Refusal.SERVER):
                return Compared(name, unknown=str(error))
            return Compared(name, (f"is not taken: {error.message}",))
        except KubeError as error:
            return Compared(name, unknown=str(error))
        return Compared(name)

    async def _collection(self, rendered: Object) -> str | None:
        """The path of all objects of this kind in its namespace; None when the kind is not served."""
        place = rendered["apiVersion"]
        try:
            found = plural_of(await self.document(place), rendered["kind"])
        except Refused as error:
            if error.refusal is not Refusal.NOT_FOUND:
                raise
            found = None
        if found is None:
            return None
        plural, namespaced = found
        home = f"/namespaces/{rendered['metadata'].get('namespace', 'default')}" if namespaced else ""
        return f"/{'apis' if '/' in place else 'api'}/{place}{home}/{plural}"

    async def _in_turns(self, asked: Sequence[Awaitable[T]]) -> tuple[T, ...]:
        """All of them, a few at once."""

        async def one(this: Awaitable[T]) -> T:
            async with self._turns:
                return await this

        found = await asyncio.gather(*(one(this) for this in asked), return_exceptions=True)
        if (failed := next((one for one in found if isinstance(one, BaseException)), None)) is not None:
            raise failed
        return tuple(one for one in found if not isinstance(one, BaseException))


def named(thing: Object) -> str:
    """Kind, namespace and name of an object, in words."""
    metadata = thing["metadata"]
    home = metadata.get("namespace")
    return f"{thing['kind']} {home}/{metadata['name']}" if home else f"{thing['kind']} {metadata['name']}"


def _renamed(thing: Object) -> Object:
    """The same object under a name that nobody has: a name is all that may not be taken."""
    metadata = thing["metadata"]
    return {**thing, "metadata": {**metadata, "name": metadata["name"][:50].rstrip("-.") + _OTHER_NAME}}


def _sorted(things: Sequence[Mapping[str, Any]]) -> tuple[Pod, ...]:
    return tuple(sorted(pod_of(one) for one in things))


async def _known(ask: Callable[[], Awaitable[T]]) -> T | Unknown:
    try:
        return await ask()
    except KubeError as error:
        return Unknown(str(error))


@asynccontextmanager
async def opened(task: Task, clock: Clock) -> AsyncIterator[list[Cluster]]:
    """The clusters whose kubeconfigs were given."""
    async with AsyncExitStack() as stack:
        found = []
        for name, path, context in task.kubeconfigs:
            client = await stack.enter_async_context(KubeWriter(Credentials(path, context or None)))
            found.append(Cluster(name, client, clock))
        yield found
