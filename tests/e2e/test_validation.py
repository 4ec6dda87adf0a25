"""The validation client before four real regions: everything it can show passes, and what is broken is named."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from global_ingress.validate.checks.verdicts import Check, Verdict
from global_ingress.validate.evidence import Objectives, Task
from global_ingress.validate.report.judged import Report, report_on
from global_ingress.validate.run import Patience, measure, task_of
from tests.e2e.children import Children, wait_until
from tests.e2e.regions import MODEL, Region, free_ports
from tests.e2e.stack import NAMESPACE, POOL, Directory, Ingress, SliceFolder, pool_of

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]


class RollingUpdate:
    """The means of disturbing real regions: a second frontend before the first one ends, a kill, a restart."""

    def __init__(self, regions: list[Region], slices: SliceFolder, children: Children) -> None:
        self._regions = {region.cluster: region for region in regions}
        self._slices = slices
        self._children = children

    async def do(self, action: str, cluster: str, pool: str) -> str | None:
        if pool != f"{NAMESPACE}/{POOL}" or cluster not in self._regions:
            return f"there is no {cluster}/{pool}"
        await asyncio.to_thread(getattr(self, f"_{action}"), self._regions[cluster])
        return None

    def _replace(self, region: Region) -> None:
        (port,) = free_ports(1)
        old = region.replace_frontend(port)
        self._slices.put(region)
        # Its drain answers with 503 and ends what is under way.
        old.stop()
        self._children.forget(old)

    def _cut(self, region: Region) -> None:
        region.signal_frontend()

    def _restore(self, region: Region) -> None:
        region.restart()


@pytest.fixture
def task(
    directory: Directory, slices: SliceFolder, ingress: Ingress, regions: list[Region], children: Children
) -> Iterator[Task]:
    """An ingress and a discovery for each region, all of real regions."""
    directories, ingresses = [directory], [ingress]
    for region in regions[1:]:
        one = Directory(slices, children)
        one.start()
        directories.append(one)
        other = Ingress(f"ingress-of-{region.cluster}", {"urls": [one.url]}, children)
        other.start(pools=len(regions))
        ingresses.append(other)
    names = [region.cluster for region in regions]
    yield task_of(
        MODEL,
        dict(zip(names, (one.url for one in ingresses), strict=True)),
        dict(zip(names, (one.url for one in directories), strict=True)),
        dict(zip(names, (one.admin for one in ingresses), strict=True)),
        expect_pools=len(regions),
        objectives=Objectives(error_share=0.2, recovery_s=30.0),
        disturb=("the test",),
        marks={pool_of(region): region.tag for region in regions},
    )
    for child in [one.child for one in ingresses[1:]] + [one.child for one in directories[1:]]:
        if child is not None:
            children.forget(child)


async def validated(task: Task, means: RollingUpdate | None = None) -> tuple[Report, dict[str, Check]]:
    said: list[str] = []
    report = report_on(await measure(task, say=said.append, patience=Patience(interval_s=0.2), means=means))
    return report, {check.id: check for check in report.checks}


async def test_four_real_regions_pass(
    task: Task, regions: list[Region], slices: SliceFolder, children: Children
) -> None:
    report, checks = await validated(task, RollingUpdate(regions, slices, children))
    assert [check for check in report.checks if check.verdict is Verdict.FAILED] == []
    assert sum(checks[f"traffic.steady-state-{run}"].good for run in (1, 2)) == 320
    assert {row.per_run for row in report.rows} == {(10, 10)}
    shown = {check.id for check in report.checks if check.verdict is Verdict.PASSED}
    assert shown == {
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


async def test_a_worker_that_is_gone_is_named(task: Task, ingress: Ingress, regions: list[Region]) -> None:
    """Its frontend answers and lists nothing: the pool is listed and not used."""
    regions[2].signal_worker()
    gone = f"ingress to see that {regions[2]!r} has no worker"
    await asyncio.to_thread(wait_until, lambda: pool_of(regions[2]) not in ingress.routable(), gone, 60)
    _, checks = await validated(task)
    reached = checks["conformance.reachability"]
    assert reached.verdict is Verdict.FAILED
    assert any(pool_of(regions[2]) in finding for finding in reached.findings), reached.findings
    assert checks["traffic.steady-state-1"].verdict is Verdict.FAILED
