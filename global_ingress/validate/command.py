"""`global-ingress validate`: parsing only.

What validates is imported when it is asked for, so that other commands do not pay for it.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from global_ingress.validate.asking import Rendered
    from global_ingress.validate.evidence import Objectives, Task
    from global_ingress.validate.report.judged import Report
    from global_ingress.validate.run import Patience


def app_command(
    ingress: Annotated[list[str] | None, typer.Option(metavar="CLUSTER=URL", help="an ingress; repeatable")] = None,
    discovery: Annotated[list[str] | None, typer.Option(metavar="CLUSTER=URL", help="a discovery; repeatable")] = None,
    admin: Annotated[list[str] | None, typer.Option(metavar="CLUSTER=URL", help="an admin listener of one")] = None,
    model: Annotated[str | None, typer.Option(help="the model that is asked for")] = None,
    requests_per_pool: Annotated[int, typer.Option(min=1, help="requests from each region to each pool in a run")] = 10,
    expect_pools: Annotated[int | None, typer.Option(min=1, help="how many pools must be listed")] = None,
    expect_routers: Annotated[int | None, typer.Option(min=0, help="how many routers must be listed")] = None,
    attempts: Annotated[int, typer.Option(min=1, help="`retries.attempts` of the ingresses")] = 2,
    objectives: Annotated[Path | None, typer.Option(help="file of objectives that are to be met")] = None,
    disturb: Annotated[
        str | None,
        typer.Option(
            metavar="kubernetes|COMMAND",
            help="may disturb: by the API servers, or is called as COMMAND replace|cut|restore CLUSTER NS/NAME",
        ),
    ] = None,
    kubeconfig: Annotated[
        list[str] | None, typer.Option(metavar="CLUSTER=PATH", help="credentials of a cluster's API server; repeatable")
    ] = None,
    context: Annotated[
        list[str] | None, typer.Option(metavar="CLUSTER=NAME", help="the kubeconfig's context that is that cluster")
    ] = None,
    bundle: Annotated[Path | None, typer.Option(help="the rendered folder that was applied")] = None,
    rollback: Annotated[Path | None, typer.Option(help="the rendered folder that could be gone back to")] = None,
    fleet: Annotated[Path | None, typer.Option(help="the fleet file that --bundle must be rendered of")] = None,
    protect: Annotated[
        list[str] | None, typer.Option(metavar="NAMESPACE", help="whose pods must keep identity and health")
    ] = None,
    verifier: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="is called as COMMAND IMAGE@DIGEST; 0 = signed by who may")
    ] = None,
    phase: Annotated[
        list[int] | None, typer.Option(min=1, max=7, help="only this phase's checks are made; repeatable")
    ] = None,
    wait: Annotated[float, typer.Option(min=0, help="seconds to wait for a stable inventory")] = 60.0,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="folder for the report's files")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="skipped checks fail the run too")] = False,
    diff: Annotated[
        tuple[Path, Path] | None, typer.Option(metavar="OLD NEW", help="compare two report.json and do nothing else")
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="print the JSON Schema of report.json")] = False,
) -> None:
    """Shows that all regions find the same pools and spread requests exactly, and what happens when one breaks.

    Nothing is disturbed without --disturb. Exit codes: 0 shown and nothing failed, 1 something failed (--diff: got
    worse), 2 wrong usage.

    Example: global-ingress validate --model llama --ingress ohio=http://10.0.0.1:8000 --admin ohio=http://10.0.0.1:9090
    --discovery ohio=http://10.0.0.1:8080 -o report/
    """
    from rich.console import Console

    from global_ingress.validate.given import read_given
    from global_ingress.validate.report.judged import exit_code
    from global_ingress.validate.run import Patience, task_of
    from global_ingress.validate.show import show

    _done_instead(schema, diff)
    _needed({"--model": model, "--ingress": ingress, "--discovery": discovery})
    given, rendered = read_given(kubeconfig or [], context or [], bundle, rollback, fleet, protect or [])
    given = replace(given, phases=_phases(phase, disturb), verifier=tuple(_command("--verifier", verifier)))
    if verifier is not None and given.bundle is None:
        raise typer.BadParameter("there is no --bundle whose images it could verify", param_hint="--verifier")
    if disturb == "kubernetes" and not given.kubeconfigs:
        raise typer.BadParameter("kubernetes needs --kubeconfig", param_hint="--disturb")
    ingresses, admins = _addresses("--ingress", ingress or []), _addresses("--admin", admin or [])
    if strangers := [name for name in admins if name not in ingresses]:
        raise typer.BadParameter(f"no --ingress is given for {', '.join(strangers)}", param_hint="--admin")
    task = task_of(
        model or "",
        ingresses,
        _addresses("--discovery", discovery or []),
        admins,
        per_pool=requests_per_pool,
        expect_pools=expect_pools,
        expect_routers=expect_routers,
        attempts=attempts,
        disturb=_command("--disturb", disturb),
        objectives=_objectives(objectives),
        given=given,
    )
    report = _validated(task, output, Patience(inventory_s=wait), rendered)
    show(report, Console())
    raise typer.Exit(exit_code(report, strict=strict))


def _validated(task: Task, output: Path | None, patience: Patience, rendered: Rendered) -> Report:
    """What is done is told on stderr; a report that cannot be written ends it."""
    from rich.console import Console

    from global_ingress.validate.progress import bars
    from global_ingress.validate.run import validate_command

    errors = Console(stderr=True)
    try:
        with bars(errors) as seen:
            return validate_command(
                task, say=seen.say, sent=seen.sent, output=output, patience=patience, rendered=rendered
            )
    except asyncio.CancelledError:
        errors.out("ended by SIGTERM; what was cut has been restored", highlight=False)
        raise typer.Exit(143) from None
    except OSError as error:
        errors.out(f"cannot write the report: {error}", highlight=False)
        raise typer.Exit(1) from error


def _done_instead(schema: bool, diff: tuple[Path, Path] | None) -> None:
    """What is asked of the command beside validating: does it and ends."""
    if schema:
        from global_ingress.validate.report.document import report_schema

        typer.echo(report_schema(), nl=False)
        raise typer.Exit
    if diff is not None:
        raise typer.Exit(_compared(*diff))


def _needed(given: Mapping[str, object]) -> None:
    if missing := [flag for flag, value in given.items() if not value]:
        raise typer.BadParameter(f"missing: {', '.join(missing)}")


def _command(flag: str, given: str | None) -> list[str]:
    """The command's words, as a shell would take them apart."""
    try:
        words = shlex.split(given or "")
    except ValueError as error:
        raise typer.BadParameter(f"{given!r}: {error}", param_hint=flag) from error
    if given is not None and not words:
        raise typer.BadParameter("it is empty", param_hint=flag)
    return words


