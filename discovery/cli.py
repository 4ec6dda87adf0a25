"""The commands of discovery: parsing only.

Owns flags, their variables and their help. What a flag's text means is decided by the settings of the part it is for,
so that everything that is wrong is told at once.
"""

from __future__ import annotations

import asyncio
import sys
from importlib.metadata import version
from typing import Annotated, Any

import typer
import uvloop

from discovery.directory.app import serve_directory
from discovery.directory.registration_store import CannotKeep
from discovery.directory.settings import Given, check
from discovery.directory.taking import import_dynamodb
from discovery.kit.log import configure

_RELEASE = version("global-ingress")
_FILES = "With --pool-discovery files"
_KUBERNETES = "With --pool-discovery mcs or karmada"
_KARMADA = "With --pool-discovery karmada or files"
_SLICES = "With --pool-discovery mcs, karmada or files"
_REGISTRATIONS = "With --pool-discovery registrations"
_DYNAMODB = "With --registration-storage dynamodb"
_MODES_OF_PANEL: dict[object, tuple[str, ...]] = {
    _FILES: ("files",),
    _KARMADA: ("karmada", "files"),
    _KUBERNETES: ("mcs", "karmada"),
    _REGISTRATIONS: ("registrations",),
    _SLICES: ("mcs", "karmada", "files"),
}
_STORAGES_OF_PANEL: dict[object, tuple[str, ...]] = {_DYNAMODB: ("dynamodb",)}


def _flag(text: str, *, var: str, panel: str | None = None, metavar: str | None = None) -> Any:
    return typer.Option(
        envvar=f"GLOBAL_DISCOVERY_{var}",
        help=text,
        metavar=metavar,
        rich_help_panel=panel or "All modes",
    )


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"global-discovery-service {_RELEASE}")
        raise typer.Exit


