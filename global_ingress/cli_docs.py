"""The page of all commands, made from their declarations.

`python -m global_ingress.cli_docs` prints `docs/cli.md`; a test keeps it fresh.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from discovery.cli import directory_app
from discovery.mcs.admin_command import app as admin_app
from discovery.mcs.controller_command import app as controller_app
from discovery.mcs.registry_command import app as registry_app
from global_ingress.cli import app

_INTRO = """# The commands

Made from the declarations by `python -m global_ingress.cli_docs`; do not edit.

Exit codes: 0 done, 1 failed, 2 wrong usage or settings. `--install-completion` of each command completes its
flags and commands in your shell. `--help` of each command says the same.
"""


_COMMANDS = (
    ("global-ingress", app),
    ("global-discovery-service", directory_app),
    ("mcs-registry", registry_app),
    ("mcs-controller", controller_app),
    ("mcs-admin", admin_app),
)


def page() -> str:
    parts = [_INTRO]
    for name, made in _COMMANDS:
        parts.extend(_command(name, typer.main.get_command(made)))
    return "".join(parts)


def _command(name: str, command: Any) -> Iterator[str]:
    yield f"\n## {name}\n\n{_words(command.help)}\n"
    rows = [row for one in command.params if (row := _row(one)) is not None]
    if rows:
        yield "\n| flag or argument | default | meaning |\n|---|---|---|\n" + "".join(rows)
    for below in getattr(command, "commands", {}).values():
        yield from _command(f"{name} {below.name}", below)


def _row(one: Any) -> str | None:
    if one.name in ("help", "install_completion", "show_completion"):
        return None
    argument = one.param_type_name == "argument"
    flag = getattr(one, "is_flag", False)
    metavar = one.metavar or ("" if argument or flag else one.name.upper().replace("_", "-"))
    said = (metavar or one.name.upper()) if argument else " ".join(filter(None, [", ".join(one.opts), metavar]))
    default = "required" if one.required else "–" if one.default in (None, (), False) else f"`{_shown(one.default)}`"
    variable = f" Variable: `{one.envvar}`." if getattr(one, "envvar", None) else ""
    return f"| `{said}` | {default} | {_words(one.help)}{variable} |\n"


def _shown(default: Any) -> str:
    return str(getattr(default, "value", default))


def _words(text: str | None) -> str:
    """Paragraphs stay apart; what would end a table's cell is escaped."""
    return (text or "").strip().replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
