"""Whether a frontend is usable and a pool routable for a model, and why not: the one place that says so.

Routes, GET /v1/models, /pools, the status document and readiness all ask here (rules I23, I24). Pure: what is known
beside the table comes as Evidence. Keeps the rule that evidence never takes out the last frontend of a model: if all
would be out, all are tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from discovery.identity import PoolKey
from discovery.pool import Frontend, Pool
from global_ingress.proxy.settings.sections import Model, Selector


class FrontendWhy(StrEnum):
    """What a frontend is: exactly one of these."""

    USABLE = "usable"
    NOT_READY = "not_ready"
    TERMINATING = "terminating"
    PROBE_FAILING = "probe_failing"
    EJECTED = "ejected"


class PoolWhy(StrEnum):
    """What a pool is for a model: exactly one of these, the first reason that applies."""

    ROUTABLE = "routable"
    NOT_SELECTED = "not_selected"
    DRAINED = "drained"
    MODEL_NOT_LISTED = "model_not_listed"
    NO_FRONTEND = "no_frontend"
    NONE_READY = "none_ready"
    ALL_EJECTED = "all_ejected"
    ALL_FAILING = "all_probes_failing"
    NONE_USABLE = "none_usable"


FRONTEND_WORDS: Mapping[FrontendWhy, str] = {
    FrontendWhy.USABLE: "gets requests",
    FrontendWhy.NOT_READY: "is listed as not ready",
    FrontendWhy.TERMINATING: "is terminating; gets requests only if a model has nothing better",
    FrontendWhy.PROBE_FAILING: "does not answer its probe as a live frontend does",
    FrontendWhy.EJECTED: "failed too often in a row and is left out for a while",
}

POOL_WORDS: Mapping[PoolWhy, str] = {
    PoolWhy.ROUTABLE: "gets requests",
    PoolWhy.NOT_SELECTED: "not selected by the model's `pools`",
    PoolWhy.DRAINED: "drained by weight 0",
    PoolWhy.MODEL_NOT_LISTED: "not listing the model",
    PoolWhy.NO_FRONTEND: "without frontends",
    PoolWhy.NONE_READY: "without a ready frontend",
    PoolWhy.ALL_EJECTED: "with all frontends ejected",
    PoolWhy.ALL_FAILING: "with the probes of all frontends failing",
    PoolWhy.NONE_USABLE: "without a usable frontend",
}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known beside the pool table. A pool that is not in `models` has not said what it serves. `failing` are
    frontends (URL → reason) whose active probe fails; `ejected` those that are ejected now."""

    models: Mapping[PoolKey, frozenset[str]] = field(default_factory=dict)
    failing: Mapping[str, str] = field(default_factory=dict)
    ejected: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PoolVerdict:
    """`frontends` are the indices, into the pool's own, of those that may get the model's requests."""

    pool: Pool
    why: PoolWhy
    weight: int
    frontends: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelVerdict:
    """All listed pools, judged for one model. `panic`: all frontends would be out, so all are tried."""

    id: str
    pools: tuple[PoolVerdict, ...]
    panic: bool = False

    @property
    def routable(self) -> tuple[PoolVerdict, ...]:
        return tuple(verdict for verdict in self.pools if verdict.why is PoolWhy.ROUTABLE)

    @property
    def words(self) -> str:
        """Why there is no pool, for the client: counts and reasons, no names."""
        if self.routable:
            return ""
        counted = Counter(verdict.why for verdict in self.pools)
        if not counted:
            return "no pool is listed"
        return "; ".join(f"{n} {'pool' if n == 1 else 'pools'} {POOL_WORDS[why]}" for why, n in sorted(counted.items()))


def frontend_why(frontend: Frontend, evidence: Evidence) -> FrontendWhy:
    if not frontend.ready:
        return FrontendWhy.TERMINATING if _leaving(frontend) else FrontendWhy.NOT_READY
    if frontend.url in evidence.failing:
        return FrontendWhy.PROBE_FAILING
    return FrontendWhy.EJECTED if frontend.url in evidence.ejected else FrontendWhy.USABLE


