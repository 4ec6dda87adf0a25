"""`global-ingress demo`: parsing, and what the outcome means to the shell.

What runs the demo is imported when it is asked for, so that other commands do not pay for it.
"""

from __future__ import annotations

import asyncio
import os
from typing import Annotated

import typer

from global_ingress.demo.regions import DEFAULT_PORT, MOST, BadLayout, layout

_OURS = ("GLOBAL_INGRESS_", "GLOBAL_DISCOVERY_")


def app_command(
    regions: Annotated[int, typer.Option(help=f"how many regions are simulated, 1 to {MOST}")] = 4,
    port: Annotated[int, typer.Option(help="first port; the others follow at +100, +200 and +300")] = DEFAULT_PORT,
    keep: Annotated[bool, typer.Option("--keep", help="stay after the report, until Ctrl-C")] = False,
) -> None:
    """Runs the whole system on loopback: simulated regions, discovery and ingress in each, traffic, a report."""
    from rich.console import Console

    from global_ingress.demo.run import DemoFailed, Interrupted, Wishes, demo
    from global_ingress.validate.show import show

    try:
        places = layout(regions, port)
    except BadLayout as error:
        raise typer.BadParameter(str(error)) from error
    console, errors = Console(), Console(stderr=True)
    # The children's settings are this command's business: variables of the shell must not change what is shown.
    environment = {k: v for k, v in os.environ.items() if not k.startswith(_OURS)}  # noqa: TID251
    try:
        code = asyncio.run(
            demo(
                Wishes(places, keep, environment),
                say=lambda line: console.out(line, highlight=False),
                show=lambda report: show(report, console),
            )
        )
    except DemoFailed as error:
        errors.out(f"demo: {error}", highlight=False)
        raise typer.Exit(1) from error
    except Interrupted as error:
        errors.out("demo: ended before the report was there", highlight=False)
        raise typer.Exit(1) from error
    raise typer.Exit(code)
