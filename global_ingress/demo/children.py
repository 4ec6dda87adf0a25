"""The processes of the demo: started, watched, and ended one by one.

Owns every process it starts, by its id. Refuses to leave one behind: `stop` asks, waits, and then insists. Each child
is its own process group, so that Ctrl-C at a terminal reaches the demo alone and the order of ending is ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

GRACE_S = 10.0
_TAIL_LINES = 20
_TAIL_BYTES = 16384


@dataclass(frozen=True, slots=True)
class Child:
    """A running process; all it prints goes to the file `log`."""

    name: str
    process: asyncio.subprocess.Process
    log: Path

    def tail(self) -> str:
        """The last lines it printed, indented."""
        with self.log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()[-_TAIL_LINES:]
        return "\n".join(f"    {line}" for line in lines) or "    (it printed nothing)"


class Children:
    """The processes of one demo, with their logs in `folder`."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = dict(environment)
        self._all: list[Child] = []
        self._changed = asyncio.Event()

    async def start(self, name: str, command: Sequence[str]) -> Child:
        """Starts a process. Raises OSError when it cannot be started."""
        log = self._folder / f"{name.replace(' ', '-')}.log"
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment,
                process_group=0,
            )
        child = Child(name, process, log)
        self._all.append(child)
        self._changed.set()
        return child

    async def end(self, child: Child, number: signal.Signals) -> None:
        """Ends one child on purpose: that is no death."""
        self._all.remove(child)
        self._changed.set()
        with contextlib.suppress(ProcessLookupError):
            child.process.send_signal(number)
        try:
            async with asyncio.timeout(GRACE_S):
                await child.process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.process.pid, signal.SIGKILL)
            await child.process.wait()

    async def first_death(self) -> Child:
        """Waits until a child ends that nobody has ended, and says which."""
        while True:
            self._changed.clear()
            waiting = {asyncio.create_task(child.process.wait()): child for child in self._all}
            changed = asyncio.create_task(self._changed.wait())
            try:
                done, _ = await asyncio.wait([*waiting, changed], return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (*waiting, changed):
                    task.cancel()
                await asyncio.gather(*waiting, changed, return_exceptions=True)
            for task, child in waiting.items():
                if task in done and child in self._all:
                    return child

    async def stop(self) -> None:
        """Ends all children: SIGTERM to each, and after the grace SIGKILL to what is left of its group."""
        for child in reversed(self._all):
            if child.process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    child.process.terminate()
        if self._all:
            waits = [asyncio.create_task(child.process.wait()) for child in self._all]
            await asyncio.wait(waits, timeout=GRACE_S)
            for child in self._all:
                if child.process.returncode != 0:
                    # Still there, or gone by violence: then workers of its group may have outlived it.
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(child.process.pid, signal.SIGKILL)
            await asyncio.gather(*waits)
        self._all.clear()
