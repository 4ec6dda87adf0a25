"""Who gets a request: exact turns whatever is excluded, affinity, panic, trials (section 5, I20-I24, I32)."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_ingress.proxy.carrying.choosing import Chooser, Frontend, Place, Pool, turn_of
from global_ingress.proxy.carrying.tally import Tally
from global_ingress.proxy.shared.balance import smooth
from global_ingress.proxy.shared.ledger import TRIAL, Ledger, create_ledger
from global_ingress.proxy.shared.routes import FrontendRoute, Member, ModelRoute, Policy, PoolRoute
from global_ingress.proxy.shared.turns import Turn, new_turn

FAR = 10**18


class World:
    """Pools of some frontends, seen by some workers that share turns and ledger. Slots are counted through."""

    def __init__(
        self,
        fd: int,
        sizes: list[int],
        *,
        policy: Policy = "round_robin",
        weights: list[int] | None = None,
        regions: str = "",
        limit: int | None = None,
        workers: int = 1,
        affinity: bool = False,
        leaving: frozenset[int] = frozenset(),
        names: list[str] | None = None,
    ) -> None:
        self.now = 1000
        self.spill = new_turn()
        self.tally = Tally()
        self.ledgers = [Ledger(fd, workers, n) for n in range(workers)]
        self.turns: dict[int, Turn] = {n: new_turn() for n in range(len(sizes) + 1)}
        ids = names or [f"pool-{n}" for n in range(len(sizes))]
        weighing = weights or [1] * len(sizes)
        slots = iter(range(sum(sizes)))
        pools, members = [], []
        for n, size in enumerate(sizes):
            mine = [next(slots) for _ in range(size)]
            routes = tuple(FrontendRoute(f"http://f{s}", f"f{s}", 80, s, ready=s not in leaving) for s in mine)
            region = regions[n] if regions else f"r{n}"
            pools.append(PoolRoute(ids[n], ids[n], f"c{n}", region, routes))
            ready = tuple(at for at, slot in enumerate(mine) if slot not in leaving)
            members.append(Member(ids[n], weighing[n], n if len(ready) > 1 else -1, ready))
        sequence = smooth(dict(enumerate(weighing)))
        route = ModelRoute("m", (), policy, "x-s" if affinity else None, tuple(members), len(sizes), sequence)
        self.choosers = [self._chooser(route, pools, ledger, limit) for ledger in self.ledgers]

    def _chooser(self, route: ModelRoute, pools: list[PoolRoute], ledger: Ledger, limit: int | None) -> Chooser:
        frontends = {f.url: Frontend(f) for pool in pools for f in pool.frontends}
        places = tuple(
            Place(n, member, Pool(pool, frontends), turn_of(self.turns, member.turn), self.tally.track("m", pool.id))
            for n, (member, pool) in enumerate(zip(route.members, pools, strict=True))
        )
        draw, clock = turn_of(self.turns, route.turn), lambda: self.now
        return Chooser(
            route, places, draw, self.spill.draw, ledger, clock, region="h", in_flight_limit=limit, tally=self.tally
        )

    def first(self, worker: int = 0, key: bytes | None = None) -> tuple[int, int] | None:
        """(pool, slot) of the choice."""
        found = self.choosers[worker].first(key)
        return None if found is None else (found[0].index, found[1].slot)

    def row(self, count: int, key: bytes | None = None) -> list[int]:
        """The pools of so many requests."""
        chosen = [self.first(key=key) for _ in range(count)]
        return [-1 if one is None else one[0] for one in chosen]

    def frontend(self, slot: int, worker: int = 0) -> Frontend:
        found = (f for place in self.choosers[worker].places for f in place.pool.frontends if f.slot == slot)
        return next(found)

    def following(
        self, pool: int, tried: list[int], *, again: bool = False, key: bytes | None = None
    ) -> tuple[int, int] | None:
        chooser = self.choosers[0]
        found = chooser.next(chooser.places[pool], key, [self.frontend(slot) for slot in tried], again=again)
        return None if found is None else (found[0].index, found[1].slot)

    def close(self) -> None:
        for turn in self.turns.values():
            turn.close()
        for ledger in self.ledgers:
            ledger.close()


@contextmanager
def world(sizes: list[int], *, workers: int = 1, **more: object) -> Iterator[World]:
    fd = create_ledger(workers)
    made = World(fd, sizes, workers=workers, **more)  # type: ignore[arg-type]
    try:
        yield made
    finally:
        made.close()
        os.close(fd)


SIZES = st.lists(st.integers(1, 3), min_size=1, max_size=6)


@given(SIZES, st.integers(0, 9), st.integers(1, 4), st.lists(st.integers(0, 2), max_size=60))
def test_any_row_of_requests_is_shared_exactly_by_any_number_of_workers(
    sizes: list[int], before: int, rounds: int, order: list[int]
) -> None:
    with world(sizes, workers=3) as w:
        w.row(before)
        turns = [order[n % len(order)] if order else 0 for n in range(rounds * len(sizes))]
        chosen = [w.first(worker) for worker in turns]
        assert Counter(c[0] for c in chosen if c) == dict.fromkeys(range(len(sizes)), rounds)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 7))
def test_the_frontends_of_a_pool_take_turns_exactly(pools: int, size: int, before: int) -> None:
    with world([size] * pools) as w:
        w.row(before * pools)
        chosen = Counter(w.first() for _ in range(pools * size * 2))
        assert set(chosen.values()) == {2}
        assert len(chosen) == pools * size


@given(SIZES, st.data(), st.integers(0, 9))
def test_those_that_are_left_take_turns_exactly_and_nobody_gets_the_share_of_two(
    sizes: list[int], data: st.DataObject, before: int
) -> None:
    with world(sizes) as w:
        out = data.draw(st.sets(st.integers(0, len(sizes) - 1), max_size=len(sizes) - 1))
        w.row(before)
        starts = [sum(sizes[:n]) for n in range(len(sizes))]
        for pool in out:
            for slot in range(starts[pool], starts[pool] + sizes[pool]):
                w.ledgers[0].eject(slot, FAR)
        left = [n for n in range(len(sizes)) if n not in out]
        row = w.row(3 * len(left))
        assert all(sorted(row[n : n + len(left)]) == left for n in range(2 * len(left) + 1)), row
        assert w.tally.panics == 0


@given(st.lists(st.integers(0, 4), min_size=1, max_size=5).filter(any), st.integers(0, 12))
def test_weights_are_kept_exactly_over_every_round(weights: list[int], before: int) -> None:
    with world([1] * len(weights), weights=weights) as w:
        w.row(before)
        size = len(smooth(dict(enumerate(weights))))
        counts = Counter(w.row(2 * size))
        assert counts == Counter({n: 2 * size * weight // sum(weights) for n, weight in enumerate(weights)})


def test_a_weight_of_zero_gets_nothing_not_even_in_a_panic() -> None:
    with world([1, 1], weights=[0, 1]) as w:
        w.ledgers[0].eject(1, FAR)
        assert w.row(3) == [1, 1, 1]
        assert w.tally.panics == 3
    with world([1], weights=[0]) as w:
        assert w.first() is None
        assert not w.choosers[0].full()


def test_without_places_there_is_no_choice() -> None:
    with world([]) as w:
        assert w.first() is None
        assert w.first(key=b"k") is None


# Policies.


def test_local_first_stays_at_home_while_it_can_and_spreads_the_rest() -> None:
    with world([1, 1, 1, 1], policy="local_first", regions="hhxy", limit=2) as w:
        assert sorted(w.row(4)) == [0, 0, 1, 1]
        for slot in (0, 1):
            for _ in range(2):
                w.ledgers[0].begin(slot)
        assert sorted(w.row(4)) == [2, 2, 3, 3]
        w.ledgers[0].end(1)
        assert w.row(3) == [1, 1, 1]


def test_local_first_without_a_home_takes_turns() -> None:
    with world([1, 1], policy="local_first", regions="xy") as w:
        assert sorted(w.row(4)) == [0, 0, 1, 1]


def test_what_home_cannot_answer_is_spread_over_all_others() -> None:
    with world([1, 1, 1], policy="local_first", regions="hxy") as w:
        second = [w.following(0, [0]) for _ in range(6)]
        assert Counter(second) == {(1, 1): 3, (2, 2): 3}


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.integers(0, 5))
def test_least_requests_takes_the_least_for_its_weight(loads: list[int], before: int) -> None:
    weights = [1 + n % 3 for n in range(len(loads))]
    with world([1] * len(loads), policy="least_requests", weights=weights) as w:
        w.row(before)
        for slot, load in enumerate(loads):
            for _ in range(load):
                w.ledgers[0].begin(slot)
        chosen = w.first()
        assert chosen is not None
        assert loads[chosen[0]] / weights[chosen[0]] == min(n / k for n, k in zip(loads, weights, strict=True))


def test_least_requests_lets_equals_take_turns_and_counts_failures_as_load() -> None:
    with world([1, 1, 1], policy="least_requests") as w:
        assert sorted(w.row(6)) == [0, 0, 1, 1, 2, 2]
        w.ledgers[0].set_streak(1, 2)
        assert set(w.row(6)) == {0, 2}


def test_least_requests_of_many_pools_takes_the_better_of_two() -> None:
    with world([1] * 12, policy="least_requests") as w:
        w.ledgers[0].begin(5)
        row = w.row(24)
        assert 5 not in row
        assert len(set(row)) == 11


# Affinity.

KEYS = [f"session-{n}".encode() for n in range(60)]


@given(st.integers(2, 6), st.data())
def test_only_the_sessions_of_a_lost_pool_move(count: int, data: st.DataObject) -> None:
    lost = data.draw(st.integers(0, count - 1))
    with world([1] * count, affinity=True) as w:
        before = {key: w.row(1, key)[0] for key in KEYS}
        assert before == {key: w.row(1, key)[0] for key in KEYS}, "a session stays"
        w.ledgers[0].eject(lost, FAR)
        after = {key: w.row(1, key)[0] for key in KEYS}
        assert {key for key in KEYS if before[key] != after[key]} == {key for key in KEYS if before[key] == lost}
    names = [f"pool-{n}" for n in range(count) if n != lost]
    with world([1] * (count - 1), affinity=True, names=names) as w:
        without = {key: names[w.row(1, key)[0]] for key in KEYS}
        assert without == {key: f"pool-{pool}" for key, pool in after.items()}, "as if it had left the table"


def test_sessions_are_spread_and_a_repeat_follows_the_order_of_the_hash() -> None:
    with world([1, 1, 1], affinity=True) as w:
        assert set(Counter(w.row(1, key)[0] for key in KEYS)) == {0, 1, 2}
        for key in KEYS:
            first = w.row(1, key)[0]
            following = w.following(first, [first], key=key)
            w.ledgers[0].eject(first, FAR)
            assert following == w.first(key=key)
            w.ledgers[0].readmit(first)


def test_a_session_does_not_move_the_cursor() -> None:
    with world([1, 1, 1], affinity=True) as w:
        first = w.row(1)
        w.row(5, b"k")
        assert sorted(first + w.row(2)) == [0, 1, 2]


# Repeats.


@given(SIZES.filter(lambda sizes: len(sizes) > 1), st.data())
def test_repeats_go_to_every_pool_once_before_any_again_and_do_not_move_the_cursor(
    sizes: list[int], data: st.DataObject
) -> None:
    with world(sizes) as w:
        w.row(data.draw(st.integers(0, 5)))
        position = w.turns[len(sizes)].position()
        chosen = w.first()
        assert chosen is not None
        pools, tried = [chosen[0]], [chosen[1]]
        for _ in range(sum(sizes) - 1):
            found = w.following(pools[-1], tried)
            assert found is not None
            assert found[1] not in tried
            pools.append(found[0])
            tried.append(found[1])
        assert pools[: len(sizes)] == [(pools[0] + n) % len(sizes) for n in range(len(sizes))]
        assert sorted(tried) == list(range(sum(sizes)))
        assert w.turns[len(sizes)].position() == position + 1
        assert w.following(pools[-1], tried) is None
        assert w.following(pools[-1], tried, again=True) is not None


def test_a_repeat_without_another_place_does_not_move_the_cursor_either() -> None:
    with world([1, 1, 1]) as w:
        assert w.first() == (0, 0)
        for slot in (1, 2):
            w.ledgers[0].eject(slot, FAR)
        w.following(0, [0], again=True)
        for slot in (1, 2):
            w.ledgers[0].readmit(slot)
        assert w.first() == (1, 1)


def test_a_repeat_goes_to_an_ejected_frontend_rather_than_to_the_one_that_failed() -> None:
    with world([1, 1]) as w:
        w.ledgers[0].eject(1, FAR)
        assert w.following(0, [0], again=True) == (1, 1)


# Ejection, trials, panic, limits.


def test_one_request_tries_a_frontend_whose_sentence_is_over() -> None:
    with world([1, 1]) as w:
        w.ledgers[0].eject(1, 2000)
        assert w.row(3) == [0, 0, 0]
        w.now = 2000
        row = w.row(4)
        assert Counter(row) == {0: 3, 1: 1}, "one trial"
        assert w.ledgers[0].on_trial(1)
        w.now = 2000 + TRIAL
        assert Counter(w.row(4)) == {0: 3, 1: 1}, "a trial that nobody ended is over some time"
        w.ledgers[0].readmit(1)
        assert Counter(w.row(4)) == {0: 2, 1: 2}


def test_when_all_are_ejected_all_are_tried_in_turns() -> None:
    with world([1, 2, 1]) as w:
        for slot in range(4):
            w.ledgers[0].eject(slot, FAR)
        assert Counter(w.row(6)) == {0: 2, 1: 2, 2: 2}
        assert w.tally.panics == 6


@pytest.mark.parametrize("pools", [2, 4])
def test_all_take_turns_in_a_panic(pools: int) -> None:
    with world([1] * pools) as w:
        for slot in range(pools):
            w.ledgers[0].eject(slot, FAR)
        assert Counter(w.row(2 * pools)) == dict.fromkeys(range(pools), 2)


def test_the_frontends_of_a_pool_take_turns_in_a_panic() -> None:
    with world([3]) as w:
        for slot in range(3):
            w.ledgers[0].eject(slot, FAR)
        assert Counter(w.first() for _ in range(6)) == {(0, 0): 2, (0, 1): 2, (0, 2): 2}


def test_a_ready_frontend_elsewhere_is_better_than_one_that_terminates() -> None:
    with world([1, 1], leaving=frozenset({0})) as w:
        assert w.row(4) == [1, 1, 1, 1]
        w.ledgers[0].eject(1, FAR)
        assert w.row(3) == [0, 0, 0]
        assert w.tally.panics == 0
        w.ledgers[0].eject(0, FAR)
        w.row(4)
        assert w.tally.panics == 4


@given(st.integers(1, 3), st.lists(st.integers(0, 3), min_size=2, max_size=4))
def test_a_full_pool_gets_nothing_and_when_all_are_full_nobody_does(limit: int, loads: list[int]) -> None:
    with world([1] * len(loads), limit=limit) as w:
        for slot, load in enumerate(loads):
            for _ in range(load):
                w.ledgers[0].begin(slot)
        free = [n for n, load in enumerate(loads) if load < limit]
        if free:
            assert Counter(w.row(2 * len(free))) == dict.fromkeys(free, 2)
        assert set(w.row(2 * len(loads))) == (set(free) or {-1})
        assert w.choosers[0].full() == (len(free) < len(loads))


def test_the_limit_is_that_of_all_workers_together() -> None:
    with world([1, 1], limit=2, workers=2) as w:
        w.ledgers[0].begin(0)
        w.ledgers[1].begin(0)
        assert {w.first(0), w.first(1)} == {(1, 1)}


def test_authorities() -> None:
    made = [
        (("f", 80, False), b"f"),
        (("f", 443, False), b"f:443"),
        (("f", 443, True), b"f"),
        (("f", 80, True), b"f:80"),
        (("::1", 8000, False), b"[::1]:8000"),
    ]
    for (host, port, tls), want in made:
        assert Frontend(FrontendRoute("u", host, port, 0, tls=tls)).authority == want


@pytest.mark.parametrize("number", [-1, 0])
def test_a_pool_of_one_needs_no_counter(number: int) -> None:
    with world([2]) as w:
        draw = turn_of(w.turns, number)
        assert [draw(), draw()] == ([1, 1] if number < 0 else [1, 2])
