"""What frontends answer when they are asked what they serve and whether they live: from bytes to values. Pure.

Refuses an answer that is no model list, with the reason in words. Keeps the rule that an unknown list, an empty one and
a failed question are three things: a failed question changes nothing that was known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import orjson

MOST_BYTES = 4 << 20
MOST_MODELS = 10_000
FAILURES = 2  # probes that must fail in a row: one lost answer is no evidence

Entry = Mapping[str, Any]


class NotAList(Exception):
    """The answer is no list of models; the text says why."""


@dataclass(frozen=True, slots=True)
class PoolSaid:
    """`models` as the pool sent them, None while it never answered; `reason` says why the last question failed."""

    models: tuple[Entry, ...] | None = None
    reason: str = ""
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Probed:
    """How a frontend's active probe stands: failures in a row, the last reason, when it was last asked."""

    failures: int = 0
    reason: str = ""
    at: float = 0.0

    @property
    def failing(self) -> bool:
        return self.failures >= FAILURES


def is_model_id(text: str) -> bool:
    """Whether this may be the id of a model. A frontend may send anything; what is none is passed over."""
    return bool(text) and text == text.strip() and not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in text)


def read_models(status: int, body: bytes) -> tuple[Entry, ...]:
    """The models of an answer to GET /v1/models. Raises NotAList."""
    if status != 200:
        raise NotAList(f"GET /v1/models was answered with {status}")
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise NotAList("GET /v1/models was answered with something that is no JSON") from None
    data = document.get("data") if isinstance(document, dict) else None
    if not isinstance(data, list):
        raise NotAList("GET /v1/models was answered without a list `data`")
    models = {
        entry["id"]: entry
        for entry in data
        if isinstance(entry, dict) and isinstance(entry.get("id"), str) and is_model_id(entry["id"])
    }
    if len(models) > MOST_MODELS:
        raise NotAList(f"GET /v1/models names more than {MOST_MODELS} models")
    return tuple(models.values())


def heard(models: Sequence[Entry], now: float) -> PoolSaid:
    return PoolSaid(tuple(models), "", now)


def unheard(before: PoolSaid, reason: str) -> PoolSaid:
    """Nobody answered: what was known stays."""
    return PoolSaid(before.models, reason, before.at)


def alive(now: float) -> Probed:
    return Probed(0, "", now)


def failed(before: Probed | None, reason: str, now: float) -> Probed:
    return Probed((before.failures if before else 0) + 1, reason, now)


def ready_path(model: str) -> str:
    """Where a frontend says whether it serves the model now."""
    return f"/v1/models/{quote(model, safe='/')}/ready"


def judge_ready(status: int) -> bool | None:
    """Of the answer to `ready_path`: whether it serves the model; None when it does not know the question."""
    if status == 200:
        return True
    return None if status in (404, 405, 501) else False
