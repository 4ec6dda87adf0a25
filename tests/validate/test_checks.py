"""Verdicts: what is shown passes; each way of not showing it fails and is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from global_ingress.validate.checks.discovery import check_inventory
from global_ingress.validate.checks.judge import judge
from global_ingress.validate.checks.traffic import check_steady_state
from global_ingress.validate.checks.verdicts import Check, Verdict, overall
from global_ingress.validate.evidence import Evidence, Listing, Told, Unanswered
from tests.validate.evidences import good, pools, readings, spoilt, task

WHOLE = good(task())


def by_id(checks: tuple[Check, ...]) -> dict[str, Check]:
    return {check.id: check for check in checks}


def test_a_good_system_passes() -> None:
    checks = by_id(judge(WHOLE))
    assert checks["conformance.inventory"].verdict is Verdict.PASSED
    for run in (1, 2):
        steady = checks[f"traffic.steady-state-{run}"]
        assert (steady.verdict, steady.asked, steady.good, steady.findings) == (Verdict.PASSED, 160, 160, ())
    assert overall(tuple(checks.values())) is Verdict.PASSED


def test_what_is_not_checked_is_skipped_with_reason_owner_and_date() -> None:
    skipped = [check for check in judge(WHOLE) if check.verdict is Verdict.SKIPPED]
    assert {check.phase for check in skipped} == {1, 2, 3, 4, 5, 6, 7}
    assert all(check.reason and check.owner and check.date == "1970-01-01" for check in skipped)
    assert "traffic.replacement" in {check.id for check in skipped}


def skewed(evidence: Evidence) -> Evidence:
    """One request of ohio that should have gone to another pool went to tokyo's: tokyo has eleven."""
    index = next(i for i, e in enumerate(evidence.exchanges) if getattr(e.seen, "pool", "") == "oregon/dynamo/llama")
    tokyo = next(pool for pool in pools(4) if pool.key.startswith("tokyo"))
    mark = dict(evidence.task.marks)[tokyo.key]
    return spoilt(evidence, index, pool=tokyo.key, region=tokyo.region, told=Told(mark, ("length",)))


FAULTS: list[tuple[str, Callable[[Evidence], Evidence], str]] = [
    ("skewed split", skewed, "ohio to tokyo/dynamo/llama: 11 good answers, 10 expected"),
    (
        "lost [DONE]",
        lambda e: spoilt(e, 5, told=Told(" r1w", ("length",), ("no [DONE] at the end",))),
        "no [DONE] at the end",
    ),
    ("wrong pool header", lambda e: spoilt(e, 5, pool="mars/dynamo/llama"), "mars/dynamo/llama, which is not listed"),
    (
        "lying pool header",
        lambda e: spoilt(e, 5, told=Told(" r3w1000", ("length",))),
        "but the text is of tokyo/dynamo/llama",
    ),
    ("no pool header", lambda e: spoilt(e, 5, pool=None), "no x-dynamo-pool header"),
    ("wrong region header", lambda e: spoilt(e, 5, region="mars"), "x-dynamo-target-region is mars"),
    ("cut body", lambda e: spoilt(e, 5, cut="RemoteProtocolError"), "the body was cut: RemoteProtocolError"),
    ("status", lambda e: spoilt(e, 5, status=503), "status 503"),
    ("content type", lambda e: spoilt(e, 5, content_type="text/plain"), "content type 'text/plain'"),
    (
        "no answer",
        lambda e: replace(
            e, exchanges=(replace(e.exchanges[0], seen=Unanswered("ConnectError"), first_byte_s=None), *e.exchanges[1:])
        ),
        "no answer: ConnectError",
    ),
    ("missing evidence", lambda e: replace(e, exchanges=e.exchanges[1:]), "ohio: 1 planned requests were not sent"),
    (
        "asked twice",
        lambda e: replace(e, exchanges=(*e.exchanges, e.exchanges[0])),
        "ohio: 1 requests that were not planned",
    ),
]


@pytest.mark.parametrize(("spoil", "named"), [case[1:] for case in FAULTS], ids=[case[0] for case in FAULTS])
def test_each_fault_fails_and_is_named(spoil: Callable[[Evidence], Evidence], named: str) -> None:
    check = check_steady_state(spoil(WHOLE), 1)
    assert check.verdict is Verdict.FAILED
    assert any(named in finding for finding in check.findings), check.findings
    assert check_steady_state(spoil(WHOLE), 2).verdict is Verdict.PASSED


def test_a_pool_that_gets_its_number_but_not_every_kind_fails() -> None:
    unary = [e for e in WHOLE.exchanges if e.asked.run == 1]
    kinds = {e.asked.number: e.asked.kind for e in unary}
    turned = [
        replace(e, asked=replace(e.asked, kind=kinds[e.asked.number % 4])) if e.asked.ingress == "ohio" else e
        for e in unary
    ]
    check = check_steady_state(replace(WHOLE, exchanges=tuple(turned)), 1)
    assert check.verdict is Verdict.FAILED
    assert any("no sse chat" in finding for finding in check.findings)


def test_an_address_that_one_discovery_still_lists_fails_and_is_named() -> None:
    listed = pools(4)
    stale = Listing(True, (replace(listed[0], frontends=("http://10.0.0.2:8000", "http://10.9.9.9:8000")), *listed[1:]))
    found = tuple(replace(r, seen=stale) if r.discovery == "ireland" else r for r in WHOLE.readings)
    check = check_inventory(replace(WHOLE, readings=found))
    assert check.verdict is Verdict.FAILED
    assert check.findings == ("ireland: ireland/dynamo/llama has http://10.9.9.9:8000, which the others do not list",)
    steady = check_steady_state(replace(WHOLE, readings=found), 1)
    assert steady.verdict is Verdict.FAILED, "answers without an inventory to hold them against are no pass"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"stale_since": "2026-01-01T00:00:00Z"}, "ireland/dynamo/llama is stale since 2026-01-01T00:00:00Z"),
        ({"frontends": ()}, "ireland/dynamo/llama has no usable frontend"),
    ],
)
def test_a_pool_that_is_stale_or_empty_everywhere_fails(change: dict[str, object], named: str) -> None:
    listed = pools(4)
    listing = Listing(True, (replace(listed[0], **change), *listed[1:]))  # type: ignore[arg-type]
    check = check_inventory(replace(WHOLE, readings=readings(WHOLE.task, listing)))
    assert check.verdict is Verdict.FAILED
    assert named in check.findings


def test_nothing_measured_is_skipped_and_no_pass() -> None:
    checks = judge(replace(WHOLE, readings=(), exchanges=()))
    assert {check.verdict for check in checks} == {Verdict.SKIPPED}
    assert overall(checks) is Verdict.SKIPPED
