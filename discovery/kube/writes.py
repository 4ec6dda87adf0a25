"""Reading one object and writing it: create, replace, server-side apply, merge, delete.

Owns what a write looks like and how long it may take. Every refusal is one of `Refusal`; whether a write took effect
after `Unreachable` is not known, so that everything here is made to be repeated. Whoever may not write must not import
this module: an import contract holds the directory to that.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from discovery.kube.answers import Status, object_of, status_of
from discovery.kube.client import KubeClient
from discovery.kube.errors import NotAnAnswer, Refusal, Refused, Unreachable
from discovery.kube.events import Query

Object = dict[str, Any]

TIMEOUT: Final = 30.0
_MOST: Final = 64 * 1024 * 1024
_JSON = {"Content-Type": "application/json"}
_APPLY = {"Content-Type": "application/apply-patch+yaml"}
_MERGE = {"Content-Type": "application/merge-patch+json"}
_DRY_RUN: Query = (("dryRun", "All"),)
_REFUSALS: Final = {
    401: Refusal.UNAUTHORIZED,
    403: Refusal.FORBIDDEN,
    404: Refusal.NOT_FOUND,
    409: Refusal.CONFLICT,
    429: Refusal.THROTTLED,
}


class KubeWriter(KubeClient):
    """A client that may also write. Every call raises Refused, Unreachable or BadKubeConfig."""

    async def read(self, path: str, query: Query = (), *, timeout: float = TIMEOUT) -> Object:
        """The object, or whatever JSON stands at this path."""
        return (await self._ask("GET", path, query, {}, None, timeout))[1]

    async def create(self, path: str, body: Object, *, dry_run: bool = False, timeout: float = TIMEOUT) -> Object:
        """POST to a collection; CONFLICT when one of that name is there. `dry_run`: nothing is made."""
        return (await self._ask("POST", path, _DRY_RUN if dry_run else (), _JSON, body, timeout))[1]

    async def replace(self, path: str, body: Object, *, timeout: float = TIMEOUT) -> tuple[Object, bool]:
        """PUT: the object, and whether there was none before. CONFLICT when `resourceVersion` is not the newest."""
        status, made = await self._ask("PUT", path, (), _JSON, body, timeout)
        return made, status == 201

    async def apply(
        self, path: str, body: Object, owner: str, *, dry_run: bool = False, timeout: float = TIMEOUT
    ) -> Object:
        """Server-side apply: what `owner` named before and does not name now goes, what others own stays. A `uid` in
        the body's metadata keeps it from making another object of that name (CONFLICT). `dry_run`: nothing is changed,
        the answer is what would be."""
        query = (("fieldManager", owner), ("force", "true"), *(_DRY_RUN if dry_run else ()))
        return (await self._ask("PATCH", path, query, _APPLY, body, timeout))[1]

    async def merge(self, path: str, body: Object, owner: str, *, timeout: float = TIMEOUT) -> Object:
        """A merge patch: null removes, a list is replaced whole."""
        return (await self._ask("PATCH", path, (("fieldManager", owner),), _MERGE, body, timeout))[1]

    async def delete(self, path: str, uid: str, *, grace_s: int | None = None, timeout: float = TIMEOUT) -> None:
        """Delete this very object: CONFLICT when another one has its name by now. `grace_s`: how long a pod has to end,
        None what it says itself."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        options |= {} if grace_s is None else {"gracePeriodSeconds": grace_s}
        await self._ask("DELETE", path, (("propagationPolicy", "Background"),), _JSON, options, timeout)

    async def _ask(
        self, method: str, path: str, query: Query, headers: dict[str, str], body: Object | None, timeout: float
    ) -> tuple[int, Object]:
        try:
            async with (
                asyncio.timeout(timeout),
                self._exchange(method, path, query, headers, body) as answer,
            ):
                data = bytearray()
                while piece := await answer.read():
                    data += piece
                    if len(data) > _MOST:
                        raise Unreachable(f"an answer of more than {_MOST} bytes")
        except TimeoutError as error:
            raise Unreachable(f"no whole answer within {timeout:g} s") from error
        if answer.status >= 300:
            if answer.status == 401:
                # Tokens change under us, and so do the files and plugins that they come from.
                await self.renew()
            raise _refused(status_of(bytes(data), answer.status), answer.status, answer.retry_after)
        try:
            return answer.status, object_of(bytes(data))
        except NotAnAnswer as error:
            raise Unreachable(str(error)) from error


def _refused(status: Status, code: int, retry_after: str | None) -> Refused:
    found = _REFUSALS.get(code) or (Refusal.SERVER if code >= 500 else Refusal.INVALID)
    if found is Refusal.FORBIDDEN and ("NamespaceTerminating" in status.causes or "being terminated" in status.message):
        found = Refusal.TERMINATING
    wait = float(retry_after) if retry_after and retry_after.isdecimal() else None
    return Refused(found, status.message or str(status), retry_after_s=wait)
