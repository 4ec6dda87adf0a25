"""The command `mcs-registry`: parsing only. What a text means is decided by `registry_settings`."""

from __future__ import annotations

import asyncio
import sys
from importlib.metadata import version
from typing import Annotated, Any

import typer
import uvloop

from discovery.kit.log import configure
from discovery.mcs.registry_app import serve_registry
from discovery.mcs.registry_settings import check

app = typer.Typer(name="mcs-registry", add_completion=False, pretty_exceptions_enable=False)


def _flag(text: str, *, var: str, metavar: str | None = None) -> Any:
    return typer.Option(envvar=f"MCS_{var}", help=text, metavar=metavar)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mcs-registry {version('global-ingress')}")
        raise typer.Exit


@app.command()
def registry(
    ctx: typer.Context,
    http_listen: Annotated[
        str | None,
        _flag("Default 127.0.0.1:8080; with --tokens-file 0.0.0.0:8080.", var="HTTP_LISTEN", metavar="HOST:PORT"),
    ] = None,
    grpc_listen: Annotated[
        str | None,
        _flag("Serve gRPC here, as 127.0.0.1:9090; nowhere if not given.", var="GRPC_LISTEN", metavar="HOST:PORT"),
    ] = None,
    store: Annotated[str, _flag("memory or dynamodb.", var="STORE", metavar="STORE")] = "memory",
    clusterset: Annotated[
        str, _flag("Whose clusters these are, in a shared table.", var="CLUSTERSET", metavar="NAME")
    ] = "default",
    dynamodb_table: Annotated[str | None, _flag("The table.", var="DYNAMODB_TABLE", metavar="NAME")] = None,
    dynamodb_region: Annotated[str | None, _flag("Its region.", var="DYNAMODB_REGION", metavar="REGION")] = None,
    dynamodb_endpoint: Annotated[
        str | None, _flag("Where, if not at AWS.", var="DYNAMODB_ENDPOINT", metavar="URL")
    ] = None,
    lease_ttl: Annotated[str, _flag("How long a cluster may be silent.", var="LEASE_TTL", metavar="DURATION")] = "30s",
    renew: Annotated[
        str | None,
        _flag("How often a cluster renews its lease; a third of it if not given.", var="RENEW", metavar="DURATION"),
    ] = None,
    grace: Annotated[str, _flag("And how much longer.", var="GRACE", metavar="DURATION")] = "5s",
    export_retention: Annotated[
        str, _flag("How long a silent cluster's exports stand.", var="EXPORT_RETENTION", metavar="DURATION")
    ] = "24h",
    watch_queue: Annotated[
        str,
        _flag("The most that may wait for one watch before it starts over.", var="WATCH_QUEUE", metavar="SIZE"),
    ] = "64MiB",
    tokens_file: Annotated[
        str | None,
        _flag("Digests of tokens and the clusters each may write.", var="TOKENS_FILE", metavar="PATH"),
    ] = None,
    tls_cert_file: Annotated[
        str | None, _flag("Serve HTTPS with this certificate (PEM).", var="TLS_CERT_FILE", metavar="PATH")
    ] = None,
    tls_key_file: Annotated[str | None, _flag("Its key.", var="TLS_KEY_FILE", metavar="PATH")] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", envvar="MCS_INSECURE", help="Let anybody who can reach it write.")
    ] = False,
    log_format: Annotated[str, _flag("auto, json or text.", var="LOG_FORMAT", metavar="FORMAT")] = "auto",
    log_level: Annotated[str, _flag("debug, info, warning or error.", var="LOG_LEVEL", metavar="LEVEL")] = "info",
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """What every cluster exports, for every cluster to import."""
    checked = check({key: value for key, value in ctx.params.items() if key != "show_version"})
    if isinstance(checked, list):
        typer.echo("\n".join(["mcs-registry: cannot start with these settings:", *checked]), err=True)
        raise typer.Exit(2)
    configure(checked.log_format, checked.log_level, sys.stderr)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        raise typer.Exit(runner.run(serve_registry(checked)))


def main() -> None:
    """The console script `mcs-registry`."""
    app(prog_name="mcs-registry")


if __name__ == "__main__":
    main()
