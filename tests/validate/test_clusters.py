"""What clusters show when all is well, what is listed, and what may not be seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from discovery.testing.cluster import EVERYTHING, READ_SLICES, rule
from global_ingress import __version__
from global_ingress.validate.asking import Rendered
from global_ingress.validate.bundle import Object, read_bundle
from global_ingress.validate.checks.verdicts import Verdict
from global_ingress.validate.evidence import Task, View, Viewing
from global_ingress.validate.report.document import read_report, to_json
from global_ingress.validate.report.html import to_html
from global_ingress.validate.report.judged import report_on
from global_ingress.validate.report.text import identity
from tests.validate.deployed import (
    BUNDLE,
    FILES,
    NAMESPACE,
    OBJECTS,
    changing,
    deleting,
    deployed,
    judged,
    nothing,
    one_cluster,
    pod,
)
from tests.validate.evidences import good

CHECKS = (
    "inventory.platform",
    "compatibility.matrix",
    "provenance.digests",
    "materialization.diff",
    "conformance.access",
    "traffic.pods",
    "acceptance.bystanders",
    "rollback.bundle",
)
pytestmark = pytest.mark.outside  # the loop here is the client's alone
_RBAC = "rbac.authorization.k8s.io/v1"


async def test_the_example_fleet_as_it_was_rendered_passes(tmp_path: Path) -> None:
    async with deployed() as fake:
        before = fake.revision
        found = await judged(fake, tmp_path)
        assert fake.revision == before, "looking has changed something"
    assert {name: (found.checks[name].verdict, found.checks[name].reason) for name in CHECKS} == {
        "inventory.platform": (Verdict.PASSED, "1 clusters are recorded"),
        "compatibility.matrix": (Verdict.PASSED, "1 clusters, all of supported versions"),
        "provenance.digests": (Verdict.PASSED, "1 clusters run what was rendered"),
        "materialization.diff": (Verdict.PASSED, f"{len(OBJECTS['ohio'])} objects are as rendered"),
        "conformance.access": (Verdict.PASSED, found.checks["conformance.access"].reason),
        "traffic.pods": (Verdict.PASSED, "4 pods kept their lives"),
        "acceptance.bystanders": (Verdict.PASSED, "2 bystanders kept identity and health"),
        "rollback.bundle": (Verdict.PASSED, f"{len(OBJECTS['ohio'])} objects would be taken"),
    }
    assert found.checks["inventory.platform"].findings == (
        "ohio: Kubernetes v1.34.0+fake, 2 nodes, 8 GPUs, 10 pods, 0 restarts, 2 images",
    )


async def test_a_pod_of_a_protected_namespace_is_a_bystander_and_others_are_not(tmp_path: Path) -> None:
    gone = deleting("pods", "billing", "ledger-0")
    for protect, verdict in ((("billing",), Verdict.FAILED), ((), Verdict.PASSED)):
        async with deployed() as fake:
            fake.put(pod("ledger-0", "10.4.0.1", namespace="billing", image="ledger:1.0", node="cpu-1"))
            found = await judged(fake, tmp_path, of=one_cluster(protect=protect), meanwhile=gone)
        assert found.checks["acceptance.bystanders"].verdict is verdict


async def test_labels_and_annotations_beside_the_rendered_ones_are_listed_as_overrides(tmp_path: Path) -> None:
    async with deployed() as fake:
        changing("deployments", NAMESPACE, "global-ingress", lambda t: t["metadata"].update(annotations={"team": "a"}))(
            fake
        )
        found = (await judged(fake, tmp_path)).checks["materialization.diff"]
    assert found.verdict is Verdict.PASSED
    assert found.findings == ("ohio: Deployment global-ingress/global-ingress: metadata.annotations team: a",)
    assert found.reason.endswith("1 overrides")


async def test_a_folder_that_is_not_what_was_rendered_fails_without_any_cluster(tmp_path: Path) -> None:
    edited = {**FILES, "ohio/ingress.yaml": FILES["ohio/ingress.yaml"] + b"\n# by hand\n"}
    bundle, objects = read_bundle("edited", edited)
    of = replace(one_cluster(), bundle=bundle, rollback=bundle, fleet_sha256="0" * 64)
    async with deployed() as fake:
        found = await judged(fake, tmp_path, of=of, rendered=Rendered(objects, objects))
    assert (
        "edited: ohio/ingress.yaml is not what was rendered: sha256" in found.checks["provenance.digests"].findings[0]
    )
    assert "edited was rendered of another fleet file" in found.checks["provenance.digests"].findings[1]
    assert found.checks["rollback.bundle"].verdict is Verdict.FAILED


async def test_a_rollback_that_would_not_be_taken_fails(tmp_path: Path) -> None:
    spoilt: Object = {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "x", "namespace": "nowhere"}}
    monitor = {"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": "w", "namespace": "dynamo"}}
    async with deployed() as fake:
        found = (await judged(fake, tmp_path, rendered=Rendered(OBJECTS, {"ohio": [spoilt, monitor]}))).checks[
            "rollback.bundle"
        ]
    assert found.verdict is Verdict.FAILED
    assert "ohio: Deployment nowhere/x: is not taken: namespaces" in found.findings[0]
    assert found.findings[1] == "ohio: Widget dynamo/w: example.com/v1 Widget is not served"


async def test_an_api_that_is_not_served_and_an_old_kubernetes_are_not_supported(tmp_path: Path) -> None:
    bundle = replace(BUNDLE, kinds=(*BUNDLE.kinds, ("ohio", "monitoring.coreos.com/v1 ServiceMonitor")))
    async with deployed() as fake:
        found = await judged(fake, tmp_path, of=replace(one_cluster(), bundle=bundle))
    assert found.checks["compatibility.matrix"].findings == (
        "ohio: monitoring.coreos.com/v1 ServiceMonitor is not served",
    )


async def test_an_ingress_of_another_version_is_not_supported(tmp_path: Path) -> None:
    for version, verdict in (("9.9.9", Verdict.FAILED), (__version__, Verdict.PASSED)):
        of = one_cluster()
        seen = replace(good(of, 1), viewings=(Viewing("ohio", View(version, "t", ()), 1.0, 0.1),))
        async with deployed() as fake:
            found = (await judged(fake, tmp_path, of=of, whole=seen)).checks["compatibility.matrix"]
        assert found.verdict is verdict


# What may not be seen is unknown, and no pass.


@pytest.mark.parametrize(
    ("rules", "named"),
    [
        (
            (READ_SLICES,),
            {
                "inventory.platform": "nodes: forbidden",
                "compatibility.matrix": "ohio: forbidden",
                "provenance.digests": "ohio: forbidden",
                "materialization.diff": "Namespace global-ingress: forbidden",
                "conformance.access": "ohio: forbidden",
                "traffic.pods": "ohio: forbidden",
                "acceptance.bystanders": "ohio: forbidden",
                "rollback.bundle": "Namespace global-ingress: forbidden",
            },
        ),
        ((rule("get list", "*"),), {"conformance.access": "forbidden", "materialization.diff": "dry run: forbidden"}),
    ],
    ids=["slices only", "reads only"],
)
async def test_what_may_not_be_seen_is_skipped_with_the_reason(
    rules: tuple[Any, ...], named: dict[str, str], tmp_path: Path
) -> None:
    async with deployed() as fake:
        fake.access.grant("t", *rules)
        found = await judged(fake, tmp_path, token="t")
    for check_id, words in named.items():
        check = found.checks[check_id]
        assert check.verdict is Verdict.SKIPPED, (check_id, check)
        assert words in check.reason
        assert check.owner
        assert check.date


async def test_who_may_list_pods_in_its_namespaces_alone_sees_those(tmp_path: Path) -> None:
    async with deployed() as fake:
        fake.put(pod("ledger-0", "10.4.0.1", namespace="billing", image="ledger:1.0", node="cpu-1"))
        fake.access.grant("t", rule("get list", "pods", f"{NAMESPACE} dynamo"))
        found = await judged(fake, tmp_path, token="t")
    look = found.evidence.clusters[0].before
    assert look.namespaces == ("dynamo", NAMESPACE)
    assert "10 pods in dynamo, global-ingress alone" in found.checks["inventory.platform"].findings[0]
    assert found.checks["traffic.pods"].verdict is Verdict.PASSED


async def test_an_api_server_that_does_not_answer_is_unknown(tmp_path: Path) -> None:
    async with deployed() as fake:
        await fake.stop()
        found = await judged(fake, tmp_path)
        await fake.start()
    for check_id in CHECKS:
        assert found.checks[check_id].verdict is Verdict.SKIPPED, found.checks[check_id]
    assert "ClientConnectorError" in found.checks["inventory.platform"].reason


def without(**changes: Any) -> Task:
    return replace(one_cluster(), **changes)


@pytest.mark.parametrize(
    ("of", "named"),
    [
        (
            without(bundle=None),
            {
                "provenance.digests": "--bundle",
                "materialization.diff": "--bundle",
                "conformance.access": "where discovery should read is not known",
            },
        ),
        (without(rollback=None), {"rollback.bundle": "--rollback"}),
        (
            without(ingresses=(("ohio", "http://127.0.0.1:1"), ("oregon", "http://127.0.0.1:2"))),
            dict.fromkeys(CHECKS, "oregon: no kubeconfig was given"),
        ),
    ],
    ids=["no bundle", "no rollback", "a cluster less"],
)
async def test_what_was_not_given_is_skipped_with_the_reason(of: Task, named: dict[str, str], tmp_path: Path) -> None:
    async with deployed() as fake:
        rendered = Rendered(OBJECTS if of.bundle else {}, OBJECTS if of.rollback else {})
        found = await judged(fake, tmp_path, of=of, rendered=rendered)
    for check_id, words in named.items():
        assert found.checks[check_id].verdict is Verdict.SKIPPED, found.checks[check_id]
        assert words in found.checks[check_id].reason


async def test_bystanders_without_anything_to_protect_are_no_pass(tmp_path: Path) -> None:
    async with deployed() as fake:
        deleting("nodes", "", "gpu-1")(fake)
        found = (await judged(fake, tmp_path)).checks["acceptance.bystanders"]
    assert found.verdict is Verdict.SKIPPED
    assert "--protect names nobody" in found.reason


async def test_everything_allowed_is_as_good_as_no_table(tmp_path: Path) -> None:
    async with deployed() as fake:
        fake.access.grant("t", EVERYTHING)
        found = await judged(fake, tmp_path, token="t", meanwhile=nothing)
    assert {found.checks[one].verdict for one in CHECKS} == {Verdict.PASSED}


async def test_the_report_holds_what_the_clusters_said_and_names_what_was_deployed(tmp_path: Path) -> None:
    async with deployed() as fake:
        found = await judged(fake, tmp_path)
    report = report_on(found.evidence)
    document = read_report(to_json(report))
    assert document.clusters[0]["version"] == "v1.34.0+fake"
    assert {one["name"] for one in document.clusters[0]["before"]["nodes"]} == {"cpu-1", "gpu-1"}
    head = dict(identity(report))
    assert head["fleet"] == f"prod, sha256 {BUNDLE.fleet_sha256}"
    assert BUNDLE.sha256 in head["bundle"]
    assert head["Kubernetes"] == "ohio v1.34.0+fake"
    assert "materialization.diff" in to_html(report)


async def test_a_part_that_does_not_run_is_not_passed_over(tmp_path: Path) -> None:
    async with deployed() as fake:
        for turn in (0, 1):
            fake.delete("pods", NAMESPACE, f"global-discovery-{turn}")
        found = (await judged(fake, tmp_path)).checks["conformance.access"]
    assert found.verdict is Verdict.SKIPPED
    assert "ohio: no pod of global-discovery was found" in found.reason
