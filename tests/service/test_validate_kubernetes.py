"""`--disturb kubernetes` before fake clusters: what it deletes and scales, that it undoes it, and what it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from discovery.kit.clock import SYSTEM_CLOCK
from discovery.kit.tasks import background
from discovery.testing.cluster import EVERYDAY, EVERYDAY_RULES, FakeCluster, rule, server_error
from global_ingress.validate.bundle import Object
from global_ingress.validate.checks.verdicts import Check, Verdict
from global_ingress.validate.evidence import Listing, Task
from global_ingress.validate.probe import Probe, new_client
from global_ingress.validate.report.judged import report_on
from global_ingress.validate.run import KUBERNETES, Patience, measure
from tests.service.ingress.process import eventually
from tests.validate.deployed import pod
from tests.validate.world import Wrong, world

# The loop here is the client's alone, and each test breaks and waits: once is enough.
pytestmark = [pytest.mark.outside, pytest.mark.slow]

QUICK = Patience(interval_s=0.01, inventory_s=0.2, answer_s=5.0, recovery_s=3.0)
NAME = "llama-frontend"
DEPLOYMENT = ("deployments", "dynamo", NAME)


def owned_by(fake: FakeCluster, resource: str, name: str) -> Object:
    owner = fake.get(resource, "dynamo", name)
    assert owner is not None
    kind = fake.kind(resource).kind
    return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": owner["metadata"]["uid"], "controller": True}


def workload(fake: FakeCluster, port: int, *, owner: str = "replicasets") -> None:
    """A Deployment of one frontend, its ReplicaSet and its pod at 127.0.0.1:`port`."""
    metadata = {"name": NAME, "namespace": "dynamo"}
    spec = {"replicas": 1, "template": {"spec": {"containers": [{"name": "main", "image": "dynamo:1.6.1"}]}}}
    fake.put({"kind": "Deployment", "apiVersion": "apps/v1", "metadata": metadata, "spec": spec})
    chain = [owned_by(fake, "deployments", NAME)]
    above = {**metadata, "name": f"{NAME}-6d", "ownerReferences": chain}
    fake.put({"kind": "ReplicaSet", "apiVersion": "apps/v1", "metadata": above, "spec": spec})
    kept = owned_by(fake, owner, f"{NAME}-6d") if owner else None
    fake.put(pod(f"{NAME}-0", "127.0.0.1", image="dynamo:1.6.1", node="n", port=port, owner=kept))
    # Another pod of the node's address, which is nobody's business.
    fake.put(pod("metrics-0", "127.0.0.1", image="m:1.0", node="n", port=1))


def frontends(fake: FakeCluster) -> list[str]:
    return [one["metadata"]["name"] for one in fake.objects("pods", "dynamo") if one["metadata"]["name"] != "metrics-0"]


def replicas(fake: FakeCluster) -> int:
    found = fake.get(*DEPLOYMENT)
    assert found is not None
    return int(found["spec"]["replicas"])


async def keeps(fake: FakeCluster, changed: Callable[[list[str]], None]) -> None:
    """What the Deployment's controller does: as many pods as are wanted, each new one somewhere else."""
    made = 0
    while True:
        await fake.until(lambda: len(frontends(fake)) != replicas(fake), seconds=600)
        while len(frontends(fake)) > replicas(fake):
            fake.delete("pods", "dynamo", frontends(fake)[0])
        while len(frontends(fake)) < replicas(fake):
            made += 1
            owner = owned_by(fake, "replicasets", f"{NAME}-6d")
            fake.put(pod(f"{NAME}-new-{made}", f"10.9.0.{made}", image="dynamo:1.6.1", node="n", owner=owner))
        changed(frontends(fake))


@dataclass(slots=True)
class Clusters:
    """Two regions whose frontends are pods."""

    task: Task
    ohio: FakeCluster
    oregon: FakeCluster
    said: list[str]

    async def checks(self, patience: Patience = QUICK) -> dict[str, Check]:
        report = report_on(await measure(self.task, say=self.said.append, patience=patience))
        return {check.id: check for check in report.checks}


@asynccontextmanager
async def clusters(wrong: Wrong, path: Path, *, owner: str = "replicasets") -> AsyncIterator[Clusters]:
    async with AsyncExitStack() as stack:
        task = await stack.enter_async_context(world(wrong))
        fakes = [
            await stack.enter_async_context(FakeCluster(kinds=EVERYDAY, rules=EVERYDAY_RULES)) for _ in task.ingresses
        ]
        kubeconfigs = []
        for (name, _), fake, port in zip(task.ingresses, fakes, await ports(task), strict=True):
            workload(fake, port, owner=owner)
            kubeconfigs.append((name, str(fake.kubeconfig(path / name, token="t")), ""))
        ohio, oregon = fakes

        def replaced(names: list[str]) -> None:
            wrong.moved = wrong.moved or names != [f"{NAME}-0"]

        def cut(names: list[str]) -> None:
            wrong.cut = not names

        for fake, changed in ((ohio, replaced), (oregon, cut)):
            await stack.enter_async_context(background(keeps(fake, changed), name="controller", on_failure=failed))
        yield Clusters(replace(task, kubeconfigs=tuple(kubeconfigs), disturb=KUBERNETES), ohio, oregon, [])


def failed(error: Exception) -> None:
    raise AssertionError from error


async def ports(task: Task) -> list[int]:
    """Where the frontends listen, by what a discovery lists."""
    async with new_client() as client:
        listing = (await Probe(client, SYSTEM_CLOCK).list_pools(*task.discoveries[0])).seen
    assert isinstance(listing, Listing)
    return [int(pool.frontends[0].rpartition(":")[2]) for pool in listing.pools]


