"""The import contracts of pyproject.toml miss nothing: every part of discovery and every pure module stands in them."""

from __future__ import annotations

import functools
import tomllib
from typing import Any

import grimp
import pytest

from tests.house.tree import PACKAGES, ROOT

# What of discovery a room may import. All else must be forbidden to it.
ALLOWED = {
    "The data plane knows pool, wire, client and kit of discovery": {
        *("client", "errors", "identity", "kit", "pool", "reader", "wire"),
    },
    "The validation client knows the wire of discovery and API servers, nothing of the proxy": {
        *("errors", "identity", "kit", "kube", "pool", "reader", "wire"),
    },
    "The demo starts programs, it does not import them": {
        *("errors", "identity", "kit", "kube", "pool", "reader", "slices", "testing", "wire"),
    },
}
PURE = "Pure modules touch no clock, chance, environment, log, loop or network"


@functools.cache
def contracts() -> dict[str, dict[str, Any]]:
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return {contract["name"]: contract for contract in found}


@functools.cache
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(*PACKAGES, include_external_packages=True, cache_dir=None)


@pytest.mark.parametrize("room", ALLOWED)
def test_every_part_of_discovery_is_allowed_or_forbidden(room: str) -> None:
    forbidden = {name for name in contracts()[room]["forbidden_modules"] if name.startswith("discovery.")}
    allowed = {f"discovery.{name}" for name in ALLOWED[room]}
    assert not forbidden & allowed
    assert forbidden | allowed == graph().find_children("discovery") - {"discovery.__main__"}


def test_a_module_that_is_pure_is_held_to_it() -> None:
    """A new module that does no input or output, nor imports one that does, goes into the list of pure ones."""
    contract = contracts()[PURE]
    modules = {name for name in graph().modules if name.startswith(PACKAGES) and not graph().find_children(name)}
    acting = {
        module
        for effect in contract["forbidden_modules"]
        if effect in graph().modules
        for module in graph().find_downstream_modules(effect)
    }
    listed = set(contract["source_modules"])
    generated = {module for module in modules if module.endswith(("_pb2", "_pb2_grpc"))}
    missing = "".join(f'  "{module}",\n' for module in sorted(modules - generated - acting - listed))
    assert not missing, f"pure, but not among source_modules of {PURE!r} in pyproject.toml:\n{missing}"
