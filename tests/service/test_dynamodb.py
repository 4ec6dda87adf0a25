"""Registrations in DynamoDB: the store against a table on loopback, and replicas of the real command sharing it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

aiobotocore = pytest.importorskip("aiobotocore", reason="the extra `dynamodb` is not installed")

from discovery.directory.items import encode_item, key_of  # noqa: E402
from discovery.directory.registered import Policy, RegisteredSource  # noqa: E402
from discovery.directory.registration_store import CannotKeep, StoreUnavailable, TooLarge  # noqa: E402
from discovery.directory.registrations import Registration, Superseded  # noqa: E402
from discovery.directory.store_dynamodb import DynamoStore, create_table  # noqa: E402
from discovery.dynamodb import Table, client_of  # noqa: E402
from discovery.identity import PoolKey  # noqa: E402
from discovery.kit.clock import SystemClock  # noqa: E402
from discovery.kit.tasks import background  # noqa: E402
from discovery.pool import Frontend, Relay  # noqa: E402
from tests.service.dynamodb import ENVIRONMENT, MINISTACK, Door, door, ministack  # noqa: E402
from tests.service.registering import SHORT, names, registry, said, table, until  # noqa: E402
from tests.service.running import finished  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not MINISTACK.exists(), reason="ministack is not installed: no DynamoDB on loopback"),
    pytest.mark.slow,
]
_names = (f"pools-{number}" for number in itertools.count())
LEASE = 15_000


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
    await create_table(made)
    return made


class SkewedClock(SystemClock):
    """The machine's clock, so many seconds off."""

    def __init__(self, seconds: float = 0) -> None:
        self.off = timedelta(seconds=seconds)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.off


@asynccontextmanager
async def store(of: Table, skew: float = 0) -> AsyncIterator[DynamoStore]:
    async with client_of(of) as client:
        yield DynamoStore(client, of.name, SkewedClock(skew))


def registration(name: str = "p", **more: Any) -> Registration:
    return Registration(PoolKey("c", "n", name), "r", Relay("i", "http://h"), **more)


# ---- the store


async def test_what_is_put_is_listed_until_it_is_deleted(fresh: Table) -> None:
    async with store(fresh) as one, store(fresh) as other:
        full = registration(frontends=(Frontend("http://10.0.0.1:1"),), incarnation=3)
        held = await one.put(full, LEASE)
        assert (await other.list()).held == {full.key: held}
        assert await other.delete(full.key, 3)
        assert not await one.delete(full.key, None)
        assert (await one.list()).held == {}


async def test_renewals_never_shorten_whatever_the_clocks_say(fresh: Table) -> None:
    async with store(fresh, skew=60) as ahead, store(fresh) as behind:
        first = await ahead.put(registration(), LEASE)
        moved = replace(registration(), region="moved")
        second = await behind.put(moved, LEASE)
        assert second.lease == first.lease
        assert second.registration.region == "moved"
        assert (await behind.list()).held == {moved.key: second}
        shorter = await ahead.put(registration(), 1_000)
        assert shorter.lease == first.lease
        longer = await behind.put(registration(), 90_000)
        assert longer.lease.expires_ms > first.lease.expires_ms


async def test_a_newer_incarnation_wins_also_over_a_longer_lease(fresh: Table) -> None:
    async with store(fresh) as one:
        await one.put(registration(incarnation=1), 60_000)
        newer = await one.put(registration(incarnation=2), LEASE)
        assert newer.lease.duration_ms == LEASE
        with pytest.raises(Superseded):
            await one.put(registration(incarnation=1), 60_000)
        with pytest.raises(Superseded):
            await one.delete(registration().key, 1)
        assert (await one.list()).held == {newer.registration.key: newer}
        async with store(fresh, skew=120) as later:
            older = await later.put(registration(incarnation=1), LEASE)
            assert older.registration.incarnation == 1


async def test_many_writers_at_once_lose_nothing(fresh: Table) -> None:
    async with store(fresh) as one, store(fresh, skew=5) as other:
        writes = [
            (one if number % 2 else other).put(registration(incarnation=number % 4), LEASE) for number in range(40)
        ]
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        unexpected = [
            found for found in outcomes if isinstance(found, BaseException) and not isinstance(found, Superseded)
        ]
        assert not [found for found in unexpected if getattr(found, "kind", "") != "contended"]
        (held,) = (await one.list()).held.values()
        assert held.registration.incarnation == 3


async def test_lists_of_several_pages_are_whole(fresh: Table) -> None:
    wide = tuple(Frontend(f"http://10.0.0.{number}:1", zone="z" * 250) for number in range(250))
    async with store(fresh) as one:
        for number in range(20):
            await one.put(registration(f"p{number:02}", frontends=wide), LEASE)
    async with door(str(fresh.endpoint)) as way, store(replace(fresh, endpoint=way.url)) as one:
        listed = (await one.list()).held
        assert len(listed) == 20
        assert all(held.registration.frontends == wide for held in listed.values())
        assert way.calls.count("Query") >= 2
        # A list that breaks off half-way is no list.
        way.trouble = lambda call, body: "throttle" if b"ExclusiveStartKey" in body else None
        with pytest.raises(StoreUnavailable) as caught:
            await one.list()
        assert caught.value.kind == "throttled"


