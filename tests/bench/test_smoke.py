"""When the short benchmark of CI says that the ingress has become slower."""

from __future__ import annotations

import json

import pytest

from tests.bench import driven
from tests.bench.smoke import COMMITTED, KEYS, WORSE, judged, ratios, worse
from tests.proxy.wirekit import rigged

GOOD = {"unary_cpu_32": 1.8, "chunk_cpu_paced": 1.2}


def test_the_ratio_is_that_of_a_turn_and_one_bad_turn_is_not_seen() -> None:
    ours = [{"unary_cpu_32": cpu, "chunk_cpu_paced": 1.0} for cpu in (30.0, 300.0, 36.0)]
    theirs = [{"unary_cpu_32": cpu, "chunk_cpu_paced": 1.0} for cpu in (15.0, 20.0, 20.0)]
    assert ratios(ours, theirs) == {"unary_cpu_32": 2.0, "chunk_cpu_paced": 1.0}


@pytest.mark.parametrize("key", KEYS)
def test_a_figure_that_rises_beyond_the_bound_is_named(key: str) -> None:
    assert worse(GOOD | {key: GOOD[key] * (WORSE - 0.01)}, GOOD) == {}
    assert list(worse(GOOD | {key: GOOD[key] * (WORSE + 0.01)}, GOOD)) == [key]


def test_a_bad_measurement_is_made_anew_and_a_good_one_is_not() -> None:
    bad = {key: 2 * value for key, value in GOOD.items()}
    for script, fine in (([GOOD], True), ([bad, GOOD], True), ([bad, bad, GOOD], True), ([bad, bad, bad], False)):
        left = list(script)
        found, verdict = judged(lambda left=left: left.pop(0), GOOD)  # type: ignore[misc]
        assert (left, verdict) == ([], fine)
        assert found == (GOOD if fine else bad)


def test_the_committed_ratios_are_those_that_are_measured() -> None:
    committed = json.loads(COMMITTED.read_text())
    for kind, found in committed["ratios"].items():
        assert found.keys() == KEYS.keys(), kind
        assert all(0.5 < ratio < 10 for ratio in found.values()), kind
    assert all(one.keys() == {"unary", "chunk"} for one in committed["instructions"].values())


def test_what_callgrind_counts_is_a_whole_trip() -> None:
    """Both ways end in the bytes that the client must get; a wrong one would be cheap."""
    for drive in (driven.unary, driven.stream):
        with rigged() as rig:
            drive(rig, 3)
