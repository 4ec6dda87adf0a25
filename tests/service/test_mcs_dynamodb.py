"""The registry's store in DynamoDB: conditions, pages, throttling and outages against a table on loopback."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

aiobotocore = pytest.importorskip("aiobotocore", reason="the extra `dynamodb` is not installed")

from discovery.dynamodb import Table, client_of, ensure_removal, ensure_table  # noqa: E402
from discovery.kit.clock import SystemClock  # noqa: E402
from discovery.mcs.store import Clusters, Fenced, Item, Mark, Moved, Outcome, Partition, StoreAway  # noqa: E402
from discovery.mcs.store_dynamodb import DynamoStore  # noqa: E402
from discovery.mcs.store_items import TTL_ATTRIBUTE, item_key, record_key  # noqa: E402
from tests.discovery.mcs.keeping import endpoints, export, gone, item, record  # noqa: E402
from tests.service.dynamodb import ENVIRONMENT, MINISTACK, door, ministack  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not MINISTACK.exists(), reason="ministack is not installed: no DynamoDB on loopback"),
    pytest.mark.slow,
]
_names = (f"registry-{number}" for number in itertools.count())


class Clock(SystemClock):
    """The machine's clock, so many seconds off; the pauses between tries are counted and shortened."""

    def __init__(self, off_s: float = 0) -> None:
        self.off = timedelta(seconds=off_s)
        self.pauses: list[float] = []

    def now(self) -> datetime:
        return datetime.now(UTC) + self.off

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await super().sleep(0)


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ministack(tmp_path_factory.mktemp("ministack")) as url:
        yield url


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
async def fresh(endpoint: str) -> Table:
    made = Table(next(_names), "eu-central-1", endpoint)
    async with client_of(made) as client:
        assert await ensure_table(client, made.name)
        await ensure_removal(client, made.name, TTL_ATTRIBUTE)
    return made


@asynccontextmanager
async def store(of: Table, clock: Clock | None = None, clusterset: str = "set") -> AsyncIterator[DynamoStore]:
    async with client_of(of) as client:
        yield DynamoStore(client, of.name, clusterset, clock or Clock())


async def test_what_one_replica_writes_the_other_reads(fresh: Table) -> None:
    async with store(fresh) as one, store(fresh) as other, store(fresh, clusterset="another") as stranger:
        written = [item(export()), item(endpoints(count=300, hostname="h" * 300), 2), gone(endpoints(slice_="s2"), 3)]
        assert [await one.write(each) for each in written] == [Outcome.WRITTEN] * 3
        await one.save(record(), 0)
        await one.write(item(export("c2")))
        found = await other.partition("c1")
        assert (sorted(found.items, key=lambda each: each.mark), found.unreadable) == (written, frozenset())
        assert await other.clusters() == Clusters((record(),))
        assert await other.cluster("c1") == record()
        assert await other.cluster("c2") is None
        assert (await stranger.clusters(), await stranger.partition("c1")) == (Clusters(()), Partition(()))


async def test_what_a_failed_condition_means(fresh: Table) -> None:
    async with store(fresh) as one:
        first, other = item(export(), 5, 2), item(export(number=81), 5, 2)
        assert await one.write(first) is Outcome.WRITTEN
        assert await one.write(first) is Outcome.REPEATED
        assert await one.write(item(export(number=81), 4, 2)) is Outcome.SUPERSEDED
        with pytest.raises(Fenced, match="another value"):
            await one.write(other)
        with pytest.raises(Fenced, match="incarnation 2"):
            await one.write(item(export(), 9, 1))
        assert await one.write(gone(export(), 6, 2)) is Outcome.WRITTEN
        assert await one.write(first) is Outcome.SUPERSEDED
        assert (await one.partition("c1")).items == (gone(export(), 6, 2),)


async def test_two_writers_at_once_leave_the_newest(fresh: Table) -> None:
    async with store(fresh) as one, store(fresh) as other:
        writes = [(one, other)[seq % 2].write(item(export(number=seq), seq)) for seq in range(1, 41)]
        outcomes = set(await asyncio.gather(*writes))
        assert outcomes <= {Outcome.WRITTEN, Outcome.SUPERSEDED}
        assert (await one.partition("c1")).items == (item(export(number=40), 40),)


async def test_records_are_compared_and_swapped(fresh: Table) -> None:
    async with store(fresh) as one, store(fresh) as other:
        await one.save(record(), 0)
        await one.save(record(), 0)
        second = record(version=2, rev=1)
        await other.save(second, 1)
        with pytest.raises(Moved) as moved:
            await one.save(record(version=2, rev=7), 1)
        assert moved.value.current == second
        with pytest.raises(Moved) as absent:
            await one.save(record("c9", version=4), 3)
        assert absent.value.current is None
        tries = [(one, other)[n % 2].save(record(version=3, rev=n), 2) for n in range(20)]
        lost = [each for each in await asyncio.gather(*tries, return_exceptions=True) if each is not None]
        assert (len(lost), {type(each) for each in lost}) == (19, {Moved})


async def test_a_lost_answer_is_no_fence(fresh: Table) -> None:
    """The write is done, its answer is not heard: the library or the caller tries again and is told it stands."""
    async with door(str(fresh.endpoint)) as way, store(replace(fresh, endpoint=way.url)) as one:
        way.lose = lambda call, body: way.calls.count("PutItem") in (1, 3)
        assert await one.write(item(export())) is Outcome.REPEATED
        await one.save(record(), 0)
        assert way.calls.count("PutItem") == 4
        assert await one.cluster("c1") == record()


