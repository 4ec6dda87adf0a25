"""`global-ingress top`: parsing, asking, and drawing. Exit code 1 when, with `--once`, an ingress did not answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from discovery.kit.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    import httpx
    from rich.table import Table

    from global_ingress.top.rows import Row

PATIENCE = 3.0  # seconds for an ingress to answer


class Form(StrEnum):
    TABLE = "table"
    JSON = "json"


def app_command(
    urls: Annotated[list[str], typer.Argument(metavar="URL...", help="Admin addresses of ingresses.")],
    once: Annotated[bool, typer.Option("--once", help="Show once and end.")] = False,
    output: Annotated[Form, typer.Option("-o", "--output", help="json: one document a line.")] = Form.TABLE,
    every: Annotated[float, typer.Option(min=0.2, max=3600, help="Seconds between two looks.")] = 2.0,
) -> None:
    """Show rates, in flight, failures, first-byte times and ejections of several ingresses and their pools.

    global-ingress top http://127.0.0.1:18300 http://127.0.0.1:18301

    global-ingress top --once -o json http://127.0.0.1:9090
    """
    import httpx

    wrong = [url for url in urls if not url.startswith(("http://", "https://"))]
    if wrong:
        raise typer.BadParameter(f"{', '.join(wrong)}: an address is http://HOST:PORT", param_hint="URL")
    try:
        answered = asyncio.run(_show(urls, once=once, form=output, every=every))
    except KeyboardInterrupt:
        raise typer.Exit(0) from None
    except httpx.InvalidURL as error:
        raise typer.BadParameter(str(error), param_hint="URL") from error
    raise typer.Exit(0 if answered else 1)


async def _show(urls: Sequence[str], *, once: bool, form: Form, every: float) -> bool:
    import httpx
    from rich.console import Console
    from rich.live import Live

    console = Console()
    async with httpx.AsyncClient(timeout=PATIENCE, trust_env=False) as client:
        found, answered = await _look(client, urls)
        if form is Form.JSON:
            _print(found)
            while not once:
                await SYSTEM_CLOCK.sleep(every)
                _print((await _look(client, urls))[0])
            return answered
        if once:
            console.print(_table(found))
            return answered
        with Live(_table(found), console=console, screen=True, auto_refresh=False) as live:
            while True:
                await SYSTEM_CLOCK.sleep(every)
                live.update(_table((await _look(client, urls))[0]), refresh=True)


def _print(found: Sequence[Row]) -> None:
    print(json.dumps({"rows": [row.document() for row in found]}), flush=True)


async def _look(client: httpx.AsyncClient, urls: Sequence[str]) -> tuple[list[Row], bool]:
    """The rows of all, and whether all answered."""
    asked = await asyncio.gather(*(_ask(client, url.rstrip("/")) for url in urls))
    return [row for found, _ in asked for row in found], all(answered for _, answered in asked)


async def _ask(client: httpx.AsyncClient, url: str) -> tuple[list[Row], bool]:
    import httpx

    from global_ingress.top.rows import NoStatus, away, rows

    try:
        answer = await client.get(f"{url}/status.json")
        answer.raise_for_status()
        return list(rows(url, answer.json())), True
    except (httpx.HTTPError, ValueError, NoStatus) as error:
        return [away(url, str(error) or type(error).__name__)], False


def _table(found: Sequence[Row]) -> Table:
    from rich.table import Table
    from rich.text import Text

    from discovery.kit.page import milliseconds, number, share

    table = Table(box=None, pad_edge=False)
    for name in ("ingress / pool", "region", "state"):
        table.add_column(name)
    for name in ("req/s", "in flight", "failed", "p50", "p99", "ejected"):
        table.add_column(name, justify="right")
    for row in found:
        style = "bold" if not row.pool else ""
        table.add_row(
            Text(f"  {row.pool}" if row.pool else row.ingress, style),
            Text(row.region),
            Text(("● " if row.good else "✕ ") + row.state, "green" if row.good else "red"),
            number(row.rate),
            str(row.in_flight),
            share(row.failed),
            milliseconds(row.p50_ms),
            milliseconds(row.p99_ms),
            Text(str(row.ejected), "red" if row.ejected else ""),
        )
    return table
