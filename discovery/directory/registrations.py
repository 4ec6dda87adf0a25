"""Registrations: what a Relay says of its pool, checked; and how they join what slices say.

Pure. Owns the body of POST /pools, the rule which of two registrations of one pool holds, and the join by key. A body
is refused with all its faults at once, each with its path; unknown fields are faults, so that a misspelt one never
means "not said".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo

from discovery.directory.addresses import Network, frontend_url, parse_address, service_url
from discovery.errors import DiscoveryError, MalformedKey
from discovery.identity import PoolKey, checked_key
from discovery.lease import Lease, renewed
from discovery.pool import Frontend, Pod, Pool, Relay

SOURCE = "registration"
MOST_FRONTENDS = 1000
_SHOWN_FAULTS = 20


@dataclass(frozen=True, slots=True)
class Registration:
    """`incarnation` tells a Relay's lives apart, for instance by the time it started: of two that register one pool,
    the newer holds. 0 when it does not say."""

    key: PoolKey
    region: str
    relay: Relay
    frontends: tuple[Frontend, ...] = ()
    incarnation: int = 0


@dataclass(frozen=True, slots=True)
class Held:
    """A registration and its lease."""

    registration: Registration
    lease: Lease


@dataclass(frozen=True, slots=True)
class Fault:
    """`path` says where in the body, `$` for the whole of it."""

    path: str
    reason: str


class BadRegistration(DiscoveryError):
    """A body that is no registration; `faults` holds all that is wrong with it."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        shown = [f"{fault.path}: {fault.reason}" for fault in faults[:_SHOWN_FAULTS]]
        if len(faults) > _SHOWN_FAULTS:
            shown.append(f"and {len(faults) - _SHOWN_FAULTS} more")
        super().__init__("; ".join(shown))
        self.faults = tuple(faults)


class Superseded(DiscoveryError):
    """A newer incarnation of this pool's Relay holds the registration."""

    def __init__(self, key: PoolKey, incarnation: int) -> None:
        super().__init__(f"{key} is registered by incarnation {incarnation}, which is newer")
        self.incarnation = incarnation


# ---- the body


def _part(field: str) -> Any:
    def check(value: str) -> str:
        parts = {"cluster": "c", "namespace": "n", "name": "n"} | {field: value}
        try:
            checked_key(**parts)
        except MalformedKey as error:
            raise ValueError(error.reason) from None
        if "/" in value:
            raise ValueError(f"holds a slash: {value!r}")
        return value

    return Annotated[str, Field(max_length=253), AfterValidator(check)]


def _printable(value: str) -> str:
    if not value.strip() or not value.isprintable():
        raise ValueError("is empty, or holds a character that cannot be printed")
    return value


def _identity(value: str) -> str:
    if value.startswith("ip:"):
        parse_address(value.removeprefix("ip:"))
    return value


def _frontend_url(value: str, info: ValidationInfo) -> str:
    return frontend_url(value, info.context or ())


