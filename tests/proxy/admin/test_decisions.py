"""What is kept of choices: the worker's records, the supervisor's ring, the line that is told."""

from __future__ import annotations

from typing import Any

import pytest

from global_ingress.proxy.admin.decisions import MOST_OF_A_KIND, DecisionRing
from global_ingress.proxy.carrying.explaining import HELD, PER_SECOND, Explained
from global_ingress.proxy.shared.decided import (
    MOST_TOLD,
    MOST_TRIES,
    Candidate,
    Decision,
    Decisions,
    Try,
    decode_decisions,
    encode_decisions,
    told,
)
from tests.proxy.wirekit import Rig, rigged

REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer sesame\r\n"


def record(request_id: str, why: str = "failed", model: str = "m") -> Decision:
    return Decision(
        1.0, request_id, model, why, 502, "upstream_error", "upstream_reset", False, 3.0, 1,
        (Candidate("a/n/p", "r", "chosen"), Candidate("b/n/p", "r", "full")), 0,
        (Try("a/n/p", "r", "http://f", 0.0, 2.0, "reset"),),
    )  # fmt: skip


def test_a_record_is_found_with_reasons_in_words() -> None:
    ring = DecisionRing()
    ring.add(decode_decisions(encode_decisions(Decisions([record("x")], 2))), {"m": [("c/n/p", "drained by weight 0")]})
    found = ring.find("x")
    assert found is not None
    assert found["candidates"][1]["why"] == "has as many requests as it may have"
    assert found["left_out"] == [{"pool": "c/n/p", "why": "drained by weight 0"}]
    assert found["tries"][0]["ended"] == "reset"
    assert (ring.find("y"), ring.dropped) == (None, 2)


def test_the_ring_keeps_the_newest() -> None:
    ring = DecisionRing(3)
    ring.add(Decisions([record(str(n)) for n in range(5)]), {})
    assert len(ring) == 3
    assert [ring.find(str(n)) is not None for n in range(5)] == [False, False, True, True, True]


def test_an_id_that_comes_again_replaces() -> None:
    ring = DecisionRing()
    ring.add(Decisions([record("x"), record("x", model="n")]), {})
    found = ring.find("x")
    assert (len(ring), found and found["model"]) == (1, "n")


def test_a_flood_of_one_reason_hides_no_other() -> None:
    ring = DecisionRing()
    ring.add(Decisions([record("s", "sampled"), record("f"), *(record(f"r{n}", "refused") for n in range(50))]), {})
    shown = [one["request_id"] for one in ring.newest(20)]
    assert shown[0] == "f"
    assert shown[-1] == "s"
    assert len(shown) == 2 + MOST_OF_A_KIND


def test_the_line_holds_no_address_and_is_bounded() -> None:
    tries = [Try(f"c{n}/n/p", "r", "http://10.0.0.1", 0.0, 1.0, "reset") for n in range(MOST_TRIES)]
    assert told([*tries[:1], Try("b/n/p", "r", "http://x", 1.0, 4.0, "answered", 200)], 2) == (
        "of=2; c0/n/p reset 1ms; b/n/p 200 3ms"
    )
    assert "10.0.0.1" not in told(tries, 3)
    assert len(told(tries * 9, 3)) == MOST_TOLD


def test_a_worker_makes_only_so_many_in_a_second() -> None:
    explained = Explained()
    assert sum(explained.room() for _ in range(PER_SECOND + 7)) == PER_SECOND
    assert explained.take().dropped == 7
    explained.second()
    explained.records = [record("x")] * HELD
    assert not explained.room()


def ask(rig: Rig, body: bytes, *lines: bytes) -> Any:
    client, wire = rig.client()
    head = REQUEST + b"".join(line + b"\r\n" for line in lines) + b"Content-Length: %d\r\n\r\n" % len(body)
    rig.feed(client, wire, head + body)
    return client


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
BODY = b'{"model":"m","messages":["secret prompt"]}'


def test_of_plain_requests_one_is_sampled_until_the_second_is_over() -> None:
    with rigged() as rig:
        for _ in range(3):
            connection = rig.stock()
            ask(rig, BODY)
            connection.data_received(OK)
        (only,) = rig.plane.explained.take().records
        assert (only.why, only.status, [one.ended for one in only.tries]) == ("sampled", 200, ["answered"])
        assert [one.standing for one in only.candidates] == ["chosen"]


@pytest.mark.parametrize(("body", "why"), [(b'{"model":"gone"}', None), (BODY, "retried")])
def test_what_was_not_plain_is_kept_whole(body: bytes, why: str | None) -> None:
    from tests.proxy.wirekit import routes

    with rigged(routes(2)) as rig:
        rig.plane.explained.sampling = False
        first, second = rig.stock(0), rig.stock(1)
        ask(rig, body)
        busy = next((one for one in (first, second) if one not in rig.plane.frontends["http://f0:80"].idle
                     and one not in rig.plane.frontends["http://f1:80"].idle), None)  # fmt: skip
        if why is None:
            assert busy is None
            assert rig.plane.explained.take().records == []
            return
        assert busy is not None
        other = second if busy is first else first
        busy.data_received(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
        rig.loop.settle()
        other.data_received(OK)
        (kept,) = rig.plane.explained.take().records
        assert (kept.why, kept.outcome, len(kept.tries)) == (why, "ok", 2)
        assert [(one.ended, one.status) for one in kept.tries] == [("status", 503), ("answered", 200)]
        assert sorted(one.standing for one in kept.candidates) == ["chosen", "other_turn"]
        for forbidden in (b"secret", b"sesame"):
            assert forbidden not in encode_decisions(Decisions([kept]))
