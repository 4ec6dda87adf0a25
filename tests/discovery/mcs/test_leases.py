"""When a cluster lapses, as one replica sees it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from discovery.mcs.leases import GRACE_MS, SKEW_MS, Leases
from discovery.mcs.model import Term
from discovery.mcs.store import ClusterRecord

TTL = 30_000
RECORD = ClusterRecord("c1", "u", "r", (), 1, Term(1, 0), 0, TTL, 0)


@given(st.lists(st.integers(1, TTL), min_size=1, max_size=20), st.integers(-(10**9), 10**9))
def test_who_renews_within_its_ttl_never_lapses_whatever_the_date(gaps: list[int], skew: int) -> None:
    leases, now, record = Leases(), 0, RECORD
    leases.judge([record], 0, 0)
    for gap in gaps:
        now += gap
        record = replace(record, seq=record.seq + 1, renewed_ms=now)
        assert leases.judge([record], now + skew, now).lapsed == {}


@given(st.integers(0, 10**6))
def test_who_is_silent_lapses_at_the_moment_that_was_foretold(late: int) -> None:
    leases = Leases()
    due = leases.judge([RECORD], 0, 0).next_ms
    assert due == TTL + GRACE_MS + 1
    assert leases.judge([RECORD], due - 1, due - 1).lapsed == {}
    assert leases.judge([RECORD], due + late, due + late).lapsed == {"c1": TTL}


@given(st.integers(0, SKEW_MS), st.integers(0, TTL + GRACE_MS))
def test_a_clock_that_is_ahead_ends_no_lease_that_is_seen_for_the_first_time(ahead: int, after: int) -> None:
    leases = Leases()
    leases.judge([replace(RECORD, id="c2", renewed_ms=ahead)], ahead, 0)
    both = [RECORD, replace(RECORD, id="c2", renewed_ms=ahead, seq=1)]
    assert leases.judge(both, ahead, 0).lapsed == {}
    assert leases.judge(both, ahead + after, after).lapsed == {}


def test_all_lapsed_at_the_beginning_are_given_a_ttl_once() -> None:
    leases = Leases()
    verdict = leases.judge([RECORD], 10**6, 0)
    assert not verdict.lapsed
    assert verdict.spared == frozenset({"c1"})
    assert leases.judge([RECORD], 10**6 + TTL, TTL).lapsed == {}
    assert leases.judge([RECORD], 10**6 + TTL + 1, TTL + 1).lapsed == {"c1": TTL}


def test_one_that_has_lapsed_beside_one_that_lives_has_lapsed() -> None:
    living = replace(RECORD, id="c2", renewed_ms=10**6)
    assert Leases().judge([RECORD, living], 10**6, 0).lapsed == {"c1": TTL}


def test_an_excuse_revives_nobody() -> None:
    leases = Leases()
    living = replace(RECORD, id="c2", renewed_ms=10**6)
    leases.judge([RECORD, living], 10**6, 0)
    leases.excuse(500_000)
    assert leases.judge([RECORD, living], 1_500_000, 500_000).lapsed.keys() == {"c1"}