async def test_what_has_no_room_is_refused(fresh: Table) -> None:
    wide = tuple(Frontend(f"http://10.0.0.{number}:1", zone="z" * 253) for number in range(1_200))
    async with store(fresh) as one:
        with pytest.raises(TooLarge):
            await one.put(registration(frontends=wide), LEASE)
        most = tuple(Frontend(f"http://10.0.0.{number}:1", zone="z" * 200) for number in range(1_000))
        item_bytes = await one.put(registration(frontends=most), LEASE)
        assert len(item_bytes.registration.frontends) == 1_000


async def test_items_of_a_week_ago_are_there_and_not_listed(fresh: Table) -> None:
    async with store(fresh, skew=-8 * 86_400) as past, store(fresh) as now:
        await past.put(registration("old"), LEASE)
        held = await now.put(registration("new"), LEASE)
        everything = (await now.list()).held
        assert len(everything) == 2
        source = RegisteredSource(now, Policy(5, 15), SystemClock(), lambda: None, lambda operation, kind: None)

        def fail(error: Exception) -> None:
            raise error

        async with background(source.run(), name="registrations", on_failure=fail), asyncio.timeout(20):
            while not source.listed:  # noqa: ASYNC110 - it tells of changes, and here is none
                await asyncio.sleep(0.01)
            assert list(source.live()) == [held.registration.key]
            assert not await source.unregister(registration("old").key, None)
        # Nobody holds it: another may register, of whatever incarnation.
        assert (await now.put(registration("old"), LEASE)).lease.is_live(now.now_ms())


async def test_readers_disagree_by_their_clocks_difference_and_no_more(fresh: Table) -> None:
    async with store(fresh, skew=10) as ahead, store(fresh) as right:
        held = await right.put(registration(), LEASE)
        for reader in (ahead, right):
            assert (await reader.list()).held == {held.registration.key: held}
        moment = right.now_ms()
        assert held.lease.is_live(moment + 10_000 - 1_000)
        assert held.lease.is_live(ahead.now_ms())
        assert abs(ahead.now_ms() - right.now_ms() - 10_000) < 1_000


async def test_items_that_nobody_can_read(fresh: Table) -> None:
    async with client_of(fresh) as client:
        one = DynamoStore(client, fresh.name, SkewedClock())
        held = await one.put(registration("good"), LEASE)
        for bad in ("bad", "worse"):
            broken = encode_item(replace(held, registration=registration(bad))) | {"registration": {"S": "{"}}
            await client.put_item(TableName=fresh.name, Item=broken)
        await client.put_item(TableName=fresh.name, Item=key_of(PoolKey("x", "y", "z")))
        found = await one.list()
        assert (list(found.held), len(found.malformed)) == ([held.registration.key], 3)
        # A Relay that registers heals its own; one that leaves, too.
        await one.put(registration("bad"), LEASE)
        assert await one.delete(registration("worse").key, 0)
        assert len((await one.list()).malformed) == 1


# ---- the table


