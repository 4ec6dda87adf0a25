"""What slices and settings come to: which slices are used, and which pools each model gets, with every reason. Pure.

It asks the very functions that the directory and the ingress decide with, and decides nothing itself. What only a
running system knows (probes, what frontends list, ejections) is left open, and said to be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from discovery.directory.assemble import Assembled, Warned, assemble
from discovery.directory.naming import NamingRules
from discovery.documents import objects_in
from discovery.errors import MalformedSlice
from discovery.pool import Pool
from discovery.slices import Slice, parse_slice
from global_ingress.proxy.settings.sections import Model, Settings
from global_ingress.proxy.supervising.routable import POOL_WORDS, Evidence, ModelVerdict, PoolWhy, judge


@dataclass(frozen=True, slots=True)
class SliceLine:
    """One slice: `verdict` is used, ignored or invalid."""

    name: str
    verdict: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything that is told, in order. `models` is empty where no model is configured."""

    slices: tuple[SliceLine, ...]
    warnings: tuple[Warned, ...]
    pools: tuple[Pool, ...]
    models: tuple[tuple[str, ModelVerdict], ...]


def explain(content: bytes, rules: NamingRules, settings: Settings, *, is_json: bool = False) -> Explanation:
    """Raises BrokenFile when the dump cannot be read at all."""
    slices: list[Slice] = []
    refused: list[SliceLine] = []
    for found in objects_in(content, is_json=is_json):
        value = found.value
        if isinstance(value, dict) and value.get("kind", "EndpointSlice") != "EndpointSlice":
            continue
        try:
            slices.append(parse_slice(value))
        except MalformedSlice as error:
            line = f"line {found.line}: " if found.line else ""
            refused.append(SliceLine(error.name or "?", "invalid", "malformed", line + error.reason))
    assembled = assemble([("file", one) for one in slices], rules)
    models = tuple((model.id, judge(model, assembled.pools, Evidence())) for model in settings.models or ())
    return Explanation((*_verdicts(assembled), *refused), assembled.warnings, assembled.pools, models)


def _verdicts(assembled: Assembled) -> Iterator[SliceLine]:
    for one in assembled.verdicts:
        reason = str(one.reason or "").replace("_", " ")
        detail = one.detail or (f"{one.role} of {one.key}" if one.key is not None else "")
        yield SliceLine(f"{one.namespace}/{one.name}", str(one.state), reason, detail)


def asked_models(settings: Settings, wanted: str | None) -> Sequence[Model]:
    """The configured model of this id or alias, or all."""
    models = settings.models or ()
    return [model for model in models if wanted in (None, model.id) or wanted in model.aliases]


def lines(found: Explanation, wanted: frozenset[str] | None = None) -> Iterator[str]:
    """The explanation for people. `wanted` are the ids of the models that are told, None is all."""
    yield f"slices: {len(found.slices)}"
    for one in found.slices:
        yield "  " + ": ".join(part for part in (f"{one.verdict:<8}{one.name}", one.reason, one.detail) if part)
    for warned in found.warnings:
        yield f"  warning {warned.subject}: {str(warned.kind).replace('_', ' ')}: {warned.detail}"
    yield f"pools: {len(found.pools)}"
    for pool in found.pools:
        usable = sum(frontend.ready for frontend in pool.frontends)
        yield f"  {pool.key} in {pool.region}: {len(pool.frontends)} frontends, {usable} ready"
    if not found.models:
        yield "models: none is configured: every model that a routable pool lists is served"
    for id, verdict in found.models:
        if wanted is not None and id not in wanted:
            continue
        routable = len(verdict.routable)
        yield f"model {id}: {routable} of {len(verdict.pools)} pools" + ("" if routable else f": {verdict.words}")
        for each in verdict.pools:
            more = f", weight {each.weight}" if each.why is PoolWhy.ROUTABLE and each.weight != 1 else ""
            yield f"  {each.pool.key}: {POOL_WORDS[each.why]}{more}"
    yield "left open, since only a running ingress knows it: which models frontends list, probes, ejections"
