"""Registrations in a DynamoDB table that any number of replicas share.

Owns the calls and the translation of AWS's errors; imported only when the table is used (extra `dynamodb`). Every write
is conditional: a renewal never ends a lease earlier, and a newer incarnation is never overwritten. A list is whole or
it is none: pages are read to the last one, or nothing has been read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiobotocore.config import AioConfig  # type: ignore[import-untyped]
from aiobotocore.session import get_session  # type: ignore[import-untyped]
from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

from discovery.directory.items import (
    LARGEST_ITEM,
    PARTITION,
    TTL_ATTRIBUTE,
    Item,
    Listed,
    MalformedItem,
    decode_item,
    encode_item,
    key_of,
    read_all,
    size_of,
)
from discovery.directory.registration_store import CannotKeep, StoreUnavailable, TooLarge
from discovery.directory.registrations import Held, Registration, after_writing, check_deletion
from discovery.identity import PoolKey
from discovery.kit.clock import Clock
from discovery.lease import Lease

_TRIES = 5
_THROTTLED = frozenset(
    {"ProvisionedThroughputExceededException", "ThrottlingException", "Throttling", "RequestLimitExceeded"}
)
_FIRST = (
    "attribute_not_exists(pk) OR incarnation < :incarnation OR lease_expires_ms <= :now "
    "OR (incarnation = :incarnation AND lease_expires_ms <= :expires)"
)
_AS_SEEN = "incarnation = :incarnation AND lease_expires_ms = :expires"


@dataclass(frozen=True, slots=True)
class Table:
    """`region` and `endpoint` None: as the AWS configuration of the environment says."""

    name: str
    region: str | None = None
    endpoint: str | None = None


@asynccontextmanager
async def client_of(table: Table) -> AsyncIterator[Any]:
    """An aiobotocore client for the block. Raises CannotKeep when it cannot be made."""
    config = AioConfig(
        connect_timeout=2, read_timeout=3, retries={"mode": "standard", "max_attempts": 2}, max_pool_connections=20
    )
    made = get_session().create_client("dynamodb", region_name=table.region, endpoint_url=table.endpoint, config=config)
    try:
        client = await made.__aenter__()
    except (BotoCoreError, ValueError) as error:
        raise CannotKeep(f"cannot use DynamoDB: {error}") from error
    try:
        yield client
    finally:
        await made.__aexit__(None, None, None)


class DynamoStore:
    """Leases run on the clock of the machine, which other replicas have too."""

    name = "dynamodb"

    def __init__(self, client: Any, table: str, clock: Clock) -> None:
        self._client = client
        self._table = table
        self._clock = clock
        self._before: Mapping[PoolKey, Held] = {}

    def __repr__(self) -> str:
        return f"<DynamoStore {self._table}>"

    def now_ms(self) -> int:
        return int(self._clock.now().timestamp() * 1000)

    async def check(self) -> None:
        """Raises CannotKeep when there is no such table, or not with our keys; any other trouble may pass."""
        try:
            await self._call("query", **self._query(), Limit=1)
        except StoreUnavailable as error:
            if error.kind == "missing":
                hint = f"global-discovery-service create-table --dynamodb-table {self._table} makes it"
                raise CannotKeep(f"{error}; {hint}") from error

    async def put(self, registration: Registration, duration_ms: int) -> Held:
        now = self.now_ms()
        held = Held(registration, Lease(now, duration_ms))
        condition = _FIRST
        values = {":now": now, ":incarnation": registration.incarnation, ":expires": held.lease.expires_ms}
        for _ in range(_TRIES):
            found = await self._put_if(held, condition, values)
            if found is None:
                return held
            try:
                stored = decode_item(found)
            except MalformedItem:
                # Nobody can read it, so nothing in it is lost.
                condition, values = "", {}
                continue
            held = after_writing(stored, registration, now_ms=now, duration_ms=duration_ms)
            seen = stored.registration.incarnation
            condition, values = _AS_SEEN, {":incarnation": seen, ":expires": stored.lease.expires_ms}
        raise StoreUnavailable("contended", f"{registration.key} was written by others {_TRIES} times meanwhile")

    async def _put_if(self, held: Held, condition: str, values: Mapping[str, int]) -> Mapping[str, Any] | None:
        """Write the item; the one that is in the way when the condition does not hold."""
        item = encode_item(held)
        if (size := size_of(item)) > LARGEST_ITEM:
            raise TooLarge(f"the registration has {size} bytes; the table takes {LARGEST_ITEM}")
        return await self._conditional("put_item", condition, values, Item=item)

    async def delete(self, key: PoolKey, incarnation: int | None) -> bool:
        now = self.now_ms()
        condition, values = "lease_expires_ms > :now", {":now": now}
        if incarnation is not None:
            condition, values = f"{condition} AND incarnation <= :incarnation", values | {":incarnation": incarnation}
        found = await self._conditional("delete_item", condition, values, Key=key_of(key))
        if not found:
            return found is None
        try:
            check_deletion(decode_item(found), incarnation, now)
        except MalformedItem:
            await self._call("delete_item", TableName=self._table, Key=key_of(key))
            return True
        return False

    async def list(self) -> Listed:
        now = self.now_ms()
        items: list[Mapping[str, Any]] = []
        start: Item | None = None
        while True:
            page = await self._call("query", **self._query(), **({"ExclusiveStartKey": start} if start else {}))
            items += page["Items"]
            start = page.get("LastEvaluatedKey")
            if not start:
                break
        # In a thread: thousands of items would keep everybody else waiting.
        listed = await asyncio.to_thread(read_all, items, now_ms=now, before=self._before)
        self._before = listed.held
        return listed

    def forget(self, before_ms: int) -> None:
        """The table forgets by itself."""

    def _query(self) -> dict[str, Any]:
        return {
            "TableName": self._table,
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": {":pk": {"S": PARTITION}},
            # What a replica of this region has written is seen by the others with their next list.
            "ConsistentRead": True,
        }

    async def _conditional(
        self, call: str, condition: str, values: Mapping[str, int], **more: Any
    ) -> Mapping[str, Any] | None:
        """None when it was done, else the item that was in the way, empty when there is none."""
        if condition:
            more |= {
                "ConditionExpression": condition,
                "ExpressionAttributeValues": {name: {"N": str(value)} for name, value in values.items()},
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            }
        try:
            await self._call(call, TableName=self._table, **more)
        except _ConditionFailed as failed:
            return failed.item
        return None

    async def _call(self, call: str, **arguments: Any) -> Any:
        try:
            return await getattr(self._client, call)(**arguments)
        except ClientError as error:
            raise _translated(error, self._table) from error
        except (BotoCoreError, OSError, TimeoutError) as error:
            raise StoreUnavailable("unreachable", f"table {self._table} cannot be reached: {error}") from error


class _ConditionFailed(Exception):
    def __init__(self, item: Mapping[str, Any]) -> None:
        super().__init__("the condition does not hold")
        self.item = item


def _translated(error: Any, table: str) -> Exception:
    code = str(error.response.get("Error", {}).get("Code", ""))
    if code == "ConditionalCheckFailedException":
        return _ConditionFailed(error.response.get("Item", {}))
    if code in _THROTTLED:
        return StoreUnavailable("throttled", f"table {table} takes no more for now ({code})")
    if code == "ResourceNotFoundException":
        return StoreUnavailable("missing", f"there is no table {table}")
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    kind = "unreachable" if status >= 500 else "refused"
    return StoreUnavailable(kind, f"table {table}: {error}")


async def create_table(table: Table) -> str:
    """Make the table, or see that the one that is there is as it must be; a line that says which. Raises CannotKeep."""
    async with client_of(table) as client:
        try:
            made = await _made(client, table.name)
            await client.get_waiter("table_exists").wait(TableName=table.name)
            await _see_to_removal(client, table.name)
        except (ClientError, BotoCoreError, OSError) as error:
            raise CannotKeep(f"cannot make table {table.name}: {error}") from error
    return f"table {table.name} {'was made' if made else 'is there already, as it must be'}"


async def _made(client: Any, name: str) -> bool:
    keys = [("pk", "HASH"), ("sk", "RANGE")]
    schema = [{"AttributeName": attribute, "KeyType": kind} for attribute, kind in keys]
    texts = [{"AttributeName": attribute, "AttributeType": "S"} for attribute, _ in keys]
    try:
        await client.create_table(
            TableName=name, KeySchema=schema, AttributeDefinitions=texts, BillingMode="PAY_PER_REQUEST"
        )
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") != "ResourceInUseException":
            raise
        described = (await client.describe_table(TableName=name))["Table"]
        types = {one["AttributeName"]: one["AttributeType"] for one in described["AttributeDefinitions"]}
        if described["KeySchema"] != schema or {types.get("pk"), types.get("sk")} != {"S"}:
            raise CannotKeep(f"table {name} is there, but its keys are not the texts pk and sk") from None
        return False
    return True


async def _see_to_removal(client: Any, name: str) -> None:
    """Have DynamoDB remove what nobody has renewed for a week."""
    described = (await client.describe_time_to_live(TableName=name))["TimeToLiveDescription"]
    if described.get("TimeToLiveStatus") in ("ENABLED", "ENABLING"):
        if described.get("AttributeName") != TTL_ATTRIBUTE:
            raise CannotKeep(f"table {name} removes by {described.get('AttributeName')!r}, not by {TTL_ATTRIBUTE!r}")
        return
    wanted = {"Enabled": True, "AttributeName": TTL_ATTRIBUTE}
    await client.update_time_to_live(TableName=name, TimeToLiveSpecification=wanted)
