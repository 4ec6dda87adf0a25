"""The tokens file and the look-up."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery.kit.testing import VirtualClock
from discovery.tokens import BadTokens, bearer, parse_tokens
from discovery.tokens_file import TokensFile


def digest(token: str) -> str:
    return f"sha256:{hashlib.sha256(token.encode()).hexdigest()}"


def test_each_token_writes_its_clusters() -> None:
    tokens = parse_tokens(f'"{digest("one")}": [eu, us]\n{digest("all")}: ["*"]\n'.encode())
    one, everything = tokens.find("one"), tokens.find("all")
    assert one is not None
    assert everything is not None
    assert [one.allows(cluster) for cluster in ("eu", "us", "ap", "*")] == [True, True, False, False]
    assert everything.allows("ap")
    assert tokens.find("two") is None
    assert tokens.find(digest("one")) is None


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("", "holds no object"),
        ("- a", "is not one mapping"),
        ("a: [x]\n---\nb: [y]", "is not one mapping"),
        ("secret-token: [eu]", "a key is not sha256:"),
        (f"{digest('a').upper()}: [eu]", "a key is not sha256:"),
        (f"{digest('a')}: eu", "is not a list of clusters"),
        (f"{digest('a')}: []", "is not a list of clusters"),
        (f"{digest('a')}: [eu, 7]", "is not a list of clusters"),
        (f"{digest('a')}: [eu]\n{digest('a')}: [us]", "twice"),
        ("{", "is not YAML"),
    ],
)
def test_bad_files(data: str, said: str) -> None:
    with pytest.raises(BadTokens, match=said) as caught:
        parse_tokens(data.encode())
    assert "secret" not in str(caught.value)


def test_all_faults_at_once() -> None:
    with pytest.raises(BadTokens) as caught:
        parse_tokens(f"x: [eu]\n{digest('a')}: 1".encode())
    assert str(caught.value).count(";") == 1


@given(st.binary())
def test_any_bytes_are_tokens_or_refused(data: bytes) -> None:
    try:
        found = parse_tokens(data)
    except BadTokens:
        return
    assert found.grants


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer   a.b-c_~+/= ", "a.b-c_~+/="),
        (None, None),
        ("", None),
        ("Bearer", None),
        ("Bearer ", None),
        ("Basic abc", None),
        ("Bearer a b", None),
        ("Bearer \xe4", None),
    ],
)
def test_bearer(header: str | None, token: str | None) -> None:
    assert bearer(header) == token


async def test_a_broken_file_keeps_the_last_good_tokens(tmp_path: Path) -> None:
    path = tmp_path / "tokens.yaml"
    file = TokensFile(path, VirtualClock())
    with pytest.raises(BadTokens, match="cannot be read"):
        await file.load()
    path.write_text(f"{digest('a')}: [eu]")
    await file.load()
    for broken in ("{", None, "x" * 5_000_000):
        path.unlink(missing_ok=True)
        if broken is not None:
            path.write_text(broken)
        await file.look()
        assert file.fault is not None
        assert file.tokens.find("a") is not None
    path.write_text(f"{digest('a')}: [eu]")
    await file.look()
    assert file.fault is None
    path.write_text(f"{digest('b')}: [eu]")
    await file.look()
    assert (file.tokens.find("a"), file.tokens.find("b") is None) == (None, False)