async def test_pages_are_read_to_the_last(fresh: Table) -> None:
    async with store(fresh) as one, door(str(fresh.endpoint)) as way:
        wide = [endpoints(slice_=f"s{number:02}", count=160, hostname="h" * 280) for number in range(40)]
        for number, value in enumerate(wide, 1):
            await one.write(item(value, number))
        async with store(replace(fresh, endpoint=way.url)) as other:
            found = await other.partition("c1")
            assert len(found.items) == 40
            assert way.calls.count("Query") > 1
            way.trouble = lambda call, body: "throttle" if b"ExclusiveStartKey" in body else None
            with pytest.raises(StoreAway, match="takes no more"):
                await other.partition("c1")
            way.trouble = lambda call, body: None
            await other.purge("c1", Mark(1, 39))
            assert {each.mark.seq for each in (await one.partition("c1")).items} == {39, 40}


async def test_throttling_is_waited_out_with_jitter_and_then_the_store_is_away(fresh: Table) -> None:
    clock = Clock()
    async with door(str(fresh.endpoint)) as way, store(replace(fresh, endpoint=way.url), clock) as one:
        way.trouble = lambda call, body: "throttle" if len(way.calls) < 6 else None
        assert await one.write(item(export())) is Outcome.WRITTEN
        assert clock.pauses
        assert all(0.025 <= pause <= 1.0 for pause in clock.pauses)
        way.trouble = lambda call, body: "throttle"
        with pytest.raises(StoreAway, match="takes no more"):
            await one.clusters()


async def test_an_outage_and_the_return(fresh: Table) -> None:
    async with door(str(fresh.endpoint)) as way:
        port = int(way.url.rpartition(":")[2])
        context = store(replace(fresh, endpoint=way.url))
        one = await context.__aenter__()
        await one.write(item(export()))
    try:
        for call in (one.clusters(), one.partition("c1"), one.cluster("c1"), one.save(record(), 0)):
            with pytest.raises(StoreAway):
                await call
        with pytest.raises(StoreAway):
            await one.write(item(export(), 2))
        async with door(str(fresh.endpoint), port):
            assert (await one.partition("c1")).items == (item(export()),)
    finally:
        await context.__aexit__(None, None, None)


async def test_what_cannot_be_read_is_named_and_left_alone(fresh: Table) -> None:
    async with client_of(fresh) as client, store(fresh) as one:
        await one.write(item(export()))
        await one.write(item(endpoints(), 2))
        await one.save(record(), 0)
        later = item(endpoints(slice_="later"), 3)
        broken = [
            item_key("set", "c1", later.key) | {"inc": {"N": "1"}, "seq": {"N": "3"}, "value": {"S": '{"v":2}'}},
            {"pk": {"S": "CL#set#c1"}, "sk": {"S": "Q#of#later"}},
            record_key("set", "c2") | {"record": {"S": "?"}, "version": {"N": "4"}},
        ]
        for each in broken:
            await client.put_item(TableName=fresh.name, Item=each)
        found = await one.partition("c1")
        assert (len(found.items), found.unreadable) == (2, frozenset({later.key}))
        assert await one.clusters() == Clusters((record(),), frozenset({"c2"}))
        with pytest.raises(Fenced, match="another value"):
            await one.write(later)
        with pytest.raises(StoreAway, match="cannot be read"):
            await one.save(record("c2"), 0)
        with pytest.raises(StoreAway, match="cannot be read"):
            await one.cluster("c2")
        newer = Item("c1", later.key, Mark(2, 1), later.value)
        assert await one.write(newer) is Outcome.WRITTEN


async def test_old_items_are_read_whatever_their_garbage_date(fresh: Table) -> None:
    async with store(fresh, Clock(-14 * 86_400)) as old, store(fresh) as now:
        await old.write(gone(export(), 5))
        await old.write(item(endpoints(), 6))
        marks = sorted(each.mark for each in (await now.partition("c1")).items)
        assert marks == [Mark(1, 5), Mark(1, 6)]
        assert await now.write(item(export(), 4)) is Outcome.SUPERSEDED


async def test_purging_leaves_what_was_written_again(fresh: Table) -> None:
    async with store(fresh) as one:
        for number in range(1, 31):
            await one.write(item(endpoints(slice_=f"s{number}"), number))
        await one.write(item(endpoints(slice_="s3"), 1, 2))
        await one.purge("c1", Mark(2, 0))
        assert [each.mark for each in (await one.partition("c1")).items] == [Mark(2, 1)]


async def test_clocks_that_disagree_are_told_once(fresh: Table, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock(60)
    async with store(fresh, clock) as one:
        await one.clusters()
        await one.clusters()
        assert 50 < one.skew_s < 70
        clock.off = timedelta(0)
        await one.clusters()
        assert abs(one.skew_s) < 5
    said = [entry.getMessage() for entry in caplog.records if "clock" in entry.getMessage()]
    assert said[:1] == ["our clock and DynamoDB's disagree"]
    assert len(said) <= 2


async def test_no_table_is_a_store_that_is_away(fresh: Table) -> None:
    async with store(replace(fresh, name="nowhere")) as one:
        with pytest.raises(StoreAway, match="there is no table nowhere"):
            await one.clusters()
