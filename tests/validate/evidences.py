"""Evidence as a well-behaved system gives it, to be spoilt by tests."""

from __future__ import annotations

from dataclasses import replace

from global_ingress.validate.evidence import (
    Answered,
    Asked,
    Deed,
    Disturbance,
    Evidence,
    Exchange,
    Listed,
    Listing,
    Reading,
    Task,
    Told,
)
from global_ingress.validate.inventory import stable
from global_ingress.validate.plan import kind_of, requests

CLUSTERS = ("ohio", "oregon", "ireland", "tokyo")


def pools(count: int) -> tuple[Listed, ...]:
    found = [
        Listed(
            f"c{i}/dynamo/llama" if count > 4 else f"{CLUSTERS[i]}/dynamo/llama",
            f"region-{i}",
            (f"http://10.0.0.{i}:8000",),
        )
        for i in range(count)
    ]
    return tuple(sorted(found))


def task(count: int = 4, *, ingresses: int = 4, per_pool: int = 10, runs: int = 2, marks: bool = True) -> Task:
    listed = pools(count)
    return Task(
        model="m",
        ingresses=tuple((name, f"http://127.0.0.1:1800{i}") for i, name in enumerate(CLUSTERS[:ingresses])),
        discoveries=tuple((name, f"http://127.0.0.1:1810{i}") for i, name in enumerate(CLUSTERS[:ingresses])),
        per_pool=per_pool,
        runs=runs,
        marks=tuple((pool.key, f" r{i}w") for i, pool in enumerate(listed)) if marks else (),
    )


def readings(of: Task, listing: Listing) -> tuple[Reading, ...]:
    return tuple(
        Reading(name, listing, 1000.0 + turn, 0.01) for turn in range(of.equal_readings) for name, _ in of.discoveries
    )


def exchange(of: Asked, pool: Listed, mark: str = "", at: float = 2000.0) -> Exchange:
    seen = Answered(
        status=200,
        content_type="text/event-stream" if of.kind.stream else "application/json",
        pool=pool.key,
        region=pool.region,
        attempts="1",
        request_id="id",
        told=Told(f"{mark}1000 x", ("length",)),
    )
    return Exchange(of, seen, at + of.number, 0.01, 0.02)


def good(of: Task, count: int = 4, offsets: dict[str, int] | None = None) -> Evidence:
    """What a system shows whose round robin starts, at each ingress, at the pool `offsets` says."""
    listed, marks = pools(count), dict(of.marks)
    found = []
    for run in range(1, of.runs + 1):
        for name, _ in of.ingresses:
            for asked in requests(name, run, count, of.per_pool):
                pool = listed[(asked.number + (offsets or {}).get(name, 0)) % count]
                found.append(exchange(asked, pool, marks.get(pool.key, "")))
    return Evidence(of, 999.0, 3000.0, readings(of, Listing(True, listed)), tuple(found))


def disturbed(of: Evidence, kind: str = "region cut") -> Evidence:
    """The same with the disturbance of its last pool, which everybody gets over at once."""
    listed = stable(of.task, of.readings) or ()
    pool, others = listed[-1], listed[:-1]
    actions = ("replace",) if kind == "replacement" else ("cut", "restore")
    cluster, _, name = pool.key.partition("/")
    deeds = tuple(Deed(action, cluster, name, 4000.0 + 100 * turn, 1.0) for turn, action in enumerate(actions))
    found = []
    for ingress, _ in of.task.ingresses:
        for number in range(60):
            at = 3990.0 + 2.5 * number
            away = kind == "region cut" and 4000.0 <= at < 4101.0
            one = others[number % len(others)] if away else listed[number % len(listed)]
            asked = Asked(ingress, 0, number, kind_of(number, len(listed)))
            found.append(replace(exchange(asked, one, dict(of.task.marks).get(one.key, "")), at=at))
    new = replace(pool, frontends=("http://10.9.9.9:8000",))
    learned = tuple(Reading(name, Listing(True, (*others, new)), 4003.0, 0.01) for name, _ in of.task.discoveries)
    seen = Disturbance(kind, pool, deeds, tuple(found), learned if kind == "replacement" else ())
    return replace(of, task=replace(of.task, disturb=("break",)), disturbances=(*of.disturbances, seen))


def spoilt(evidence: Evidence, index: int, **changes: object) -> Evidence:
    """The evidence with one answer changed."""
    found = list(evidence.exchanges)
    seen = found[index].seen
    assert isinstance(seen, Answered)
    found[index] = replace(found[index], seen=replace(seen, **changes))  # type: ignore[arg-type]
    return replace(evidence, exchanges=tuple(found))
