"""The length of a soak, the marker, the processes, and what was measured at the end of the run's report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.children import Children
from tests.soak.machine import raise_limit
from tests.soak.stack import Fleet

_SAID = pytest.StashKey[list[str]]()
_RUN = pytest.StashKey[Children]()
SHORT_S = 60.0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak-seconds", type=float, default=SHORT_S, help="how long the soak loads (default: 60)")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "soak: loads the machine for a minute and more (python -m pytest tests/soak)")
    config.stash[_SAID] = []


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if config.stash[_SAID]:
        terminalreporter.section("measured")
        for line in config.stash[_SAID]:
            terminalreporter.line(line)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    report = yield
    if report.failed and _RUN in item.stash:
        for state, tail in item.stash[_RUN].tails().items():
            report.sections.append((f"log of {state}", tail))
    return report


@pytest.fixture
def say(pytestconfig: pytest.Config, request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Put a line of figures at the end of the report, whether the test passes or not."""
    return lambda line: pytestconfig.stash[_SAID].append(f"{request.node.name}: {line}")


@pytest.fixture
def soak_seconds(pytestconfig: pytest.Config) -> float:
    return float(pytestconfig.getoption("--soak-seconds", default=SHORT_S))


@pytest.fixture
def most_descriptors() -> int:
    return raise_limit()


@pytest.fixture
def children(tmp_path: Path, request: pytest.FixtureRequest, most_descriptors: int) -> Iterator[Children]:
    with Children(tmp_path) as children:
        request.node.stash[_RUN] = children
        yield children


@pytest.fixture
def fleet(most_descriptors: int) -> Iterator[Fleet]:
    with Fleet() as fleet:
        yield fleet
