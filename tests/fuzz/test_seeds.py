"""The fuzz targets hold on their seeds, and say what they need when atheris is absent."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.fuzz import fuzz_answer, fuzz_framing

WITHOUT = "import runpy, sys; sys.modules['atheris'] = None; runpy.run_module(sys.argv[1], run_name='__main__')"


@pytest.mark.parametrize("target", [fuzz_framing, fuzz_answer])
def test_the_seeds_hold_wherever_they_are_cut(target: object) -> None:
    check, seeds = target.check, target.SEEDS  # type: ignore[attr-defined]
    assert len(seeds) >= 60
    for seed in seeds:
        for at in (0, 32, 100, 200, 255):
            check(bytes((at,)) + seed[1:])


@pytest.mark.parametrize("name", ["fuzz_framing", "fuzz_answer"])
def test_without_atheris_there_is_a_clear_message(name: str) -> None:
    command = [sys.executable, "-c", WITHOUT, f"tests.fuzz.{name}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "needs atheris" in done.stderr
    assert "Traceback" not in done.stderr
