"""Compiles the data path with mypyc into the wheel, only when it is asked for: GLOBAL_INGRESS_COMPILE=1.

Owns: which modules are compiled is said in pyproject.toml, how is said here. Without the variable, and in editable
installs, the wheel is pure and nothing beside hatchling is needed. The packages we stand on are looked up in
the environment of GLOBAL_INGRESS_PYTHON, else in the building one's own: their types make the code quick.
Refuses: to fall back. A compiled wheel that was asked for and cannot be made is a failure, not a pure wheel.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE = "GLOBAL_INGRESS_COMPILE"
PYTHON = "GLOBAL_INGRESS_PYTHON"
GROUP = "global_ingress"
OPTIONS = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent"]


def asked(environment: dict[str, str]) -> bool:
    """Whether a compiled wheel is wanted. ValueError for a word that is neither yes nor no."""
    word = environment.get(VARIABLE, "")
    if word not in ("", "0", "1"):
        raise ValueError(f"{VARIABLE} is {word!r}; 1 compiles, 0 or nothing does not")
    return word == "1"


class CompileHook(BuildHookInterface):  # type: ignore[type-arg]
    """Called by hatchling before a wheel is put together."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        return ["mypy", "setuptools"] if asked(dict(os.environ)) else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or not asked(dict(os.environ)):
            return
        python = os.environ.get(PYTHON, sys.executable)
        self._made = Path(tempfile.mkdtemp(prefix="compiled-"))
        for library in compiled(Path(self.root), self.config["modules"], self._made, python):
            build_data["force_include"][str(library)] = library.relative_to(self._made / "lib").as_posix()
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "_made"):
            shutil.rmtree(self._made)


def compiled(root: Path, modules: list[str], into: Path, python: str) -> list[Path]:
    """Compiles the modules into `into`/lib and returns the libraries, at the places they have in a wheel."""
    from mypyc.build import mypycify
    from setuptools import Distribution

    before = Path.cwd()
    os.chdir(root)  # mypy names modules by their place below the current folder
    try:
        paths = [module.replace(".", "/") + ".py" for module in modules]
        options = [*OPTIONS, f"--python-executable={python}", *paths]
        made = mypycify(options, group_name=GROUP, opt_level="3", debug_level="0", target_dir=str(into / "c"))
        command = Distribution({"name": GROUP, "ext_modules": made}).get_command_obj("build_ext")
        command.build_lib, command.build_temp = str(into / "lib"), str(into / "o")
        command.parallel = os.cpu_count()
        command.ensure_finalized()
        command.run()
    finally:
        os.chdir(before)
    return sorted(path for path in (into / "lib").rglob("*") if path.is_file())
