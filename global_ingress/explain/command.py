"""`global-ingress explain`: parsing, reading the two files, and what the outcome means to the shell."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer


def app_command(
    slices: Annotated[
        str, typer.Option(metavar="DUMP", help="EndpointSlices as `kubectl get endpointslices -A -o yaml` writes them.")
    ],
    config: Annotated[str, typer.Option(metavar="FILE", help="The settings file of the ingress.")],
    model: Annotated[str | None, typer.Option(metavar="ID", help="Tell only of this model (an alias will do).")] = None,
    frontend_service: Annotated[
        str, typer.Option(metavar="PATTERN", help="What a pool's frontend Service is called.")
    ] = "{name}-frontend",
    relay_service: Annotated[
        str, typer.Option(metavar="PATTERN", help="What a pool's relay Service is called.")
    ] = "{name}-pool-relay",
) -> None:
    """Tell which slices of a dump are used and why, and which pools each model gets. Nothing is contacted.

    global-ingress explain --slices dump.yaml --config ingress.yaml --model llama-8b
    """
    from discovery.directory.naming import NamingRules
    from discovery.documents import BrokenFile
    from global_ingress.explain.explained import asked_models, explain, lines
    from global_ingress.proxy.settings import file as settings

    try:
        rules = NamingRules(frontend_service=frontend_service, relay_service=relay_service)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--frontend-service, --relay-service") from error
    contents, code = {}, 0
    for name in (slices, config):
        try:
            with open(name, "rb") as file:
                contents[name] = file.read()
        except OSError as error:
            print(f"{name}: cannot be read: {error.strerror}", file=sys.stderr)
            code = 1
    if code:
        raise typer.Exit(code)
    try:
        directory = os.path.dirname(os.path.abspath(config))
        read = settings.load(settings.decoded(contents[config], name=config), name=config, directory=directory)
        asked = asked_models(read, model)
        if model is not None and not asked:
            known = ", ".join(one.id for one in read.models or ()) or "none"
            raise typer.BadParameter(f"{model!r} is no model of {config}; it has: {known}", param_hint="--model")
        found = explain(contents[slices], rules, read, is_json=slices.endswith(".json"))
    except settings.SettingsFault as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from error
    except BrokenFile as error:
        line = f":{error.line}" if error.line else ""
        print(f"{slices}{line}: {error.reason}", file=sys.stderr)
        raise typer.Exit(2) from error
    for line in lines(found, None if model is None else frozenset(one.id for one in asked)):
        print(line)
    if found.slices and all(one.verdict == "invalid" for one in found.slices):
        print(f"{slices}: holds nothing that is an EndpointSlice", file=sys.stderr)
        raise typer.Exit(2)
