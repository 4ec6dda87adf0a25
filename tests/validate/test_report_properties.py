"""The report: same input, same bytes; failed evidence never betters a verdict; missing evidence is no pass."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from global_ingress.validate.checks.judge import judge
from global_ingress.validate.checks.verdicts import Verdict, overall
from global_ingress.validate.evidence import Asked, Evidence, Exchange, Listing, Reading, Told, Unanswered, Unknown
from global_ingress.validate.plan import kind_of
from global_ingress.validate.report.document import to_json
from global_ingress.validate.report.judged import exit_code, report_on
from global_ingress.validate.report.text import to_text
from tests.validate.evidences import good, pools, spoilt, task

BADNESS = {Verdict.PASSED: 0, Verdict.SKIPPED: 1, Verdict.FAILED: 2}
SMALL = task(2, ingresses=2, per_pool=4, runs=2, marks=False)
OFFSETS = st.dictionaries(st.sampled_from(["ohio", "oregon"]), st.integers(0, 3))
FAILED = st.builds(
    lambda ingress, run, number, why: Exchange(
        Asked(ingress, run, number, kind_of(number, 2)), Unanswered(why), 2000.0, None, 0.1
    ),
    st.sampled_from(["ohio", "oregon", "nowhere"]),
    st.integers(1, 3),
    st.integers(0, 20),
    st.text(max_size=5),
)
UNREAD = st.builds(lambda name: Reading(name, Unknown("refused"), 1500.0, 0.1), st.sampled_from(["ohio", "oregon"]))


@st.composite
def evidences(draw: st.DrawFn) -> Evidence:
    """Good evidence with some of it lost and some of it spoilt."""
    whole = good(SMALL, 2, draw(OFFSETS))
    for index in draw(st.lists(st.integers(0, len(whole.exchanges) - 1), max_size=3)):
        told = draw(st.sampled_from([Told("x", ("length",)), Told("x", (), ("no finish_reason",))]))
        whole = spoilt(whole, index, told=told, status=draw(st.sampled_from([200, 503])))
    return replace(
        whole,
        exchanges=tuple(e for e in whole.exchanges if draw(st.integers(0, 40))),
        readings=whole.readings if draw(st.booleans()) else whole.readings[: draw(st.integers(0, 6))],
    )


@settings(max_examples=60, deadline=None)
@given(evidences(), st.lists(FAILED, max_size=3), st.lists(UNREAD, max_size=2))
def test_failed_evidence_never_betters_a_verdict(
    evidence: Evidence, failed: list[Exchange], unread: list[Reading]
) -> None:
    more = replace(evidence, exchanges=evidence.exchanges + tuple(failed), readings=evidence.readings + tuple(unread))
    before, after = judge(evidence), judge(more)
    assert BADNESS[overall(after)] >= BADNESS[overall(before)]
    for old, new in zip(before, after, strict=True):
        assert old.id == new.id
        assert BADNESS[new.verdict] >= BADNESS[old.verdict]


@settings(max_examples=60, deadline=None)
@given(OFFSETS, st.data())
def test_missing_evidence_is_no_pass(offsets: dict[str, int], data: st.DataObject) -> None:
    whole = good(SMALL, 2, offsets)
    assert exit_code(report_on(whole)) == 0
    gone = data.draw(st.sets(st.integers(0, len(whole.exchanges) - 1), min_size=1))
    part = replace(whole, exchanges=tuple(e for i, e in enumerate(whole.exchanges) if i not in gone))
    runs = {whole.exchanges[index].asked.run for index in gone}
    checks = {check.id: check.verdict for check in judge(part)}
    assert all(checks[f"traffic.steady-state-{run}"] is not Verdict.PASSED for run in runs)


@settings(max_examples=30, deadline=None)
@given(evidences())
def test_same_evidence_same_bytes(evidence: Evidence) -> None:
    again = replace(evidence, exchanges=(*evidence.exchanges,))
    assert to_json(report_on(evidence)) == to_json(report_on(again))
    assert to_text(report_on(evidence)) == to_text(report_on(again))
    document = json.loads(to_json(report_on(evidence)))
    assert document["verdict"] == report_on(evidence).verdict
    assert len(document["exchanges"]) == len(evidence.exchanges)


def test_the_text_names_each_region_and_pool_and_what_was_skipped() -> None:
    text = to_text(report_on(good(task())))
    assert text.splitlines()[0].split()[:3] == ["from", "to", "pool"]
    assert sum("dynamo/llama" in line for line in text.splitlines()) == 16
    assert "PASSED: 320/320 answers good; checks: 3 passed, 17 skipped, 0 failed" in text
    assert "skipped  traffic.replacement" in text


def test_only_strict_refuses_what_was_skipped() -> None:
    report = report_on(good(task()))
    assert (exit_code(report), exit_code(report, strict=True)) == (0, 1)
    nothing = report_on(Evidence(task(), 0.0, 1.0))
    assert exit_code(nothing) == 1
    empty = report_on(
        replace(good(task()), readings=tuple(Reading(n, Listing(True, ()), 1.0, 0.1) for n in ("ohio",) * 3))
    )
    assert exit_code(empty) == 1


def test_pools_of_the_helper_are_sorted_as_a_reading_is() -> None:
    assert list(pools(4)) == sorted(pools(4))
