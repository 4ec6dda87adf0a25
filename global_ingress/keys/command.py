"""`global-ingress keys add|list|revoke`: the command line only. Exit codes: 0 done, 1 failed, 2 wrong usage or file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from discovery.kit.clock import SYSTEM_CLOCK
from global_ingress.keys.file import BYTES, CannotChange, add, changing, entries_of, new_key, read_text, revoke
from global_ingress.proxy.settings.faults import SettingsFault
from global_ingress.proxy.settings.values import NotAllowed, moment

keys_app = typer.Typer(help="API keys: made, listed, taken back.", no_args_is_help=True)

File = Annotated[Path, typer.Option("--file", metavar="FILE", help="The keys file (auth.keys_file).")]
DEFAULT = Path("keys.yaml")


@keys_app.command("add")
def add_command(
    name: Annotated[str, typer.Argument(help="Whose key it is.")],
    file: File = DEFAULT,
    models: Annotated[list[str] | None, typer.Option("--model", help="A model it may use, with * and ?.")] = None,
    rate: Annotated[str | None, typer.Option(metavar="COUNT/DURATION", help="Such as 100/1m.")] = None,
    concurrent: Annotated[int | None, typer.Option(help="Requests at once.")] = None,
    expires: Annotated[str | None, typer.Option(metavar="WHEN", help="Such as 2027-01-31.")] = None,
) -> None:
    """Make a key, keep its digest in the file, and show the key: once, it is kept nowhere."""
    secret = new_key(os.urandom(BYTES))
    given = {"name": name, "models": models or None, "rate": rate, "concurrent": concurrent, "expires": expires}
    if expires is not None and _is_past(expires):
        _end(f"--expires {expires} is in the past", 2)
    _change(file, lambda entries: add(entries, secret, given), lambda: _show(secret))


@keys_app.command("list")
def list_command(file: File = DEFAULT) -> None:
    """Show the entries: names and limits, and the beginning of each digest."""
    try:
        entries = entries_of(read_text(file), file)
    except SettingsFault as error:
        _end(str(error), 2)
    except OSError as error:
        _end(f"{file}: {error.strerror}", 1)
    for entry in entries:
        limits = [f"{key}={_shown(entry[key])}" for key in ("models", "rate", "concurrent", "expires") if key in entry]
        print("  ".join([str(entry["name"]), f"sha256:{entry['sha256'][:12]}", *limits]))


@keys_app.command("revoke")
def revoke_command(
    name: Annotated[str, typer.Argument(help="The name of the entry.")],
    file: File = DEFAULT,
) -> None:
    """Take a key's entry out of the file: an ingress that runs refuses it within two seconds."""
    _change(file, lambda entries: revoke(entries, name))


def _shown(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _is_past(expires: str) -> bool:
    try:
        return moment(expires) <= SYSTEM_CLOCK.now().timestamp()
    except NotAllowed:
        return False  # the file's own check says what is wrong with it


def _show(secret: str) -> None:
    """Before its digest is kept: a key that nobody has seen lets nobody in. Unbuffered, so that it fails now."""
    try:
        os.write(sys.stdout.fileno(), f"{secret}\n".encode())
    except OSError as error:
        raise CannotChange(f"the key could not be shown, so it is not kept: {error.strerror}") from None


def _change(file: Path, act: Callable[[list[dict[str, Any]]], None], before: Callable[[], None] = lambda: None) -> None:
    try:
        with changing(file, before) as entries:
            act(entries)
    except SettingsFault as error:
        _end(str(error), 2)
    except CannotChange as error:
        _end(f"{file}: {error}", 1)
    except OSError as error:
        _end(f"{file}: {error.strerror}", 1)


def _end(message: str, code: int) -> NoReturn:
    print(message, file=sys.stderr)
    raise typer.Exit(code)
