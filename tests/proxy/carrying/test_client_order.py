"""What one connection sends is answered in its order, and only while it takes the answers."""

from __future__ import annotations

import pytest

from global_ingress.proxy.carrying.server import PIPELINED
from global_ingress.proxy.carrying.wheel import NEVER
from tests.proxy.carrying.test_server_bytes import ANSWER, replies
from tests.proxy.smuggling import NEXT
from tests.proxy.wirekit import rigged

MODELS = b"GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.mark.parametrize("at", range(1, len(MODELS)))
def test_the_rest_of_a_request_never_overtakes_its_beginning(at: int) -> None:
    with rigged() as rig:
        upstream = rig.stock()
        client, wire = rig.client()
        rig.feed(client, wire, NEXT + MODELS[:at])
        upstream.data_received(ANSWER)
        client.data_received(MODELS[at:] + NEXT)  # before the loop goes on with what was ahead
        rig.loop.settle()
        rig.feed(upstream, upstream.transport, ANSWER)
        first, second, third = replies(bytes(wire.written), 3)
        assert [first.status, second.status, third.status] == [200, 200, 200]
        assert b'"object":"list"' in second.body
        assert not wire.closed


def test_nothing_new_begins_while_answers_are_not_taken() -> None:
    with rigged() as rig:
        client, wire = rig.client()
        rig.feed(client, wire, MODELS)
        client.pause_writing()
        before = len(wire.written)
        for _ in range(2_000):
            rig.feed(client, wire, MODELS)
        assert len(wire.written) == before
        reading = [wire.reading]
        client.resume_writing()
        rig.loop.settle()
        reading.append(wire.reading)
        assert reading == [False, True]
        assert len(replies(bytes(wire.written), 3_000, "GET")) == 2_001


def test_what_is_read_ahead_has_a_bound() -> None:
    with rigged() as rig:
        rig.stock()
        client, wire = rig.client()
        rig.feed(client, wire, NEXT)
        reading = []
        for more in (b"x" * PIPELINED, b"x"):
            rig.feed(client, wire, more)
            reading.append(wire.reading)
        assert reading == [True, False]


@pytest.mark.parametrize("blank", [b"\r\n", b"\r\n\r\n", b"\n"])
def test_blank_lines_win_no_time(blank: bytes) -> None:
    with rigged() as rig:
        client, wire = rig.client()
        deadline = client.deadline
        rig.now += 1.0
        rig.feed(client, wire, blank)
        assert client.deadline == deadline


def test_blank_lines_after_a_request_leave_the_connection_its_end() -> None:
    with rigged() as rig:
        upstream = rig.stock()
        client, wire = rig.client()
        rig.feed(client, wire, NEXT + b"\r\n")
        rig.feed(upstream, upstream.transport, ANSWER)
        assert client.deadline < NEVER
        rig.feed(client, wire, MODELS)
        assert len(replies(bytes(wire.written), 2)) == 2
