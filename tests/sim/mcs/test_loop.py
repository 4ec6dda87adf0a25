"""The virtual loop itself."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.sim.mcs.loop import VirtualLoop


async def ticking(seen: list[float]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(1.0)
        seen.append(loop.time())


def test_no_time_passes_while_work_is_handed_to_a_thread() -> None:
    """Else a busy machine makes leases end in the middle of a read: so many schedules did not converge."""

    async def main() -> tuple[list[float], threading.Thread]:
        seen: list[float] = []
        ticker = asyncio.create_task(ticking(seen))
        await asyncio.sleep(0)
        where = await asyncio.to_thread(threading.current_thread)
        passed = list(seen)
        ticker.cancel()
        return passed, where

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(main()) == ([], threading.current_thread())


def test_what_the_work_raises_is_raised_where_it_is_awaited() -> None:
    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main())
