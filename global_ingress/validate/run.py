"""One validation: a stable inventory first, then the traffic, then the report.

Owns the order of the phases and their bounds in time. Refuses to judge while it measures. The rule: traffic of one
region is sent one request after another (the order gives every pool every kind), regions run beside each other.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from discovery.kit.clock import SYSTEM_CLOCK, Clock
from global_ingress.validate.asking import Asking, Given, Rendered
from global_ingress.validate.calling import call
from global_ingress.validate.clusters import Cluster, opened
from global_ingress.validate.disturbing import Disturber
from global_ingress.validate.evidence import (
    Asked,
    Departure,
    Disturbance,
    Evidence,
    Exchange,
    Listed,
    Objectives,
    Reading,
    Signature,
    Task,
    Unanswered,
)
from global_ingress.validate.inventory import stable, unsettled
from global_ingress.validate.kubernetes import Kubernetes
from global_ingress.validate.looking import Looking
from global_ingress.validate.means import Command, Means
from global_ingress.validate.plan import requests
from global_ingress.validate.probe import Probe, new_client
from global_ingress.validate.report.document import to_json
from global_ingress.validate.report.html import to_html
from global_ingress.validate.report.judged import Report, report_on
from global_ingress.validate.report.junit import to_junit
from global_ingress.validate.report.text import to_markdown, to_text

PROVENANCE, TRAFFIC, ACCEPTANCE = 3, 6, 7
KUBERNETES = ("kubernetes",)
"""In the place of a command: the clusters' own API servers."""
_SILENT_IN_A_ROW = 5  # so many requests without an answer end a region's run: the rest is missing evidence

Say = Callable[[str], None]
Sent = Callable[[str, int, int], None]
"""Is told of each request that was sent: from which region, in which run, of how many."""


def _unseen(ingress: str, run: int, of: int) -> None:
    """Nobody looks."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How often the discoveries are read, and for how long is waited (seconds): for a stable inventory, for bytes of an
    answer, for the end of a trouble that was made."""

    interval_s: float = 0.5
    inventory_s: float = 60.0
    answer_s: float = 30.0
    recovery_s: float = 60.0


async def measure(
    task: Task,
    *,
    say: Say,
    clock: Clock = SYSTEM_CLOCK,
    patience: Patience | None = None,
    means: Means | None = None,
    rendered: Rendered | None = None,
    sent: Sent = _unseen,
) -> Evidence:
    """Collects the evidence for a task. `say` is told each phase, in a line; without `means` nothing is disturbed;
    `rendered` are the objects that the API servers are held against."""
    patience = patience or Patience()
    began = clock.now().timestamp()
    async with new_client(timeout_s=patience.answer_s) as client, opened(task, clock) as clusters:
        probe = Probe(client, clock)
        readings = await _settle(task, probe, clock, patience, say)
        asking = Asking(clusters, task, rendered or Rendered())
        await asking.first(readings, say)
        pools = stable(task, readings)
        looking = Looking(probe, task, clock)
        routers, viewings = await looking.routers(), await looking.views()
        sends = bool(pools) and not {TRAFFIC, ACCEPTANCE}.isdisjoint(task.phases)
        exchanges = await _steady_state(task, probe, len(pools or ()), say, sent) if sends else ()
        departures: tuple[Departure, ...] = ()
        disturbances: tuple[Disturbance, ...] = ()
        if pools and TRAFFIC in task.phases:
            viewings += await looking.views()
            if task.admins:
                say("clients that leave")
                departures = await looking.departures(pools)
            disturbances = await _disturbances(Disturbing(probe, task, clock, patience), clusters, means, pools, say)
        viewings += await looking.views()
        after = await looking.pools()
        seen = await asking.last()
        signatures = await _signatures(task, clock, say)
    return Evidence(
        task=task,
        began=began,
        ended=clock.now().timestamp(),
        readings=tuple(readings),
        exchanges=exchanges,
        after=after,
        routers=routers,
        viewings=viewings,
        departures=departures,
        disturbances=disturbances,
        clusters=seen,
        signatures=signatures,
    )


async def _signatures(task: Task, clock: Clock, say: Say) -> tuple[Signature, ...]:
    """What the verifier says of each image of the bundle that has a digest: a tag may be another image tomorrow."""
    if not task.verifier or task.bundle is None or PROVENANCE not in task.phases:
        return ()
    found = []
    for image, digest in task.bundle.images:
        if digest:
            say(f"signature of {image}")
            at, began = clock.now().timestamp(), clock.monotonic()
            trouble = await call((*task.verifier, image))
            found.append(Signature(image, trouble, at, clock.monotonic() - began))
    return tuple(found)


async def _steady_state(task: Task, probe: Probe, pools: int, say: Say, sent: Sent) -> tuple[Exchange, ...]:
    """Every run of the plan, regions beside each other."""
    exchanges: list[Exchange] = []
    for run in range(1, task.runs + 1):
        planned = [requests(name, run, pools, task.per_pool) for name, _ in task.ingresses]
        say(f"traffic, run {run} of {task.runs}: {sum(map(len, planned))} requests")
        async with asyncio.TaskGroup() as group:
            regions = [
                group.create_task(_send(probe, part, url, task.model, sent))
                for part, (_, url) in zip(planned, task.ingresses, strict=True)
            ]
        exchanges += [exchange for region in regions for exchange in region.result()]
    return tuple(exchanges)


