"""What every command of `mcs-admin` does the same way: its flags, reaching the store, printing, asking, ending.

Owns the exit codes: 0 done, 1 failed, 2 refused, 3 not found, 4 the store is away. Prints no credentials: it is given
none. Asks before something is deleted, and takes nobody there for a no.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
import yaml

from discovery.errors import CannotKeep, StoreUnavailable
from discovery.kit.clock import SYSTEM_CLOCK
from discovery.kit.log import configure
from discovery.mcs import admin
from discovery.mcs.admin import Document, Exit, Seen
from discovery.mcs.store import Fenced, Moved, StoreAway

if TYPE_CHECKING:
    from discovery.dynamodb import Table
    from discovery.mcs.store_dynamodb import DynamoStore


def _flag(text: str, *names: str, var: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, envvar=f"MCS_{var}", help=text, metavar=metavar)


TableName = Annotated[
    str | None, _flag("The registry's table.", "--dynamodb-table", var="DYNAMODB_TABLE", metavar="NAME")
]
Region = Annotated[str | None, _flag("Its region.", "--dynamodb-region", var="DYNAMODB_REGION", metavar="REGION")]
Endpoint = Annotated[
    str | None, _flag("Where, if not at AWS.", "--dynamodb-endpoint", var="DYNAMODB_ENDPOINT", metavar="URL")
]
Clusterset = Annotated[str | None, _flag("Which clusterset.", "--clusterset", var="CLUSTERSET", metavar="NAME")]
Output = Annotated[Literal["table", "json", "yaml"], typer.Option("-o", "--output", help="How it is printed.")]
Timeout = Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds until it is given up.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


class Stop(Exception):
    def __init__(self, code: Exit, message: str = "") -> None:
        super().__init__(message)
        self.code = code


def run(work: Coroutine[Any, Any, None], timeout: float) -> None:
    """The only place where a fault becomes an exit code."""
    configure("auto", "error", sys.stderr)
    try:
        asyncio.run(asyncio.wait_for(work, timeout))
    except Stop as stop:
        code, said = stop.code, str(stop)
    except StoreAway as error:
        cause = error.__cause__
        is_missing = isinstance(cause, StoreUnavailable) and cause.kind == "missing"
        code, said = Exit.NOT_FOUND if is_missing else Exit.AWAY, str(error)
    except CannotKeep as error:
        code, said = _code_of(error.__cause__), str(error)
    except TimeoutError:
        code, said = Exit.AWAY, f"no end after {timeout:g} s"
    except (Moved, Fenced, OSError) as error:
        code, said = Exit.FAILED, str(error)
    else:
        return
    if said:
        typer.echo(f"mcs-admin: {said}", err=code is not Exit.OK)
    raise typer.Exit(int(code))


def _code_of(cause: BaseException | None) -> Exit:
    """Of a CannotKeep that a table gave."""
    from botocore.exceptions import (  # type: ignore[import-untyped]
        ClientError,
        EndpointConnectionError,
        HTTPClientError,
    )

    if isinstance(cause, ClientError):
        return Exit.FAILED
    return Exit.AWAY if isinstance(cause, EndpointConnectionError | HTTPClientError | OSError) else Exit.REFUSED


def require_extra() -> None:
    """What reads the table comes with an extra; help is given without it."""
    try:
        import aiobotocore  # type: ignore[import-untyped]  # noqa: F401
    except ModuleNotFoundError as error:
        raise Stop(Exit.REFUSED, "DynamoDB needs the extra: pip install 'global-ingress[dynamodb]'") from error


def table_of(name: str | None, region: str | None, endpoint: str | None) -> Table:
    if not name:
        raise Stop(Exit.REFUSED, "which table? --dynamodb-table or MCS_DYNAMODB_TABLE")
    if len(name) < 3:
        raise Stop(Exit.REFUSED, f"--dynamodb-table {name}: a table's name has at least 3 characters")
    require_extra()
    from discovery.dynamodb import Table

    return Table(name, region, endpoint)


Named = tuple[str | None, str | None, str | None, str | None]
"""Table, region, endpoint, clusterset: as given."""


async def with_store(named: Named, work: Callable[[DynamoStore], Awaitable[None]]) -> None:
    table = table_of(*named[:3])
    if not named[3] or "#" in named[3]:
        raise Stop(Exit.REFUSED, "which clusterset? --clusterset or MCS_CLUSTERSET, a name without '#'")
    from discovery.dynamodb import client_of
    from discovery.mcs.store_dynamodb import DynamoStore

    async with client_of(table) as client:
        await work(DynamoStore(client, table.name, named[3], SYSTEM_CLOCK))


def now_ms() -> int:
    return int(SYSTEM_CLOCK.now().timestamp() * 1000)


async def seen_of(store: DynamoStore) -> Seen:
    found = await store.clusters()
    partitions = {record.id: await store.partition(record.id) for record in found.records}
    return Seen(now_ms(), {record.id: record for record in found.records}, partitions, found.unreadable)


def show(document: list[Document] | Document, output: str) -> None:
    if output == "table" and isinstance(document, list):
        typer.echo(admin.as_table(document))
    elif output == "json":
        typer.echo(json.dumps(document, indent=2))
    else:
        # Through JSON, so that tuples are lists for every reader.
        typer.echo(yaml.safe_dump(json.loads(json.dumps(document)), sort_keys=False), nl=False)


def ask(question: str, yes: bool) -> None:
    """Before anything is deleted. Nobody there to be asked is a no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Stop(Exit.REFUSED, "this deletes; there is no terminal to ask on: give --yes")
    if not typer.confirm(question, err=True):
        raise Stop(Exit.REFUSED, "nothing was done")
