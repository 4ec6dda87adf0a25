"""Registrations in a DynamoDB table that any number of replicas share.

Owns the conditions of the calls; imported only when the table is used (extra `dynamodb`). Every write
is conditional: a renewal never ends a lease earlier, and a newer incarnation is never overwritten. A list is whole or
it is none: pages are read to the last one, or nothing has been read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

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
from discovery.dynamodb import ConditionFailed, Table, call_of, client_of, ensure_removal, ensure_table
from discovery.identity import PoolKey
from discovery.kit.clock import Clock
from discovery.lease import Lease

_TRIES = 5
_FIRST = (
    "attribute_not_exists(pk) OR incarnation < :incarnation OR lease_expires_ms <= :now "
    "OR (incarnation = :incarnation AND lease_expires_ms <= :expires)"
)
_AS_SEEN = "incarnation = :incarnation AND lease_expires_ms = :expires"


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
        except ConditionFailed as failed:
            return failed.item
        return None

    async def _call(self, call: str, **arguments: Any) -> Any:
        return await call_of(self._client, self._table, call, **arguments)


async def create_table(table: Table) -> str:
    """Make the table, or see that the one that is there is as it must be; a line that says which. Raises CannotKeep."""
    async with client_of(table) as client:
        made = await ensure_table(client, table.name)
        await ensure_removal(client, table.name, TTL_ATTRIBUTE)
    return f"table {table.name} {'was made' if made else 'is there already, as it must be'}"
