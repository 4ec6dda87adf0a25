"""What a check says: passed, skipped or failed, on which clause, and why. Pure.

Owns the words of a verdict and their sum. The rule: failed evidence added to any evidence never betters a verdict, and
what was not shown is no pass.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace


class Verdict(enum.StrEnum):
    """Ordered from good to bad: passed, skipped, failed."""

    PASSED = "passed"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Check:
    """A verdict on one clause. `findings` name what failed, a line each; `owner` and `date` (YYYY-MM-DD) belong to what
    was skipped: an open risk is somebody's."""

    id: str
    phase: int
    clause: str
    verdict: Verdict
    reason: str
    findings: tuple[str, ...] = ()
    asked: int = 0
    good: int = 0
    began: float | None = None
    took_s: float | None = None
    owner: str | None = None
    date: str | None = None

    def passed(self, reason: str) -> Check:
        return replace(self, verdict=Verdict.PASSED, reason=reason)

    def failed(self, reason: str, findings: Sequence[str] = ()) -> Check:
        return replace(self, verdict=Verdict.FAILED, reason=reason, findings=tuple(findings))

    def during(self, moments: Sequence[tuple[float, float]]) -> Check:
        """With the time from the first to the last of these (begin, duration) pairs."""
        if not moments:
            return self
        began = min(at for at, _ in moments)
        return replace(self, began=began, took_s=max(at + took for at, took in moments) - began)


def open_check(identity: str, phase: int, clause: str, why: str) -> Check:
    """A check that nothing has been seen for: what it becomes is up to the evidence."""
    return Check(identity, phase, clause, Verdict.SKIPPED, why)


def overall(checks: Sequence[Check]) -> Verdict:
    """Failed when anything failed; passed when something passed; skipped when nothing was shown."""
    verdicts = {check.verdict for check in checks}
    if Verdict.FAILED in verdicts:
        return Verdict.FAILED
    return Verdict.PASSED if Verdict.PASSED in verdicts else Verdict.SKIPPED
