"""The pages are true where a program can tell: commands, targets, links, modules, versions, examples."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from global_ingress.demo.regions import DEFAULT_PORT, MODEL
from global_ingress.proxy.settings.not_yet import NOT_YET
from tests.house.tree import PACKAGES, ROOT, files, named

PAGES = list(files(".md"))
README = (ROOT / "README.md").read_text()
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_target_that_a_page_names_is_there(page: Path) -> None:
    asked = set(re.findall(r"(?:`|^ {4})make ([a-z0-9-]+)", _text(page), re.MULTILINE))
    assert asked - TARGETS == set()


def test_the_readme_names_the_two_commands() -> None:
    for command in ("make demo", "make test", "make demo DEMO_ARGS=--keep", "curl -sN"):
        assert command in README


def test_the_curl_of_the_readme_asks_the_demo_for_a_stream() -> None:
    curl = re.search(r"^ +(curl .*?}'$)", README, re.MULTILINE | re.DOTALL)
    assert curl is not None
    words = shlex.split(curl[1])
    assert f"http://127.0.0.1:{DEFAULT_PORT}/v1/chat/completions" in words
    asked = json.loads(words[words.index("-d") + 1])
    assert (asked["model"], asked["stream"]) == (MODEL, True)
    assert asked["max_tokens"] > 0  # simulated frontends want it, as mockers do


def test_the_readme_is_one_screen() -> None:
    assert len(README.splitlines()) <= 70


def test_every_target_is_told_by_make() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    assert set(phony[1].split()) == TARGETS
    told = set(re.findall(r"^([a-z0-9-]+):.*  ## ", makefile, re.MULTILINE))
    assert TARGETS - told == {"lint", "types", "contracts"}  # parts of check


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("page", ["architecture.md", "compatibility.md", "discovery.md", "mcs/model.md"])
def test_modules_that_a_page_names_are_there(page: str) -> None:
    named_here = re.findall(r"`((?:discovery|proxy|validate|demo)(?:\.[a-z_]+)+)`", (ROOT / "docs" / page).read_text())
    missing = []
    for name in named_here:
        full = name if name.startswith(PACKAGES) else f"global_ingress.{name}"
        module, _, member = full.rpartition(".")
        if not _found(full) and not (_found(module) and hasattr(importlib.import_module(module), member)):
            missing.append(name)
    assert missing == []


def test_the_changelog_has_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", _text(ROOT / "CHANGELOG.md"), re.MULTILINE)


def test_what_is_refused_is_said_in_the_changelog() -> None:
    changelog = _text(ROOT / "CHANGELOG.md")
    assert [key for key in NOT_YET if f"`{key}`" not in changelog] == []


def _found(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _text(page: Path) -> str:
    return page.read_text()
