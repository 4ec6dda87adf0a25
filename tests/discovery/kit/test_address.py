"""Addresses to listen on."""

from __future__ import annotations

import pytest

from discovery.kit.address import host_and_port


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        ("[::1]:0", ("::1", 0)),
        ("localhost:65535", ("localhost", 65535)),
    ],
)
def test_a_host_and_a_port(text: str, found: tuple[str, int]) -> None:
    assert host_and_port(text) == found


NONE = "|8080|:8080|host:|host:65536|host:-1|host:٣|host:000080|::1:80|[::1:1|::1]:1|[]:1"


@pytest.mark.parametrize("text", NONE.split("|"))
def test_what_is_none_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not HOST:PORT, as 0\.0\.0\.0:8080 or") as told:
        host_and_port(text)
    assert repr(text) in str(told.value)