async def test_create_table_makes_it_once_and_sees_that_it_fits(endpoint: str) -> None:
    name = next(_names)
    arguments = ("create-table", "--dynamodb-table", name, "--dynamodb-endpoint", endpoint)
    assert await finished(*arguments) == (0, f"table {name} was made\n", "")
    assert await finished(*arguments) == (0, f"table {name} is there already, as it must be\n", "")
    async with client_of(Table(name, None, endpoint)) as client:
        described = (await client.describe_table(TableName=name))["Table"]
        assert described["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
        removal = (await client.describe_time_to_live(TableName=name))["TimeToLiveDescription"]
        assert (removal["TimeToLiveStatus"], removal["AttributeName"]) == ("ENABLED", "expires_at")
        other = next(_names)
        await client.create_table(
            TableName=other,
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
    code, _, err = await finished(
        "create-table", GLOBAL_DISCOVERY_DYNAMODB_TABLE=other, GLOBAL_DISCOVERY_DYNAMODB_ENDPOINT=endpoint
    )
    assert (code, err) == (
        1,
        f"global-discovery-service: table {other} is there, but its keys are not the texts pk and sk\n",
    )
    assert (await finished("create-table"))[0] == 2


async def test_a_table_that_cannot_be_used_ends_with_1(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("--registration-storage", "dynamodb", "--dynamodb-table", "nowhere", "--listen", "127.0.0.1:0")
    code, _, err = await finished(*arguments, "--dynamodb-endpoint", endpoint)
    assert (code, err.count("\n")) == (1, 1)
    assert "there is no table nowhere; global-discovery-service create-table --dynamodb-table nowhere makes it" in err
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    code, _, err = await finished(*arguments, "--dynamodb-endpoint", endpoint)
    assert (code, err.count("\n"), "region" in err) == (1, 1, True)
    with pytest.raises(CannotKeep):
        await create_table(Table("t", None, "nonsense"))


# ---- replicas


def flags(of: Table, endpoint: str | None = None) -> list[str]:
    kept = ["--registration-storage", "dynamodb", "--dynamodb-table", of.name]
    return [*kept, "--dynamodb-endpoint", str(endpoint or of.endpoint), "--insecure-registrations", *SHORT]


async def test_two_replicas_share_a_table_and_agree(fresh: Table) -> None:
    async with registry(*flags(fresh)) as (b, _):
        async with registry(*flags(fresh)) as (a, _):
            assert (await a.post("/pools", json=said("eu"))).status_code == 200
            assert (await b.post("/pools", json=said("us"))).status_code == 200
            both = [said("eu"), said("us")]
            found = [await until(one, lambda t: len(t["pools"]) == 2 and t["complete"], *both) for one in (a, b)]
            assert found[0]["pools"] == found[1]["pools"]
            # Each renewed through the other, more often than the lease is long.
            assert (await b.delete("/pools/eu/inference/llama")).status_code == 204
            await until(a, lambda t: names(t) == ["us/llama"], said("us"))
        # One is gone; what it wrote lives on, and its successor knows it from the start.
        await b.post("/pools", json=said("ap"))
        async with registry(*flags(fresh)) as (c, _):
            first = await until(c, lambda t: "ap/llama" in names(t), said("ap"))
            assert first["complete"] is False
            await until(b, lambda t: not t["pools"])
            await until(c, lambda t: not t["pools"])


@asynccontextmanager
async def behind_a_door(fresh: Table) -> AsyncIterator[tuple[Any, Any, Door]]:
    async with door(str(fresh.endpoint)) as way, registry(*flags(fresh, way.url)) as (client, command):
        await until(client, lambda t: t["complete"] and len(t["pools"]) == 1, said())
        yield client, command, way


@pytest.mark.parametrize("trouble", ["throttle", "hang"])
async def test_trouble_with_the_table_serves_the_last_list(fresh: Table, trouble: str) -> None:
    async with behind_a_door(fresh) as (client, command, way):
        way.trouble = lambda call, body: trouble
        await until(client, lambda t: not t["complete"])
        kind = {"throttle": "throttled", "hang": "unreachable"}[trouble]
        answer = await client.post("/pools", json=said())
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "store_unavailable")
        assert answer.headers["retry-after"] == "1"
        assert (await client.delete("/pools/eu/inference/llama")).status_code == 503
        await command.message("registrations cannot be read, the last ones stay", kind=kind)
        await asyncio.sleep(4)
        during = await table(client)
        assert (names(during), during["complete"]) == (["eu/llama"], False)
        assert (await client.get("/readyz")).status_code == 200
        metrics = (await client.get("/metrics")).text
        assert f'global_discovery_store_failures_total{{kind="{kind}",operation="put"}} 1.0' in metrics
        assert "global_discovery_store_fault 1.0" in metrics
        way.trouble = lambda call, body: None
        await command.message("registrations can be read again")
        assert names(await table(client)) == ["eu/llama"]
        await until(client, lambda t: t["complete"] and names(t) == ["eu/llama"], said())
        await until(client, lambda t: t["complete"] and not t["pools"])


async def test_an_outage_of_the_whole_table(fresh: Table) -> None:
    async with door(str(fresh.endpoint)) as first:
        port = int(first.url.rpartition(":")[2])
        context = registry(*flags(fresh, first.url))
        client, command = await context.__aenter__()
        await until(client, lambda t: t["complete"] and len(t["pools"]) == 1, said())
    try:
        # The door is gone with its port: connections are refused.
        await command.message("registrations cannot be read, the last ones stay", kind="unreachable")
        await until(client, lambda t: not t["complete"])
        assert (await client.post("/pools", json=said("us"))).status_code == 503
        assert names(await table(client)) == ["eu/llama"]
        async with door(str(fresh.endpoint), port):
            await command.message("registrations can be read again")
            await until(client, lambda t: t["complete"] and names(t) == ["eu/llama"], said())
    finally:
        await context.__aexit__(None, None, None)


async def test_a_directory_starts_while_the_table_is_away(fresh: Table) -> None:
    async with door(str(fresh.endpoint)) as way:
        way.trouble = lambda call, body: "throttle"
        async with registry(*flags(fresh, way.url)) as (client, _):
            ready = await client.get("/readyz")
            assert (ready.status_code, "registrations have not been read" in ready.text) == (503, True)
            assert (await table(client))["complete"] is False
            way.trouble = lambda call, body: None
            await until(client, lambda t: t["complete"])
            assert (await client.get("/readyz")).status_code == 200
