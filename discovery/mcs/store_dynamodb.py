"""The registry's store in a DynamoDB table that any number of replicas share.

Owns the conditions of the writes (C52) and the reading of whole partitions. A read is whole or it is none: pages are
followed to the last one. A condition that failed is judged by the item that was in the way, so that a retry after a
lost answer is a success and not a fence. Uses no transactions: they are unavailable or regional where tables are global
(C53). Throttling is waited out for a moment with jitter, then the store counts as away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from discovery.dynamodb import ConditionFailed, call_of, skew_s
from discovery.errors import StoreUnavailable
from discovery.kit.backoff import SYSTEM_CHANCE, Backoff, Chance
from discovery.kit.clock import Clock
from discovery.kit.log import logger
from discovery.mcs.store import (
    ClusterRecord,
    Clusters,
    Fenced,
    Item,
    ItemKey,
    Mark,
    Outcome,
    Partition,
    StoreAway,
    outcome,
    swapped,
)
from discovery.mcs.store_items import (
    Attributes,
    Unreadable,
    cluster_of,
    clusters_partition,
    decode_item,
    decode_record,
    encode_item,
    encode_record,
    items_partition,
    key_of,
    mark_of,
    record_key,
)

_TRIES: Final = 6
_AGAIN: Final = Backoff(first=0.05, limit=1.0)
_PASSING: Final = frozenset({"throttled", "contended"})
_SKEW_S: Final = 5.0
_AT_ONCE: Final = 16
_BELOW: Final = "inc < :inc OR (inc = :inc AND seq < :seq)"
_OLDER: Final = f"attribute_not_exists(pk) OR {_BELOW}"

_log = logger(__name__)


def _numbers(**values: int) -> dict[str, Any]:
    return {f":{name}": {"N": str(value)} for name, value in values.items()}


class DynamoStore:
    """The records of one clusterset. The client stays its maker's: `close` closes nothing."""

    durable = True

    def __init__(self, client: Any, table: str, clusterset: str, clock: Clock, chance: Chance = SYSTEM_CHANCE) -> None:
        self._client = client
        self._table = table
        self._clusterset = clusterset
        self._clock = clock
        self._chance = chance
        self.skew_s = 0.0
        """How far our clock is ahead of DynamoDB's, as its last answer said."""

    def __repr__(self) -> str:
        return f"<DynamoStore {self._table} {self._clusterset}>"

    async def clusters(self) -> Clusters:
        records, unreadable = [], set()
        for attributes in await self._query(clusters_partition(self._clusterset)):
            try:
                records.append(decode_record(attributes))
            except Unreadable as error:
                unreadable.add(cluster_of(attributes))
                _log.warning("a cluster's record cannot be read", reason=str(error))
        return Clusters(tuple(records), frozenset(unreadable))

    async def cluster(self, cluster: str) -> ClusterRecord | None:
        found = await self._get(record_key(self._clusterset, cluster))
        return self._readable(found) if found else None

    async def partition(self, cluster: str) -> Partition:
        found = await self._query(items_partition(self._clusterset, cluster))
        # In a thread: thousands of endpoints would keep everybody else waiting.
        return await asyncio.to_thread(_parsed, cluster, found)

    async def write(self, item: Item) -> Outcome:
        encoded = encode_item(self._clusterset, item, int(self._clock.now().timestamp() * 1000))
        values = _numbers(inc=item.mark.incarnation, seq=item.mark.seq)
        for _ in range(_TRIES):
            found = await self._conditional("put_item", _OLDER, values, Item=encoded)
            if found is None:
                return Outcome.WRITTEN
            done = self._judged(found or await self._get(_place(encoded)), item)
            if done is not Outcome.WRITTEN:
                return done
        raise StoreAway(f"{item.cluster} {item.key} was written by others {_TRIES} times meanwhile")

    def _judged(self, found: Mapping[str, Any] | None, new: Item) -> Outcome:
        if not found:
            return outcome(None, new)
        try:
            return outcome(decode_item(new.cluster, found), new)
        except Unreadable as error:
            try:
                mark = mark_of(found)
            except Unreadable:
                raise StoreAway(f"what is there cannot be read: {error}") from error
            if mark == new.mark:
                raise Fenced(f"{new.cluster} {new.key}: another value has the mark {mark}") from error
            return outcome(Item(new.cluster, new.key, mark, None), new)

    async def save(self, record: ClusterRecord, expected: int) -> None:
        condition, values = "attribute_not_exists(pk)", {}
        if expected:
            condition, values = "version = :expected", _numbers(expected=expected)
        encoded = encode_record(self._clusterset, record)
        for _ in range(_TRIES):
            found = await self._conditional("put_item", condition, values, Item=encoded)
            if found is None:
                return
            found = found or await self._get(_place(encoded))
            if not swapped(self._readable(found) if found else None, record, expected):
                return
        raise StoreAway(f"the record of {record.id} was written by others {_TRIES} times meanwhile")

    def _readable(self, found: Mapping[str, Any]) -> ClusterRecord:
        try:
            return decode_record(found)
        except Unreadable as error:
            raise StoreAway(f"what is there cannot be read: {error}") from error

    async def purge(self, cluster: str, below: Mark) -> None:
        """One by one: batches take no conditions, and a session may write the same place again meanwhile."""
        values = _numbers(inc=below.incarnation, seq=below.seq)
        found = await self._query(
            items_partition(self._clusterset, cluster),
            more=values,
            FilterExpression=_BELOW,
            ProjectionExpression="pk, sk",
        )
        for start in range(0, len(found), _AT_ONCE):
            async with asyncio.TaskGroup() as group:
                for attributes in found[start : start + _AT_ONCE]:
                    group.create_task(self._conditional("delete_item", _BELOW, values, Key=_place(attributes)))

    async def describe(self) -> dict[str, Any]:
        """The table as AWS sees it; its count of items is hours old."""
        table = (await self._call("describe_table"))["Table"]
        replicas = [f"{one['RegionName']} {one.get('ReplicaStatus', '')}".strip() for one in table.get("Replicas", ())]
        return {
            "table": self._table,
            "status": table["TableStatus"],
            "items": table.get("ItemCount", 0),
            "replicas": replicas,
        }

    async def close(self) -> None:
        """Nothing of its own is open."""

    async def _get(self, key: Attributes) -> Mapping[str, Any] | None:
        answer = await self._call("get_item", Key=key, ConsistentRead=True)
        item: Mapping[str, Any] | None = answer.get("Item")
        return item

    async def _query(
        self, partition: str, *, more: Mapping[str, Any] | None = None, **arguments: Any
    ) -> list[Mapping[str, Any]]:
        arguments |= {
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": {":pk": {"S": partition}} | dict(more or {}),
            "ConsistentRead": True,
        }
        items: list[Mapping[str, Any]] = []
        while True:
            page = await self._call("query", **arguments)
            items += page["Items"]
            start = page.get("LastEvaluatedKey")
            if not start:
                return items
            arguments["ExclusiveStartKey"] = start

    async def _conditional(
        self, call: str, condition: str, values: Mapping[str, Any], **more: Any
    ) -> Mapping[str, Any] | None:
        """None when it was done, else the item that was in the way, empty when none was shown."""
        if values:
            more["ExpressionAttributeValues"] = values
        try:
            await self._call(call, ConditionExpression=condition, ReturnValuesOnConditionCheckFailure="ALL_OLD", **more)
        except ConditionFailed as failed:
            return failed.item
        return None

    async def _call(self, call: str, **arguments: Any) -> Any:
        failures = 0
        while True:
            try:
                answer = await call_of(self._client, self._table, call, TableName=self._table, **arguments)
            except StoreUnavailable as error:
                failures += 1
                if error.kind not in _PASSING or failures == _TRIES:
                    raise StoreAway(str(error)) from error
                await self._clock.sleep(_AGAIN.delay(failures, self._chance()))
            else:
                self._compare_clocks(answer)
                return answer

    def _compare_clocks(self, answer: Mapping[str, Any]) -> None:
        """Said once when the clocks part, and once when they meet again (C8.11)."""
        ahead = skew_s(answer, self._clock.now())
        if ahead is None:
            return
        before, self.skew_s = abs(self.skew_s) > _SKEW_S, ahead
        if abs(ahead) > _SKEW_S and not before:
            _log.error("our clock and DynamoDB's disagree", ahead_s=round(ahead, 1))
        elif before and abs(ahead) <= _SKEW_S:
            _log.info("our clock and DynamoDB's agree again", ahead_s=round(ahead, 1))


def _place(attributes: Mapping[str, Any]) -> Attributes:
    return {"pk": attributes["pk"], "sk": attributes["sk"]}


def _parsed(cluster: str, found: list[Mapping[str, Any]]) -> Partition:
    items: list[Item] = []
    unreadable: set[ItemKey] = set()
    for attributes in found:
        try:
            items.append(decode_item(cluster, attributes))
        except Unreadable as error:
            _log.warning("an item cannot be read", cluster=cluster, reason=str(error))
            try:
                unreadable.add(key_of(attributes))
            except Unreadable:
                # No export and no slice: of a kind that only newer versions know.
                continue
    return Partition(tuple(items), frozenset(unreadable))
