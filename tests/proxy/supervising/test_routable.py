"""Which pools and frontends get a model's requests, and why not (I23, I24)."""

from __future__ import annotations

from typing import Any

import pytest

from discovery.pool import Frontend, Pool
from global_ingress.proxy.supervising.routable import (
    FRONTEND_WORDS,
    POOL_WORDS,
    Evidence,
    FrontendWhy,
    PoolWhy,
    frontend_why,
    judge,
    learned,
)
from tests.proxy.making import frontend, model, pool

A, B = pool("a", frontend(1), frontend(2)), pool("b", frontend(3))


def evidence(
    failing: str = "", ejected: str = "", models: dict[str, str] | None = None, pools: tuple[Pool, ...] = (A, B)
) -> Evidence:
    """`failing` and `ejected` are numbers of frontends, `models` what clusters list."""
    known = {p.key: frozenset((models or {})[p.key.cluster].split()) for p in pools if p.key.cluster in (models or {})}
    return Evidence(
        known,
        {frontend(int(n)).url: "refused" for n in failing.split()},
        frozenset(frontend(int(n)).url for n in ejected.split()),
    )


def seen(listed: list[Pool], given: Evidence, /, **more: Any) -> tuple[dict[str, str], dict[str, list[int]], bool]:
    """Reasons by cluster, usable frontends by cluster (as numbers of `frontend`), and whether it is panic."""
    verdict = judge(model(**more), listed, given)
    numbers = {
        each.pool.key.cluster: [int(each.pool.frontends[n].url.split(".")[3].split(":")[0]) for n in each.frontends]
        for each in verdict.routable
    }
    return {each.pool.key.cluster: each.why.value for each in verdict.pools}, numbers, verdict.panic


def test_every_reason_has_words() -> None:
    assert set(FRONTEND_WORDS) == set(FrontendWhy)
    assert set(POOL_WORDS) == set(PoolWhy)


def test_all_is_well() -> None:
    assert seen([A, B], evidence()) == ({"a": "routable", "b": "routable"}, {"a": [1, 2], "b": [3]}, False)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({"cluster": "a"}, {"a": "routable", "b": "not_selected"}),
        ({"region": "region-b"}, {"a": "not_selected", "b": "routable"}),
        ({"namespace": "dynamo", "name": "llama"}, {"a": "routable", "b": "routable"}),
        ({"cluster": "a", "region": "region-b"}, {"a": "not_selected", "b": "not_selected"}),
    ],
)
def test_selectors(selector: dict[str, str], expected: dict[str, str]) -> None:
    assert seen([A, B], evidence(), pools=[selector])[0] == expected


def test_several_selectors_are_alternatives() -> None:
    assert seen([A, B], evidence(), pools=[{"cluster": "a"}, {"cluster": "b"}])[0] == {"a": "routable", "b": "routable"}


def test_the_weight_of_a_cluster_beats_that_of_its_region() -> None:
    verdict = judge(model(weights={"a": 3, "region-a": 0, "region-b": 0}), [A, B], evidence())
    assert [(each.why.value, each.weight) for each in verdict.pools] == [("routable", 3), ("drained", 0)]


def test_a_pool_that_lacks_the_model_is_out_and_an_unknown_list_is_no_lack() -> None:
    assert seen([A, B], evidence(models={"a": "other"}))[0] == {"a": "model_not_listed", "b": "routable"}
    assert seen([A, B], evidence(models={"a": ""}))[0]["a"] == "model_not_listed"
    assert judge(model(), [A], evidence(), must_list=True).pools[0].why is PoolWhy.MODEL_NOT_LISTED


def test_a_failing_probe_or_an_ejection_takes_a_frontend_out() -> None:
    assert seen([A, B], evidence(failing="1"))[1] == {"a": [2], "b": [3]}
    assert seen([A, B], evidence(ejected="2", failing="3"))[:2] == (
        {"a": "routable", "b": "all_probes_failing"},
        {"a": [1]},
    )
    assert seen([A, B], evidence(ejected="1 2"))[0] == {"a": "all_ejected", "b": "routable"}
    assert seen([A, B], evidence(ejected="1", failing="2"))[0] == {"a": "none_usable", "b": "routable"}


@pytest.mark.parametrize(
    ("given", "left"),
    [
        (evidence(failing="1 2 3"), {"a": [1, 2], "b": [3]}),
        (evidence(ejected="1 2 3"), {"a": [1, 2], "b": [3]}),
        (evidence(failing="1 2", ejected="3"), {"b": [3]}),
    ],
)
def test_if_all_would_be_out_all_that_are_left_are_tried(given: Evidence, left: dict[str, list[int]]) -> None:
    _, numbers, panic = seen([A, B], given)
    assert (numbers, panic) == (left, True)


def test_a_ready_one_anywhere_beats_one_that_terminates_here() -> None:
    here = pool("a", frontend(1, "leaving"))
    assert seen([here, B], evidence())[:2] == ({"a": "none_ready", "b": "routable"}, {"b": [3]})
    assert seen([here], evidence()) == ({"a": "routable"}, {"a": [1]}, False)
    assert seen([here, B], evidence(failing="3"))[1] == {"a": [1]}


def test_pools_without_frontends_and_without_ready_ones() -> None:
    empty, down = pool("a"), pool("b", frontend(3, "down"))
    assert seen([empty, down], evidence())[0] == {"a": "no_frontend", "b": "none_ready"}


def test_what_clients_are_told_names_no_pool() -> None:
    assert judge(model(), [], evidence()).words == "no pool is listed"
    words = judge(model(pools=[{"cluster": "x"}]), [A, B], evidence()).words
    assert words == "2 pools not selected by the model's `pools`"
    assert judge(model(), [A], evidence()).words == ""


def test_frontend_reasons() -> None:
    cases: list[tuple[Frontend, FrontendWhy]] = [
        (frontend(1), FrontendWhy.EJECTED),
        (frontend(2), FrontendWhy.PROBE_FAILING),
        (frontend(4), FrontendWhy.USABLE),
        (frontend(4, "leaving"), FrontendWhy.TERMINATING),
        (frontend(4, "down"), FrontendWhy.NOT_READY),
    ]
    given = evidence(ejected="1 2", failing="2")
    assert [frontend_why(one, given) for one, _ in cases] == [why for _, why in cases]


def test_learned_models_are_those_of_all_pools_in_order() -> None:
    assert [m.id for m in learned([A, B], evidence(models={"a": "z x", "b": "y x"}))] == ["x", "y", "z"]
    assert learned([A, B], evidence()) == []
