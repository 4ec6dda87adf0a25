"""All checks in the order of their phases: evidence in, verdicts out. Pure.

Refuses to leave out what it does not look at: that is among the checks, skipped, with the reason.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from global_ingress.validate.checks.acceptance import check_objectives
from global_ingress.validate.checks.bystanders import check_bystanders
from global_ingress.validate.checks.clusters import (
    check_access,
    check_digests,
    check_lives,
    check_materialization,
    check_matrix,
    check_platform,
    check_rollback,
    check_signatures,
)
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


def judge(evidence: Evidence) -> tuple[Check, ...]:
    """Every check once, whatever was seen."""
    date = datetime.fromtimestamp(evidence.began, UTC).date().isoformat()
    checks = [check_inventory(evidence), check_routers(evidence), check_reachability(evidence)]
    checks += [check_steady_state(evidence, run) for run in range(1, evidence.task.runs + 1)]
    checks += [check_departure(evidence), check_replacement(evidence), check_region_cut(evidence)]
    checks += [check_bounds(evidence), check_one_life(evidence), check_objectives(evidence)]
    checks += [check_platform(evidence), check_matrix(evidence), check_digests(evidence), check_signatures(evidence)]
    checks += [check_materialization(evidence), check_access(evidence), check_lives(evidence)]
    checks += [check_bystanders(evidence), check_rollback(evidence)]
    checks = [check if check.phase in evidence.task.phases else _left_out(check, evidence) for check in checks]
    checks = [
        replace(check, owner=_OPERATOR, date=date) if check.verdict is Verdict.SKIPPED else check for check in checks
    ]
    return tuple(sorted(checks, key=lambda check: check.phase))


def _left_out(check: Check, evidence: Evidence) -> Check:
    """Of a phase that was not asked for: whatever was seen beside is no verdict on it."""
    asked = ", ".join(map(str, evidence.task.phases))
    return open_check(check.id, check.phase, check.clause, f"phase {check.phase} was not asked for (--phase {asked})")
