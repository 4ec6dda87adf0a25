"""The command `mcs-admin`: one function a subcommand.

Owns what each asks of the store and in which order; what is decided is decided in `admin`. Whatever reads changes
nothing, and whatever deletes can be done again.
"""

from __future__ import annotations

import asyncio
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from discovery.kit.backoff import SYSTEM_CHANCE
from discovery.kit.clock import SYSTEM_CLOCK
from discovery.mcs import admin, sessions
from discovery.mcs.admin import Exit
from discovery.mcs.admin_running import (
    Clusterset,
    Endpoint,
    Output,
    Region,
    Stop,
    TableName,
    Timeout,
    Yes,
    ask,
    now_ms,
    run,
    seen_of,
    show,
    table_of,
    with_store,
)
from discovery.mcs.board import Board
from discovery.mcs.following import Following
from discovery.mcs.leases import Leases
from discovery.mcs.model import ServiceKey
from discovery.mcs.store import Removed

if TYPE_CHECKING:
    from discovery.mcs.store_dynamodb import DynamoStore

_POLL_S = 1.0
_RETENTION_MS = 24 * 3_600_000

app = typer.Typer(name="mcs-admin", add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mcs-admin {version('global-ingress')}")
        raise typer.Exit


@app.callback()
def _admin(
    _version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True)] = False,
) -> None:
    """The registry's store: its table, its clusters, what they export.

    Exit codes: 0 done, 1 failed, 2 refused, 3 not found, 4 the store is away.
    """


@app.command("create-table")
def create_table(
    dynamodb_table: TableName = None,
    dynamodb_region: Region = None,
    dynamodb_endpoint: Endpoint = None,
    consistency: Annotated[Literal["eventual", "strong"], typer.Option(help="Between regions.")] = "eventual",
    replica_region: Annotated[list[str] | None, typer.Option(help="Another region; repeatable.")] = None,
    point_in_time_recovery: Annotated[bool, typer.Option("--point-in-time-recovery")] = False,
    deletion_protection: Annotated[bool, typer.Option("--deletion-protection")] = False,
    timeout: Timeout = 120,
) -> None:
    """Make the table, or see that the one that is there is as it must be."""

    async def work() -> None:
        table = table_of(dynamodb_table, dynamodb_region, dynamodb_endpoint)
        from discovery.dynamodb import client_of
        from discovery.mcs.table import Wanted, create

        wanted = Wanted(consistency, tuple(replica_region or ()), point_in_time_recovery, deletion_protection)
        async with client_of(table) as client:
            made = await create(client, table.name, wanted)
        typer.echo(f"table {table.name} {'was made' if made else 'is there already, as it must be'}")

    run(work(), timeout)


@app.command()
def describe(
    dynamodb_table: TableName = None,
    dynamodb_region: Region = None,
    dynamodb_endpoint: Endpoint = None,
    clusterset: Clusterset = None,
    output: Output = "table",
    timeout: Timeout = 30,
) -> None:
    """The table, and each cluster's lease, sync, digest and counts. Changes nothing."""

    async def work(store: DynamoStore) -> None:
        table, clusters = await store.describe(), admin.described(await seen_of(store))
        if output == "table":
            typer.echo(f"{admin.as_table([table])}\n")
            show(clusters, output)
        else:
            show({"table": table, "clusters": clusters}, output)

    run(with_store((dynamodb_table, dynamodb_region, dynamodb_endpoint, clusterset), work), timeout)


@app.command("list-clusters")
def list_clusters(
    dynamodb_table: TableName = None,
    dynamodb_region: Region = None,
    dynamodb_endpoint: Endpoint = None,
    clusterset: Clusterset = None,
    output: Output = "table",
    timeout: Timeout = 30,
) -> None:
    """All clusters, those that were removed included."""

    async def work(store: DynamoStore) -> None:
        found = await store.clusters()
        rows = [admin.cluster_document(record, now_ms()) for record in sorted(found.records, key=lambda one: one.id)]
        show(rows + [{"cluster": name, "state": "unreadable"} for name in sorted(found.unreadable)], output)

    run(with_store((dynamodb_table, dynamodb_region, dynamodb_endpoint, clusterset), work), timeout)


@app.command("list-imports")
def list_imports(
    dynamodb_table: TableName = None,
    dynamodb_region: Region = None,
    dynamodb_endpoint: Endpoint = None,
    clusterset: Clusterset = None,
    output: Output = "table",
    timeout: Timeout = 30,
) -> None:
    """All services that clusters export, merged."""

    async def work(store: DynamoStore) -> None:
        show(admin.imports(await seen_of(store)), output)

    run(with_store((dynamodb_table, dynamodb_region, dynamodb_endpoint, clusterset), work), timeout)


@app.command()
def explain(
    service: Annotated[str, typer.Argument(metavar="NS/NAME")],
    dynamodb_table: TableName = None,
    dynamodb_region: Region = None,
    dynamodb_endpoint: Endpoint = None,
    clusterset: Clusterset = None,
    output: Output = "table",
    timeout: Timeout = 30,
) -> None:
    """Who is asked first, who wins each field, who serves each port."""

    async def work(store: DynamoStore) -> None:
        namespace, slash, name = service.partition("/")
        if not (namespace and slash and name) or "/" in name:
            raise Stop(Exit.REFUSED, f"{service!r} is not NAMESPACE/NAME")
        found = admin.explained(await seen_of(store), ServiceKey(namespace, name))
        if found is None:
            raise Stop(Exit.NOT_FOUND, f"no cluster exports {service}")
        show(found, output)

    run(with_store((dynamodb_table, dynamodb_region, dynamodb_endpoint, clusterset), work), timeout)


