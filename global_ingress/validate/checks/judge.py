"""All checks in the order of their phases: evidence in, verdicts out. Pure.

Refuses to leave out what it does not look at: that is among the checks, skipped, with the reason.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from global_ingress.validate.checks.acceptance import check_objectives
from global_ingress.validate.checks.discovery import check_inventory, check_reachability, check_routers
from global_ingress.validate.checks.disturbed import (
    check_bounds,
    check_departure,
    check_one_life,
    check_region_cut,
    check_replacement,
)
from global_ingress.validate.checks.traffic import check_steady_state
from global_ingress.validate.checks.verdicts import Check, Verdict, open_check
from global_ingress.validate.evidence import Evidence

_OPERATOR = "operator of the fleet"
# What this version does not look at: (id, phase, clause, why).
_OPEN = (
    ("inventory.platform", 1, "clusters, nodes, pods and images are recorded", "no Kubernetes API is read"),
    ("compatibility.matrix", 2, "API, frontend and client versions are supported ones", "no version is read"),
    ("provenance.digests", 3, "what runs has the digests that were rendered", "no rendered bundle is compared"),
    ("materialization.diff", 4, "live objects equal the rendered ones", "no rendered bundle is compared"),
    ("conformance.access", 5, "discovery reads slices only, the ingress has no token", "no Kubernetes API is read"),
    ("acceptance.bystanders", 7, "protected pods keep identity and health", "no Kubernetes API is read"),
    ("rollback.bundle", 7, "the rollback bundle can be applied", "no rollback bundle is read"),
)


def judge(evidence: Evidence) -> tuple[Check, ...]:
    """Every check once, whatever was seen."""
    date = datetime.fromtimestamp(evidence.began, UTC).date().isoformat()
    checks = [check_inventory(evidence), check_routers(evidence), check_reachability(evidence)]
    checks += [check_steady_state(evidence, run) for run in range(1, evidence.task.runs + 1)]
    checks += [check_departure(evidence), check_replacement(evidence), check_region_cut(evidence)]
    checks += [check_bounds(evidence), check_one_life(evidence), check_objectives(evidence)]
    checks += [open_check(*of) for of in _OPEN]
    checks = [
        replace(check, owner=_OPERATOR, date=date) if check.verdict is Verdict.SKIPPED else check for check in checks
    ]
    return tuple(sorted(checks, key=lambda check: check.phase))
