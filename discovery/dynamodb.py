"""What every store in DynamoDB needs: a client, the calls with AWS's errors in our words, and the table itself.

Owns the translation of AWS's errors, and how far AWS's clock is from ours. Knows no items: whoever keeps something in a
table owns its keys and conditions. Imported only when a table is used (extra `dynamodb`). Every table has the same two
keys, the texts `pk` and `sk`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from aiobotocore.config import AioConfig  # type: ignore[import-untyped]
from aiobotocore.session import get_session  # type: ignore[import-untyped]
from botocore.exceptions import BotoCoreError, ClientError, WaiterError  # type: ignore[import-untyped]

from discovery.errors import CannotKeep, StoreUnavailable

_THROTTLED: Final = frozenset(
    {"ProvisionedThroughputExceededException", "ThrottlingException", "Throttling", "RequestLimitExceeded"}
)
_PART_OF: Final = {"query": "Items", "scan": "Items", "describe_table": "Table"}
"""What an answer to this call never lacks."""
_KEYS: Final = (("pk", "HASH"), ("sk", "RANGE"))
SCHEMA: Final = [{"AttributeName": attribute, "KeyType": kind} for attribute, kind in _KEYS]
TEXTS: Final = [{"AttributeName": attribute, "AttributeType": "S"} for attribute, _ in _KEYS]


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


class ConditionFailed(Exception):
    """`item` is in the way; empty when there is none."""

    def __init__(self, item: Mapping[str, Any]) -> None:
        super().__init__("the condition does not hold")
        self.item = item


async def call_of(client: Any, table: str, call: str, **arguments: Any) -> Any:
    """One call. Raises ConditionFailed, StoreUnavailable."""
    try:
        answer = await getattr(client, call)(**arguments)
    except ClientError as error:
        raise _translated(error, table) from error
    except (BotoCoreError, OSError, TimeoutError) as error:
        raise StoreUnavailable("unreachable", f"table {table} cannot be reached: {error}") from error
    if _PART_OF.get(call, "ResponseMetadata") not in answer:
        # The library takes any JSON for an answer, and leaves out of it what it does not know.
        raise StoreUnavailable("unreachable", f"table {table} cannot be reached: what answers is no DynamoDB")
    return answer


def _translated(error: Any, table: str) -> Exception:
    code = str(error.response.get("Error", {}).get("Code", ""))
    if code == "ConditionalCheckFailedException":
        return ConditionFailed(error.response.get("Item", {}))
    if code in _THROTTLED:
        return StoreUnavailable("throttled", f"table {table} takes no more for now ({code})")
    if code == "ReplicatedWriteConflictException":
        return StoreUnavailable("contended", f"table {table}: another region writes the same item")
    if code == "ResourceNotFoundException":
        return StoreUnavailable("missing", f"there is no table {table}")
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    kind = "unreachable" if status >= 500 else "refused"
    return StoreUnavailable(kind, f"table {table}: {error}")


def skew_s(response: Mapping[str, Any], now: datetime) -> float | None:
    """How far our clock is ahead of the one that answered, in seconds; None when the answer has no date."""
    said = response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date", "")
    try:
        theirs = parsedate_to_datetime(said)
    except (TypeError, ValueError):
        return None
    return (now - (theirs if theirs.tzinfo else theirs.replace(tzinfo=UTC))).total_seconds()


async def ensure_table(client: Any, name: str, **more: Any) -> bool:
    """Whether the table was made; it is ACTIVE then. `more` goes with its making. Raises CannotKeep."""
    try:
        made = await _made(client, name, {"BillingMode": "PAY_PER_REQUEST"} | more)
        await client.get_waiter("table_exists").wait(TableName=name)
    except (ClientError, BotoCoreError, WaiterError, OSError) as error:
        raise CannotKeep(f"cannot make table {name}: {error}") from error
    return made


async def _made(client: Any, name: str, more: Mapping[str, Any]) -> bool:
    try:
        await client.create_table(TableName=name, KeySchema=SCHEMA, AttributeDefinitions=TEXTS, **more)
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") != "ResourceInUseException":
            raise
        described = (await client.describe_table(TableName=name))["Table"]
        types = {one["AttributeName"]: one["AttributeType"] for one in described["AttributeDefinitions"]}
        if described["KeySchema"] != SCHEMA or {types.get("pk"), types.get("sk")} != {"S"}:
            raise CannotKeep(f"table {name} is there, but its keys are not the texts pk and sk") from None
        return False
    return True


async def ensure_removal(client: Any, name: str, attribute: str) -> None:
    """Have DynamoDB remove items when the moment in `attribute` has passed. Raises CannotKeep."""
    try:
        described = (await client.describe_time_to_live(TableName=name))["TimeToLiveDescription"]
        if described.get("TimeToLiveStatus") in ("ENABLED", "ENABLING"):
            if described.get("AttributeName") != attribute:
                raise CannotKeep(f"table {name} removes by {described.get('AttributeName')!r}, not by {attribute!r}")
            return
        wanted = {"Enabled": True, "AttributeName": attribute}
        await client.update_time_to_live(TableName=name, TimeToLiveSpecification=wanted)
    except (ClientError, BotoCoreError, OSError) as error:
        raise CannotKeep(f"cannot have table {name} remove what is old: {error}") from error
