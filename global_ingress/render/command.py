"""`global-ingress render`: parsing only."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def app_command(
    fleet: Annotated[Path, typer.Argument(metavar="FLEET.YAML", help="the declared fleet")],
    output: Annotated[Path, typer.Option("-o", "--output", help="folder of the manifests")] = Path("k8s/rendered"),
    check: Annotated[bool, typer.Option("--check", help="write nothing; fail when the folder differs")] = False,
) -> None:
    """Makes each cluster's manifests, ready for kustomize, and bundle.json, from one declared fleet."""
    from global_ingress.proxy.settings.faults import SettingsFault
    from global_ingress.render import output as out

    try:
        files = out.render(fleet)
        if check:
            lines = out.differences(output, files)
            print("\n".join(lines or [f"{output}: as rendered"]))
            raise typer.Exit(1 if lines else 0)
        out.write(output, files)
    except SettingsFault as fault:
        print(fault, file=sys.stderr)
        raise typer.Exit(2) from None
    except OSError as error:
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)
        raise typer.Exit(1) from None
    except out.NotOurs as error:
        print(error, file=sys.stderr)
        raise typer.Exit(1) from None
    print(f"{output}: {len(files)} files")
