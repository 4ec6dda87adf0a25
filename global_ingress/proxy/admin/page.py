"""The status page: `/status.json` for people. Regions as columns, states in shapes and words.

Pure: it shows the status document and adds nothing to it. What is too much for eyes is cut, and said to be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from discovery.kit.page import BAD, GOOD, IDLE, WARN, page
from global_ingress.proxy.shared.attempt import WORDS

_STATUS = (files("global_ingress.proxy.admin") / "status.html").read_text("utf-8")
MOST_POOLS = 40  # of a region
MOST_FRONTENDS = 50  # of a pool
MOST_EVENTS = 30

_STATE_MARKS = {
    "routable": GOOD,
    "usable": GOOD,
    "not_selected": IDLE,
    "drained": IDLE,
    "not_ready": WARN,
    "terminating": WARN,
    "none_ready": WARN,
    "model_not_listed": WARN,
    "no_frontend": WARN,
}
_ORDER = {BAD: 0, WARN: 1, GOOD: 2, IDLE: 3}
_ENDED = {trouble.value: words for trouble, words in WORDS.items()} | {
    "status": "the frontend answered with a status that is tried elsewhere",
    "no_workers": "the region has no workers (404 without a body)",
    "error_event": "the stream began with an error",
    "outrun": "another try answered first",
}


def state_mark(state: str) -> str:
    """What is none of the known states is bad: ejected, failing, all out."""
    return _STATE_MARKS.get(state, BAD)


def columns(pools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The pools by region, those in trouble first."""
    regions: dict[str, list[Mapping[str, Any]]] = {}
    for pool in pools:
        regions.setdefault(pool["region"], []).append(pool)
    out = []
    for region, members in sorted(regions.items()):
        members.sort(key=lambda pool: (_ORDER[_pool_mark(pool)], pool["cluster"], pool["namespace"], pool["name"]))
        out.append(
            {
                "region": region,
                "routable": sum(pool["routable"] for pool in members),
                "count": len(members),
                "in_flight": sum(pool["in_flight"] for pool in members),
                "pools": [_card(pool) for pool in members[:MOST_POOLS]],
                "beyond": max(0, len(members) - MOST_POOLS),
            }
        )
    return out


def _pool_mark(pool: Mapping[str, Any]) -> str:
    """A pool that is routable though not all of its frontends are usable deserves a look."""
    kind = state_mark(pool["state"])
    troubled = any(state_mark(one["state"]) is BAD for one in pool["frontends"])
    return WARN if kind is GOOD and troubled else kind


def _card(pool: Mapping[str, Any]) -> dict[str, Any]:
    frontends = sorted(pool["frontends"], key=lambda one: (_ORDER[state_mark(one["state"])], one["url"]))
    usable = sum(one["state"] == "usable" for one in frontends)
    kind = _pool_mark(pool)
    words = pool["why"]
    if pool["routable"] and usable < len(frontends):
        words = f"{words}, {usable} of {len(frontends)} frontends usable"
    return {
        "kind": kind,
        "words": words,
        "pool": pool,
        "frontends": [one | {"kind": state_mark(one["state"])} for one in frontends[:MOST_FRONTENDS]],
        "beyond": max(0, len(frontends) - MOST_FRONTENDS),
        "quiet": usable == len(frontends) and len(frontends) > 3,
    }


def _events(document: Mapping[str, Any], *kinds: str, without: bool = False) -> list[Mapping[str, Any]]:
    return [event for event in document["events"] if (event["kind"] in kinds) is not without][:MOST_EVENTS]


_EJECTIONS = ("ejected", "readmitted", "panic")


def status_page(document: Mapping[str, Any], refresh: int | None = None) -> str:
    values = dict(document) | {
        "columns": columns(document["pools"]),
        "ejections": _events(document, *_EJECTIONS),
        "others": _events(document, *_EJECTIONS, without=True),
        "ended_words": _ENDED,
        "refresh": refresh,
    }
    return page("Global ingress" + (f" · {document['region']}" if document["region"] else ""), _STATUS, values, refresh)
