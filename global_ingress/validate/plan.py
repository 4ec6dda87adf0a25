"""The plan of the traffic: from each ingress exactly R requests for each pool, of all four kinds.

Owns the order of requests and their bodies. The rule it keeps: with round robin over n pools, wherever its turn
stands, every pool gets R of the n·R consecutive requests and, from R = 4 on, all four kinds.

Request k is of kind (k mod n + k // n) mod 4: its place in the round plus the number of the round. For a multiple of
four pools that is (k + k // n) mod 4; for other numbers the shorter formula would not do (three pools would get one
kind each for ever, since k + k // 3 grows by four from one turn of a pool to its next).
"""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from global_ingress.validate.evidence import KINDS, Asked, Kind

_MAX_TOKENS = 6
_PROMPT = "Name the region that answers."


def kind_of(number: int, pools: int) -> Kind:
    """The kind of request `number`, counted from 0, in a plan over `pools` pools (at least 1)."""
    return KINDS[(number % pools + number // pools) % len(KINDS)]


def requests(ingress: str, run: int, pools: int, per_pool: int) -> tuple[Asked, ...]:
    """What is sent to one ingress in one run, in order. Sent one after another: the order gives pools their kinds."""
    return tuple(Asked(ingress, run, number, kind_of(number, pools)) for number in range(pools * per_pool))


def everything(ingresses: Iterable[str], runs: int, pools: int, per_pool: int) -> tuple[Asked, ...]:
    """All requests of all runs; runs are counted from 1."""
    names = tuple(ingresses)
    return tuple(
        asked for run in range(1, runs + 1) for ingress in names for asked in requests(ingress, run, pools, per_pool)
    )


def body_of(kind: Kind, model: str, tokens: int = _MAX_TOKENS) -> bytes:
    """The request body that is sent for a kind."""
    ask = {"messages": [{"role": "user", "content": _PROMPT}]} if kind.surface == "chat" else {"prompt": _PROMPT}
    return orjson.dumps({"model": model, **ask, "max_tokens": tokens, "stream": kind.stream})