def _phases(given: list[int] | None, disturb: str | None) -> tuple[int, ...]:
    from global_ingress.validate.evidence import PHASES
    from global_ingress.validate.run import TRAFFIC

    phases = tuple(sorted(set(given))) if given else PHASES
    if disturb is not None and TRAFFIC not in phases:
        raise typer.BadParameter(f"phase {TRAFFIC}, which disturbs, is not among --phase", param_hint="--disturb")
    return phases


def _objectives(path: Path | None) -> Objectives | None:
    from global_ingress.validate.objectives import BadObjectives, read_objectives

    if path is None:
        return None
    try:
        return read_objectives(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, BadObjectives) as error:
        raise typer.BadParameter(f"{path}: {error}", param_hint="--objectives") from error


def _compared(old: Path, new: Path) -> int:
    """Print what changed; 1 when something got worse."""
    from global_ingress.validate.report.compare import changes, worse
    from global_ingress.validate.report.document import BadReport, read_report

    found = []
    for path in (old, new):
        try:
            found.append(read_report(path.read_bytes()))
        except (OSError, BadReport) as error:
            raise typer.BadParameter(f"{path}: {error}", param_hint="--diff") from error
    lines = changes(*found)
    typer.echo("\n".join(lines) if lines else "nothing changed")
    return 1 if worse(*found) else 0


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
