"""Chunks of bytes to lines, of any length up to a limit.

Pure. However the bytes are cut, the lines are the same. Empty lines are nothing; what follows the last line break is
not a line yet. A line over the limit is refused when the lines before it have been taken.
"""

from __future__ import annotations

from collections import deque

from discovery.kube.errors import NotAnAnswer


class Lines:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._whole: deque[bytes] = deque()
        self._begun: list[bytes] = []
        self._begun_size = 0
        self._overlong = False

    def __repr__(self) -> str:
        return f"<Lines whole={len(self._whole)} begun={self._begun_size}>"

    def feed(self, data: bytes) -> None:
        if self._overlong:
            return
        first, *rest = data.split(b"\n")
        self._add(first)
        for part in rest:
            self._close()
            self._add(part)

    def pop(self) -> bytes | None:
        """The next whole line without its end, None when more bytes are needed. Raises NotAnAnswer."""
        if self._whole:
            return self._whole.popleft()
        if self._overlong:
            raise NotAnAnswer(f"a line is longer than {self._limit} bytes")
        return None

    def clear(self) -> None:
        self._whole.clear()
        self._begun.clear()
        self._begun_size = 0
        self._overlong = False

    def _add(self, part: bytes) -> None:
        if not part or self._overlong:
            return
        self._begun_size += len(part)
        if self._begun_size > self._limit:
            self._overlong = True
            self._begun.clear()
        else:
            self._begun.append(part)

    def _close(self) -> None:
        if self._overlong:
            return
        line = b"".join(self._begun).strip()
        self._begun.clear()
        self._begun_size = 0
        if line:
            self._whole.append(line)
