"""Who may come in: the keys of the operator's file as a worker knows them (I60).

A key is looked up by its digest: how long that takes says nothing of the key. Refuses with 401 whoever shows none, one
that is unknown, revoked or expired, all in the same words; with 403 a model that the key does not allow; with 429 what
is too much. Keeps the rule that no key, and no part of one, is in anything it says.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from fnmatch import translate
from typing import Protocol

from global_ingress.proxy.shared.errors import Refusal
from global_ingress.proxy.shared.rate import Verdict
from global_ingress.proxy.shared.routes import Auth, KeyRoute, Routes

_NOBODY = bytes(32)
_UNKNOWN = "the request carries no valid API key: send one as `Authorization: Bearer KEY` or as `x-api-key: KEY`"
_CHALLENGE = b'WWW-Authenticate: Bearer realm="global-ingress"\r\n'


class Purse(Protocol):
    """What holders have used up, over all workers: `allowance.Allowance`."""

    def peek(self, slot: int, now: int, count: int, window: int) -> Verdict: ...

    def take(self, slot: int, now: int, rate: tuple[int, int] | None, most: int | None) -> Verdict | None: ...

    def end(self, slot: int) -> None: ...


def pattern(glob: str) -> str:
    """The regular expression of a glob: `*` is any text, `?` any character, and every other character is itself."""
    return translate(glob.replace("[", "[[]"))  # to fnmatch a bracket would begin a class of characters


class Holder:
    """Whoever shows a key."""

    __slots__ = ("_listing", "_match", "_routes", "key", "rate")

    def __init__(self, key: KeyRoute) -> None:
        self.key = key
        self.rate = None if key.rate is None else (key.rate[0], int(key.rate[1] * 1e9))
        globs = "|".join(map(pattern, key.models))
        self._match: Callable[[str], object] | None = None if key.models == ("*",) else re.compile(globs).match
        self._routes: Routes | None = None
        self._listing = b""

    def allows(self, model: str) -> bool:
        """Whether it may use this model, by its id."""
        return self._match is None or self._match(model) is not None

    def listing(self, routes: Routes) -> bytes:
        """GET /v1/models as this holder sees it; made once per table."""
        if self._routes is not routes:
            seen = [routes.described[id] for id in sorted(routes.described) if self.allows(id)]
            self._listing = b'{"object":"list","data":[%b]}' % b",".join(seen)
            self._routes = routes
        return self._listing


class Doors:
    """`wall` and `clock_ns` tell the time: of the calendar, and one that only grows."""

    def __init__(self, auth: Auth, allowance: Purse, wall: Callable[[], float], clock_ns: Callable[[], int]) -> None:
        self.auth = auth
        self._holders = {key.digest: Holder(key) for key in auth.keys}
        self._allowance = allowance
        self._wall = wall
        self._clock_ns = clock_ns

    def find(self, secret: bytes) -> Holder:
        """Whose key this is. Raises Refusal: invalid_api_key."""
        digest = hashlib.sha256(secret).digest()
        holder = self._holders.get(digest)
        same = hmac.compare_digest(digest, _NOBODY if holder is None else holder.key.digest)
        if holder is None or not same or not secret:
            raise Refusal("invalid_api_key", _UNKNOWN, headers=_CHALLENGE)
        if holder.key.expires is not None and self._wall() >= holder.key.expires:
            raise Refusal("invalid_api_key", _UNKNOWN, headers=_CHALLENGE)
        return holder

    def look(self, secret: bytes) -> None:
        """What can be refused by the head alone, so that no body is read for it. Raises Refusal."""
        holder = self.find(secret)
        if holder.rate is not None:
            verdict = self._allowance.peek(holder.key.slot, self._clock_ns(), *holder.rate)
            if not verdict.allowed:
                raise _too_often(holder, verdict.wait, verdict.reset)

    def enter(self, secret: bytes) -> Holder:
        """One request begins: counted until it is ended. Raises Refusal."""
        holder = self.find(secret)
        key = holder.key
        verdict = self._allowance.take(key.slot, self._clock_ns(), holder.rate, key.concurrent)
        if verdict is None:
            words = f"the key has {key.concurrent} requests in flight, which is all that it may have"
            raise Refusal("rate_limit_exceeded", words, headers=b"Retry-After: 1\r\n")
        if not verdict.allowed:
            raise _too_often(holder, verdict.wait, verdict.reset)
        return holder


def may_use(holder: Holder, model: str) -> None:
    """Raises Refusal: model_not_allowed, whether the model exists or not."""
    if not holder.allows(model):
        raise Refusal("model_not_allowed", f"the key does not allow the model `{model[:200]}`", "model")


def _too_often(holder: Holder, wait: int, reset: int) -> Refusal:
    rate = holder.key.rate or (0, 0.0)
    lines = b"Retry-After: %d\r\n" % max(1, -(-wait // 10**9))
    lines += b"x-ratelimit-limit-requests: %d\r\nx-ratelimit-remaining-requests: 0\r\n" % rate[0]
    lines += b"x-ratelimit-reset-requests: %.3fs\r\n" % (reset / 1e9)
    words = f"the key has used up its {rate[0]} requests per {rate[1]:g} s"
    return Refusal("rate_limit_exceeded", words, headers=lines)