@app.command()
def verify(
    dynamodb_table: TableName = None,
    dynamodb_region: Region = None,
    dynamodb_endpoint: Endpoint = None,
    clusterset: Clusterset = None,
    output: Output = "table",
    timeout: Timeout = 60,
) -> None:
    """Digests, slices without exports, what cannot be read; exit 1 when anything is found. Changes nothing."""

    async def work(store: DynamoStore) -> None:
        faults = admin.verified(await seen_of(store))
        show(faults, output)
        if faults:
            raise Stop(Exit.FAILED, f"{len(faults)} faults")

    run(with_store((dynamodb_table, dynamodb_region, dynamodb_endpoint, clusterset), work), timeout)


@app.command("delete-cluster")
def delete_cluster(
    cluster: Annotated[str, typer.Argument(metavar="ID")],
    dynamodb_table: TableName = None,
    dynamodb_region: Region = None,
    dynamodb_endpoint: Endpoint = None,
    clusterset: Clusterset = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also while its lease stands.")] = False,
    yes: Yes = False,
    timeout: Timeout = 60,
) -> None:
    """Remove a cluster with all it exports. Its record stays as evidence; to finish what was cut short, do it again."""

    async def work(store: DynamoStore) -> None:
        record = await store.cluster(cluster)
        items = (await store.partition(cluster)).items
        if record is None:
            typer.echo(f"cluster {cluster} is not there: nothing to do")
            return
        if (refused := admin.undeletable(record, now_ms(), force=force)) and not dry_run:
            raise Stop(Exit.REFUSED, refused)
        for item in sorted(items, key=lambda one: one.key):
            typer.echo(f"{'would go' if dry_run else 'goes'}: {admin.place(item.key)}")
        if dry_run:
            typer.echo(f"would go: cluster {cluster}, {len(items)} items{f'; refused: {refused}' if refused else ''}")
            return
        if record.removed is not None and not items:
            typer.echo(f"cluster {cluster} was removed before: nothing to do")
            return
        ask(f"Delete cluster {cluster} of {clusterset} with {len(items)} items?", yes)
        if record.removed is None:
            await store.save(sessions.removed(record, Removed.DELETED, now_ms()), record.version)
        await store.purge(cluster, admin.everything_of(record))
        typer.echo(f"cluster {cluster} was deleted")

    run(with_store((dynamodb_table, dynamodb_region, dynamodb_endpoint, clusterset), work), timeout)


@app.command()
def watch(
    dynamodb_table: TableName = None,
    dynamodb_region: Region = None,
    dynamodb_endpoint: Endpoint = None,
    clusterset: Clusterset = None,
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds until it ends.")] = 3600,
) -> None:
    """What changes, a line each, as a registry would tell it. Changes nothing."""

    async def follow(store: DynamoStore) -> None:
        board = Board("admin", Leases(), retention_ms=_RETENTION_MS)
        following = Following(store, board, SYSTEM_CLOCK)
        while True:
            if not await following.poll() and not following.loaded:
                await store.clusters()
            for event in board.refresh(now_ms(), following.mono_ms())[0]:
                typer.echo(f"{type(event).__name__} {event}")
            await SYSTEM_CLOCK.sleep(_POLL_S * (0.8 + 0.4 * SYSTEM_CHANCE()))

    async def work(store: DynamoStore) -> None:
        ending = asyncio.timeout(timeout)
        try:
            async with ending:
                await follow(store)
        except TimeoutError:
            if not ending.expired():
                raise

    run(with_store((dynamodb_table, dynamodb_region, dynamodb_endpoint, clusterset), work), timeout + 10)


@app.command()
def dump(
    dynamodb_table: TableName = None,
    dynamodb_region: Region = None,
    dynamodb_endpoint: Endpoint = None,
    clusterset: Clusterset = None,
    timeout: Timeout = 120,
) -> None:
    """Everything of the clusterset as JSON lines. Fails when something cannot be read: a dump is whole or none."""

    async def work(store: DynamoStore) -> None:
        seen = await seen_of(store)
        if seen.unreadable or any(partition.unreadable for partition in seen.partitions.values()):
            raise Stop(Exit.FAILED, "something cannot be read, `verify` says what")
        for line in admin.dumped(seen):
            typer.echo(line)

    run(with_store((dynamodb_table, dynamodb_region, dynamodb_endpoint, clusterset), work), timeout)


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(help="What `dump` has written; - is standard input.", allow_dash=True)],
    dynamodb_table: TableName = None,
    dynamodb_region: Region = None,
    dynamodb_endpoint: Endpoint = None,
    clusterset: Clusterset = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would come.")] = False,
    timeout: Timeout = 120,
) -> None:
    """Write a dump into a clusterset that has none of its clusters. What is newer there stays: do it again at will."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
        items, records = admin.loaded(text.splitlines())
    except (OSError, ValueError) as error:
        typer.echo(f"mcs-admin: {file}: {error}", err=True)
        raise typer.Exit(int(Exit.REFUSED)) from None

    async def work(store: DynamoStore) -> None:
        for record in records:
            if (there := await store.cluster(record.id)) is not None and there != record:
                raise Stop(Exit.REFUSED, f"cluster {record.id} is there already, and not the dumped one")
        if dry_run:
            typer.echo(f"would come: {len(records)} clusters, {len(items)} items")
            return
        for item in items:
            await store.write(item)
        for record in records:
            await store.save(record, 0)
        typer.echo(f"{len(records)} clusters and {len(items)} items are there")

    run(with_store((dynamodb_table, dynamodb_region, dynamodb_endpoint, clusterset), work), timeout)


def main() -> None:
    """The console script `mcs-admin`."""
    app(prog_name="mcs-admin")
