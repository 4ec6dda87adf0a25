"""Reads the fleet and its settings file, writes or compares the rendered folder.

Owns the folder: files of an earlier rendering that are no more are removed, files of anybody else never touched.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from global_ingress import __version__
from global_ingress.proxy.settings.reading import decoded
from global_ingress.render.bundle import BUNDLE, rendered
from global_ingress.render.fleet import load


class NotOurs(Exception):
    """The folder holds something that no rendering made; the message says what."""


def render(fleet_file: Path) -> dict[str, bytes]:
    """Every file by its path. Raises SettingsFault, OSError."""
    text = decoded(fleet_file.read_bytes(), name=str(fleet_file))
    config = fleet_file.parent / load(text, name=str(fleet_file)).ingress.config
    config_text = decoded(config.read_bytes(), name=str(config))
    return rendered(text, config_text, name=str(fleet_file), config_name=str(config), version=__version__)


def differences(folder: Path, wanted: Mapping[str, bytes]) -> list[str]:
    """What is not as rendered, a line each."""
    there = _there(folder)
    lines = [f"{folder / path}: is missing" for path in wanted if path not in there]
    lines += [f"{folder / path}: is not of this fleet" for path in there if path not in wanted]
    lines += [
        f"{folder / path}: differs" for path, content in wanted.items() if path in there and there[path] != content
    ]
    return sorted(lines)


def write(folder: Path, wanted: Mapping[str, bytes]) -> None:
    """The folder as rendered. Raises NotOurs before anything is written, OSError."""
    there = _there(folder)
    earlier = _listed(there.get(BUNDLE))
    if strange := sorted(path for path in there if path not in wanted and path not in earlier):
        raise NotOurs(f"{folder}: holds what no rendering made, and is left alone: {', '.join(strange[:10])}")
    for path in sorted(there.keys() - wanted.keys()):
        (folder / path).unlink()
        if not any((folder / path).parent.iterdir()):
            (folder / path).parent.rmdir()
    for path, content in wanted.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if there.get(path) != content:
            target.write_bytes(content)


def _there(folder: Path) -> dict[str, bytes]:
    if not folder.is_dir():
        return {}
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def _listed(bundle: bytes | None) -> set[str]:
    """The files of an earlier rendering, by its bundle."""
    try:
        files = json.loads(bundle or b"{}")["files"]
    except (ValueError, KeyError, TypeError):
        return set()
    return {BUNDLE, *files} if isinstance(files, dict) else set()
