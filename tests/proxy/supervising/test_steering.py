"""From settings, tables and what was learned to the workers' routes: whole, stable, sent only when they differ."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest

from discovery.identity import PoolKey
from discovery.kit.testing import VirtualClock
from discovery.pool import Pool
from global_ingress.proxy.settings.sections import Probe, Settings
from global_ingress.proxy.shared.ledger import Ledger, create_ledger
from global_ingress.proxy.shared.routes import ModelRoute, Routes, decode_routes, encode_routes
from global_ingress.proxy.shared.turns import Turn, new_turn
from global_ingress.proxy.supervising.knowledge import Subject
from global_ingress.proxy.supervising.labels import Labels
from global_ingress.proxy.supervising.schedules import Schedules
from global_ingress.proxy.supervising.slots import Slots
from global_ingress.proxy.supervising.steering import Steering
from tests.proxy.making import frontend, pool, settings, table

A, B = pool("a", frontend(1), frontend(2)), pool("b", frontend(3))
C = pool("c", frontend(4))


@dataclass
class Learned:
    """What was learned, as a test says it."""

    lists: dict[PoolKey, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)
    bad: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    def models(self) -> Mapping[PoolKey, tuple[Mapping[str, Any], ...]]:
        return self.lists

    def failing(self) -> Mapping[str, str]:
        return self.bad

    def follow(self, subjects: Sequence[Subject], probe: Probe | None) -> None:
        self.asked = [(subject.pool.key.cluster, subject.models) for subject in subjects]


class Rig:
    """A Steering with its surroundings."""

    def __init__(self) -> None:
        self.fd = create_ledger(1)
        self.ledger = Ledger(self.fd, 1, 0)
        self.schedules = Schedules(new_turn)
        self.clock = VirtualClock()
        self.learned = Learned()
        self.sent: list[tuple[Routes, dict[int, int]]] = []
        self.notices: list[str] = []

    def steering(self, given: Settings) -> Steering:
        return Steering(
            given,
            self.ledger,
            self.schedules,
            self.learned,
            slots=Slots(100),
            labels=Labels(),
            clock=self.clock,
            send=lambda routes, counters: self.sent.append((routes, dict(counters))),
            notice=lambda kind, subject, detail: self.notices.append(f"{kind} {subject}"),
        )

    @property
    def routes(self) -> Routes:
        return self.sent[-1][0]

    def model(self, id: str = "m") -> ModelRoute:
        return next(model for model in self.routes.models if model.id == id)

    def clusters(self, id: str = "m") -> list[str]:
        names = {one.id: one.cluster for one in self.routes.pools}
        return [names[member.pool] for member in self.model(id).members]

    def next_clusters(self, count: int, id: str = "m") -> list[str]:
        """Draw as the workers do."""
        model, counters = self.model(id), self.sent[-1][1]
        turn, clusters = Turn(os.dup(counters[model.turn])), self.clusters(id)
        return [clusters[model.sequence[(turn.draw() - 1) % len(model.sequence)]] for _ in range(count)]


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.schedules.close()
    rig.ledger.close()
    os.close(rig.fd)


def test_before_the_first_table_nothing_is_known(rig: Rig) -> None:
    rig.steering(settings([{"id": "m"}])).recompute()
    assert (rig.routes.known, rig.routes.listing, rig.model().members) == (False, None, ())


def test_routes_hold_everything_and_survive_the_wire(rig: Rig) -> None:
    steering = rig.steering(settings([{"id": "m", "aliases": ["x"], "weights": {"b": 2}}], region="here"))
    steering.change(table=table(A, B))
    routes = rig.routes
    assert decode_routes(encode_routes(routes)) == routes
    assert (routes.known, routes.region, rig.model().aliases) == (True, "here", ("x",))
    slots = {pool.name: [frontend.slot for frontend in pool.frontends] for pool in routes.pools}
    assert slots == {"a/dynamo/llama": [0, 1], "b/dynamo/llama": [2]}
    assert [(f.host, f.port, f.tls, f.ready) for f in routes.pools[1].frontends] == [("10.0.0.3", 8000, False, True)]
    a, b = rig.model().members
    assert (a.weight, len(a.sequence), b.weight, b.turn, b.sequence) == (1, 2, 2, -1, (0,))
    assert {rig.model().turn, a.turn} == set(rig.sent[-1][1])
    assert sorted(rig.next_clusters(6)) == ["a", "a", "b", "b", "b", "b"]
    assert orjson.loads(routes.listing or b"")["data"][0]["id"] == "m"


def test_the_same_state_is_not_sent_twice(rig: Rig) -> None:
    steering = rig.steering(settings([{"id": "m"}]))
    steering.change(table=table(A, B))
    steering.recompute()
    steering.change(table=table(A, B, revision=2))
    steering.change(settings([{"id": "m"}]))
    assert len(rig.sent) == 1
    steering.change(settings([{"id": "m", "aliases": ["y"]}]))
    assert [routes.generation for routes, _ in rig.sent] == [1, 2]
    assert rig.sent[0][1] == rig.sent[1][1], "the same counters"


def test_a_join_goes_on_with_the_pool_due_next(rig: Rig) -> None:
    steering = rig.steering(settings([{"id": "m"}]))
    b, c = pool("b", frontend(3)), pool("c", frontend(4))
    steering.change(table=table(A, b, c))
    assert rig.next_clusters(4) == ["a", "b", "c", "a"]
    steering.change(table=table(A, b, c, pool("aa", frontend(5))))
    assert rig.next_clusters(5) == ["b", "c", "a", "aa", "b"]
    steering.change(table=table(A, c, pool("aa", frontend(5))))
    assert rig.next_clusters(3) == ["c", "a", "aa"]


def test_learned_models_are_those_that_pools_list(rig: Rig) -> None:
    steering = rig.steering(settings())
    steering.change(table=table(A, B))
    assert (rig.routes.known, rig.routes.listing) == (False, None)
    rig.learned.lists = {A.key: ({"id": "x", "max_model_len": 8},), B.key: ({"id": "x"}, {"id": "y"})}
    steering.recompute()
    assert rig.routes.known
    assert {model.id: rig.clusters(model.id) for model in rig.routes.models} == {"x": ["a", "b"], "y": ["b"]}
    assert orjson.loads(rig.routes.described["x"])["max_model_len"] == 8


def test_a_pool_that_lacks_the_model_leaves_its_routes_and_its_list(rig: Rig) -> None:
    steering = rig.steering(settings([{"id": "m"}, {"id": "n"}]))
    rig.learned.lists = {A.key: ({"id": "m"},), B.key: ({"id": "n"},)}
    steering.change(table=table(A, B))
    assert (rig.clusters("m"), rig.clusters("n")) == (["a"], ["b"])
    rig.learned.lists = {A.key: ({"id": "m"},), B.key: ()}
    steering.recompute()
    assert (rig.clusters("n"), rig.model("n").why) == ([], "2 pools not listing the model")
    assert [m["id"] for m in orjson.loads(rig.routes.listing or b"")["data"]] == ["m"]


def test_a_frontend_whose_probe_fails_leaves_the_sequence_and_keeps_its_row(rig: Rig) -> None:
    steering = rig.steering(settings([{"id": "m"}]))
    steering.change(table=table(A, B))
    rig.learned.bad = {frontend(1).url: "no answer"}
    steering.recompute()
    member = rig.model().members[0]
    assert (member.sequence, member.turn, [f.slot for f in rig.routes.pools[0].frontends]) == ((1,), -1, [0, 1])
    rig.learned.bad = {frontend(n).url: "no answer" for n in (1, 2, 3)}
    steering.recompute()
    assert rig.clusters() == ["a", "b"], "all would be out: all are tried"


def test_ejections_change_what_is_seen_and_not_the_routes(rig: Rig) -> None:
    steering = rig.steering(settings([{"id": "m"}]))
    steering.change(table=table(A, B))
    rig.ledger.eject(2, int(30e9))
    steering.recompute()
    assert len(rig.sent) == 1
    assert steering.ejected() == {frontend(3).url: 30.0}
    assert [v.why.value for v in steering.look().models[0][1].pools] == ["routable", "all_ejected"]


async def test_a_probe_that_succeeds_twice_ends_an_ejection_for_a_trial(rig: Rig) -> None:
    steering = rig.steering(settings([{"id": "m"}]))
    steering.change(table=table(A, B))
    await rig.clock.advance(5)
    rig.ledger.set_streak(2, 5)
    rig.ledger.eject(2, int(60e9))
    steering.recovered(frontend(3).url)
    assert steering.ejected() == {frontend(3).url: 60.0}, "the probe may have been asked before"
    steering.recovered(frontend(3).url)
    assert (steering.ejected(), rig.ledger.ejected_until(2), rig.ledger.streak(2)) == ({}, int(5e9), 5)
    rig.ledger.begin_trial(2, int(5e9))
    trial = rig.ledger.ejected_until(2)
    steering.recovered(frontend(3).url)
    steering.recovered(frontend(3).url)
    assert rig.ledger.ejected_until(2) == trial, "a trial is out"


async def test_the_last_good_pools_are_held_loudly_and_then_let_go(rig: Rig) -> None:
    steering = rig.steering(settings([{"id": "m", "pools": [{"cluster": "a"}]}, {"id": "n"}]))
    steering.change(table=table(A, B))
    steering.change(table=table(B, revision=2))
    assert (rig.clusters("m"), rig.clusters("n")) == (["a"], ["b"])
    assert (rig.notices, steering.restless, set(steering.held)) == (["held m"], True, {"m"})
    assert ("a", ("m", "n")) in rig.learned.asked, "held pools are still asked"
    await rig.clock.advance(61)
    steering.recompute()
    assert (rig.clusters("m"), rig.notices[-1]) == ([], "hold_ended m")


def test_what_the_operator_writes_is_obeyed(rig: Rig) -> None:
    steering = rig.steering(settings([{"id": "m"}]))
    steering.change(table=table(A), obey=True)
    steering.change(table=table(revision=2), obey=True)
    assert (rig.clusters(), rig.notices) == ([], [])


def test_without_models_the_whole_table_is_held(rig: Rig) -> None:
    rig.learned.lists = {A.key: ({"id": "x"},)}
    steering = rig.steering(settings())
    steering.change(table=table(A))
    steering.change(table=table(revision=2))
    assert (rig.clusters("x"), rig.notices) == (["a"], ["held *"])


def test_limits_are_shared_out_among_the_workers(rig: Rig) -> None:
    given = settings([{"id": "m"}], workers=4, limits={"connections": 1001, "buffered": "64MiB", "body": "32MiB"})
    rig.steering(given).recompute()
    assert (rig.routes.limits.connections, rig.routes.limits.buffered) == (250, 32 << 20)


def test_two_pools_on_one_address_share_its_row(rig: Rig) -> None:
    twin: Pool = pool("twin", frontend(1))
    rig.steering(settings([{"id": "m"}])).change(table=table(A, twin))
    assert [[f.slot for f in p.frontends] for p in rig.routes.pools] == [[0, 1], [0]]


async def test_a_pool_that_joins_ramps_up_with_time(rig: Rig) -> None:
    steering = rig.steering(settings([{"id": "m"}], slow_start="10s"))
    steering.change(table=table(A, B))
    assert len(rig.model().sequence) == 2, "those of the beginning do not ramp"
    await rig.clock.advance(100)
    steering.change(table=table(A, B, C))
    shares = []
    for _ in range(12):
        order = rig.model().sequence
        shares.append(round(order.count(rig.clusters().index("c")) / len(order), 2))
        await rig.clock.advance(1)
        if steering.restless:
            steering.recompute()
    assert shares[0] == 0.05
    assert shares == sorted(shares)
    assert shares[-1] == 0.33
    assert not steering.restless
