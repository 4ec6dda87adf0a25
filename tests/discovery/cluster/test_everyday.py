"""The fake API server's everyday kinds: defaults, scale, and rights by roles and bindings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from discovery.kube.client import Access
from discovery.kube.errors import Refusal, Refused
from discovery.kube.writes import KubeWriter, Object
from discovery.testing.cluster import EVERYDAY, EVERYDAY_RULES, FakeCluster

RBAC = "rbac.authorization.k8s.io"
DEPLOYMENTS = "/apis/apps/v1/namespaces/prod/deployments"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@pytest_asyncio.fixture
async def fake() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(kinds=EVERYDAY, rules=EVERYDAY_RULES) as cluster:
        yield cluster


@pytest_asyncio.fixture
async def client(fake: FakeCluster, tmp_path: Path) -> AsyncIterator[KubeWriter]:
    async with KubeWriter(Access(str(fake.kubeconfig(tmp_path / "kubeconfig")))) as writer:
        yield writer


def workload(replicas: int = 2) -> Object:
    spec = {"replicas": replicas, "template": {"spec": {"containers": [{"name": "a", "image": "a"}]}}}
    return {
        "kind": "Deployment",
        "apiVersion": "apps/v1",
        "metadata": {"name": "web", "namespace": "prod"},
        "spec": spec,
    }


async def test_a_deployment_gets_its_defaults(fake: FakeCluster) -> None:
    spec = fake.create(workload())["spec"]
    assert (spec["progressDeadlineSeconds"], spec["template"]["spec"]["dnsPolicy"]) == (600, "ClusterFirst")


async def test_scaling_changes_the_number_and_nothing_else(fake: FakeCluster, client: KubeWriter) -> None:
    before = fake.create(workload())
    scale = await client.read(f"{DEPLOYMENTS}/web/scale")
    assert (scale["kind"], scale["spec"]) == ("Scale", {"replicas": 2})
    changed = await client.merge(f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": 0}}, "me")
    assert changed["spec"] == {"replicas": 0}
    after = fake.get("deployments", "prod", "web")
    assert after is not None
    assert after["spec"] == {**before["spec"], "replicas": 0}
    assert after["metadata"]["generation"] == 2


@pytest.mark.parametrize("replicas", [-1, "two"])
async def test_a_number_that_cannot_be_is_refused(fake: FakeCluster, client: KubeWriter, replicas: object) -> None:
    fake.create(workload())
    with pytest.raises(Refused) as refused:
        await client.merge(f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": replicas}}, "me")
    assert refused.value.refusal is Refusal.INVALID


async def test_a_dry_run_changes_nothing(fake: FakeCluster, client: KubeWriter) -> None:
    fake.create(workload())
    revision = fake.revision
    made = await client.create(DEPLOYMENTS, {**workload(), "metadata": {"name": "other"}}, dry_run=True)
    assert made["spec"]["progressDeadlineSeconds"] == 600
    applied = await client.apply(f"{DEPLOYMENTS}/web", workload(9), "me", dry_run=True)
    assert applied["spec"]["replicas"] == 9
    assert fake.revision == revision


def grant(fake: FakeCluster, kind: str, rule: Object, subject: Object, *, home: str = "") -> None:
    metadata = {"name": "system:x"} | ({"namespace": home} if home else {})
    api = f"{RBAC}/v1"
    fake.put({"kind": kind, "apiVersion": api, "metadata": metadata, "rules": [rule]})
    reference = {"apiGroup": RBAC, "kind": kind, "name": "system:x"}
    fake.put(
        {"kind": f"{kind}Binding", "apiVersion": api, "metadata": metadata, "roleRef": reference, "subjects": [subject]}
    )


async def may(client: KubeWriter, verb: str, resource: str, home: str = "", account: str = "b") -> bool:
    attributes = {"verb": verb, "group": "", "resource": resource, "namespace": home}
    user = f"system:serviceaccount:a:{account}"
    spec = {"user": user, "groups": ["system:authenticated"], "resourceAttributes": attributes}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    return bool((await client.create(REVIEWS, review))["status"]["allowed"])


READ_SECRETS = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
ACCOUNT = {"kind": "ServiceAccount", "namespace": "a", "name": "b"}


async def test_rights_are_what_roles_and_bindings_give(fake: FakeCluster, client: KubeWriter) -> None:
    assert not await may(client, "get", "secrets")
    grant(fake, "ClusterRole", READ_SECRETS, ACCOUNT)
    assert await may(client, "get", "secrets")
    assert await may(client, "get", "secrets", "prod")
    assert not await may(client, "list", "secrets")
    assert not await may(client, "get", "pods")
    assert not await may(client, "get", "secrets", account="c")


async def test_a_role_holds_in_its_namespace_and_a_group_is_a_subject(fake: FakeCluster, client: KubeWriter) -> None:
    grant(
        fake, "Role", {**READ_SECRETS, "verbs": ["*"]}, {"kind": "Group", "name": "system:authenticated"}, home="prod"
    )
    assert await may(client, "delete", "secrets", "prod")
    assert not await may(client, "delete", "secrets", "dev")
    assert not await may(client, "delete", "secrets")


async def test_a_review_of_nobody_is_refused(client: KubeWriter) -> None:
    with pytest.raises(Refused):
        await client.create(REVIEWS, {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"})
