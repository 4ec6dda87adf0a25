"""Items and the digest that their cluster's record names: what comes apart is put together again."""

from __future__ import annotations

from dataclasses import replace

from discovery.kit.testing import VirtualClock
from discovery.mcs.digest import digest
from discovery.mcs.registry import Reason
from discovery.mcs.store import Item, Outcome, StoreAway
from discovery.mcs.store_memory import MemoryStore
from tests.discovery.mcs.failing import refused, running
from tests.discovery.mcs.making import HELLO, Member, endpoints, export, pass_time, service


async def test_a_write_that_the_store_took_and_never_answered_is_counted_with_the_next() -> None:
    clock, store = VirtualClock(), _Deaf()
    async with running(service(clock, store)) as registry:
        member = Member(registry, "c1")
        await member.join(export(), endpoints(), endpoints("c1", HELLO, "s2"))
        store.deaf = True
        await refused(Reason.STORE_AWAY, registry.delete_endpoints(member.stamp(), HELLO, "s1"))
        await member.put(endpoints("c1", HELLO, "s2", "10.0.0.9"))
        record = await store.cluster("c1")
        assert record is not None
        known = registry.board.knowledge.clusters["c1"]
        partition = await store.partition("c1")
        left = [item.value for item in partition.items if item.value is not None and item.mark >= record.floor]
        assert record.digest == digest(left) == known.digest(record.floor)
        assert len(left) == 2


async def test_a_cluster_whose_items_do_not_add_up_is_asked_for_all_of_them() -> None:
    clock, store = VirtualClock(), MemoryStore(durable=True)
    async with running(service(clock, store)) as registry:
        member = Member(registry, "c1")
        await member.join(export(), endpoints())
        record = await store.cluster("c1")
        assert record is not None
        # As another replica leaves it that dies between two writes.
        await store.save(
            replace(record, rev=record.rev + 1, digest="f" * 32, version=record.version + 1), record.version
        )
        await pass_time(clock, 30, member)
        await clock.advance(5)
        await refused(Reason.NOT_FOUND, member.renew())
        await member.join(export(), endpoints())
        await pass_time(clock, 20, member)
        assert registry.complete


class _Deaf(MemoryStore):
    """Takes one write and says nothing."""

    deaf = False

    async def write(self, item: Item) -> Outcome:
        done = await super().write(item)
        if self.deaf:
            self.deaf = False
            raise StoreAway("no answer")
        return done


async def test_slices_go_with_their_export_and_do_not_come_back_with_the_next() -> None:
    async with running(service(VirtualClock())) as registry:
        member = Member(registry, "c1")
        await member.join(export(), endpoints(), endpoints("c1", HELLO, "s2"))
        await registry.delete_export(member.stamp(), HELLO)
        assert registry.board.views == {}
        await member.put(export(), endpoints())
        assert list(registry.board.views[HELLO].endpoints) == [("c1", "s1")]
