"""The instruments, compiled once per test run, and mock frontends of each test's own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.bench.instruments import Frontends, Programs, build


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    if shutil.which("gcc") is None and shutil.which("cc") is None:
        pytest.skip("no C compiler (apt-get install gcc libc6-dev): the benchmark's instruments are not tested")
    return build(tmp_path_factory.mktemp("instruments"))


@pytest.fixture
def frontends(programs: Programs) -> Iterator[Frontends]:
    with Frontends(programs.frontend, count=4) as running:
        yield running
