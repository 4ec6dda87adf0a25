"""The call of an operator's command: its words are its own, nothing is read from it but what it says when it fails.

Owns its end: a command that takes too long is ended, with everything it has started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence

LONGEST_S = 120.0
_SHOWN = 300


async def call(words: Sequence[str], longest_s: float = LONGEST_S) -> str | None:
    """What went wrong, None when it ended with 0."""
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,  # uvloop knows no process groups
        )
    except OSError as error:
        return f"it cannot be started: {error}"
    try:
        async with asyncio.timeout(longest_s):
            output, _ = await process.communicate()
    except TimeoutError:
        return f"it had not ended after {longest_s:g} s"
    finally:
        # It, and whatever it has started and left behind.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    if process.returncode == 0:
        return None
    said = " ".join(output.decode(errors="replace").split())[-_SHOWN:]
    return f"it ended with {process.returncode}: {said or 'it said nothing'}"
