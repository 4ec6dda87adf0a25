"""Dashboard and alert rules use metrics, labels and label values that there are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
import yaml

from discovery.mcs import metrics_docs as registry_docs
from discovery.mcs.registry_metrics import STATES
from global_ingress.proxy.admin.metrics import RELOADS
from global_ingress.proxy.admin.metrics_docs import families
from global_ingress.proxy.shared.counts import OUTCOMES, STREAM_ENDS
from tests.house.tree import ROOT

FOLDER = ROOT / "k8s" / "observability"
KINDS = {name: (kind, set(labels)) for name, kind, labels, _ in (*families(), *registry_docs.families())}
SCRAPED = {"job", "instance"}  # Prometheus adds them
OF_ONE = {
    ("dynamo_mcs_registry_clusters", "state"): set(STATES),
    ("global_ingress_stream_end_total", "reason"): set(STREAM_ENDS),
}
VALUES = {"outcome": set(OUTCOMES), "result": set(RELOADS)}
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())
RULES = [rule for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"] for rule in group["rules"]]


def expressions() -> Iterator[tuple[str, str]]:
    for panel in DASHBOARD["panels"]:
        yield from ((panel["title"], target["expr"]) for target in panel["targets"])
    yield from ((rule["alert"], rule["expr"]) for rule in RULES)


def family_of(name: str) -> str | None:
    """The family a series belongs to."""
    if name in KINDS:
        return name if KINDS[name][0] != "histogram" else None
    base = re.sub("_(bucket|sum|count)$", "", name)
    return base if base in KINDS and KINDS[base][0] == "histogram" else None


def faults(expression: str) -> list[str]:
    """What the expression names that is not there."""
    found, labels = [], set(SCRAPED)
    for name, matchers in re.findall(r"((?:global_ingress|dynamo_mcs_registry)_\w+)(?:\{([^}]*)\})?", expression):
        family = family_of(name)
        if family is None:
            found.append(f"no metric {name}")
            continue
        kind, own = KINDS[family]
        own = own | SCRAPED | ({"le"} if kind == "histogram" else set())
        labels |= own
        for label, value in re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"', matchers):
            if label not in own:
                found.append(f"{name} has no label {label}")
            known = OF_ONE.get((name, label)) or VALUES.get(label)
            found += [f"{label} is never {one}" for one in value.split("|") if known and one not in known]
    for grouped in re.findall(r"\b(?:by|without) \(([^)]*)\)", expression):
        found += [f"nothing has a label {one}" for one in re.split(r",\s*", grouped) if one not in labels]
    return found


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_what_is_asked_for_is_there(where: str, expression: str) -> None:
    assert "global_ingress_" in expression or "dynamo_mcs_registry_" in expression
    assert faults(expression) == []
    assert expression.count("(") == expression.count(")")


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("rate(global_ingress_nope_total[5m])", "no metric global_ingress_nope_total"),
        ("global_ingress_request_duration_seconds", "no metric global_ingress_request_duration_seconds"),
        ('global_ingress_frontends{pool="x"}', "global_ingress_frontends has no label pool"),
        ("sum by (zone) (global_ingress_frontends)", "nothing has a label zone"),
        ('global_ingress_requests_total{outcome="bad"}', "outcome is never bad"),
        ('dynamo_mcs_registry_clusters{state="odd"}', "state is never odd"),
        ("dynamo_mcs_registry_nope", "no metric dynamo_mcs_registry_nope"),
    ],
)
def test_a_wrong_name_would_be_found(expression: str, fault: str) -> None:
    assert faults(expression) == [fault]


def test_labels_in_legends_are_grouped_by() -> None:
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            for label in re.findall(r"\{\{\s*(\w+)\s*\}\}", target["legendFormat"]):
                assert re.search(rf"by \([^)]*\b{label}\b", target["expr"]), target
    for rule in RULES:
        for label in re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])):
            assert re.search(rf"by \([^)]*\b{label}\b", rule["expr"]), rule


def test_every_alert_says_what_to_do() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(set(names)) == len(names) > 5
    assert all({"summary", "action"} <= rule["annotations"].keys() and rule["labels"]["severity"] for rule in RULES)
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
