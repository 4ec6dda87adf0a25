"""The lease rule."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from discovery.lease import Lease, next_expiry, renewed

TIMES = st.integers(0, 10**14)
DURATIONS = st.integers(1, 86_400_000)
LEASES = st.builds(Lease, TIMES, DURATIONS)


def test_it_ends_at_its_moment_and_not_before() -> None:
    lease = Lease(1_000, 15_000)
    assert lease.is_live(1_000)
    assert lease.is_live(15_999)
    assert not lease.is_live(16_000)


@given(LEASES, TIMES, DURATIONS)
def test_renewing_never_shortens(lease: Lease, now: int, duration: int) -> None:
    after = renewed(lease, now, duration)
    assert after.expires_ms >= lease.expires_ms
    assert after.expires_ms == max(lease.expires_ms, now + duration)
    assert renewed(after, now, duration) == after


@given(LEASES, TIMES, st.integers(-(10**6), 10**6))
def test_expiry_needs_no_event_and_is_for_good(lease: Lease, now: int, later: int) -> None:
    if not lease.is_live(now):
        assert not lease.is_live(now + abs(later))


@given(LEASES, st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6))
def test_clocks_that_differ_by_d_disagree_for_at_most_d(lease: Lease, one: int, other: int) -> None:
    """The true moments at which the two readers disagree lie in one interval of that length."""
    ends = sorted((lease.expires_ms - one, lease.expires_ms - other))
    assert ends[1] - ends[0] == abs(one - other)
    for moment in (ends[0] - 1, ends[1]):
        assert lease.is_live(moment + one) == lease.is_live(moment + other)
    if one != other:
        assert lease.is_live(ends[0] + one) != lease.is_live(ends[0] + other)


@given(st.lists(LEASES), TIMES)
def test_between_now_and_the_next_expiry_nothing_ends(leases: list[Lease], now: int) -> None:
    turn = next_expiry(leases, now)
    live = [lease for lease in leases if lease.is_live(now)]
    if turn is None:
        assert not live
    else:
        assert turn > now
        assert all(lease.is_live(turn - 1) for lease in live)
        assert not all(lease.is_live(turn) for lease in live)
