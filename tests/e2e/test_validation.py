"""The validation client before four real regions, each with an API server, a controller, a discovery and an ingress of
its own: everything it can show passes, and what is broken is named."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from global_ingress.validate.checks.verdicts import Check, Verdict
from global_ingress.validate.evidence import Task
from global_ingress.validate.report.judged import Report, report_on
from global_ingress.validate.run import Patience, measure
from tests.e2e.children import Children, wait_until
from tests.e2e.joined import Joined, joined
from tests.e2e.regions import Region, free_ports
from tests.e2e.stack import NAMESPACE, POOL, pool_of

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


class RollingUpdate:
    """The means of disturbing real regions: a second frontend before the first one ends, a kill, a restart."""

    def __init__(self, world: Joined) -> None:
        self._world = world
        self._regions = {region.cluster: region for region in world.regions}

    async def do(self, action: str, cluster: str, pool: str) -> str | None:
        if pool != f"{NAMESPACE}/{POOL}" or cluster not in self._regions:
            return f"there is no {cluster}/{pool}"
        region = self._regions[cluster]
        match action:
            case "replace":
                await self._replace(region)
            case "cut":
                region.signal_frontend()
            case _:
                await asyncio.to_thread(region.restart)
        return None

    async def _replace(self, region: Region) -> None:
        (port,) = free_ports(1)
        old = await asyncio.to_thread(region.replace_frontend, port)
        self._world.export(region)
        # Its drain answers with 503 and ends what is under way.
        await asyncio.to_thread(old.stop)
        self._world.children.forget(old)


async def validated(task: Task, means: RollingUpdate | None = None) -> tuple[Report, dict[str, Check]]:
    said: list[str] = []
    report = report_on(await measure(task, say=said.append, patience=Patience(interval_s=0.2), means=means))
    return report, {check.id: check for check in report.checks}


async def test_four_joined_regions_pass_and_a_worker_that_is_gone_is_named(
    regions: list[Region], children: Children, tmp_path: Path
) -> None:
    async with joined(regions, tmp_path, children) as world:
        report, checks = await validated(world.task(), RollingUpdate(world))
        assert [check for check in report.checks if check.verdict is Verdict.FAILED] == []
        assert sum(checks[f"traffic.steady-state-{run}"].good for run in (1, 2)) == 320
        assert {row.per_run for row in report.rows} == {(10, 10)}
        assert {check.id for check in report.checks if check.verdict is Verdict.PASSED} == {
            "conformance.inventory",
            "conformance.reachability",
            "traffic.steady-state-1",
            "traffic.steady-state-2",
            "traffic.disconnect",
            "traffic.replacement",
            "traffic.region-cut",
            "traffic.bounds",
            "traffic.one-life",
            "acceptance.objectives",
        }
        await without_a_worker(world)


async def without_a_worker(world: Joined) -> None:
    """Its frontend answers and lists nothing: the pool is listed and not used."""
    broken = world.regions[2]
    broken.signal_worker()
    gone = f"ingresses to see that {broken!r} has no worker"

    def seen() -> bool:
        return all(pool_of(broken) not in one.routable() for one in world.ingresses)

    await asyncio.to_thread(wait_until, seen, gone, 60)
    _, checks = await validated(world.task())
    reached = checks["conformance.reachability"]
    assert reached.verdict is Verdict.FAILED
    assert any(pool_of(broken) in finding for finding in reached.findings), reached.findings
    assert checks["traffic.steady-state-1"].verdict is Verdict.FAILED
