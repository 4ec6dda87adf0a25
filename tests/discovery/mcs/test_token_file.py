"""The client's token file, read before every call: a spoilt one is an outage that may end, and never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from discovery.mcs.client import RegistryClient
from discovery.mcs.registry import Unreachable


@pytest.mark.parametrize(
    "content",
    [b"", b"sec\xffret", "secr\u00e9t".encode(), b"sec\nret", b"sec ret", b"sec\0ret"],
    ids=["empty", "no UTF-8", "no ASCII", "two lines", "two words", "NUL"],
)
async def test_a_spoilt_token_is_said_and_not_shown(content: bytes, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_bytes(content)
    async with RegistryClient(["http://127.0.0.1:1"], token_file=str(token)) as client:
        with pytest.raises(Unreachable, match="is not one token") as caught:
            await client.clusters()
        with pytest.raises(Unreachable, match="is not one token"):
            await anext(client.watch())
    assert "ret" not in str(caught.value).removeprefix(str(token))
    assert "\n" not in str(caught.value)
