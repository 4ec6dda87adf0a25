"""Only the phases that were asked for are judged, and signatures as far as somebody can verify them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from global_ingress.validate.checks.clusters import check_signatures
from global_ingress.validate.checks.judge import judge
from global_ingress.validate.checks.verdicts import Verdict
from global_ingress.validate.evidence import PHASES, Evidence, Signature
from global_ingress.validate.platform import Bundle
from tests.validate.deployed import BUNDLE
from tests.validate.evidences import good, task


def of_phases(evidence: Evidence, *phases: int) -> Evidence:
    return replace(evidence, task=replace(evidence.task, phases=phases))


@pytest.mark.parametrize("phase", PHASES)
def test_a_phase_is_judged_as_in_a_whole_run_and_the_others_are_open_risks(phase: int) -> None:
    evidence = good(task())
    whole = {check.id: check for check in judge(evidence)}
    for check in judge(of_phases(evidence, phase)):
        if check.phase == phase:
            assert check == whole[check.id]
        else:
            assert check.verdict is Verdict.SKIPPED
            assert check.reason == f"phase {check.phase} was not asked for (--phase {phase})"
            assert (check.owner, check.date) == ("operator of the fleet", "1970-01-01")
    assert phase in {check.phase for check in whole.values()}, "every phase has a check"


def test_what_is_seen_beside_is_no_verdict() -> None:
    """A failure of a phase that was not asked for is no failure of this run: nobody looked for all of it."""
    evidence = good(task())
    broken = replace(evidence, exchanges=evidence.exchanges[:-1])
    assert Verdict.FAILED in {check.verdict for check in judge(broken)}
    assert {check.verdict for check in judge(of_phases(broken, 1, 5)) if check.phase == 6} == {Verdict.SKIPPED}


def signed(bundle: Bundle | None, verifier: tuple[str, ...], *seen: tuple[str, str | None]) -> tuple[Verdict, str]:
    evidence = good(task())
    asked = replace(evidence.task, bundle=bundle, verifier=verifier)
    found = tuple(Signature(image, trouble, 2000.0, 0.1) for image, trouble in seen)
    check = check_signatures(replace(evidence, task=asked, signatures=found))
    return check.verdict, "; ".join((check.reason, *check.findings))


def test_signatures_are_what_the_verifier_says() -> None:
    one, two = "r/a@sha256:1", "r/b@sha256:2"
    bundle = replace(BUNDLE, images=((one, "sha256:1"), (two, "sha256:2")))
    assert signed(None, ("verify",)) == (Verdict.SKIPPED, "no rendered bundle was given (--bundle)")
    assert signed(bundle, ()) == (Verdict.SKIPPED, "no verifier of signatures was given (--verifier)")
    assert signed(bundle, ("verify",), (one, None), (two, None)) == (Verdict.PASSED, "2 images are signed")
    assert signed(bundle, ("verify",), (one, None), (two, "it ended with 1: no signatures found")) == (
        Verdict.FAILED,
        "1 of 2 images are not signed by who may; r/b@sha256:2: it ended with 1: no signatures found",
    )


def test_an_image_without_a_digest_cannot_be_shown_to_be_signed() -> None:
    bundle = replace(BUNDLE, images=(("r/a@sha256:1", "sha256:1"), ("r/b:latest", "")))
    assert signed(bundle, ("verify",), ("r/a@sha256:1", None)) == (
        Verdict.SKIPPED,
        "unknown: r/b:latest rendered without a digest",
    )
