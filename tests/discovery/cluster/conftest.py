"""The API under test: the fake cluster, or the one that KUBECONFIG_TEST names."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.discovery.cluster.api import Api, connected


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with connected() as found:
        yield found
