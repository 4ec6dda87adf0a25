"""The means of disturbing: what may break something on purpose, and put it back.

Owns the words of the operator's command, `COMMAND replace|cut|restore CLUSTER NAMESPACE/NAME`. Refuses to do anything
by itself: without a command nothing is disturbed. A command that fails or takes too long is evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from global_ingress.validate.calling import LONGEST_S, call


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
        return await call((*self._command, action, cluster, pool), self._longest_s)
