"""The means of disturbing: what may break something on purpose, and put it back.

Owns the call of the operator's command, `COMMAND replace|cut|restore CLUSTER NAMESPACE/NAME`. Refuses to do anything
by itself: without a command nothing is disturbed. A command that fails or takes too long is evidence.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence
from typing import Protocol

LONGEST_S = 120.0
_SHOWN = 300


class Means(Protocol):
    """Does `action` (replace, cut, restore) to the pool `NAMESPACE/NAME` of a cluster; gives what went wrong, None when
    it was done."""

    async def do(self, action: str, cluster: str, pool: str) -> str | None: ...


class Command:
    """The operator's command, with the arguments that come first."""

    def __init__(self, command: Sequence[str], longest_s: float = LONGEST_S) -> None:
        self._command = tuple(command)
        self._longest_s = longest_s

    def __repr__(self) -> str:
        return f"<Command {' '.join(self._command)}>"

    async def do(self, action: str, cluster: str, pool: str) -> str | None:
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                action,
                cluster,
                pool,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,  # uvloop knows no process groups
            )
        except OSError as error:
            return f"it cannot be started: {error}"
        try:
            async with asyncio.timeout(self._longest_s):
                output, _ = await process.communicate()
        except TimeoutError:
            return f"it had not ended after {self._longest_s:g} s"
        finally:
            # It, and whatever it has started and left behind.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        if process.returncode == 0:
            return None
        said = " ".join(output.decode(errors="replace").split())[-_SHOWN:]
        return f"it ended with {process.returncode}: {said or 'it said nothing'}"