async def test_a_pod_is_replaced_and_a_region_cut_and_brought_back(tmp_path: Path) -> None:
    async with clusters(Wrong(), tmp_path) as found:
        checks = await found.checks()
        for name in ("traffic.replacement", "traffic.region-cut", "traffic.bounds"):
            assert checks[name].verdict is Verdict.PASSED, checks[name]
        assert f"{NAME}-0" not in frontends(found.ohio)
        assert [entry.name for entry in found.ohio.asked("delete")] == [f"{NAME}-0"]
        assert replicas(found.oregon) == 1
        scaled = [entry.subresource for entry in found.oregon.asked("patch")]
        assert scaled == ["scale", "scale"]
        before = found.said[: next(i for i, line in enumerate(found.said) if line.startswith("replacing"))]
    wanted = f"oregon: Deployment dynamo/{NAME} keeps 1 pods; to bring them back by hand: "
    assert f"    {wanted}kubectl -n dynamo scale deployment/{NAME} --replicas=1" in before


@pytest.mark.parametrize(
    ("wrong", "check", "named"),
    [
        (Wrong(keeps_old=True), "traffic.replacement", "ohio does not list a new frontend of ohio/dynamo/llama"),
        (Wrong(no_failover=True), "traffic.region-cut", "had not recovered"),
    ],
    ids=["a stale address kept", "no failover"],
)
async def test_a_system_that_does_not_get_over_it_fails(wrong: Wrong, check: str, named: str, tmp_path: Path) -> None:
    async with clusters(wrong, tmp_path) as found:
        seen = (await found.checks())[check]
        assert replicas(found.oregon) == 1
    assert seen.verdict is Verdict.FAILED
    assert any(named in finding for finding in seen.findings), seen.findings


async def test_a_number_that_somebody_sets_back_is_no_cut(tmp_path: Path) -> None:
    async def reconcile(fake: FakeCluster) -> None:
        await fake.until(lambda: replicas(fake) == 0, seconds=600)
        fake.change(*DEPLOYMENT, lambda thing: thing["spec"].update(replicas=1))

    async with (
        clusters(Wrong(), tmp_path) as found,
        background(reconcile(found.oregon), name="operator", on_failure=failed),
    ):
        seen = (await found.checks())["traffic.region-cut"]
    assert seen.verdict is Verdict.FAILED
    assert f"somebody else set Deployment {NAME} to 1 replicas again" in seen.findings[0]


async def test_without_the_right_it_is_not_done_and_nothing_is_left(tmp_path: Path) -> None:
    async with clusters(Wrong(), tmp_path) as found:
        for fake in (found.ohio, found.oregon):
            fake.access.grant("t", rule("get list", "*"))
        checks = await found.checks()
        assert replicas(found.oregon) == 1
        assert f"{NAME}-0" in frontends(found.ohio)
    for name, verb in (("traffic.replacement", "delete"), ("traffic.region-cut", "patch")):
        assert checks[name].verdict is Verdict.FAILED
        assert f"cannot {verb} resource" in checks[name].findings[0]


async def test_a_pod_that_nothing_keeps_is_left_alone(tmp_path: Path) -> None:
    async with clusters(Wrong(), tmp_path, owner="") as found:
        checks = await found.checks()
        assert f"{NAME}-0" in frontends(found.ohio)
        assert replicas(found.oregon) == 1
    assert f"nothing would make the pod {NAME}-0 anew" in checks["traffic.replacement"].findings[0]
    assert "its frontends are kept by nothing, which has no scale" in checks["traffic.region-cut"].findings[0]


async def test_an_address_without_a_pod_is_named(tmp_path: Path) -> None:
    async with clusters(Wrong(), tmp_path) as found:
        fake = found.ohio
        fake.change("deployments", "dynamo", NAME, lambda thing: thing["spec"].update(replicas=0))
        await fake.until(lambda: not frontends(fake))
        seen = (await found.checks())["traffic.replacement"]
    assert seen.verdict is Verdict.FAILED
    assert "no pod of dynamo is at http://" in seen.findings[0]


async def test_what_was_cut_comes_back_when_it_is_broken_off(tmp_path: Path) -> None:
    async with clusters(Wrong(no_failover=True), tmp_path) as found:
        running = asyncio.create_task(found.checks(replace(QUICK, recovery_s=60.0)))
        await eventually(lambda: replicas(found.oregon) == 0, "the cut", 20.0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert replicas(found.oregon) == 1


async def test_what_was_cut_comes_back_through_an_api_server_that_fails_once(tmp_path: Path) -> None:
    async with clusters(Wrong(), tmp_path) as found:
        fake = found.oregon

        def broken() -> bool:
            return replicas(fake) == 0

        async def breaks() -> None:
            await fake.until(broken, seconds=600)
            fake.faults.add(server_error(), verbs="patch", times=1)

        async with background(breaks(), name="trouble", on_failure=failed):
            seen = (await found.checks())["traffic.region-cut"]
        assert replicas(fake) == 1
    assert seen.verdict is Verdict.PASSED, seen


async def test_without_an_api_server_nothing_is_disturbed(tmp_path: Path) -> None:
    async with clusters(Wrong(), tmp_path) as found:
        found.task = replace(found.task, kubeconfigs=())
        seen = (await found.checks())["traffic.region-cut"]
    assert (seen.verdict, seen.reason) == (Verdict.SKIPPED, "it was not done")
