"""What frontends answer, read strictly; unknown, empty and failed are three things."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_ingress.proxy.supervising import said
from global_ingress.proxy.supervising.said import NotAList, PoolSaid


def test_models_keep_their_fields() -> None:
    entry = {"id": "m", "object": "model", "max_model_len": 4096, "permission": [{"id": "p"}]}
    assert said.read_models(200, orjson.dumps({"data": [entry, {"id": ""}, {"id": 3}, "x", {}]})) == (entry,)
    assert said.read_models(200, b'{"data": []}') == ()


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (503, b"", "answered with 503"),
        (200, b"<html>", "no JSON"),
        (200, b"[]", "without a list"),
        (200, b'{"data": {}}', "without a list"),
    ],
)
def test_what_is_no_list_is_refused_in_words(status: int, body: bytes, words: str) -> None:
    with pytest.raises(NotAList, match=words):
        said.read_models(status, body)


@given(st.binary(max_size=200))
def test_any_answer_is_a_list_or_refused(body: bytes) -> None:
    try:
        models = said.read_models(200, body)
    except NotAList:
        return
    assert all(isinstance(entry["id"], str) for entry in models)


@pytest.mark.parametrize("id", ["", " ", " a", "a ", "a\n", "a\tb", "\x00", "a\x7f", "a\u0085b", "\u2028"])
def test_what_cannot_be_an_id_is_passed_over(id: str) -> None:
    assert said.read_models(200, orjson.dumps({"data": [{"id": id}, {"id": "a/b:c d"}]})) == ({"id": "a/b:c d"},)


def test_a_failed_question_changes_nothing_that_was_known() -> None:
    known = said.heard([{"id": "m"}], 3.0)
    lost = said.unheard(known, "refused")
    assert (lost.models, lost.reason, lost.at) == (({"id": "m"},), "refused", 3.0)
    assert said.heard([], 4.0) == PoolSaid((), "", 4.0)
    assert said.unheard(PoolSaid(), "refused").models is None


def test_one_lost_probe_is_no_evidence_and_one_answer_clears_it() -> None:
    once = said.failed(None, "timeout", 1)
    assert not once.failing
    twice = said.failed(once, "timeout", 2)
    assert twice.failing
    assert not said.alive(3).failing


def test_ready_paths_and_answers() -> None:
    assert said.ready_path("org/model 1?") == "/v1/models/org/model%201%3F/ready"
    assert [said.judge_ready(status) for status in (200, 503, 500, 404, 405)] == [True, False, False, None, None]
