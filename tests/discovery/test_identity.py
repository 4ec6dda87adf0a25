"""Pool keys and pool ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery.errors import MalformedKey
from discovery.identity import PoolKey, checked_key, pool_id

VECTORS = {
    "ohio/dynamo/mocker-1": "pool-v1-2d83e849329ee9362567e384ac43e4d13db27a2b6a00cb79a8be9024504c56ae",
    "west/dynamo/mocker-1": "pool-v1-8c5bbf54ef0951534272d86c97a923d53c80c4ed31ff87c3f9aa5d7ba7ef8fcb",
    "ab/c/d": "pool-v1-0e5653bda551b58b7ba5b7f551c415f5c79c065ade8069bcf5b96af8ebd6556f",
    "a/bc/d": "pool-v1-17a88d1ecab19a8aa074f94f7c4fbacc7d9881ea3ec840853a64c6d76e8db1bc",
}


@pytest.mark.parametrize(("names", "expected"), VECTORS.items())
def test_pool_ids_are_those_of_the_global_view(names: str, expected: str) -> None:
    assert pool_id(PoolKey(*names.split("/"))) == expected


def test_a_key_reads_and_sorts_as_it_is_written() -> None:
    keys = [PoolKey("b", "a", "a"), PoolKey("a", "b", "a"), PoolKey("a", "a", "b")]
    assert [str(key) for key in sorted(keys)] == ["a/a/b", "a/b/a", "b/a/a"]


@pytest.mark.parametrize("field", ["cluster", "namespace", "name"])
@pytest.mark.parametrize("bad", ["", " a", "a ", "a\n", "a\x7fb", "a\x85b", "a\ud800b"])
def test_a_bad_part_is_refused_by_its_name(field: str, bad: str) -> None:
    parts = {"cluster": "ohio", "namespace": "dynamo", "name": "llama"} | {field: bad}
    with pytest.raises(MalformedKey, match=f"^{field}: ") as caught:
        checked_key(**parts)
    assert caught.value.field == field
    assert str(caught.value).isprintable()


@given(st.text(), st.text(), st.text())
def test_any_names_are_a_key_with_an_id_or_refused(cluster: str, namespace: str, name: str) -> None:
    try:
        key = checked_key(cluster, namespace, name)
    except MalformedKey:
        return
    assert len(pool_id(key)) == len("pool-v1-") + 64


@given(st.tuples(*[st.text("ab", min_size=1, max_size=3)] * 3), st.tuples(*[st.text("ab", min_size=1, max_size=3)] * 3))
def test_two_keys_have_one_id_only_if_they_are_one(a: tuple[str, str, str], b: tuple[str, str, str]) -> None:
    assert (pool_id(PoolKey(*a)) == pool_id(PoolKey(*b))) == (a == b)
