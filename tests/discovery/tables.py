"""Strategies for pools and tables, for the tests of `pool` and `wire`."""

from __future__ import annotations

from hypothesis import strategies as st

from discovery.identity import PoolKey
from discovery.pool import Frontend, Pod, Pool, PoolTable, Relay, Router, make_table

words = st.sampled_from(["a", "b", "ohio", "é", "x-1"])
urls = st.builds(
    "{}://{}:{}".format,
    st.sampled_from(["http", "https"]),
    st.sampled_from(["10.0.0.1", "[fd00::1]"]),
    st.integers(1, 65535),
)
frontends = st.builds(
    Frontend,
    url=urls,
    also=st.lists(urls, max_size=1).map(tuple),
    ready=st.booleans(),
    serving=st.booleans(),
    terminating=st.booleans(),
    pod=st.none() | st.builds(Pod, words, st.just("") | words),
    zone=st.none() | words,
)
keys = st.builds(PoolKey, words, words, words)
pools = st.builds(
    Pool,
    key=keys,
    region=words,
    frontends=st.lists(frontends, max_size=3).map(tuple),
    relay=st.none() | st.builds(Relay, words.map("ip:{}".format), urls),
    sources=st.lists(st.sampled_from(["file", "karmada", "mcs"]), max_size=2, unique=True).map(tuple),
    stale_since=st.none() | st.just("2026-01-01T00:00:00Z"),
)
pool_lists = st.lists(pools, max_size=6, unique_by=lambda pool: pool.key)
routers = st.builds(Router, words, urls, words, words)
router_lists = st.lists(routers, max_size=3)


def tables(epoch: str = "e1") -> st.SearchStrategy[PoolTable]:
    return st.builds(make_table, st.just(epoch), st.integers(0, 2**53), st.booleans(), pool_lists, router_lists)
