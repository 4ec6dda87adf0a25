"""One validation: a stable inventory first, then the traffic, then the report.

Owns the order of the phases and their bounds in time. Refuses to judge while it measures. The rule: traffic of one
region is sent one request after another (the order gives every pool every kind), regions run beside each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from discovery.kit.clock import SYSTEM_CLOCK, Clock
from global_ingress.validate.evidence import Asked, Evidence, Exchange, Reading, Task, Unanswered
from global_ingress.validate.inventory import stable, unsettled
from global_ingress.validate.plan import requests
from global_ingress.validate.probe import Probe, new_client
from global_ingress.validate.report import Report, report_on, to_json, to_text

_SILENT_IN_A_ROW = 5  # so many requests without an answer end a region's run: the rest is missing evidence

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Patience:
    """How often the discoveries are read, and for how long a stable inventory is waited for (seconds)."""

    interval_s: float = 0.5
    inventory_s: float = 60.0
    answer_s: float = 30.0


async def measure(task: Task, *, say: Say, clock: Clock = SYSTEM_CLOCK, patience: Patience | None = None) -> Evidence:
    """Collects the evidence for a task. `say` is told each phase, in a line."""
    patience = patience or Patience()
    began = clock.now().timestamp()
    async with new_client(timeout_s=patience.answer_s) as client:
        probe = Probe(client, clock)
        readings = await _settle(task, probe, clock, patience, say)
        exchanges: list[Exchange] = []
        pools = stable(task, readings)
        for run in range(1, task.runs + 1) if pools else ():
            planned = [requests(name, run, len(pools or ()), task.per_pool) for name, _ in task.ingresses]
            say(f"traffic, run {run} of {task.runs}: {sum(map(len, planned))} requests")
            async with asyncio.TaskGroup() as group:
                regions = [
                    group.create_task(_send(probe, part, url, task.model))
                    for part, (_, url) in zip(planned, task.ingresses, strict=True)
                ]
            exchanges += [exchange for region in regions for exchange in region.result()]
    return Evidence(task, began, clock.now().timestamp(), tuple(readings), tuple(exchanges))


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


async def _send(probe: Probe, planned: tuple[Asked, ...], url: str, model: str) -> list[Exchange]:
    """One region's requests in order."""
    exchanges: list[Exchange] = []
    silent = 0
    for asked in planned:
        exchanges.append(await probe.exchange(asked, url, model))
        silent = silent + 1 if isinstance(exchanges[-1].seen, Unanswered) else 0
        if silent == _SILENT_IN_A_ROW:
            break
    return exchanges


def task_of(
    model: str,
    ingresses: Mapping[str, str],
    discoveries: Mapping[str, str],
    *,
    per_pool: int = 10,
    expect_pools: int | None = None,
    marks: Mapping[str, str] | None = None,
) -> Task:
    """The task that these addresses stand for; by cluster, in the order given."""
    return Task(
        model,
        tuple(ingresses.items()),
        tuple(discoveries.items()),
        per_pool,
        expect_pools=expect_pools,
        marks=tuple((marks or {}).items()),
    )


def validate_command(task: Task, *, say: Say, output: Path | None = None, patience: Patience | None = None) -> Report:
    """Measures, judges, and writes `report.json` and `report.txt` into `output`. Raises OSError where it cannot."""
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)  # before the measurement: it must not be lost for a bad path
    report = report_on(asyncio.run(measure(task, say=say, patience=patience)))
    if output is not None:
        write(report, output)
    return report


def write(report: Report, output: Path) -> None:
    """The files of a report."""
    (output / "report.json").write_bytes(to_json(report))
    (output / "report.txt").write_text(to_text(report), encoding="utf-8")
