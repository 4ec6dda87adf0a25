"""What happens when something breaks: got over passes, and each way of not getting over it fails and is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from global_ingress.validate.checks.judge import judge
from global_ingress.validate.checks.verdicts import Check, Verdict
from global_ingress.validate.evidence import (
    Answered,
    Departure,
    Disturbance,
    Evidence,
    Exchange,
    Listed,
    ListedRouter,
    Listing,
    Objectives,
    ReachedFrontend,
    RouterListing,
    RouterReading,
    Unanswered,
    Unknown,
    View,
    Viewing,
)
from tests.validate.evidences import disturbed, good, task

WHOLE = good(task())
CUT = disturbed(WHOLE)
REPLACED = disturbed(WHOLE, "replacement")


def check(evidence: Evidence, identity: str) -> Check:
    return next(one for one in judge(evidence) if one.id == identity)


def changed(evidence: Evidence, change: Callable[[Disturbance], Disturbance]) -> Evidence:
    return replace(evidence, disturbances=tuple(change(one) for one in evidence.disturbances))


def with_exchange(evidence: Evidence, wanted: Callable[[Exchange], bool], **seen: object) -> Evidence:
    """The first disturbed exchange that is wanted, seen otherwise."""

    def change(one: Disturbance) -> Disturbance:
        index = next(place for place, exchange in enumerate(one.exchanges) if wanted(exchange))
        exchanges = list(one.exchanges)
        was = exchanges[index].seen
        assert isinstance(was, Answered)
        exchanges[index] = replace(exchanges[index], seen=replace(was, **seen))  # type: ignore[arg-type]
        return replace(one, exchanges=tuple(exchanges))

    return changed(evidence, change)


def between(since: float, until: float) -> Callable[[Exchange], bool]:
    return lambda one: since <= one.at < until


def test_a_system_that_gets_over_it_passes() -> None:
    assert check(CUT, "traffic.region-cut").verdict is Verdict.PASSED
    assert check(CUT, "traffic.bounds").verdict is Verdict.PASSED
    assert check(REPLACED, "traffic.replacement").verdict is Verdict.PASSED
    assert "learned it within 3.0 s" in check(REPLACED, "traffic.replacement").reason


def test_without_leave_nothing_is_disturbed_and_that_is_said() -> None:
    for identity in ("traffic.region-cut", "traffic.replacement", "traffic.bounds"):
        found = check(WHOLE, identity)
        assert (found.verdict, found.reason) == (Verdict.SKIPPED, "not allowed to disturb")


def test_leave_that_was_not_used_says_so() -> None:
    allowed = replace(WHOLE, task=replace(WHOLE.task, disturb=("break",)))
    assert check(allowed, "traffic.region-cut").reason == "it was not done"


@pytest.mark.parametrize(
    ("evidence", "named"),
    [
        (
            changed(REPLACED, lambda one: replace(one, readings=one.readings[:-1])),
            "tokyo does not list a new frontend of tokyo/dynamo/llama instead of http://10.0.0.3:8000",
        ),
        (
            changed(REPLACED, lambda one: replace(one, readings=tuple(replace(r, at=3999.0) for r in one.readings))),
            "ohio does not list a new frontend",
        ),
        (
            with_exchange(REPLACED, between(4000, 4100), status=502),
            "while disturbed, ohio #4 (sse chat): status 502",
        ),
        (
            changed(REPLACED, lambda one: replace(one, deeds=(replace(one.deeds[0], failure="no right"),))),
            "replace tokyo dynamo/llama: no right",
        ),
        (changed(REPLACED, lambda one: replace(one, exchanges=())), "no request was sent meanwhile"),
    ],
    ids=["not learned", "learned before", "failed request", "not done", "no traffic"],
)
def test_a_replacement_that_is_not_got_over_fails_and_is_named(evidence: Evidence, named: str) -> None:
    found = check(evidence, "traffic.replacement")
    assert found.verdict is Verdict.FAILED
    assert any(named in finding for finding in found.findings), found.findings


def test_an_old_address_that_stays_beside_the_new_one_is_not_learned() -> None:
    def keep(one: Disturbance) -> Disturbance:
        both = replace(one.before, frontends=("http://10.0.0.3:8000", "http://10.9.9.9:8000"))
        return replace(one, readings=tuple(replace(r, seen=Listing(True, (both,))) for r in one.readings))

    assert check(changed(REPLACED, keep), "traffic.replacement").verdict is Verdict.FAILED


def goal(evidence: Evidence, **goals: float) -> Evidence:
    return replace(evidence, task=replace(evidence.task, objectives=Objectives(**goals)))


LATE = with_exchange(CUT, between(4050, 4100), status=503)


@pytest.mark.parametrize(
    ("evidence", "named"),
    [
        (goal(LATE, error_share=0.001), "0.61% of the requests failed; 0.10% are allowed"),
        (goal(LATE, recovery_s=5.0), "the last failure was 50.0 s after the cut; 5 s are allowed"),
        (
            with_exchange(CUT, between(4098, 4101), status=503),
            "ohio had not recovered: 7 of its last 8 answers are good",
        ),
        (
            changed(CUT, lambda one: replace(one, exchanges=tuple(e for e in one.exchanges if e.at < 4101))),
            "ohio has not used tokyo/dynamo/llama again: 0 answers since it is back",
        ),
        (
            changed(CUT, lambda one: replace(one, deeds=(one.deeds[0], replace(one.deeds[1], failure="gone")))),
            "restore tokyo dynamo/llama: gone",
        ),
    ],
    ids=["share", "time", "not recovered", "not used again", "not restored"],
)
def test_a_cut_that_is_not_got_over_fails_and_is_named(evidence: Evidence, named: str) -> None:
    found = check(evidence, "traffic.region-cut")
    assert found.verdict is Verdict.FAILED
    assert any(named in finding for finding in found.findings), found.findings


def test_a_failure_within_the_objectives_is_told_and_passes() -> None:
    found = check(goal(LATE, error_share=0.01, recovery_s=60.0), "traffic.region-cut")
    assert found.verdict is Verdict.PASSED
    assert "1 of 164 requests failed (0.61%), the last 50.0 s after the cut" in found.reason


def test_more_attempts_than_allowed_and_no_answer_at_all_break_the_bounds() -> None:
    many = check(with_exchange(CUT, between(4000, 4100), attempts="3"), "traffic.bounds")
    assert many.verdict is Verdict.FAILED
    assert many.findings == ("while disturbed, ohio #4 (sse chat): 3 attempts",)
    assert check(replace(CUT, task=replace(CUT.task, attempts=3)), "traffic.bounds").verdict is Verdict.PASSED

    def silence(one: Disturbance) -> Disturbance:
        return replace(one, exchanges=(replace(one.exchanges[0], seen=Unanswered("timeout")), *one.exchanges[1:]))

    none = check(changed(CUT, silence), "traffic.bounds")
    assert "no answer: timeout" in none.findings[0]


LEFT = tuple(Departure(name, True, "", 3500.0, 0.02, 1.0) for name, _ in WHOLE.task.ingresses)


@pytest.mark.parametrize(
    ("first", "verdict", "named"),
    [
        (LEFT[0], Verdict.PASSED, ""),
        (replace(LEFT[0], noticed_s=None), Verdict.FAILED, "ohio had not noticed after 2 s"),
        (replace(LEFT[0], cancelled=0.0), Verdict.FAILED, "ohio: no frontend counted a cancellation"),
        (replace(LEFT[0], left=False, reason="status 503"), Verdict.FAILED, "there was no stream to leave: status 503"),
        (replace(LEFT[0], cancelled=None), Verdict.SKIPPED, ""),
    ],
    ids=["followed through", "not noticed", "not cancelled", "no stream", "not told"],
)
def test_departures(first: Departure, verdict: Verdict, named: str) -> None:
    found = check(replace(WHOLE, departures=(first, *LEFT[1:])), "traffic.disconnect")
    assert found.verdict is verdict
    assert named in " ".join(found.findings)


def views(started: str = "t0", state: str = "usable", probed: bool = True, pool_why: str = "") -> tuple[Viewing, ...]:
    listed = WHOLE.readings[-1].seen
    assert not isinstance(listed, Unknown)
    seen = tuple(
        ReachedFrontend(
            pool.key, url, state, "gets requests" if state == "usable" else "its probe fails", probed, 0, pool_why
        )
        for pool in listed.pools
        for url in pool.frontends
    )
    return tuple(Viewing(name, View("1", started, seen), 3000.0, 0.1) for name, _ in WHOLE.task.ingresses)


def test_frontends_that_an_ingress_does_not_reach_are_named() -> None:
    assert check(replace(WHOLE, viewings=views()), "conformance.reachability").verdict is Verdict.PASSED
    for bad, named in (
        (views(state="failing"), "ohio does not use http://10.0.0.0:8000 of ohio/dynamo/llama: its probe fails"),
        (views(pool_why="lists no such model"), "ohio does not use ohio/dynamo/llama: lists no such model"),
        (views(probed=False), "ohio has not asked http://10.0.0.0:8000 of ohio/dynamo/llama yet"),
        ((Viewing("ohio", Unknown("refused"), 1.0, 0.1), *views()[1:]), "ohio: its admin listener: refused"),
        ((Viewing("ohio", View("1", "t0", ()), 1.0, 0.1), *views()[1:]), "ohio does not know http://10.0.0.0:8000"),
    ):
        found = check(replace(WHOLE, viewings=bad), "conformance.reachability")
        assert found.verdict is Verdict.FAILED
        assert any(named in finding for finding in found.findings), found.findings


def test_an_ingress_without_an_admin_listener_is_no_pass() -> None:
    found = check(replace(WHOLE, viewings=views()[1:]), "conformance.reachability")
    assert (found.verdict, found.reason) == (Verdict.SKIPPED, "no admin listener was given for ohio")


def test_a_restart_is_found() -> None:
    assert check(replace(WHOLE, viewings=views()), "traffic.one-life").verdict is Verdict.PASSED
    again = replace(WHOLE, viewings=(*views(), *views(started="t1")))
    assert "ingress of ohio: started at t0, t1" in check(again, "traffic.one-life").findings
    after = replace(WHOLE, viewings=views(), after=(replace(WHOLE.readings[0], epoch="other"),))
    assert "discovery of ohio: 2 epochs: , other" in check(after, "traffic.one-life").findings
    assert check(WHOLE, "traffic.one-life").verdict is Verdict.SKIPPED


def routers(*listings: RouterListing | Unknown) -> Evidence:
    seen = [RouterReading(f"d{place}", one, 1.0, 0.1) for place, one in enumerate(listings)]
    return replace(WHOLE, routers=tuple(seen))


ONE = ListedRouter("r", "http://r:1", "ohio", "us-east-2")
TWO = ListedRouter("s", "http://s:1", "oregon", "us-west-2")


@pytest.mark.parametrize(
    ("listings", "expected", "verdict", "named"),
    [
        ((RouterListing(True, (ONE, TWO)), RouterListing(True, (TWO, ONE))), 2, Verdict.PASSED, "same 2 routers"),
        (
            (RouterListing(True, (ONE, TWO)), RouterListing(True, (ONE,))),
            None,
            Verdict.FAILED,
            "other routers than d0: s",
        ),
        ((RouterListing(True, (ONE,)),), 4, Verdict.FAILED, "1 routers are listed, 4 expected"),
        ((RouterListing(False, (ONE,)),), None, Verdict.FAILED, "d0: its list is incomplete"),
        ((Unknown("status 404"),), None, Verdict.FAILED, "d0: unknown (status 404)"),
        ((RouterListing(True, ()),), None, Verdict.SKIPPED, "none is expected"),
        ((RouterListing(True, ()),), 0, Verdict.SKIPPED, "none is expected"),
    ],
)
def test_routers(
    listings: tuple[RouterListing | Unknown, ...], expected: int | None, verdict: Verdict, named: str
) -> None:
    evidence = routers(*listings)
    found = check(replace(evidence, task=replace(evidence.task, expect_routers=expected)), "conformance.routers")
    assert found.verdict is verdict
    assert named in " ".join((found.reason, *found.findings))


@pytest.mark.parametrize(
    ("goals", "verdict", "named"),
    [
        ({"first_byte_p50_s": 0.02, "first_byte_p99_s": 0.02, "error_share": 0.0}, Verdict.PASSED, "p99 10.0 ms"),
        ({"first_byte_p50_s": 0.005}, Verdict.FAILED, "first byte p50: 10.0 ms; 5 ms are allowed"),
        ({"first_byte_p99_s": 0.005}, Verdict.FAILED, "first byte p99: 10.0 ms; 5 ms are allowed"),
    ],
)
def test_objectives_of_the_steady_state(goals: dict[str, float], verdict: Verdict, named: str) -> None:
    found = check(goal(WHOLE, **goals), "acceptance.objectives")
    assert found.verdict is verdict
    assert named in " ".join((found.reason, *found.findings))


def test_an_error_share_is_of_all_requests() -> None:
    bad = replace(WHOLE.exchanges[0], seen=Unanswered("refused"))
    found = check(
        goal(replace(WHOLE, exchanges=(bad, *WHOLE.exchanges[1:])), error_share=0.001), "acceptance.objectives"
    )
    assert found.findings == ("0.31% of the requests failed; 0.10% are allowed",)


def test_the_pool_that_is_disturbed_stays_the_one_that_was_listed() -> None:
    assert isinstance(CUT.disturbances[0].before, Listed)
    assert CUT.disturbances[0].before.key == "tokyo/dynamo/llama"
