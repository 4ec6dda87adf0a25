"""GET /v1/models (B88, B97, B98)."""

from __future__ import annotations

from typing import Any

import orjson

from discovery.identity import PoolKey
from global_ingress.proxy.supervising.listing import describe, make_listing
from tests.proxy.making import frontend, pool

A, B = pool("a", frontend(1)).key, pool("b", frontend(2)).key
SAID: dict[PoolKey, list[dict[str, Any]]] = {
    A: [{"id": "x", "object": "model", "created": 5, "owned_by": "nvidia", "max_model_len": 1}, {"id": "z"}],
    B: [{"id": "x", "owned_by": "other", "context_window": 2}, {"id": "y"}],
}


def test_fields_of_the_first_pool_stand_and_those_of_others_are_added() -> None:
    assert describe("x", [A, B], SAID) == {
        "id": "x",
        "object": "model",
        "created": 5,
        "owned_by": "nvidia",
        "max_model_len": 1,
        "context_window": 2,
    }
    assert describe("x", [B], SAID)["owned_by"] == "other"


def test_an_undescribed_model_has_what_clients_need() -> None:
    assert describe("new", [A], SAID) == {"id": "new", "object": "model", "created": 0, "owned_by": "global-ingress"}


def test_the_list_holds_routable_models_sorted_and_each_for_itself() -> None:
    document, each = make_listing([("z", [A]), ("x", [A, B]), ("gone", [])], SAID)
    listed = orjson.loads(document)
    assert listed["object"] == "list"
    assert [entry["id"] for entry in listed["data"]] == ["x", "z"]
    assert {id: orjson.loads(entry) for id, entry in each.items()} == {e["id"]: e for e in listed["data"]}


def test_nothing_routable_is_an_empty_list() -> None:
    assert make_listing([("x", [])], SAID) == (b'{"object":"list","data":[]}', {})
