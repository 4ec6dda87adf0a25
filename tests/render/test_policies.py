"""What docs/deployment.md says of who may talk to whom and ask what is what the manifests of the example mean."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

from tests.render.making import ROOT, fleet, objects
from tests.render.policies import Actor, flows, rights

PAGE = (ROOT / "docs" / "deployment.md").read_text()
HOME = "global-ingress"
OURS = ("global-ingress", "global-discovery", "mcs-registry", "mcs-controller")
CLUSTERS = {"ohio": 0, "oregon": 1}


def actors(cluster: str) -> list[Actor]:
    subnet = {"ohio": "10.1", "oregon": "10.2"}
    [other] = [net for name, net in subnet.items() if name != cluster]
    own = subnet[cluster]
    named = {"app.kubernetes.io/instance": "prod"}
    ours = [part for part in OURS if part != "mcs-registry" or cluster == "ohio"]
    return [
        *(Actor(p, f"{own}.0.{n}", HOME, {**named, "app.kubernetes.io/name": p}) for n, p in enumerate(ours, 1)),
        Actor("another pod of the namespace", f"{own}.0.9", HOME, {"app.kubernetes.io/name": "other"}),
        Actor("gateway", f"{own}.1.1", "gateway"),
        Actor("monitoring", f"{own}.2.1", "monitoring"),
        Actor("frontend here", f"{own}.3.1", "dynamo"),
        Actor("any other pod here", f"{own}.4.1", "default"),
        Actor("cluster DNS", f"{own}.5.1", "kube-system", {"k8s-app": "kube-dns"}),
        Actor("pods of the other cluster", f"{other}.3.1"),
        Actor("API server", "10.0.0.1"),
        Actor("registry's URL", "10.0.7.1"),
        Actor("10.9.0.0/24", "10.9.0.7"),
        Actor("the internet", "203.0.113.9"),
    ]


def table(heading: str) -> list[list[str]]:
    """The rows of the table under a heading, without its head."""
    section = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[1:]]


def flow_rows(cluster: str) -> list[list[str]]:
    """Who is reached by whom at which ports; those who reach, and are reached, alike stand in one row."""
    everybody = actors(cluster)
    receivers: dict[tuple[str, int], list[str]] = defaultdict(list)
    for (sender, receiver), ports in flows(objects(fleet("example"), CLUSTERS[cluster]), everybody, HOME).items():
        for port in ports:
            receivers[sender, port].append(receiver)
    outside = [actor.name for actor in everybody if actor.namespace != HOME]
    ports_of: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (sender, port), names in receivers.items():
        ports_of[sender, "any address" if names == outside else ", ".join(names)].append(str(port))
    senders: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (sender, to), found in ports_of.items():
        senders[to, ", ".join(found)].append(sender)
    return [[cluster, ", ".join(names), to, ports] for (to, ports), names in senders.items()]


def right_rows() -> list[list[str]]:
    both = {index: rights(objects(fleet("example"), index)) for index in CLUSTERS.values()}
    assert both[0] == both[1]
    return [[account, what, where, ", ".join(verbs)] for (account, what, where), verbs in both[0].items()]


def test_who_may_talk_to_whom_is_as_the_page_says() -> None:
    assert sorted(table("Who may talk to whom")) == sorted(row for cluster in CLUSTERS for row in flow_rows(cluster))


def test_who_may_ask_what_is_as_the_page_says() -> None:
    assert sorted(table("Who may ask the API server what")) == sorted(right_rows())


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_what_must_never_be(cluster: str) -> None:
    found = flows(objects(fleet("example"), CLUSTERS[cluster]), actors(cluster), HOME)
    senders = {sender for sender, receiver in found if receiver == "global-ingress"}
    assert senders == {"gateway", "monitoring", "10.9.0.0/24"}
    assert {who for (who, to), ports in found.items() if to == "API server" and 6443 in ports} == {
        "global-discovery",
        "mcs-controller",
    }
    assert ("global-ingress", "the internet") not in found
    assert not [key for key in found if key[0] == "another pod of the namespace" and key[1] != "cluster DNS"]


def test_the_ingress_and_the_registry_may_ask_nothing() -> None:
    assert {account for account, *_ in right_rows()} == {"global-discovery", "mcs-controller"}
    assert not any(re.search(r"secrets|pods|\*", what) for _, what, _, _ in right_rows())


def test_discovery_without_namespaces_reads_everywhere_and_still_only_slices() -> None:
    found = rights(objects(fleet("least")))
    assert found == {("global-discovery", "discovery.k8s.io/endpointslices", "*"): ("get", "list", "watch")}