@dataclass(frozen=True, slots=True)
class Disturbing:
    """With what a disturbance is made and looked at."""

    probe: Probe
    task: Task
    clock: Clock
    patience: Patience

    def by(self, means: Means) -> Disturber:
        return Disturber(self.probe, self.task, means, self.clock, self.patience.recovery_s)


async def _disturbances(
    way: Disturbing, clusters: Sequence[Cluster], means: Means | None, pools: Sequence[Listed], say: Say
) -> tuple[Disturbance, ...]:
    """What was allowed: by the API servers, by a command, or nothing."""
    if way.task.disturb == KUBERNETES:
        by_api = Kubernetes(clusters, way.clock, way.patience.recovery_s)
        if not (able := by_api.choose(pools)):
            return ()
        return await _disturb(way.by(by_api), pools, able, await by_api.prepare((able[0], able[-1])), say)
    return await _disturb(way.by(means), pools, pools, [], say) if means is not None else ()


async def _disturb(
    disturber: Disturber, pools: Sequence[Listed], able: Sequence[Listed], lines: Sequence[str], say: Say
) -> tuple[Disturbance, ...]:
    """Of those that can be disturbed, the first pool's frontend is replaced, the last pool's region cut. What is there,
    and how it comes back, is said before anything is touched."""
    say("what is listed before the first disturbance:")
    for pool in pools:
        say(f"    {pool.key} in {pool.region}: {', '.join(pool.frontends)}")
    for line in lines:
        say(f"    {line}")
    replaced, cut = able[0], able[-1]
    cluster, _, name = cut.key.partition("/")
    say(f"replacing a frontend of {replaced.key}")
    first = await disturber.replacement(replaced)
    say(f"cutting {cut.key}; it comes back by: restore {cluster} {name}")
    return first, await disturber.region_cut(cut)


async def _settle(task: Task, probe: Probe, clock: Clock, patience: Patience, say: Say) -> list[Reading]:
    """Reads every discovery until the inventory is stable, or until patience ends."""
    readings: list[Reading] = []
    end = clock.monotonic() + patience.inventory_s
    rounds = 0
    while True:
        rounds += 1
        readings += await asyncio.gather(*(probe.list_pools(name, url) for name, url in task.discoveries))
        why = unsettled(task, readings)
        if why is None:
            say(f"inventory: stable, {len(stable(task, readings) or ())} pools at {len(task.discoveries)} discoveries")
            return readings
        if clock.monotonic() >= end:
            say(f"inventory: not stable after {patience.inventory_s:g} s: {why}")
            return readings
        if rounds == task.equal_readings:
            say(f"inventory: waiting until all discoveries list the same pools; now {why}")
        await clock.sleep(patience.interval_s)


async def _send(probe: Probe, planned: tuple[Asked, ...], url: str, model: str, sent: Sent) -> list[Exchange]:
    """One region's requests in order."""
    exchanges: list[Exchange] = []
    silent = 0
    for asked in planned:
        exchanges.append(await probe.exchange(asked, url, model))
        sent(asked.ingress, asked.run, len(planned))
        silent = silent + 1 if isinstance(exchanges[-1].seen, Unanswered) else 0
        if silent == _SILENT_IN_A_ROW:
            break
    return exchanges


def task_of(
    model: str,
    ingresses: Mapping[str, str],
    discoveries: Mapping[str, str],
    admins: Mapping[str, str] | None = None,
    *,
    per_pool: int = 10,
    expect_pools: int | None = None,
    expect_routers: int | None = None,
    attempts: int = 2,
    disturb: Sequence[str] = (),
    objectives: Objectives | None = None,
    marks: Mapping[str, str] | None = None,
    given: Given | None = None,
) -> Task:
    """The task that these addresses stand for; by cluster, in the order given."""
    given = given or Given()
    return Task(
        model,
        tuple(ingresses.items()),
        tuple(discoveries.items()),
        per_pool,
        expect_pools=expect_pools,
        expect_routers=expect_routers,
        attempts=attempts,
        admins=tuple((admins or {}).items()),
        disturb=tuple(disturb),
        objectives=objectives,
        marks=tuple((marks or {}).items()),
        kubeconfigs=given.kubeconfigs,
        bundle=given.bundle,
        rollback=given.rollback,
        fleet_sha256=given.fleet_sha256,
        protect=given.protect,
        phases=given.phases,
        verifier=given.verifier,
    )


def validate_command(
    task: Task,
    *,
    say: Say,
    output: Path | None = None,
    patience: Patience | None = None,
    rendered: Rendered | None = None,
    sent: Sent = _unseen,
) -> Report:
    """Measures, judges, and writes the report's files into `output`. Raises OSError where it cannot, CancelledError
    after a SIGTERM."""
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)  # before the measurement: it must not be lost for a bad path
    means = Command(task.disturb) if task.disturb and task.disturb != KUBERNETES else None
    report = report_on(
        asyncio.run(_stoppable(measure(task, say=say, patience=patience, means=means, rendered=rendered, sent=sent)))
    )
    if output is not None:
        write(report, output)
    return report


async def _stoppable(measuring: Coroutine[None, None, Evidence]) -> Evidence:
    """SIGTERM ends it as Ctrl-C does: what was cut is restored."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await measuring


def write(report: Report, output: Path) -> None:
    """The files of a report."""
    (output / "report.json").write_bytes(to_json(report))
    (output / "report.txt").write_text(to_text(report), encoding="utf-8")
    (output / "report.md").write_text(to_markdown(report), encoding="utf-8")
    (output / "report.html").write_text(to_html(report), encoding="utf-8")
    (output / "junit.xml").write_bytes(to_junit(report))
