"""docs/discovery.md says what the command declares."""

from __future__ import annotations

from pathlib import Path

import typer

from discovery.cli import directory_app

PAGE = Path(__file__).parents[2] / "docs" / "discovery.md"


def rows() -> list[str]:
    """A table row for each flag, from its declaration."""
    made = []
    for flag in typer.main.get_command(directory_app).params:
        variable = getattr(flag, "envvar", None)
        if variable is None:
            continue
        default = flag.default if flag.default not in (None, (), False) else "–"
        shown = f"`{default}`" if default != "–" else default
        said = " ".join(filter(None, [flag.opts[0], getattr(flag, "metavar", None)]))
        made.append(f"| `{said}` | `{variable}` | {shown} | {getattr(flag, 'help', '')} |")
    return made


def test_every_flag_is_on_the_page_as_declared() -> None:
    page = PAGE.read_text()
    missing = [row for row in rows() if row not in page]
    assert not missing, "the page lacks:\n" + "\n".join(missing)
    assert sum(line.startswith("| `--") for line in page.splitlines()) == len(rows())
