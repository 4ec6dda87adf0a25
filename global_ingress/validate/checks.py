"""The checks: evidence in, verdicts out.

Owns what counts as shown. Refuses to call anything passed that has no evidence: what did not run is skipped with a
reason, an answer that is missing is a failure. The rule: failed evidence added to any evidence never betters a verdict.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from global_ingress.validate.evidence import KINDS, Answered, Evidence, Exchange, Listed, Listing, Unanswered
from global_ingress.validate.inventory import differences, latest, stable, unsettled
from global_ingress.validate.plan import everything

_CONTENT = {True: "text/event-stream", False: "application/json"}


class Verdict(enum.StrEnum):
    """Ordered from good to bad: passed, skipped, failed."""

    PASSED = "passed"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Check:
    """A verdict on one clause. `findings` name what failed, a line each; `owner` and `date` (YYYY-MM-DD) belong to what
    was skipped: an open risk is somebody's."""

    id: str
    phase: int
    clause: str
    verdict: Verdict
    reason: str
    findings: tuple[str, ...] = ()
    asked: int = 0
    good: int = 0
    began: float | None = None
    took_s: float | None = None
    owner: str | None = None
    date: str | None = None


_OPERATOR = "operator of the fleet"
# What this version does not look at: (id, phase, clause, why).
_OPEN = (
    ("inventory.platform", 1, "clusters, nodes, pods and images are recorded", "no Kubernetes API is read"),
    ("compatibility.matrix", 2, "API, frontend and client versions are supported ones", "no version is read"),
    ("provenance.digests", 3, "what runs has the digests that were rendered", "no rendered bundle is compared"),
    ("materialization.diff", 4, "live objects equal the rendered ones", "no rendered bundle is compared"),
    ("conformance.routers", 5, "every region finds all routers", "the list of routers is not read"),
    ("conformance.reachability", 5, "every address is reached from every region", "this client stands in one place"),
    ("conformance.access", 5, "discovery reads slices only, the ingress has no token", "no Kubernetes API is read"),
    ("traffic.replacement", 6, "a replaced frontend is learned, the old one dropped", "this version disturbs nothing"),
    ("traffic.region-cut", 6, "a cut region costs a bounded share of errors", "this version disturbs nothing"),
    ("traffic.bounds", 6, "repeats, timeouts and cancellation keep their bounds", "this version disturbs nothing"),
    ("acceptance.objectives", 7, "the declared objectives are met", "no objectives are declared"),
    ("acceptance.bystanders", 7, "protected pods keep identity and health", "no Kubernetes API is read"),
    ("rollback.bundle", 7, "the rollback bundle can be applied", "no rollback bundle is read"),
)


def judge(evidence: Evidence) -> tuple[Check, ...]:
    """All checks in the order of their phases; what is not checked is among them, skipped."""
    date = datetime.fromtimestamp(evidence.began, UTC).date().isoformat()
    checks = [check_inventory(evidence)]
    checks += [check_steady_state(evidence, run) for run in range(1, evidence.task.runs + 1)]
    checks += [
        Check(identity, phase, clause, Verdict.SKIPPED, why, owner=_OPERATOR, date=date)
        for identity, phase, clause, why in _OPEN
    ]
    checks = [
        replace(check, owner=_OPERATOR, date=date) if check.verdict is Verdict.SKIPPED else check for check in checks
    ]
    return tuple(sorted(checks, key=lambda check: check.phase))


def overall(checks: Sequence[Check]) -> Verdict:
    """Failed when anything failed; passed when something passed; skipped when nothing was shown."""
    verdicts = {check.verdict for check in checks}
    if Verdict.FAILED in verdicts:
        return Verdict.FAILED
    return Verdict.PASSED if Verdict.PASSED in verdicts else Verdict.SKIPPED


def check_inventory(evidence: Evidence) -> Check:
    """Every discovery lists all pools, and the list stands still."""
    task, readings = evidence.task, evidence.readings
    blank = Check(
        "conformance.inventory",
        5,
        f"every discovery lists all pools, equal in {task.equal_readings} complete readings, none stale or empty",
        Verdict.SKIPPED,
        "no discovery was read",
    )
    if not readings:
        return blank
    found = replace(
        blank,
        asked=len(readings),
        good=sum(isinstance(reading.seen, Listing) and reading.seen.complete for reading in readings),
        began=min(reading.at for reading in readings),
        took_s=max(reading.at + reading.took_s for reading in readings) - min(reading.at for reading in readings),
    )
    if (why := unsettled(task, readings)) is not None:
        return replace(found, verdict=Verdict.FAILED, reason=why, findings=_disagreements(evidence))
    pools = stable(task, readings) or ()
    weak = [f"{pool.key} is stale since {pool.stale_since}" for pool in pools if pool.stale_since is not None]
    weak += [f"{pool.key} has no usable frontend" for pool in pools if not pool.frontends]
    if weak:
        return replace(found, verdict=Verdict.FAILED, reason=f"{len(weak)} pools are not well", findings=tuple(weak))
    said = f"{len(task.discoveries)} discoveries list the same {len(pools)} pools"
    return replace(found, verdict=Verdict.PASSED, reason=said)


