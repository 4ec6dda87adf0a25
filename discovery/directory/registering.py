"""POST and DELETE on `/pools`: Relays register, renew and leave.

Owns who may, and how what the store says becomes HTTP. Nobody may unless tokens are configured or the operator has
said that anybody may; the answer to a registration tells the Relay how often to come back and where the routers are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from discovery.directory.addresses import Network
from discovery.directory.registered import RegisteredSource
from discovery.directory.registration_store import StoreUnavailable, TooLarge
from discovery.directory.registrations import BadRegistration, Superseded, parse_registration
from discovery.errors import MalformedKey
from discovery.identity import PoolKey, checked_key
from discovery.kit.errors import Refusal
from discovery.kit.log import logger
from discovery.kit.metrics import Counter
from discovery.pool import Router
from discovery.tokens import Grant, Tokens, bearer

_log = logger(__name__)

_MOST_DIGITS = 16
_CHALLENGE = {"www-authenticate": "Bearer"}


def disabled() -> Refusal:
    """The answer where nobody may register."""
    return Refusal(
        403,
        "registrations_disabled",
        "This directory takes no registrations: it was given neither --registration-tokens-file nor "
        "--insecure-registrations.",
    )


@dataclass
class Registering:
    """`tokens` gives the tokens that hold now, None where anybody may write. `answers` counts by call and code."""

    source: RegisteredSource
    tokens: Callable[[], Tokens | None]
    networks: Sequence[Network]
    routers: Callable[[], Sequence[Router]]
    answers: Counter

    async def register(self, request: Request) -> Response:
        try:
            answer = await self._register(request)
        except Refusal as refusal:
            self.answers.add("register", refusal.code)
            raise
        self.answers.add("register", "ok")
        return answer

    async def unregister(self, request: Request) -> Response:
        try:
            answer = await self._unregister(request)
        except Refusal as refusal:
            self.answers.add("unregister", refusal.code)
            raise
        self.answers.add("unregister", "ok")
        return answer

    async def _register(self, request: Request) -> Response:
        grant = self._grant(request)
        try:
            registration = parse_registration(await request.body(), self.networks)
        except BadRegistration as error:
            raise Refusal(400, "bad_registration", str(error), param=error.faults[0].path) from error
        _check_cluster(grant, registration.key)
        try:
            await self.source.register(registration)
        except Superseded as error:
            raise Refusal(409, "superseded", str(error), param="incarnation") from error
        except TooLarge as error:
            raise Refusal(413, "registration_too_large", str(error)) from error
        except StoreUnavailable as error:
            raise _unavailable(error) from error
        policy = self.source.policy
        lease = {"heartbeat_interval_secs": policy.heartbeat, "lease_duration_secs": policy.lease}
        routers = [
            {"id": one.id, "url": one.url, "cluster": one.cluster, "region": one.region} for one in self.routers()
        ]
        return JSONResponse({"lease": lease, "routers": routers})

    async def _unregister(self, request: Request) -> Response:
        grant = self._grant(request)
        parts = request.path_params
        try:
            key = checked_key(parts["cluster"], parts["namespace"], parts["name"])
        except MalformedKey as error:
            raise Refusal(400, "bad_request", str(error), param=error.field) from error
        incarnation = _incarnation(request)
        _check_cluster(grant, key)
        try:
            was_there = await self.source.unregister(key, incarnation)
        except Superseded as error:
            raise Refusal(409, "superseded", str(error), param="incarnation") from error
        except StoreUnavailable as error:
            raise _unavailable(error) from error
        if not was_there:
            raise Refusal(404, "unknown_pool", f"{key} is not registered.")
        return Response(status_code=204)

    def _grant(self, request: Request) -> Grant | None:
        """What the caller may do; None is everything. Raises Refusal."""
        tokens = self.tokens()
        if tokens is None:
            return None
        token = bearer(request.headers.get("authorization"))
        if token is None:
            message = "Registrations need the header `Authorization: Bearer TOKEN`."
            raise Refusal(401, "token_missing", message, headers=_CHALLENGE)
        grant = tokens.find(token)
        if grant is None:
            raise Refusal(401, "token_unknown", "This token may not register anything.", headers=_CHALLENGE)
        return grant


def _check_cluster(grant: Grant | None, key: PoolKey) -> None:
    if grant is not None and not grant.allows(key.cluster):
        _log.warning("token may not write this cluster", pool=str(key), token=grant.label)
        raise Refusal(403, "cluster_not_allowed", f"This token may not write cluster {key.cluster}.", param="cluster")


def _incarnation(request: Request) -> int | None:
    given = request.query_params.multi_items()
    if not given:
        return None
    for name, _ in given:
        if name != "incarnation":
            raise Refusal(400, "bad_request", f"{name!a} is no parameter here; there is: incarnation", param=name)
    text = given[0][1]
    if len(given) > 1 or not (text.isascii() and text.isdigit()) or len(text) > _MOST_DIGITS:
        raise Refusal(400, "bad_request", "incarnation is one whole number", param="incarnation")
    return int(text)


def _unavailable(error: StoreUnavailable) -> Refusal:
    # What the store said stands in the log and on /status; a caller from another cluster need not read it.
    message = f"The registration store did not answer as it should ({error.kind})."
    return Refusal(503, "store_unavailable", message, headers={"retry-after": "1"})
