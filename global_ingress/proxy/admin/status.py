"""What the ingress says of itself: the documents of /pools and /status.json. Pure.

The page for people shows the status document and adds nothing to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from discovery.identity import PoolKey
from discovery.pool import Frontend, Pool, PoolTable
from discovery.wire import encode_pool
from global_ingress.proxy.supervising.routable import FRONTEND_WORDS, POOL_WORDS, Evidence, PoolWhy, frontend_why
from global_ingress.proxy.supervising.routing import Picture
from global_ingress.proxy.supervising.said import PoolSaid, Probed


@dataclass(frozen=True, slots=True)
class Moment:
    """What the documents are made from. `date` writes a monotonic second as RFC 3339; `ejected` is until when, so."""

    picture: Picture
    table: PoolTable | None
    evidence: Evidence
    said: Mapping[PoolKey, PoolSaid]
    probed: Mapping[str, Probed]
    ejected: Mapping[str, float]
    in_flight: Callable[[str], int]
    now: str
    date: Callable[[float], str]


def pools_document(moment: Moment) -> dict[str, Any]:
    table = moment.table
    return {
        "complete": table.complete if table else False,
        "epoch": table.epoch if table else "",
        "revision": table.revision if table else 0,
        "observed_at": moment.now,
        "pools": [pool_object(moment, pool) for pool in moment.picture.pools],
    }


def pool_object(moment: Moment, pool: Pool) -> dict[str, Any]:
    """Discovery's object and what this ingress makes of it."""
    out: dict[str, Any] = orjson.loads(encode_pool(pool))
    whys = pool_whys(moment.picture, pool)
    out["frontends"] = [
        shown | _frontend(moment, frontend) for shown, frontend in zip(out["frontends"], pool.frontends, strict=True)
    ]
    state = overall(whys.values())
    said = moment.said.get(pool.key, PoolSaid())
    ends = [moment.ejected[one.url] for one in pool.frontends if one.url in moment.ejected]
    out |= {
        "routable": state is PoolWhy.ROUTABLE,
        "state": state.value,
        "why": POOL_WORDS[state],
        "models": {model: why.value for model, why in whys.items()},
        "lists": sorted(str(entry["id"]) for entry in said.models) if said.models is not None else None,
        "lists_error": said.reason or None,
        "in_flight": sum(moment.in_flight(frontend.url) for frontend in pool.frontends),
        "ejected_until": moment.date(max(ends)) if ends and len(ends) == len(pool.frontends) else None,
    }
    return out


def pool_whys(picture: Picture, pool: Pool) -> dict[str, PoolWhy]:
    return {
        model.id: each.why for model, verdict in picture.models for each in verdict.pools if each.pool.key == pool.key
    }


def overall(whys: Any) -> PoolWhy:
    """Of all models: routable if it is for one, else the reason that comes nearest to it."""
    found = set(whys)
    order = (
        PoolWhy.ROUTABLE,
        PoolWhy.ALL_EJECTED,
        PoolWhy.ALL_FAILING,
        PoolWhy.NONE_USABLE,
        PoolWhy.NONE_READY,
        PoolWhy.NO_FRONTEND,
        PoolWhy.MODEL_NOT_LISTED,
        PoolWhy.DRAINED,
    )
    return next((why for why in order if why in found), PoolWhy.NOT_SELECTED)


def _frontend(moment: Moment, frontend: Frontend) -> dict[str, Any]:
    why = frontend_why(frontend, moment.evidence)
    probed = moment.probed.get(frontend.url)
    until = moment.ejected.get(frontend.url)
    return {
        "state": why.value,
        "why": FRONTEND_WORDS[why],
        "in_flight": moment.in_flight(frontend.url),
        "ejected_until": moment.date(until) if until is not None else None,
        "probe": None
        if probed is None
        else {"failures": probed.failures, "reason": probed.reason or None, "asked_at": moment.date(probed.at)},
    }


def model_objects(moment: Moment) -> list[dict[str, Any]]:
    return [
        {
            "id": model.id,
            "aliases": list(model.aliases),
            "policy": model.policy,
            "routable": bool(verdict.routable),
            "why": verdict.words or None,
            "panic": verdict.panic,
            "held_for_s": round(moment.picture.held[model.id], 1) if model.id in moment.picture.held else None,
            "pools": [
                {
                    "pool": str(each.pool.key),
                    "state": each.why.value,
                    "why": POOL_WORDS[each.why],
                    "weight": each.weight,
                    "frontends": len(each.frontends),
                }
                for each in verdict.pools
                if each.why is not PoolWhy.NOT_SELECTED
            ],
        }
        for model, verdict in moment.picture.models
    ]


def frontend_states(moment: Moment) -> dict[str, int]:
    out: dict[str, int] = {}
    for pool in moment.picture.pools:
        for frontend in pool.frontends:
            why = frontend_why(frontend, moment.evidence).value
            out[why] = out.get(why, 0) + 1
    return out
