"""Tokens of the registry: who may write what, and files that give no rights at all."""

from __future__ import annotations

import hashlib

import pytest

from discovery.mcs.registry import Reason, Refused
from discovery.mcs.tokens import require
from discovery.tokens import BadTokens, parse_tokens

OHIO, ADMIN = (f"sha256:{hashlib.sha256(one.encode()).hexdigest()}" for one in ("ohio-token", "admin-token"))
TOKENS = parse_tokens(f"'{OHIO}': [ohio]\n'{ADMIN}': ['*']\n".encode())


@pytest.mark.parametrize("cluster", [None, "ohio", "oregon"])
def test_an_admin_writes_everything(cluster: str | None) -> None:
    require(TOKENS, "Bearer admin-token", cluster)


def test_a_token_writes_its_own_and_reads_all() -> None:
    require(TOKENS, "bearer ohio-token", None)
    require(TOKENS, "Bearer ohio-token", "ohio")
    with pytest.raises(Refused) as caught:
        require(TOKENS, "Bearer ohio-token", "oregon")
    assert caught.value.reason is Reason.FORBIDDEN


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Basic ohio-token", "Bearer other", OHIO])
def test_nobody_else_reads_or_writes(header: str | None) -> None:
    for cluster in (None, "ohio"):
        with pytest.raises(Refused) as caught:
            require(TOKENS, header, cluster)
        assert caught.value.reason is Reason.UNAUTHENTICATED


@pytest.mark.parametrize("text", ["", "[]", "{", "secret: [a]", f"'{OHIO}': []", f"'{OHIO}': ohio", f"'{OHIO}': [1]"])
def test_a_file_that_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(BadTokens) as caught:
        parse_tokens(text.encode())
    assert "secret" not in str(caught.value)
