"""The registry's table: made as its users need it, idempotently.

Owns what is set on it: on-demand billing, collection of what is gone (not where consistency is strong, which has no
TTL), and at wish recovery, protection and replicas in other regions (C57, C58, E1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

from discovery.dynamodb import ensure_removal, ensure_table
from discovery.errors import CannotKeep
from discovery.mcs.store_items import TTL_ATTRIBUTE


@dataclass(frozen=True, slots=True)
class Wanted:
    consistency: Literal["eventual", "strong"] = "eventual"
    replicas: tuple[str, ...] = ()
    recovery: bool = False
    protection: bool = False

    def __post_init__(self) -> None:
        if self.consistency == "strong" and len(self.replicas) != 2:
            raise CannotKeep("strong consistency needs exactly two --replica-region beside the table's own")


async def create(client: Any, name: str, wanted: Wanted) -> bool:
    """Whether it was made; otherwise it was there. Raises CannotKeep."""
    more: dict[str, Any] = {"DeletionProtectionEnabled": True} if wanted.protection else {}
    if wanted.replicas and wanted.consistency == "eventual":
        more["StreamSpecification"] = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
    made = await ensure_table(client, name, **more)
    if wanted.consistency == "eventual":
        await ensure_removal(client, name, TTL_ATTRIBUTE)
    try:
        await _replicate(client, name, wanted)
        if wanted.recovery:
            await client.update_continuous_backups(
                TableName=name, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
            )
        if wanted.protection and not made:
            described = (await client.describe_table(TableName=name))["Table"]
            if not described.get("DeletionProtectionEnabled"):
                await client.update_table(TableName=name, DeletionProtectionEnabled=True)
    except (ClientError, BotoCoreError, OSError) as error:
        raise CannotKeep(f"table {name} is there, but not as asked: {error}") from error
    return made


async def _replicate(client: Any, name: str, wanted: Wanted) -> None:
    if not wanted.replicas:
        return
    described = (await client.describe_table(TableName=name))["Table"]
    there = {one["RegionName"] for one in described.get("Replicas", ())}
    missing = [region for region in wanted.replicas if region not in there]
    strong: dict[str, Any] = {"MultiRegionConsistency": "STRONG"} if wanted.consistency == "strong" else {}
    # Strong ones are made in one call; of the others AWS takes one at a time.
    for regions in [missing] if strong and missing else [[region] for region in missing]:
        updates = [{"Create": {"RegionName": region}} for region in regions]
        await client.update_table(TableName=name, ReplicaUpdates=updates, **strong)
        await client.get_waiter("table_exists").wait(TableName=name)