def directory(
    ctx: typer.Context,
    listen: Annotated[
        str, _flag("Address to serve on; [::]:8080 where pods have IPv6.", var="LISTEN", metavar="HOST:PORT")
    ] = "0.0.0.0:8080",
    tls_cert_path: Annotated[
        str | None, _flag("Serve HTTPS with this certificate (PEM).", var="TLS_CERT_PATH", metavar="PATH")
    ] = None,
    tls_key_path: Annotated[
        str | None, _flag("The certificate's key (PEM); both or none.", var="TLS_KEY_PATH", metavar="PATH")
    ] = None,
    pool_discovery: Annotated[
        str,
        _flag(
            "Where pools come from: registrations, mcs, karmada or files; several with commas between.",
            var="POOL_DISCOVERY",
            metavar="MODE",
        ),
    ] = "registrations",
    registration_storage: Annotated[
        str,
        _flag("Where registrations are kept: memory or dynamodb.", var="REGISTRATION_STORAGE", metavar="STORE"),
    ] = "memory",
    heartbeat_interval_secs: Annotated[
        str,
        _flag("How often a Relay is told to register again.", var="HEARTBEAT_INTERVAL_SECS", metavar="SECONDS"),
    ] = "5",
    lease_duration_secs: Annotated[
        str,
        _flag(
            "How long a registration lasts; longer than the heartbeat, at most 86400.",
            var="LEASE_DURATION_SECS",
            metavar="SECONDS",
        ),
    ] = "15",
    registration_tokens_file: Annotated[
        str | None,
        _flag(
            "Who may register: digests of tokens and the clusters each may write; read again when it changes.",
            var="REGISTRATION_TOKENS_FILE",
            metavar="PATH",
        ),
    ] = None,
    allow_cidr: Annotated[
        list[str] | None,
        _flag(
            "Network in which a registration may name frontends; repeatable. Without it none may be named.",
            var="ALLOW_CIDR",
            metavar="CIDR",
        ),
    ] = None,
    insecure_registrations: Annotated[
        bool,
        typer.Option(
            "--insecure-registrations",
            envvar="GLOBAL_DISCOVERY_INSECURE_REGISTRATIONS",
            help="Let anybody who can reach this address register and unregister pools.",
            rich_help_panel="All modes",
        ),
    ] = False,
    log_format: Annotated[
        str, _flag("auto (text on a terminal, else JSON), json or text.", var="LOG_FORMAT", metavar="FORMAT")
    ] = "auto",
    log_level: Annotated[str, _flag("debug, info, warning or error.", var="LOG_LEVEL", metavar="LEVEL")] = "info",
    router: Annotated[
        list[str] | None,
        _flag("A global router replica; repeatable.", var="ROUTER", panel=_REGISTRATIONS, metavar="ID=URL"),
    ] = None,
    dynamodb_table: Annotated[
        str | None,
        _flag("The table; `create-table` makes it.", var="DYNAMODB_TABLE", panel=_DYNAMODB, metavar="NAME"),
    ] = None,
    dynamodb_region: Annotated[
        str | None,
        _flag("AWS region, if not the environment's.", var="DYNAMODB_REGION", panel=_DYNAMODB, metavar="REGION"),
    ] = None,
    dynamodb_endpoint: Annotated[
        str | None,
        _flag("URL of DynamoDB, if not the region's.", var="DYNAMODB_ENDPOINT", panel=_DYNAMODB, metavar="URL"),
    ] = None,
    files: Annotated[
        str | None,
        _flag(
            "Directory of EndpointSlices as `kubectl get endpointslices -o yaml` writes them; watched.",
            var="FILES",
            panel=_FILES,
            metavar="PATH",
        ),
    ] = None,
    relay_service: Annotated[
        str, _flag("What a pool's relay Service is called.", var="RELAY_SERVICE", panel=_SLICES, metavar="PATTERN")
    ] = "{name}-pool-relay",
    frontend_service: Annotated[
        str,
        _flag("What a pool's frontend Service is called.", var="FRONTEND_SERVICE", panel=_SLICES, metavar="PATTERN"),
    ] = "{name}-frontend",
    relay_port: Annotated[
        str, _flag("Name or number of the relay's port.", var="RELAY_PORT", panel=_SLICES, metavar="PORT")
    ] = "grpc",
    frontend_port: Annotated[
        str, _flag("Name or number of the frontend's port.", var="FRONTEND_PORT", panel=_SLICES, metavar="PORT")
    ] = "http",
    cluster_region: Annotated[
        list[str] | None,
        _flag(
            "Region of a cluster whose slices carry no region label; repeatable.",
            var="CLUSTER_REGION",
            panel=_SLICES,
            metavar="CLUSTER=REGION",
        ),
    ] = None,
    address_family: Annotated[
        str,
        _flag(
            "Preferred family of dual-stack frontends: ipv4 or ipv6.",
            var="ADDRESS_FAMILY",
            panel=_SLICES,
            metavar="FAMILY",
        ),
    ] = "ipv4",
    namespace: Annotated[
        list[str] | None,
        _flag("Only slices of this namespace; repeatable.", var="NAMESPACE", panel=_SLICES, metavar="NAME"),
    ] = None,
    karmada_cluster: Annotated[
        list[str] | None,
        _flag(
            "A member cluster's name: helps to split the names of Karmada's slices; repeatable.",
            var="KARMADA_CLUSTER",
            panel=_KARMADA,
            metavar="NAME",
        ),
    ] = None,
    cluster_id: Annotated[
        str | None,
        _flag(
            "The cluster that this runs in: whose the Global Router's own slices are.",
            var="CLUSTER_ID",
            panel=_SLICES,
            metavar="NAME",
        ),
    ] = None,
    router_namespace: Annotated[
        str | None,
        _flag("Namespace of the Global Router's Service.", var="ROUTER_NAMESPACE", panel=_SLICES, metavar="NAME"),
    ] = None,
    router_service: Annotated[
        str | None,
        _flag(
            "The Global Router's Service: its own slices where it runs, imported ones elsewhere.",
            var="ROUTER_SERVICE",
            panel=_SLICES,
            metavar="NAME",
        ),
    ] = None,
    router_port: Annotated[
        str, _flag("Name or number of the router's port.", var="ROUTER_PORT", panel=_SLICES, metavar="PORT")
    ] = "http",
    kubeconfig: Annotated[
        str | None,
        _flag(
            "Where the slices are read, if not in this pod's own cluster; else $KUBECONFIG.",
            var="KUBECONFIG",
            panel=_KUBERNETES,
            metavar="PATH",
        ),
    ] = None,
    context: Annotated[
        str | None,
        _flag("Context of the kubeconfig, if not its current one.", var="CONTEXT", panel=_KUBERNETES, metavar="NAME"),
    ] = None,
    confirm_mass_removal: Annotated[
        bool,
        typer.Option(
            "--confirm-mass-removal",
            envvar="GLOBAL_DISCOVERY_CONFIRM_MASS_REMOVAL",
            help="Hold a list that would remove more than half of more than ten pools until a second one agrees.",
            rich_help_panel=_KUBERNETES,
        ),
    ] = False,
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Which pools exist, where, how they are reached, and whether the list is complete."""
    if ctx.invoked_subcommand is not None:
        return
    checked = check(_given(ctx))
    if isinstance(checked, list):
        typer.echo("\n".join(["global-discovery-service: cannot start with these settings:", *checked]), err=True)
        raise typer.Exit(2)
    configure(checked.log_format, checked.log_level, sys.stderr)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        raise typer.Exit(runner.run(serve_directory(checked, _RELEASE)))


def _given(ctx: typer.Context) -> dict[str, Given]:
    """Each flag as it was given. Sources are compared by name: typer's are not click's own objects."""
    found: dict[str, Given] = {}
    for parameter in ctx.command.params:
        name = parameter.name
        if name == "show_version" or name not in ctx.params:  # what acts at once (help, completion) has no value
            continue
        source = ctx.get_parameter_source(name)
        value = ctx.params[name]
        panel = getattr(parameter, "rich_help_panel", None)
        found[name] = Given(
            name,
            tuple(value or ()) if parameter.multiple else value,
            None if source is None or source.name == "DEFAULT" else source.name.lower(),
            _MODES_OF_PANEL.get(panel, ()),
            _STORAGES_OF_PANEL.get(panel, ()),
        )
    return found


def create_table(
    dynamodb_table: Annotated[str, _flag("The table to make.", var="DYNAMODB_TABLE", panel=_DYNAMODB, metavar="NAME")],
    dynamodb_region: Annotated[
        str | None,
        _flag("AWS region, if not the environment's.", var="DYNAMODB_REGION", panel=_DYNAMODB, metavar="REGION"),
    ] = None,
    dynamodb_endpoint: Annotated[
        str | None,
        _flag("URL of DynamoDB, if not the region's.", var="DYNAMODB_ENDPOINT", panel=_DYNAMODB, metavar="URL"),
    ] = None,
) -> None:
    """Make the table for --registration-storage dynamodb, or see that the one that is there fits."""
    try:
        dynamodb = import_dynamodb()
        table = dynamodb.Table(dynamodb_table, dynamodb_region, dynamodb_endpoint)
        typer.echo(asyncio.run(dynamodb.create_table(table)))
    except CannotKeep as error:
        typer.echo(f"global-discovery-service: {error}", err=True)
        raise typer.Exit(1) from None


def directory_main() -> None:
    """The console script `global-discovery-service`."""
    directory_app(prog_name="global-discovery-service")


def _app(name: str) -> typer.Typer:
    return typer.Typer(name=name, pretty_exceptions_enable=False, no_args_is_help=False)


directory_app = _app("global-discovery-service")
directory_app.callback(invoke_without_command=True)(directory)
directory_app.command("create-table")(create_table)

app = _app("discovery")
app.add_typer(directory_app, name="directory")


@app.callback()
def _discovery() -> None:
    """Which pools exist, where, and how they are reached."""


def main() -> None:
    """`python -m discovery COMMAND`."""
    app(prog_name="python -m discovery")
