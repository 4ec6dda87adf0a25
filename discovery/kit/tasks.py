"""Background tasks that never die unseen.

Owns the outermost frame of a long-lived task: an unforeseen error is logged there once and handed to `on_failure`,
which must end something (the service, the iterator that depends on it). Leaving the block ends the task; its
cancellation is a normal end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from discovery.kit.log import logger

_log = logger(__name__)


@asynccontextmanager
async def background(
    work: Coroutine[Any, Any, None], *, name: str, on_failure: Callable[[Exception], None]
) -> AsyncIterator[asyncio.Task[None]]:
    """Run `work` beside the block; when the block is left, it is cancelled and waited for."""
    task = asyncio.create_task(_outermost(work, name, on_failure), name=name)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])
        work.close()  # where the block ended before the task began, nobody else would


async def _outermost(work: Coroutine[Any, Any, None], name: str, on_failure: Callable[[Exception], None]) -> None:
    try:
        await work
    except Exception as error:  # noqa: BLE001 - the outermost frame: logged, and it ends what depends on the task
        _log.exception("background task failed", error, task=name)
        on_failure(error)
