"""Label values come from known sets, and a name once known stays (B106, I71)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from global_ingress.proxy.supervising.labels import MOST_MODELS, MOST_POOLS, OTHER, Labels, PoolLabel


def test_known_names_stay_after_they_left_and_others_are_other() -> None:
    labels = Labels()
    labels.learn({"p1": PoolLabel("c/n/a", "r")}, ["m"])
    labels.learn({}, [])
    labels.learn({"p1": PoolLabel("c/n/a", "moved")}, [])
    assert labels.pool("p1") == PoolLabel("c/n/a", "r")
    assert labels.model("m") == "m"
    assert (labels.model("typo"), labels.pool("p2")) == (OTHER, PoolLabel(OTHER, OTHER))
    assert labels.pool("") == PoolLabel("", "")


@settings(max_examples=5)
@given(st.integers(1, 3), st.integers(1, 3))
def test_the_sets_are_bounded_and_what_was_first_stays(pools: int, models: int) -> None:
    labels = Labels()
    for n in range(MOST_POOLS * pools + 1):
        labels.learn({f"p{n}": PoolLabel(f"c/n/{n}", "r")}, [])
    for n in range(MOST_MODELS * models + 1):
        labels.learn({}, [f"m{n}"])
    assert labels.pool("p0").name == "c/n/0"
    assert labels.pool(f"p{MOST_POOLS}").name == OTHER
    assert len({labels.pool(f"p{n}").name for n in range(MOST_POOLS * pools + 1)}) == MOST_POOLS + 1
    assert len({labels.model(f"m{n}") for n in range(MOST_MODELS * models + 1)}) == MOST_MODELS + 1
