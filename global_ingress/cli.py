"""The commands of `global-ingress`: parsing of the command line only.

Each command imports its parts inside itself, so that `--help` and `check` do not pay for the data plane. Exit codes:
0 done, 1 failed (an unreadable file too), 2 wrong usage or configuration.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from global_ingress.demo.command import app_command as demo_command
from global_ingress.explain.command import app_command as explain_command
from global_ingress.keys.command import keys_app
from global_ingress.render.command import app_command as render_command
from global_ingress.top.command import app_command as top_command
from global_ingress.validate.command import app_command as validate_command

app = typer.Typer(
    name="global-ingress",
    help="A streaming load balancer for OpenAI-compatible inference in several regions.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from global_ingress import __version__, build

        typer.echo(f"global-ingress {__version__} ({build()})")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version, and whether it is pure or compiled.", callback=_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Options that stand before a command."""


@app.command()
def check(files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Settings files.")]) -> None:
    """Tell all faults of settings files: file:line:column, the key, what was found, what is allowed.

    The files they name are looked at too: keys, certificates and their private keys.
    """
    from global_ingress.proxy.settings import file as settings
    from global_ingress.proxy.settings.files import read_file
    from global_ingress.proxy.supervising.exporting import MISSING, can_export
    from global_ingress.proxy.supervising.guarding import read_guards

    code = 0
    for name in files:
        try:
            content = read_file(name)
        except OSError as error:
            print(f"{name}: cannot be read: {error.strerror}", file=sys.stderr)
            code = max(code, 1)
            continue
        try:
            directory = os.path.dirname(os.path.abspath(name))
            made = settings.load(settings.decoded(content, name=name), name=name, directory=directory)
            read_guards(made)
        except settings.SettingsFault as error:
            print(error, file=sys.stderr)
            code = 2
        else:
            print(f"{name}: no faults")
            if made.trace and not can_export():
                print(f"{name}: trace: {MISSING} here", file=sys.stderr)
    raise typer.Exit(code)


@app.command()
def serve(
    config: Annotated[
        str | None, typer.Option(metavar="FILE", help="Settings file [env: GLOBAL_INGRESS_CONFIG].")
    ] = None,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Data listener [env: GLOBAL_INGRESS_LISTEN].")
    ] = None,
    admin: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Admin listener [env: GLOBAL_INGRESS_ADMIN].")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Worker processes [env: GLOBAL_INGRESS_WORKERS].")] = None,
) -> None:
    """Run the load balancer. A flag beats its variable, which beats the file."""
    from global_ingress.proxy.app import serve_command

    raise typer.Exit(serve_command(config, listen, admin, workers))


@app.command()
def schema() -> None:
    """Print the JSON Schema of the settings file."""
    import json

    from global_ingress.proxy.settings.docs import json_schema

    print(json.dumps(json_schema(), indent=2, ensure_ascii=False))


app.command("demo")(demo_command)
app.add_typer(keys_app, name="keys")
app.command("render")(render_command)
app.command("explain")(explain_command)
app.command("top")(top_command)
app.command("validate")(validate_command)


def main() -> None:
    app(prog_name="global-ingress")
