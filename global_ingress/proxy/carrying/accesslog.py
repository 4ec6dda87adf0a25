"""The access log: one line per request, made and written by a thread of its own so that the loop never waits (I70).

The data path appends a tuple; the worker's tick hands what has gathered to the thread. When the thread does not keep
up, lines are dropped and counted, never the requests. A line holds no body, header value, query or key.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

HELD = 65536  # lines between the loop and the file


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One request, as it is logged; `at` is seconds since the epoch when it ended."""

    at: float
    request_id: str
    method: str
    path: str
    model: str | None
    pool: str | None
    region: str | None
    frontend: str | None
    status: int
    outcome: str
    code: str | None
    attempts: int
    bytes_in: int
    bytes_out: int
    first_byte_ms: float | None
    total_ms: float
    stream: bool
    tokens_in: int | None
    tokens_out: int | None
    client: str
    tried: str | None = None  # every try and how it went, when there was more than one or it failed


def refused_entry(
    at: float, request_id: str, method: str, path: str, status: int, outcome: str, code: str | None, client: str
) -> Entry:
    """The entry of a request that was answered here, without any frontend."""
    return Entry(
        at, request_id, method, path, None, None, None, None, status, outcome, code, 0, 0, 0, None, 0.0, False, None,
        None, client,
    )  # fmt: skip


json_lines = msgspec.json.Encoder().encode_lines


def text_lines(entries: list[Entry]) -> bytes:
    """The lines for people at a terminal."""
    return b"".join(map(_text_line, entries))


def _text_line(entry: Entry) -> bytes:
    first = "-" if entry.first_byte_ms is None else f"{entry.first_byte_ms:.0f}ms"
    when = datetime.fromtimestamp(entry.at, UTC).strftime("%H:%M:%S.%f")[:-3]
    where = f"{entry.model or '-'} → {entry.pool or '-'}"
    what = "" if entry.code is None else f" {entry.code}"
    return (
        f"{when} {entry.status} {entry.outcome}{what} {entry.method} {entry.path} {where} "
        f"first {first} total {entry.total_ms:.0f}ms in {entry.bytes_in} out {entry.bytes_out} "
        f"attempts {entry.attempts} {entry.request_id}\n"
    ).encode("utf-8", "replace")


class AccessLog:
    """Give `add` an Entry; `pass_on` moves what gathered to the writer. `close` waits until all is written."""

    def __init__(self, fd: int, lines: Callable[[list[Entry]], bytes]) -> None:
        self._fd = fd
        self._lines = lines
        self._gathered: list[Entry] = []
        self._batches: queue.SimpleQueue[list[Entry] | None] = queue.SimpleQueue()
        self._written = 0
        self._passed = 0
        self.dropped = 0
        self.add = self._gathered.append
        self._thread = threading.Thread(target=self._write_all, name="access-log", daemon=True)
        self._thread.start()

    def pass_on(self) -> None:
        """Called once a tick, on the loop."""
        if not self._gathered:
            return
        batch = self._gathered[:]
        self._gathered.clear()
        room = HELD - (self._passed - self._written)
        if len(batch) > room:
            self.dropped += len(batch) - max(room, 0)
            batch = batch[: max(room, 0)]
        self._passed += len(batch)
        self._batches.put(batch)

    def close(self, timeout: float) -> None:
        """Write what is left, for at most `timeout` seconds."""
        self.pass_on()
        self._batches.put(None)
        self._thread.join(timeout)

    def _write_all(self) -> None:
        while (batch := self._batches.get()) is not None:
            try:
                _write(self._fd, self._lines(batch))
            except OSError:
                self.dropped += len(batch)  # a full disk or a closed pipe loses lines, not requests; the count says so
            self._written += len(batch)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
