"""The project's own files, as the tests of the house look at them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("discovery", "global_ingress")
_MADE = {"__pycache__", "dist", "build", "report"}


def files(*suffixes: str) -> Iterator[Path]:
    """Every file that is written by hand or locked; with one of these suffixes if any are given."""
    for path in _walk(ROOT):
        if not suffixes or path.suffix in suffixes:
            yield path


def is_generated(path: Path) -> bool:
    return path.stem.endswith(("_pb2", "_pb2_grpc"))


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def parsed() -> Iterator[tuple[str, ast.Module]]:
    """Every Python file that is written by hand, by its path."""
    for path in files(".py"):
        if is_generated(path):
            continue
        yield named(path), ast.parse(path.read_text())


def _walk(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            hidden = path.name.startswith(".") and path.name != ".ci"
            if not hidden and path.name not in _MADE and path.suffix != ".egg-info":
                yield from _walk(path)
        elif path.name == ".gitignore" or not path.name.startswith("."):
            yield path