def selected(model: Model, pool: Pool) -> bool:
    return model.pools is None or any(_matches(selector, pool) for selector in model.pools)


def weight(model: Model, pool: Pool) -> int:
    """By cluster, else by region, else 1."""
    return model.weights.get(pool.key.cluster, model.weights.get(pool.region, 1))


def judge(model: Model, pools: Sequence[Pool], evidence: Evidence, *, must_list: bool = False) -> ModelVerdict:
    """What each pool is for this model. `must_list`: a pool that has not said what it serves is left out too (for
    models that are not configured but learned)."""
    first = [_first_look(model, pool, evidence, must_list) for pool in pools]
    open_pools = [pool for pool, why in zip(pools, first, strict=True) if why is PoolWhy.ROUTABLE]
    usable, panic = _chosen(open_pools, evidence)
    verdicts = []
    for pool, why in zip(pools, first, strict=True):
        indices = usable.get(pool.key, ())
        if why is PoolWhy.ROUTABLE and not indices:
            why = _without(pool, evidence)
        verdicts.append(PoolVerdict(pool, why, weight(model, pool), indices))
    return ModelVerdict(model.id, tuple(verdicts), panic)


def learned(pools: Sequence[Pool], evidence: Evidence) -> list[Model]:
    """The models when none is configured: every one that some pool lists."""
    ids = {id for pool in pools for id in evidence.models.get(pool.key, ())}
    return [Model(id=id) for id in sorted(ids)]


def _matches(selector: Selector, pool: Pool) -> bool:
    return (
        selector.cluster in (None, pool.key.cluster)
        and selector.region in (None, pool.region)
        and selector.namespace in (None, pool.key.namespace)
        and selector.name in (None, pool.key.name)
    )


def _leaving(frontend: Frontend) -> bool:
    return not frontend.ready and frontend.serving and frontend.terminating


def _first_look(model: Model, pool: Pool, evidence: Evidence, must_list: bool) -> PoolWhy:
    if not selected(model, pool):
        return PoolWhy.NOT_SELECTED
    if weight(model, pool) == 0:
        return PoolWhy.DRAINED
    said = evidence.models.get(pool.key)
    if (said is None and must_list) or (said is not None and model.id not in said):
        return PoolWhy.MODEL_NOT_LISTED
    if not pool.frontends:
        return PoolWhy.NO_FRONTEND
    if not any(frontend.ready or _leaving(frontend) for frontend in pool.frontends):
        return PoolWhy.NONE_READY
    return PoolWhy.ROUTABLE


def _chosen(pools: Sequence[Pool], evidence: Evidence) -> tuple[dict[PoolKey, tuple[int, ...]], bool]:
    """Which frontends may be used, and whether that is because nothing better is left. A ready one anywhere beats one
    that is terminating here; failed probes count before that, ejections after it, as the workers see it."""
    ready = [(pool, i, f) for pool in pools for i, f in enumerate(pool.frontends) if f.ready]
    leaving = [(pool, i, f) for pool in pools for i, f in enumerate(pool.frontends) if _leaving(f)]
    panic = False
    for tier in (ready, leaving):
        base = [entry for entry in tier if entry[2].url not in evidence.failing]
        if base:
            break
    else:
        base, panic = ready or leaving, bool(ready or leaving)
    kept = [entry for entry in base if entry[2].url not in evidence.ejected]
    if not kept:
        kept, panic = base, panic or bool(base)
    out: dict[PoolKey, tuple[int, ...]] = {}
    for pool, index, _ in kept:
        out[pool.key] = (*out.get(pool.key, ()), index)
    return out, panic


def _without(pool: Pool, evidence: Evidence) -> PoolWhy:
    seen = {frontend_why(frontend, evidence) for frontend in pool.frontends} - {FrontendWhy.NOT_READY}
    if seen == {FrontendWhy.EJECTED}:
        return PoolWhy.ALL_EJECTED
    if seen == {FrontendWhy.PROBE_FAILING}:
        return PoolWhy.ALL_FAILING
    if seen <= {FrontendWhy.TERMINATING}:
        return PoolWhy.NONE_READY
    return PoolWhy.NONE_USABLE
