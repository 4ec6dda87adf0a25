"""Names and ports of the simulated regions."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_ingress.demo.regions import MOST, BadLayout, layout, taken_words
from global_ingress.demo.run import ports_in_use


@given(st.integers(1, MOST), st.integers(1024, 65000))
def test_a_layout_has_all_its_ports(count: int, port: int) -> None:
    places = layout(count, port)
    ports = [number for place in places for number, _ in place.ports()]
    assert len(places) == count
    assert len(set(ports)) == 5 * count
    assert all(1024 <= number <= 65535 for number in ports)
    assert len({place.mark for place in places}) == len({place.cluster for place in places}) == count


@given(st.one_of(st.integers(max_value=1023), st.integers(min_value=65233)))
def test_a_layout_without_room_is_refused(port: int) -> None:
    with pytest.raises(BadLayout, match="1024 to 65232 leaves room"):
        layout(4, port)


def test_the_ports_are_where_they_are_said_to_be() -> None:
    place = layout(2)[1]
    assert [number for number, _ in place.ports()] == [18001, 18101, 18201, 18251, 18301]
    assert (place.cluster, place.region, place.pool) == ("oregon", "us-west-2", "oregon/dynamo/llama")
    assert MOST >= 4


@given(st.sets(st.integers(18000, 18310)))
def test_every_taken_port_of_ours_is_named_and_no_other(taken: set[int]) -> None:
    words = taken_words(layout(4), taken) or ""
    for place in layout(4):
        for number, what in place.ports():
            assert (f"{number} ({what})" in words) == (number in taken)
    assert bool(words) == any(str(number) in words for number in taken)


def test_a_taken_port_is_found(free_base: int) -> None:
    places = layout(2, free_base)
    assert ports_in_use(places) is None
    with socket.create_server(("127.0.0.1", free_base + 201)):
        assert ports_in_use(places) == f"port in use: {free_base + 201} (frontend of oregon); --port P moves them all"


@pytest.mark.parametrize("count", [0, 9])
def test_too_few_and_too_many_say_what_is_allowed(count: int) -> None:
    with pytest.raises(BadLayout, match=f"{count} regions; 1 to 8"):
        layout(count)
