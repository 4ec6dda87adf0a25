"""Every asynchronous test runs on both event loops, uvloop and the standard one.

Not so where our code runs in processes of its own and the loop here is only the client's: such files are marked
`outside` and run once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop

Loops = Mapping[str, Callable[[], asyncio.AbstractEventLoop]]


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Loops:
    loops: Loops = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}
    if item.get_closest_marker("outside"):
        return {"asyncio": loops["asyncio"]}
    return loops


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What keeps a whole stack of processes running comes last, so that nothing else is timed beside it."""
    items.sort(key=lambda item: item.get_closest_marker("e2e") is not None)
