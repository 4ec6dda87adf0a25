"""Tables: diff, apply, revision and completeness, for any tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery.identity import PoolKey
from discovery.pool import Change, Frontend, Pool, PoolTable, Router, apply, diff, make_table, next_table
from tests.discovery.tables import pool_lists, pools, router_lists, tables


@given(tables(), tables())
def test_the_difference_applied_is_the_other(a: PoolTable, b: PoolTable) -> None:
    change = diff(a, b)
    assert apply(change, a) == b
    assert apply(change, b) == b, "twice does nothing more"


@given(tables(), pool_lists, st.data())
def test_a_difference_names_only_what_differs(a: PoolTable, new: list[Pool], data: st.DataObject) -> None:
    kept = [pool for pool in a.pools if data.draw(st.booleans())]
    merged = {pool.key: pool for pool in [*kept, *new]}
    b = make_table("e1", 7, True, merged.values(), a.routers)
    change = diff(a, b)
    before = {pool.key: pool for pool in a.pools}
    assert all(before.get(pool.key) != pool for pool in change.upserted)
    assert set(change.removed) == {pool.id for pool in a.pools if pool.key not in merged}
    assert change.routers is None
    assert diff(b, b) == Change((), (), None, True, 7)


@given(pool_lists, router_lists, st.randoms(use_true_random=False))
def test_order_is_nothing(pools: list[Pool], routers: list[Router], chance: Any) -> None:
    one = make_table("e", 1, True, pools, routers)
    chance.shuffle(pools)
    chance.shuffle(routers)
    assert make_table("e", 1, True, pools, routers) == one
    assert list(one.pools) == sorted(one.pools, key=lambda pool: pool.key)


@given(tables(), pool_lists, router_lists, st.booleans())
def test_the_revision_grows_exactly_when_something_changes(
    previous: PoolTable, pools: list[Pool], routers: list[Router], complete: bool
) -> None:
    after = next_table(previous, pools, routers, complete)
    wanted = make_table(previous.epoch, 0, complete, pools, routers)
    assert replace(after, revision=0) == wanted
    same = replace(previous, revision=0) == wanted
    assert after.revision == previous.revision + (not same)
    assert (after is previous) == same
    assert next_table(after, reversed(after.pools), reversed(after.routers), complete) is after
    assert next_table(after, after.pools, after.routers, not complete).revision == after.revision + 1


@given(tables(), pools)
def test_equal_pools_stay_the_same_objects(previous: PoolTable, new: Pool) -> None:
    copies = [replace(pool) for pool in previous.pools if pool.key != new.key]
    after = next_table(previous, [*copies, new], previous.routers, previous.complete)
    before = {pool.key: pool for pool in previous.pools}
    assert all(pool is before[pool.key] for pool in after.pools if pool.key != new.key)


def test_stale_is_content() -> None:
    pool = Pool(PoolKey("a", "b", "c"), "r", (Frontend("http://10.0.0.1:80"),))
    before = make_table("e", 3, True, [pool])
    after = next_table(before, [replace(pool, stale_since="2026-01-01T00:00:00Z")], (), True)
    assert after.revision == 4
    assert diff(before, after).upserted == after.pools


def test_no_routers_is_other_news_than_no_news() -> None:
    router = Router("r", "http://10.0.0.1:80", "a", "b")
    a, b = make_table("e", 1, True, (), [router]), make_table("e", 2, True, ())
    assert diff(a, b).routers == ()
    assert apply(diff(a, b), a) == b
    assert diff(a, replace(a, revision=2)).routers is None


def test_between_epochs_lies_no_change() -> None:
    with pytest.raises(ValueError, match="no change leads from epoch 'a' to 'b'"):
        diff(make_table("a", 1, True, ()), make_table("b", 1, True, ()))


def test_two_pools_of_one_key_are_refused() -> None:
    pool = Pool(PoolKey("a", "b", "c"), "r")
    with pytest.raises(ValueError, match="two pools are called a/b/c"):
        make_table("e", 1, True, [pool, replace(pool, region="s")])


def test_an_unknown_removal_is_no_fault() -> None:
    table = make_table("e", 1, True, [Pool(PoolKey("a", "b", "c"), "r")])
    assert apply(Change((), ("pool-v1-unheard",), None, True, 2), table) == replace(table, revision=2)
