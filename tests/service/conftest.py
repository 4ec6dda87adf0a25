"""The ingress as tests of the data plane use it: a process per configuration, checked after every test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.service.ingress.rig import Rigs, Start


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def rigs(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rigs]:
    kept = Rigs(tmp_path_factory.mktemp("ingress"))
    yield kept
    await kept.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def start(rigs: Rigs) -> AsyncIterator[Start]:
    """Starts the ingress, or gives the one that runs; afterwards the invariant of rules I36 and I43 must hold."""
    one = Start(rigs)
    yield one
    await one.finish()
