"""One worker process as the supervisor sees it: started by exec, spoken to over its control socket, watched to its end.

Owns the process, our end of the control socket, and the worker's last report. It decides nothing: whoever made it is
told when the worker listens, notices something, or has ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from discovery.kit.log import logger
from global_ingress.proxy.shared import control, turns
from global_ingress.proxy.shared.counts import Counts, Notice, decode_counts, decode_notice
from global_ingress.proxy.shared.decided import Decisions, decode_decisions

_log = logger("global_ingress.supervisor")


@dataclass(frozen=True, slots=True)
class Told:
    """What the owner wants to hear. `ended` comes once, last; it brings the exit code (negative: the signal)."""

    listening: Callable[[], None]
    notice: Callable[[Notice], None]
    decisions: Callable[[Decisions], None]
    spans: Callable[[bytes], None]
    ended: Callable[[int], None]


class WorkerProcess:
    """`command` gets `--control-fd N` appended; `fds` stay open in the child under their numbers."""

    def __init__(self, command: Sequence[str], fds: Sequence[int], loop: asyncio.AbstractEventLoop, told: Told) -> None:
        self._loop = loop
        self._told = told
        self.listening = False
        self.counts: Counts | None = None
        self._asked = 0
        self.answered = 0
        self._bell = asyncio.Event()
        self._code: int | None = None
        ours, theirs = control.pair()
        try:
            self._process = subprocess.Popen(
                [*command, "--control-fd", str(theirs.fileno())],
                pass_fds=(*fds, theirs.fileno()),
                stdin=subprocess.DEVNULL,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self.pid = self._process.pid
        self._watch = os.pidfd_open(self.pid)
        loop.add_reader(self._watch, self._exited)
        self._control = control.Control(ours, loop, self._on_message, self._on_end)

    def __repr__(self) -> str:
        state = "ended" if self._code is not None else "listening" if self.listening else "starting"
        return f"<WorkerProcess {self.pid} {state}>"

    @property
    def alive(self) -> bool:
        return self._code is None

    def send(self, kind: bytes, payload: bytes = b"") -> None:
        self._control.send(kind, payload)

    def send_counters(self, counters: Sequence[tuple[int, int]]) -> None:
        """Number and descriptor of counters, in as many packets as it takes."""
        for at in range(0, len(counters), control.FDS_PER_PACKET):
            part = counters[at : at + control.FDS_PER_PACKET]
            self._control.send(
                control.TURNS, turns.pack_numbers([number for number, _ in part]), [fd for _, fd in part]
            )

    async def report(self) -> None:
        """Ask for counts and wait for them, or for the worker's end."""
        self._asked += 1
        mine = self._asked
        self._control.send(control.REPORT)
        while self.answered < mine and self._code is None:
            self._bell.clear()
            await self._bell.wait()

    def kill(self) -> None:
        if self._code is None:
            self._process.send_signal(signal.SIGKILL)

    def _on_message(self, kind: bytes, payload: bytes, fds: list[int]) -> None:
        for fd in fds:
            os.close(fd)
        try:
            if kind == control.COUNTS:
                self.answered += 1
                self._bell.set()
                self.counts = decode_counts(payload)
            elif kind == control.DECISIONS:
                self._told.decisions(decode_decisions(payload))
            elif kind == control.SPANS:
                self._told.spans(payload)
            elif kind == control.LISTENING:
                self.listening = True
                self._told.listening()
            elif kind == control.NOTICE:
                self._told.notice(decode_notice(payload))
            else:
                _log.error("worker sent an unknown message", worker=self.pid, kind=kind.decode("ascii", "replace"))
        except msgspec.DecodeError as error:
            _log.error("worker sent a message that cannot be read", worker=self.pid, reason=str(error))

    def _on_end(self) -> None:
        """The worker closed its end; that it ended is told by its process."""

    def _exited(self) -> None:
        self._loop.remove_reader(self._watch)
        os.close(self._watch)
        self._code = self._process.wait()
        self._control.receive()
        self.listening = False
        self._control.close()
        self._bell.set()
        self._told.ended(self._code)