def _disagreements(evidence: Evidence) -> tuple[str, ...]:
    """What each discovery lists otherwise than the fullest list that anybody gave."""
    last = {name: latest(evidence.readings, name) for name, _ in evidence.task.discoveries}
    listings = {name: reading.seen for name, reading in last.items() if reading and isinstance(reading.seen, Listing)}
    if not listings:
        return ()
    counts = Counter(listings.values())
    fullest = max(sorted(listings), key=lambda name: (counts[listings[name]], len(listings[name].pools)))
    return tuple(
        f"{name}: {line}" for name in sorted(listings) for line in differences(listings[fullest], listings[name])
    )


def check_steady_state(evidence: Evidence, run: int) -> Check:
    """From each region exactly R good answers of every pool, of every kind."""
    task = evidence.task
    blank = Check(
        f"traffic.steady-state-{run}",
        6,
        f"from each region exactly {task.per_pool} requests to each pool, every kind at every pool, every answer 200, "
        "complete, correctly terminated and attributed",
        Verdict.SKIPPED,
        "no request was sent",
    )
    exchanges = [exchange for exchange in evidence.exchanges if exchange.asked.run == run]
    pools = stable(task, evidence.readings)
    if not exchanges:
        return blank if pools is not None else replace(blank, reason="there was no stable inventory to measure against")
    wrong = [(exchange, faults(exchange, pools or (), dict(task.marks))) for exchange in exchanges]
    good = [exchange for exchange, found in wrong if not found]
    findings = [f"{exchange.asked}: {'; '.join(found)}" for exchange, found in wrong if found]
    if pools is None:
        findings.append("there was no stable inventory to measure against")
    else:
        findings += _missing(evidence, run, pools, exchanges)
        findings += _uneven(evidence, pools, good)
    found = replace(
        blank,
        findings=tuple(findings),
        asked=len(exchanges),
        good=len(good),
        began=min(exchange.at for exchange in exchanges),
        took_s=max(exchange.at + exchange.total_s for exchange in exchanges)
        - min(exchange.at for exchange in exchanges),
    )
    if findings:
        reason = f"{len(good)} of {len(exchanges)} answers are good; {len(findings)} findings"
        return replace(found, verdict=Verdict.FAILED, reason=reason)
    return replace(
        found, verdict=Verdict.PASSED, reason=f"{len(good)}/{len(exchanges)}, {task.per_pool} per pool and region"
    )


def faults(exchange: Exchange, pools: Sequence[Listed], marks: dict[str, str]) -> tuple[str, ...]:
    """What is wrong with one answer, in words; empty = 200, complete, correctly terminated, rightly attributed."""
    seen = exchange.seen
    if isinstance(seen, Unanswered):
        return (f"no answer: {seen.reason}",)
    if seen.status != 200:
        return (f"status {seen.status}",)
    found = []
    if seen.content_type.partition(";")[0].strip().lower() != _CONTENT[exchange.asked.kind.stream]:
        found.append(f"content type {seen.content_type!r}")
    if seen.cut is not None:
        found.append(f"the body was cut: {seen.cut}")
    return (*found, *seen.told.faults, *_misattributed(seen, pools, marks))


def _misattributed(seen: Answered, pools: Sequence[Listed], marks: dict[str, str]) -> Iterator[str]:
    if seen.pool is None:
        yield "no x-dynamo-pool header"
        return
    regions = {pool.key: pool.region for pool in pools}
    if seen.pool not in regions:
        yield f"x-dynamo-pool names {seen.pool}, which is not listed"
        return
    if seen.region != regions[seen.pool]:
        yield f"x-dynamo-target-region is {seen.region}, but {seen.pool} is in {regions[seen.pool]}"
    signed = sorted(key for key, mark in marks.items() if mark in seen.told.text)
    if seen.pool in marks and signed != [seen.pool]:
        yield f"x-dynamo-pool names {seen.pool}, but the text is of {', '.join(signed) or 'no known pool'}"


def _missing(evidence: Evidence, run: int, pools: Sequence[Listed], exchanges: Sequence[Exchange]) -> Iterator[str]:
    """Requests of the plan without an exchange, and those with more than one."""
    task = evidence.task
    planned = everything((name for name, _ in task.ingresses), task.runs, len(pools), task.per_pool)
    wanted = Counter(asked for asked in planned if asked.run == run)
    sent = Counter(exchange.asked for exchange in exchanges)
    for name, count in sorted(Counter(asked.ingress for asked in (wanted - sent).elements()).items()):
        yield f"{name}: {count} planned requests were not sent"
    for name, count in sorted(Counter(asked.ingress for asked in (sent - wanted).elements()).items()):
        yield f"{name}: {count} requests that were not planned"


def _uneven(evidence: Evidence, pools: Sequence[Listed], good: Sequence[Exchange]) -> Iterator[str]:
    """Pools that gave other than R good answers to a region, or not every kind."""
    task = evidence.task
    kinds: dict[tuple[str, str], list[str]] = {}
    for exchange in good:
        if isinstance(exchange.seen, Answered) and exchange.seen.pool is not None:
            kinds.setdefault((exchange.asked.ingress, exchange.seen.pool), []).append(str(exchange.asked.kind))
    for ingress, _ in task.ingresses:
        for pool in pools:
            got = kinds.get((ingress, pool.key), [])
            if len(got) != task.per_pool:
                yield f"{ingress} to {pool.key}: {len(got)} good answers, {task.per_pool} expected"
            lacking = sorted({str(kind) for kind in KINDS} - set(got))
            if task.per_pool >= len(KINDS) and lacking:
                yield f"{ingress} to {pool.key}: no {', no '.join(lacking)}"
