"""For any table and any evidence: a model with a frontend has somewhere to go, and nobody gets what he may not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from discovery.pool import Pool
from global_ingress.proxy.supervising.routable import Evidence, FrontendWhy, PoolWhy, frontend_why, judge
from tests.proxy.making import frontend, model, pool

URLS = [frontend(n).url for n in range(12)]
STATES = st.sampled_from(["ready", "ready", "leaving", "down"])


@st.composite
def pools(draw: st.DrawFn) -> list[Pool]:
    states = draw(st.lists(STATES, max_size=12))
    cuts = sorted(draw(st.lists(st.integers(0, len(states)), min_size=2, max_size=2)))
    parts = [range(cuts[0]), range(cuts[0], cuts[1]), range(cuts[1], len(states))]
    return [pool(f"c{i}", *(frontend(n, states[n]) for n in part)) for i, part in enumerate(parts)]


EVIDENCE = st.builds(
    Evidence,
    st.just({}),
    st.dictionaries(st.sampled_from(URLS), st.just("no answer"), max_size=12),
    st.frozensets(st.sampled_from(URLS), max_size=12),
)


@given(pools(), EVIDENCE)
def test_the_last_frontend_of_a_model_is_never_out(listed: list[Pool], evidence: Evidence) -> None:
    possible = [f for p in listed for f in p.frontends if f.ready or (f.serving and f.terminating)]
    verdict = judge(model(), listed, evidence)
    assert bool(verdict.routable) == bool(possible)
    assert bool(verdict.words) != bool(verdict.routable)


@given(pools(), EVIDENCE)
def test_without_panic_nobody_gets_requests_who_is_out(listed: list[Pool], evidence: Evidence) -> None:
    verdict = judge(model(), listed, evidence)
    whys = [frontend_why(v.pool.frontends[n], evidence) for v in verdict.routable for n in v.frontends]
    assert FrontendWhy.NOT_READY not in whys
    if not verdict.panic:
        assert len(set(whys)) <= 1, "usable ones, or leaving ones, never both"
        assert set(whys) <= {FrontendWhy.USABLE, FrontendWhy.TERMINATING}


@given(pools(), EVIDENCE)
def test_routable_means_that_some_frontend_may_be_used(listed: list[Pool], evidence: Evidence) -> None:
    for each in judge(model(), listed, evidence).pools:
        assert (each.why is PoolWhy.ROUTABLE) == bool(each.frontends)
        assert list(each.frontends) == sorted(set(each.frontends))
        assert all(n < len(each.pool.frontends) for n in each.frontends)


@given(pools(), EVIDENCE, EVIDENCE)
def test_ejections_never_add_a_pool(listed: list[Pool], evidence: Evidence, more: Evidence) -> None:
    """The workers' routes are made without ejections: what is seen with them is a part of those."""
    bare = Evidence({}, evidence.failing, frozenset())
    with_them = Evidence({}, evidence.failing, more.ejected)
    wide = {v.pool.key: set(v.frontends) for v in judge(model(), listed, bare).routable}
    for verdict in judge(model(), listed, with_them).routable:
        assert set(verdict.frontends) <= wide[verdict.pool.key]
