"""The order of slices is nothing, what is remembered changes only the cost, and nothing goes without a verdict."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from discovery.directory.assemble import State, assemble
from discovery.directory.naming import NamingRules
from discovery.slices import Slice
from tests.discovery.making import endpoint, make_slice, port

ROUTERS = NamingRules(
    router_namespace="dynamo", router_service="global-router", cluster_id="hub", cluster_regions={"hub": "us-east"}
)

conditions = st.fixed_dictionaries({}, optional={c: st.booleans() for c in ("ready", "serving", "terminating")})
ends = st.builds(
    lambda last, pod, said: (last, pod, said),
    st.integers(1, 4),
    st.sampled_from([{}, {"uid": "u1"}, {"uid": "u2"}, {"pod": "p1"}, {"hostname": "h1"}]),
    conditions,
)


@st.composite
def made_slices(draw: st.DrawFn) -> tuple[str, Slice]:
    six = draw(st.booleans())
    family = "fd00::" if six else "10.0.0."
    chosen = draw(st.lists(ends, max_size=4))
    slice_ = make_slice(
        draw(st.sampled_from(["a-frontend", "a-pool-relay", "b-frontend", "global-router", "other"])),
        draw(st.sampled_from(["ohio", "west"])),
        name=f"s{draw(st.integers(0, 99))}",
        region=draw(st.sampled_from([None, "mars", "venus"])),
        creationTimestamp=draw(st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"])),
        address_type="IPv6" if six else "IPv4",
        endpoints=[endpoint(f"{family}{last}", **pod, **said) for last, pod, said in chosen],
        ports=[port(draw(st.sampled_from([8000, 8001])), draw(st.sampled_from(["http", "grpc"])))],
        annotations=draw(st.sampled_from([{}, {"dynamo.nvidia.com/stale-since": "2026-01-03T00:00:00Z"}])),
    )
    return draw(st.sampled_from(["mcs", "karmada"])), slice_


@given(st.lists(made_slices(), max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_slices_is_nothing(slices: list[tuple[str, Slice]], chance: Any) -> None:
    shuffled = list(slices)
    chance.shuffle(shuffled)
    one, two = assemble(slices, ROUTERS), assemble(shuffled, ROUTERS)
    assert one == two
    assert one.address_conflicts == two.address_conflicts


@given(st.lists(made_slices(), max_size=6))
def test_twice_is_once(slices: list[tuple[str, Slice]]) -> None:
    once, twice = assemble(slices, ROUTERS), assemble(slices + slices, ROUTERS)
    assert (once.pools, once.routers) == (twice.pools, twice.routers)


@given(st.lists(made_slices(), max_size=6), st.lists(made_slices(), max_size=3), st.data())
@settings(max_examples=60)
def test_what_is_remembered_changes_nothing_but_the_cost(
    before: list[tuple[str, Slice]], new: list[tuple[str, Slice]], data: st.DataObject
) -> None:
    kept = [one for one in before if data.draw(st.booleans())]
    first = assemble(before, ROUTERS)
    assert assemble(kept + new, ROUTERS, first) == assemble(kept + new, ROUTERS)
    other = NamingRules(address_family="ipv6")
    assert assemble(kept, other, first) == assemble(kept, other), "other rules forget all"


@given(st.lists(made_slices(), max_size=6))
def test_every_slice_has_a_verdict_and_every_pool_something_listed(slices: list[tuple[str, Slice]]) -> None:
    found = assemble(slices, ROUTERS)
    assert sorted((v.source, v.name) for v in found.verdicts) == sorted((s, slice_.name) for s, slice_ in slices)
    keys = [pool.key for pool in found.pools]
    assert keys == sorted(set(keys))
    for one in found.pools:
        assert one.frontends or one.relay
        assert all(f.ready or (f.serving and f.terminating) for f in one.frontends)
        urls = [url for f in one.frontends for url in (f.url, *f.also)]
        assert len(set(urls)) == len(urls)
        assert one.sources
        used = {v.source for v in found.verdicts if v.key == one.key and v.state is State.USED}
        assert used == set(one.sources)
