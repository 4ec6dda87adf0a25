"""The conditions of writes and the digest: what every store and both sides of a sync rely on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery.mcs.digest import combined, digest, item_hash
from discovery.mcs.store import Fenced, Item, ItemKey, Mark, Outcome, Value, outcome
from discovery.mcs.store_memory import MemoryStore
from tests.discovery.mcs.making import HELLO, endpoints, export

VALUES = (None, export(), export(age=2))
ITEMS = st.builds(
    lambda incarnation, seq: Item("c1", ItemKey(HELLO), Mark(incarnation, seq), VALUES[(incarnation + seq) % 3]),
    st.integers(1, 3),
    st.integers(1, 4),
)


@given(st.lists(ITEMS, min_size=1, max_size=12))
async def test_whatever_the_order_and_the_repeats_the_newest_write_stands(items: list[Item]) -> None:
    store = MemoryStore()
    for item in items:
        try:
            await store.write(item)
        except Fenced:
            continue
    (kept,) = (await store.partition("c1")).items
    assert kept == max(items, key=lambda item: item.mark)


def test_a_deletion_stays_for_older_writes() -> None:
    gone = Item("c1", ItemKey(HELLO), Mark(1, 5), None)
    assert outcome(gone, replace(gone, mark=Mark(1, 4), value=export())) is Outcome.SUPERSEDED
    assert outcome(gone, gone) is Outcome.REPEATED
    assert outcome(gone, replace(gone, mark=Mark(1, 6), value=export())) is Outcome.WRITTEN
    with pytest.raises(Fenced):
        outcome(gone, replace(gone, mark=Mark(0, 9), value=export()))
    with pytest.raises(Fenced):
        outcome(gone, replace(gone, value=export()))


@given(st.permutations([export(), export(age=3), endpoints(), endpoints("c1", HELLO, "s2")]))
def test_the_digest_knows_no_order_and_no_marks(values: list[Value]) -> None:
    assert digest(values) == digest([export(), export(age=3), endpoints(), endpoints("c1", HELLO, "s2")])


def test_the_digest_tells_content_apart() -> None:
    values: list[Value] = [
        export(),
        export(age=2),
        export("c2"),
        replace(export(), labels=(("a", "b"),)),
        endpoints(),
        replace(endpoints(), endpoints=(replace(endpoints().endpoints[0], ready=False),)),
        replace(endpoints(), endpoints=(replace(endpoints().endpoints[0], ready=True),)),
    ]
    assert len({item_hash(value) for value in values}) == len(values)
    assert digest(values[:2]) != digest(values[:1])
    assert item_hash(replace(endpoints(), stale_since_ms=5)) == item_hash(endpoints())
    assert digest([]) == combined([]) == "0" * 32
