"""The installed commands work, and the examples are right."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.house.tree import ROOT, named

SCRIPTS = sorted(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"])
MODULES = ["global_ingress", "discovery"]
CONTROLLER = "--registry http://127.0.0.1:1 --cluster-id a --no-leader-elect"
SETTINGS = [
    path
    for path in (ROOT / "examples").glob("*.yaml")
    if path.name not in ("fleet.yaml", "fleet-four.yaml", "keys.yaml")
]


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT, env=env)


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_console_script_tells_its_version_and_its_help(script: str) -> None:
    program = str(Path(sys.executable).with_name(script))
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    told = run(program, "--version")
    assert (told.returncode, told.stdout.split()[1]) == (0, version)
    helped = run(program, "--help")
    assert (helped.returncode, helped.stderr) == (0, "")
    assert "Usage" in helped.stdout


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_console_script_completes_in_a_shell(script: str) -> None:
    program, variable = str(Path(sys.executable).with_name(script)), f"_{script.replace('-', '_').upper()}_COMPLETE"
    told = run(program, COMP_WORDS=f"{script} --", COMP_CWORD="1", **{variable: "complete_bash"})
    assert "--help" in told.stdout.split()
    assert (
        f"complete -o default -F _{script.replace('-', '_')}_completion {script}"
        in run(program, **{variable: "source_bash"}).stdout
    )


@pytest.mark.parametrize(
    ("script", "arguments", "said"),
    [
        (
            "global-discovery-service",
            "--pool-discovery files --listen nonsense",
            "--listen: 'nonsense' is not HOST:PORT",
        ),
        ("global-ingress", "serve --config no/such/file.yaml", "no/such/file.yaml: cannot be read"),
        ("mcs-registry", "--http-listen [::1:1", "--http-listen: '[::1:1' is not HOST:PORT"),
        ("mcs-controller", "--registry nonsense", "--registry"),
        ("mcs-controller", f"{CONTROLLER} --listen [::1:1", "'[::1:1' is not HOST:PORT"),
        ("mcs-controller", f"{CONTROLLER} --kubeconfig {__file__}", "cannot use the kubeconfig"),
        ("mcs-admin", "describe --dynamodb-table t", "--dynamodb-table t: a table's name has at least 3 characters"),
    ],
)
def test_each_console_script_reads_its_flags(script: str, arguments: str, said: str) -> None:
    """As far as the first fault, which is told in words."""
    told = run(str(Path(sys.executable).with_name(script)), *arguments.split())
    assert told.returncode in (1, 2)
    assert (told.stdout, "Traceback" in told.stderr) == ("", False)
    assert said in told.stderr


@pytest.mark.parametrize("module", MODULES)
def test_each_is_a_module_too(module: str) -> None:
    assert run(sys.executable, "-m", module, "--help").returncode == 0


def test_there_are_examples() -> None:
    assert {path.name for path in SETTINGS} >= {"ingress.yaml", "ingress-minimal.yaml", "models.yaml"}


@pytest.mark.parametrize("example", SETTINGS, ids=named)
def test_each_example_passes_check(example: Path) -> None:
    checked = run(sys.executable, "-m", "global_ingress", "check", named(example))
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize("example", SETTINGS, ids=named)
def test_each_example_names_the_schema(example: Path) -> None:
    assert example.read_text().startswith("# yaml-language-server: $schema=ingress.schema.json\n")
