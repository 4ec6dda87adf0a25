"""From settings, verdicts and slots to the routes that workers are told. Pure.

Owns what a worker's `Routes` say; who is routable is decided elsewhere and only written down here. Keeps the rule that
indices and slots agree: a frontend's slot is the ledger's row of its URL, a member's sequence names only frontends that
may be used.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from discovery.pool import Pool
from global_ingress.proxy.settings.sections import Model, Settings
from global_ingress.proxy.shared import routes
from global_ingress.proxy.supervising.routable import ModelVerdict, PoolVerdict

Schedule = Callable[[tuple[str, ...], Mapping[str, int]], tuple[int, tuple[str, ...]]]
"""(key, weights) → number of the counter and the order of the members."""

Ramp = Callable[[str, Mapping[str, int]], Mapping[str, int]]
"""(model id, weights by pool id) → weights as slow start has them now."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One look at everything. `known`: there is a table, and models to route. `held`: model (or `*`) → seconds its last
    good pools are still held."""

    known: bool
    pools: tuple[Pool, ...]
    models: tuple[tuple[Model, ModelVerdict], ...]
    held: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Guards:
    """What of letting in stands in files beside the settings."""

    auth: routes.Auth | None = None
    tls: routes.TlsFiles | None = None
    upstream_tls: routes.TlsFiles | None = None


@dataclass(frozen=True, slots=True)
class View:
    """Everything that routes are made of. `known`: what there is to route on is known at all. `sampling`: what is
    traced, if the settings ask for traces."""

    settings: Settings
    known: bool
    pools: tuple[Pool, ...]
    models: tuple[tuple[Model, ModelVerdict], ...]
    listing: bytes | None
    described: Mapping[str, bytes]
    guards: Guards = Guards()
    sampling: routes.Sampling | None = None


def make_routes(
    view: View, *, generation: int, slot_of: Callable[[str], int | None], schedule: Schedule, ramp: Ramp
) -> routes.Routes:
    """One message for the workers."""
    settings = view.settings
    used = {verdict.pool.key for _, model in view.models for verdict in model.routable}
    pools = tuple(_pool(pool, slot_of) for pool in view.pools if pool.key in used)
    return routes.Routes(
        generation=generation,
        known=view.known,
        region=settings.region,
        timeouts=_timeouts(settings),
        limits=_limits(settings),
        retries=_retries(settings),
        ejection=_ejection(settings),
        expose_pool=settings.headers.expose_pool,
        trusted_proxies=tuple(str(network) for network in settings.trusted_proxies),
        access_log=settings.log.access is not None,
        drain_timeout=settings.drain.timeout,
        heartbeat=settings.sse.heartbeat,
        hedge=_hedge(settings),
        explain=settings.headers.explain,
        auth=view.guards.auth,
        cors=_cors(settings),
        tls=view.guards.tls,
        upstream_tls=view.guards.upstream_tls,
        trace=view.sampling if settings.trace else None,
        pools=pools,
        models=tuple(_model(model, verdict, schedule, ramp) for model, verdict in view.models),
        listing=view.listing,
        described=dict(view.described),
    )


def same(one: routes.Routes, other: routes.Routes) -> bool:
    """Whether they say the same, whatever their generation."""
    return all(getattr(one, name) == getattr(other, name) for name in one.__struct_fields__ if name != "generation")


def _pool(pool: Pool, slot_of: Callable[[str], int | None]) -> routes.PoolRoute:
    frontends = []
    for frontend in pool.frontends:
        slot = slot_of(frontend.url)
        assert slot is not None, frontend.url
        host, port, tls = _address(frontend.url)
        frontends.append(routes.FrontendRoute(frontend.url, host, port, slot, frontend.ready, tls))
    return routes.PoolRoute(pool.id, str(pool.key), pool.key.cluster, pool.region, tuple(frontends))


@functools.lru_cache(maxsize=65536)
def _address(url: str) -> tuple[str, int, bool]:
    """Host, port, and whether it is spoken to by TLS."""
    parts = urlsplit(url)
    tls = parts.scheme == "https"
    return parts.hostname or "", parts.port or (443 if tls else 80), tls


def _model(model: Model, verdict: ModelVerdict, schedule: Schedule, ramp: Ramp) -> routes.ModelRoute:
    members = tuple(_member(model, each, schedule) for each in verdict.routable)
    turn = spill = -1
    sequence: tuple[int, ...] = ()
    if members:
        index = {member.pool: n for n, member in enumerate(members)}
        weights = ramp(model.id, {member.pool: member.weight for member in members})
        turn, order = schedule(("model", model.id), weights)
        sequence = tuple(index[pool] for pool in order)
        if model.policy == "local_first":
            spill, _ = schedule(("spill", model.id), weights)
    return routes.ModelRoute(
        id=model.id,
        aliases=model.aliases,
        policy=model.policy,
        affinity=model.affinity.header if model.affinity else None,
        members=members,
        turn=turn,
        sequence=sequence,
        why=verdict.words,
        spill=spill,
    )


def _member(model: Model, verdict: PoolVerdict, schedule: Schedule) -> routes.Member:
    pool = verdict.pool
    if len(verdict.frontends) == 1:
        return routes.Member(pool.id, verdict.weight, -1, verdict.frontends)
    index = {pool.frontends[n].url: n for n in verdict.frontends}
    turn, order = schedule(("pool", model.id, pool.id), dict.fromkeys(index, 1))
    return routes.Member(pool.id, verdict.weight, turn, tuple(index[url] for url in order))


def _timeouts(settings: Settings) -> routes.Timeouts:
    given = settings.timeouts
    return routes.Timeouts(
        connect=given.connect,
        first_byte=given.first_byte,
        idle=given.idle,
        total=given.total,
        client_header=given.client_header,
        client_body=given.client_body,
        client_write=given.client_write,
        keep_alive=given.keep_alive,
        upstream_keep_alive=given.upstream_keep_alive,
    )


def _hedge(settings: Settings) -> routes.Hedge | None:
    given = settings.hedge
    if given is None:
        return None
    return routes.Hedge(quantile=int(given.after[1:]) / 100, max_share=given.max_share, max_body=given.max_body)


def _cors(settings: Settings) -> routes.Cors | None:
    given = settings.cors
    return None if given is None else routes.Cors(given.origins, int(given.max_age))


def _limits(settings: Settings) -> routes.Limits:
    """What is meant for the whole ingress is shared out among its workers."""
    given, workers = settings.limits, settings.workers
    return routes.Limits(
        body=given.body,
        header=given.header,
        connections=max(1, given.connections // workers),
        buffered=max(given.body, given.buffered // workers),
        in_flight_per_pool=given.in_flight_per_pool,
    )


def _retries(settings: Settings) -> routes.Retries:
    given = settings.retries
    return routes.Retries(given.attempts, given.budget, frozenset(given.statuses), given.first_event_gate)


def _ejection(settings: Settings) -> routes.Ejection:
    given = settings.ejection
    return routes.Ejection(given.failures, given.base, given.max, given.max_share)


def models_of(settings: Settings, learned: Sequence[Model]) -> tuple[Model, ...]:
    """The configured ones, else those learned."""
    return tuple(settings.models) if settings.models is not None else tuple(learned)
