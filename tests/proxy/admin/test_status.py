"""What the ingress says of its pools and models (I73, B84)."""

from __future__ import annotations

import json
from collections.abc import Mapping

import orjson
import pytest

from discovery.pool import Pool
from global_ingress.proxy.admin import status
from global_ingress.proxy.supervising.routable import Evidence, PoolWhy, judge
from global_ingress.proxy.supervising.routing import Picture
from global_ingress.proxy.supervising.said import PoolSaid, Probed
from tests.proxy.making import frontend, model, pool, table

A, B = pool("a", frontend(1), frontend(2)), pool("b", frontend(3))


def moment(ejected: Mapping[str, float], failing: Mapping[str, str], *models: object) -> status.Moment:
    evidence = Evidence({}, failing, frozenset(ejected))
    given = [model("m"), *models]
    pairs = tuple((one, judge(one, [A, B], evidence)) for one in given)
    return status.Moment(
        picture=Picture(True, (A, B), pairs, {"m": 12.34}),
        table=table(A, B),
        evidence=evidence,
        said={A.key: PoolSaid(({"id": "z"}, {"id": "m"}), "", 1.0), B.key: PoolSaid(None, "refused")},
        probed={frontend(1).url: Probed(2, "no answer", 3.0)},
        ejected=ejected,
        in_flight=lambda url: {frontend(1).url: 2, frontend(3).url: 1}.get(url, 0),
        now="NOW",
        date=lambda second: f"@{second:g}",
    )


def test_pools_are_the_directorys_objects_and_what_we_make_of_them() -> None:
    shown = status.pools_document(moment({frontend(3).url: 9.0}, {frontend(1).url: "no answer"}))
    assert {key: shown[key] for key in ("complete", "epoch", "revision", "observed_at")} == {
        "complete": True,
        "epoch": "e",
        "revision": 1,
        "observed_at": "NOW",
    }
    a, b = shown["pools"]
    assert (a["id"], a["cluster"], a["region"], a["sources"]) == (A.id, "a", "region-a", ["mcs"])
    assert (a["routable"], a["state"], a["in_flight"], a["ejected_until"]) == (True, "routable", 2, None)
    assert (a["lists"], a["lists_error"], b["lists"], b["lists_error"]) == (["m", "z"], None, None, "refused")
    assert (b["routable"], b["state"], b["why"]) == (False, "all_ejected", "with all frontends ejected")
    assert b["ejected_until"] == "@9"
    assert [(one["url"], one["state"], one["in_flight"], one["ejected_until"]) for one in a["frontends"]] == [
        (frontend(1).url, "probe_failing", 2, None),
        (frontend(2).url, "usable", 0, None),
    ]
    assert a["frontends"][0]["probe"] == {"failures": 2, "reason": "no answer", "asked_at": "@3"}
    assert b["frontends"][0]["ejected_until"] == "@9"
    orjson.dumps(shown)


def test_models_name_their_pools_and_reasons() -> None:
    shown = status.model_objects(moment({}, {}, model("n", pools=[{"cluster": "x"}], aliases=["y"])))
    m, n = shown
    assert (m["routable"], m["why"], m["held_for_s"], len(m["pools"])) == (True, None, 12.3, 2)
    assert (n["routable"], n["why"], n["aliases"], n["pools"]) == (
        False,
        "2 pools not selected by the model's `pools`",
        ["y"],
        [],
    )
    json.dumps(shown)


@pytest.mark.parametrize(
    ("whys", "expected"),
    [
        ([], PoolWhy.NOT_SELECTED),
        ([PoolWhy.NOT_SELECTED, PoolWhy.DRAINED], PoolWhy.DRAINED),
        ([PoolWhy.MODEL_NOT_LISTED, PoolWhy.ALL_EJECTED], PoolWhy.ALL_EJECTED),
        ([PoolWhy.NONE_READY, PoolWhy.ROUTABLE], PoolWhy.ROUTABLE),
        *[([why], why) for why in PoolWhy],
    ],
)
def test_of_several_reasons_the_one_nearest_to_routable_is_shown(whys: list[PoolWhy], expected: PoolWhy) -> None:
    assert status.overall(whys) is expected


def test_frontends_are_counted_by_state() -> None:
    found = status.frontend_states(moment({frontend(3).url: 9.0}, {frontend(1).url: "no answer"}))
    assert found == {"probe_failing": 1, "usable": 1, "ejected": 1}


def test_a_pool_of_no_model_is_shown_too() -> None:
    lonely: Pool = pool("c", frontend(4))
    assert status.pool_object(moment({}, {}), lonely)["state"] == "not_selected"
