"""The command `mcs-controller`: parsing only.

Owns flags, their variables and their help. What a text means is decided by `settings`, so that everything that is
wrong is told at once; how the registry is reached comes from outside.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
import uvloop

from discovery.kit.backoff import SYSTEM_CHANCE
from discovery.kit.clock import SYSTEM_CLOCK
from discovery.kit.log import configure
from discovery.kube import labels
from discovery.mcs.controller.app import Connect, Controller, run_controller
from discovery.mcs.controller.exporter import Digest
from discovery.mcs.controller.settings import Settings, check
from discovery.mcs.digest import digest

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_REGISTRY = "The registry"
_CLUSTER = "This cluster"
_SAFETY = "What is deleted, and when"
_PROCESS = "The process"


def _flag(text: str, *, var: str, panel: str, metavar: str | None = None) -> Any:
    return typer.Option(envvar=f"MCS_{var}", help=text, metavar=metavar, rich_help_panel=panel)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mcs-controller {version('global-ingress')}")
        raise typer.Exit


def controller(
    ctx: typer.Context,
    registry: Annotated[
        list[str] | None,
        _flag("URL of a registry; repeatable, or with commas.", var="REGISTRY", panel=_REGISTRY, metavar="URL"),
    ] = None,
    registry_token_file: Annotated[
        str | None,
        _flag("File with the bearer token.", var="REGISTRY_TOKEN_FILE", panel=_REGISTRY, metavar="PATH"),
    ] = None,
    registry_ca_file: Annotated[
        str | None,
        _flag("Who signs the registry's certificate.", var="REGISTRY_CA_FILE", panel=_REGISTRY, metavar="PATH"),
    ] = None,
    registry_cert_file: Annotated[
        str | None,
        _flag("Our certificate for mTLS.", var="REGISTRY_CERT_FILE", panel=_REGISTRY, metavar="PATH"),
    ] = None,
    registry_key_file: Annotated[
        str | None, _flag("Its key.", var="REGISTRY_KEY_FILE", panel=_REGISTRY, metavar="PATH")
    ] = None,
    cluster_id: Annotated[
        str | None,
        _flag(
            "This cluster's id; else the ClusterProperty cluster.clusterset.k8s.io.",
            var="CLUSTER_ID",
            panel=_CLUSTER,
            metavar="ID",
        ),
    ] = None,
    region: Annotated[
        str | None,
        _flag("Its region; else its id.", var="REGION", panel=_CLUSTER, metavar="NAME"),
    ] = None,
    clusterset: Annotated[
        str | None,
        _flag("Else the ClusterProperty clusterset.k8s.io.", var="CLUSTERSET", panel=_CLUSTER, metavar="NAME"),
    ] = None,
    kubeconfig: Annotated[
        str | None,
        _flag("If not in this pod's own cluster.", var="KUBECONFIG", panel=_CLUSTER, metavar="PATH"),
    ] = None,
    context: Annotated[
        str | None, _flag("Context of the kubeconfig.", var="CONTEXT", panel=_CLUSTER, metavar="NAME")
    ] = None,
    namespace: Annotated[
        list[str] | None,
        _flag("Only this namespace; repeatable.", var="NAMESPACE", panel=_CLUSTER, metavar="NAME"),
    ] = None,
    export_label: Annotated[
        str,
        _flag('A Service with this label "true" is exported.', var="EXPORT_LABEL", panel=_CLUSTER, metavar="KEY"),
    ] = labels.MCS_EXPORT,
    adopt: Annotated[
        bool,
        typer.Option(
            "--adopt", envvar="MCS_ADOPT", help="Take over objects that are in the way.", rich_help_panel=_CLUSTER
        ),
    ] = False,
    hold_down: Annotated[
        str,
        _flag(
            "How long a new registry may lack a cluster before its imports go.",
            var="HOLD_DOWN",
            panel=_SAFETY,
            metavar="DURATION",
        ),
    ] = "10m",
    settle: Annotated[
        str,
        _flag(
            "How long another registry must have been heard before what it lacks counts as gone.",
            var="SETTLE",
            panel=_SAFETY,
            metavar="DURATION",
        ),
    ] = "45s",
    brake_wait: Annotated[
        str,
        _flag(
            "How long many deletions at once wait for a second snapshot.",
            var="BRAKE_WAIT",
            panel=_SAFETY,
            metavar="DURATION",
        ),
    ] = "60s",
    max_delete_ratio: Annotated[
        float,
        _flag("More than ten and this part of all are many; 1: never.", var="MAX_DELETE_RATIO", panel=_SAFETY),
    ] = 0.3,
    stale_endpoints: Annotated[
        str,
        _flag(
            "Endpoints of a cluster whose lease ran out: withdraw, or keep (marked).",
            var="STALE_ENDPOINTS",
            panel=_SAFETY,
            metavar="WHAT",
        ),
    ] = "withdraw",
    unexport_timeout: Annotated[
        str,
        _flag(
            "How long a deleted export waits for the registry.",
            var="UNEXPORT_TIMEOUT",
            panel=_SAFETY,
            metavar="DURATION",
        ),
    ] = "5m",
    leader_elect: Annotated[
        bool,
        typer.Option(
            "--leader-elect/--no-leader-elect",
            envvar="MCS_LEADER_ELECT",
            help="Of several replicas one writes.",
            rich_help_panel=_PROCESS,
        ),
    ] = True,
    lease_namespace: Annotated[
        str | None,
        _flag("Namespace of its Lease; else this pod's.", var="LEASE_NAMESPACE", panel=_PROCESS, metavar="NAME"),
    ] = None,
    listen: Annotated[
        str,
        _flag("For /livez /readyz /metrics /status.", var="LISTEN", panel=_PROCESS, metavar="HOST:PORT"),
    ] = "0.0.0.0:8081",
    log_format: Annotated[
        str, _flag("auto, json or text.", var="LOG_FORMAT", panel=_PROCESS, metavar="FORMAT")
    ] = "auto",
    log_level: Annotated[
        str, _flag("debug, info, warning or error.", var="LOG_LEVEL", panel=_PROCESS, metavar="LEVEL")
    ] = "info",
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Export this cluster's Services to a registry, and import what other clusters export."""
    connect, counted = ctx.obj
    given = {key: value for key, value in ctx.params.items() if key != "show_version"}
    checked = check(given | {"namespace": tuple(namespace or ())})
    if isinstance(checked, list):
        typer.echo("\n".join(["mcs-controller: cannot start with these settings:", *checked]), err=True)
        raise typer.Exit(2)
    raise typer.Exit(_run(checked, connect, counted))


def controller_app(connect: Connect, digest: Digest = digest) -> typer.Typer:
    """The command, with this way to the registry."""
    app = typer.Typer(
        name="mcs-controller",
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"obj": (connect, digest)},
    )
    app.command()(controller)
    return app


def _run(settings: Settings, connect: Connect, digest: Digest) -> int:
    configure(settings.log_format, settings.log_level, sys.stderr)
    # Kubernetes' own names for this pod and its namespace.
    me = f"{os.environ.get('HOSTNAME') or 'mcs-controller'}_{secrets.token_hex(8)}"  # noqa: TID251
    lease_namespace = settings.lease_namespace or _own_namespace()
    controller = Controller(
        settings, connect, digest, SYSTEM_CLOCK, SYSTEM_CHANCE, me=me, lease_namespace=lease_namespace
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run_controller(controller))


def _own_namespace() -> str:
    try:
        return _ACCOUNT.read_text().strip()
    except FileNotFoundError:
        return "default"
