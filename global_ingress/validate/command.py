"""`global-ingress validate`: parsing only.

What validates is imported when it is asked for, so that other commands do not pay for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def app_command(
    ingress: Annotated[list[str], typer.Option(metavar="CLUSTER=URL", help="an ingress; repeatable")],
    discovery: Annotated[list[str], typer.Option(metavar="CLUSTER=URL", help="a discovery service; repeatable")],
    model: Annotated[str, typer.Option(help="the model that is asked for")],
    requests_per_pool: Annotated[int, typer.Option(min=1, help="requests from each region to each pool in a run")] = 10,
    expect_pools: Annotated[int | None, typer.Option(min=1, help="how many pools must be listed")] = None,
    wait: Annotated[float, typer.Option(min=0, help="seconds to wait for a stable inventory")] = 60.0,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="folder for the report's files")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="skipped checks fail the run too")] = False,
) -> None:
    """Shows that all regions find the same pools and spread requests over them exactly."""
    from rich.console import Console

    from global_ingress.validate.report import exit_code
    from global_ingress.validate.run import Patience, task_of, validate_command
    from global_ingress.validate.show import show

    task = task_of(
        model,
        _addresses("--ingress", ingress),
        _addresses("--discovery", discovery),
        per_pool=requests_per_pool,
        expect_pools=expect_pools,
    )
    errors = Console(stderr=True)
    try:
        report = validate_command(
            task,
            say=lambda line: errors.out(line, highlight=False),
            output=output,
            patience=Patience(inventory_s=wait),
        )
    except OSError as error:
        errors.out(f"cannot write the report: {error}", highlight=False)
        raise typer.Exit(1) from error
    show(report, Console())
    raise typer.Exit(exit_code(report, strict=strict))


def _addresses(flag: str, given: list[str]) -> dict[str, str]:
    """CLUSTER=URL pairs; all that is wrong with them is said at once."""
    found: dict[str, str] = {}
    wrong = []
    for pair in given:
        cluster, equals, url = pair.partition("=")
        if not equals or not cluster or not _is_address(url):
            wrong.append(f"{pair!r} is not CLUSTER=http://HOST:PORT")
        elif cluster in found:
            wrong.append(f"{cluster} is named twice")
        found[cluster] = url
    if wrong:
        raise typer.BadParameter("; ".join(wrong), param_hint=flag)
    return found


def _is_address(url: str) -> bool:
    import httpx

    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return False
    plain = parsed.path in ("", "/") and not parsed.query and not parsed.fragment and not parsed.userinfo
    return parsed.scheme in ("http", "https") and bool(parsed.host) and plain