_Text = Annotated[str, Field(max_length=253), AfterValidator(_printable)]
_FrontendUrl = Annotated[str, Field(max_length=253), AfterValidator(_frontend_url)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class _RelayBody(_Strict):
    identity: Annotated[str, Field(max_length=2048), AfterValidator(_printable), AfterValidator(_identity)]
    url: Annotated[str, Field(max_length=2048), AfterValidator(service_url)]


class _PodBody(_Strict):
    name: _Text
    uid: Annotated[str, Field(max_length=253)] = ""


class _FrontendBody(_Strict):
    url: _FrontendUrl
    also: Annotated[list[_FrontendUrl], Field(max_length=8)] = []
    ready: bool = True
    serving: bool = True
    terminating: bool = False
    pod: _PodBody | None = None
    zone: _Text | None = None


def _no_address_twice(frontends: list[_FrontendBody] | None) -> list[_FrontendBody] | None:
    seen: set[str] = set()
    for index, frontend in enumerate(frontends or ()):
        for url in (frontend.url, *frontend.also):
            if url in seen:
                raise ValueError(f"[{index}] names {url} again")
            seen.add(url)
    return frontends


class _Body(_Strict):
    cluster: _part("cluster")  # type: ignore[valid-type]
    namespace: _part("namespace")  # type: ignore[valid-type]
    name: _part("name")  # type: ignore[valid-type]
    region: _Text
    relay: _RelayBody
    frontends: Annotated[
        list[_FrontendBody] | None, Field(max_length=MOST_FRONTENDS), AfterValidator(_no_address_twice)
    ] = None
    incarnation: Annotated[int, Field(ge=0, lt=2**53)] = 0


def parse_registration(body: bytes, networks: Sequence[Network]) -> Registration:
    """The registration in a body; its frontends must be inside `networks`. Raises BadRegistration."""
    try:
        said = _Body.model_validate_json(body, context=tuple(networks))
    except ValidationError as error:
        raise BadRegistration([_fault(one) for one in error.errors(include_url=False)]) from None
    return Registration(
        PoolKey(said.cluster, said.namespace, said.name),
        said.region,
        Relay(said.relay.identity, said.relay.url),
        tuple(sorted((_frontend(one) for one in said.frontends or ()), key=lambda frontend: frontend.url)),
        said.incarnation,
    )


def _frontend(said: _FrontendBody) -> Frontend:
    pod = Pod(said.pod.name, said.pod.uid) if said.pod else None
    return Frontend(said.url, tuple(said.also), said.ready, said.serving, said.terminating, pod, said.zone)


def _fault(one: Any) -> Fault:
    path = ""
    for step in one["loc"]:
        path += f"[{step}]" if isinstance(step, int) else f".{_shown(step)}" if path else _shown(step)
    kind = one["type"]
    if kind == "extra_forbidden":
        reason = "is no field of a registration"
    elif kind == "missing":
        reason = "is missing"
    else:
        reason = one["msg"].removeprefix("Value error, ")
    return Fault(path or "$", reason)


def _shown(name: str) -> str:
    shown = name if len(name) <= 64 else f"{name[:64]}…"
    return shown if shown.isprintable() else ascii(shown)


# ---- which one holds


def after_writing(stored: Held | None, new: Registration, *, now_ms: int, duration_ms: int) -> Held:
    """What is held after `new` was written over `stored`. Raises Superseded.

    A newer incarnation replaces; of the same one, the content is the newest and the lease never ends earlier than it
    was to; an older one is refused while the newer is live.
    """
    if stored is not None:
        known = stored.registration.incarnation
        if new.incarnation < known and stored.lease.is_live(now_ms):
            raise Superseded(new.key, known)
        if new.incarnation == known:
            return Held(new, renewed(stored.lease, now_ms, duration_ms))
    return Held(new, Lease(now_ms, duration_ms))


def check_deletion(stored: Held, incarnation: int | None, now_ms: int) -> None:
    """Whether this incarnation (None: does not say) may forget what is stored. Raises Superseded.

    The end of a Relay's earlier life is no end of the one that came after it.
    """
    known = stored.registration.incarnation
    if incarnation is not None and incarnation < known and stored.lease.is_live(now_ms):
        raise Superseded(stored.registration.key, known)


# ---- the join


def join(pools: Iterable[Pool], registrations: Iterable[Registration]) -> tuple[Pool, ...]:
    """Pools of slices and registrations, united by key: slices say where, a registration adds the relay's identity
    and frontends that no slice names. Either alone is a pool."""
    joined = {pool.key: pool for pool in pools}
    for one in registrations:
        pool = joined.get(one.key)
        joined[one.key] = _alone(one) if pool is None else _united(pool, one)
    return tuple(joined.values())


def _alone(one: Registration) -> Pool:
    return Pool(one.key, one.region, _listed(one), one.relay, (SOURCE,))


def _listed(one: Registration) -> tuple[Frontend, ...]:
    """Ready, or ending and still serving: the rule for slices holds here too."""
    return tuple(known for known in one.frontends if known.ready or (known.serving and known.terminating))


def _united(pool: Pool, one: Registration) -> Pool:
    known = {url for frontend in pool.frontends for url in (frontend.url, *frontend.also)}
    more = tuple(frontend for frontend in _listed(one) if known.isdisjoint((frontend.url, *frontend.also)))
    relay = one.relay if pool.relay is None else replace(pool.relay, identity=one.relay.identity)
    sources = tuple(sorted({*pool.sources, SOURCE}))
    return replace(pool, frontends=pool.frontends + more, relay=relay, sources=sources)
